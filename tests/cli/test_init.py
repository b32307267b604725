"""``mpc-spearman init`` of tables: a file that works, and that leaves to its owner what only it knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from mpc_spearman import run_local
from mpc_spearman.cli.main import main
from mpc_spearman.config import DataParty, Policy, load_plan
from mpc_spearman.data.tables import read_table
from mpc_spearman.errors import OutputError, PlanError, TableError
from mpc_spearman.privacy.ledger import Ledger
from support.harness import ROOT, fork_server
from support.plans import mapping

OWN = """\
patient nr;age;true;grade;share;seen;note;flag
001;34;1;low;5 %;01.02.2020;"a ""b"" #c: é";0
002;45;2;mid;10 %;03.02.2020;"x; y";0
003;;3;low;7 %;02.03.2020;z;0
004;51;4;high;1 %;04.05.2021;w;0
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my own.csv").write_text(OWN, encoding="utf-8")
    return tmp_path


def party_of(file: str) -> DataParty:
    plan = mapping(cautious=True, alignment="intersect")
    return load_plan(plan, local=Path(file), party="A").owner("A")


def test_the_local_file_of_a_table_reads_it_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "my own.csv"]) == 0
    assert "4 rows, 3 of 7 columns are used" in capsys.readouterr().out
    party = party_of("my own.yaml")
    assert (party.id, party.csv.delimiter, party.convert) == (("patient nr",), ";", {"share": "percent"})
    assert party.exclude == ("grade", "seen", "note", "flag")
    assert party.encode == {}  # an order is never guessed
    text = Path("my own.yaml").read_text()
    assert "#   grade: [high, low, mid]" in text
    assert "seen  # ? " in text  # whether the day or the month comes first
    assert "flag  # all" in text
    table = read_table("A", Path("my own.csv"), party)
    assert table.features == ("age", "true", "share")
    assert (table.n, party.missing) == (4, "middle")  # to leave out a row in four costs too much


def test_text_with_few_large_categories_becomes_flags() -> None:
    rows = [f"p{i},{'MF'[i % 2]},{'abc'[i % 3]},{'xy'[i > 90]},{('none', 'mild')[i % 2]}" for i in range(100)]
    Path("a.csv").write_text("\n".join(["id,sex,site,rare,pain", *rows]))
    assert main(["init", "a.csv", "--party", "A"]) == 0
    party = party_of("A.yaml")
    assert party.encode == {"sex": "flags", "site": "flags"}
    assert party.exclude == ("rare", "pain")  # too few of one value; a word that may stand for no value
    text = Path("A.yaml").read_text()
    assert "# Text with few values. List these under encode above" in text  # a second encode is refused
    assert "#   pain: [mild, none]" in text
    table = read_table("A", Path("a.csv"), party, fewest=party.policy.min_rows)
    assert table.features == ("sex=M", "site=a", "site=b", "site=c")


def test_the_owner_decides_on_repeated_ids_and_missing_ids() -> None:
    Path("a.csv").write_text("id,x\n1,1\n1,2\n2,3\n")
    Path("c.csv").write_text("id,x,kind\n" + "".join(f"{i % 50},1,{'uv'[i % 3 > 0]}\n" for i in range(150)))
    assert main(["init", "c.csv"]) == 0
    assert "# duplicates: {kind: HOW}" in Path("c.yaml").read_text()  # also of text
    Path("b.csv").write_text("who,x\nAnn,1\nAnn,1\nBob,2\n")
    assert main(["init", "a.csv", "--party", "A"]) == main(["init", "b.csv"]) == 0
    text = Path("A.yaml").read_text()
    assert "# ? 1 of 2 ids have several rows. What becomes of these? Runs stop until you decide." in text
    assert party_of("A.yaml").duplicates == "error"  # which is not decided for the owner
    Path("decided.yaml").write_text(text.replace("# duplicates: {x: HOW}", "duplicates: {x: sum}"))
    assert party_of("decided.yaml").duplicates == {"x": "sum"}
    assert "# ? Which column identifies people?" in Path("b.yaml").read_text()
    assert party_of("A.yaml").key == Path("A.key").absolute()
    assert main(["init", "a.csv", "b.csv"]) == TableError.exit_code
    assert "# ? No id is common: no column of b.csv seems to hold ids;" in Path("plan.yaml").read_text()


@pytest.mark.parametrize(
    ("columns", "best", "asks"),
    [
        ({"No": range(1, 41), "patient_id": "text"}, "patient_id", False),
        ({"": range(40), "patient": "text"}, "patient", False),
        ({"X": range(1, 41), "visit": "text"}, "visit", True),
        ({"id": range(1, 41), "member_no": "text"}, "member_no", False),
        ({"id": range(1, 41)}, "id", True),
        ({"uric_acid": "real", "code": "text"}, "code", True),
        ({"paid": "real", "covid": "real", "insured": "text"}, "insured", False),
        ({"patientId": "text", "case_id": "text"}, "patientId", True),
        ({"code": "text", "Versichertennr": "text"}, "Versichertennr", False),
        ({"code": "text", "personid": "text", "steroid": "real"}, "personid", False),
        ({"id": "text", "x": "real"}, "id", False),
    ],
)
def test_the_column_of_ids_is_recognised_or_asked_for(
    columns: dict[str, object], best: str, asks: bool
) -> None:
    draw = np.random.default_rng(1)
    kinds = {"text": [f"{i:06}" for i in draw.permutation(900_000)[:40]], "real": draw.normal(size=40)}
    cells = {name: kinds.get(str(of), of) for name, of in columns.items()}
    pd.DataFrame({**cells, "age": draw.integers(20, 90, 40)}).to_csv("t.csv", index=False)
    assert main(["init", "t.csv"]) == 0
    text = Path("t.yaml").read_text()
    assert (party_of("t.yaml").id, "# ?" in text) == ((best,), asks)
    assert not {"No", "X"} & {*read_table("A", Path("t.csv"), party_of("t.yaml")).features}


def test_an_owner_gets_a_ledger_and_a_complete_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.csv").write_text("id,x\n1,1\n2,3\n")
    assert main(["init", "a.csv", "--party", "A"]) == 0
    written = yaml.safe_load(Path("A.yaml").read_text())["policy"]
    assert set(written) == set(Policy.model_fields) - {"approved_by", "approval"}
    ledger = Path("A.ledger").absolute()
    assert party_of("A.yaml").policy == Policy(ledger=ledger)
    assert Ledger(ledger).entries() == []
    ledger.write_bytes(b'{"ledger":2}\n ')  # of earlier runs: never begun anew
    Path("A.yaml").unlink()
    Path("A.key").unlink()
    capsys.readouterr()
    assert main(["init", "a.csv", "--party", "A"]) == 0
    assert ledger.read_bytes() == b'{"ledger":2}\n '
    assert "A.ledger exists, and is continued" in capsys.readouterr().out
    assert main(["init", "--party", "B"]) == 0  # without a table: the coordinator, or a query's owner
    assert not Path("B.ledger").exists()
    lines = Path("B.yaml").read_text().splitlines()
    assert "`mpc-spearman ledger --begin B.ledger`" in lines[3]
    Path("B.yaml").write_text("\n".join(["party: B", *(line.removeprefix("# ") for line in lines[4:])]))
    plan = load_plan(mapping(cautious=True), local=Path("B.yaml"))
    assert plan.owner("B").policy == Policy(ledger=Path("B.ledger").absolute())


def messy(rows: np.ndarray, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table as people write it, with gaps and spaces around ids, and the numbers that it stands for."""
    rng = np.random.default_rng(seed)
    x = pd.Series(np.sin(rows) + rng.normal(size=len(rows)))
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta((x * 300).astype(int), unit="D")
    table = pd.DataFrame(
        {
            "day": days.dt.strftime("%d.%m.%Y"),
            "iso": days.dt.strftime("%Y-%m-%d"),
            "share": x.map("{:.3f}%".format),
            "yes": x.gt(0).map({True: "yes", False: "no"}),
            "cost": np.exp(7 + x).map("{:,.0f}".format),
            "plain": x,
        }
    )
    gaps = rng.random(table.shape) < 0.06
    numbers = {
        "day": days,
        "iso": days,
        "share": x.round(3),
        "yes": x > 0,
        "cost": np.exp(7 + x).round(),
        "plain": x,
    }
    meant = pd.DataFrame(numbers).rank().mask(gaps)
    table = table.mask(gaps).assign(note=x.map("said {:.5f}".format), constant=1)
    ids = [f"p{row}" for row in rows]
    table.insert(0, "member id", [f" {person}" if i % 3 else person for i, person in enumerate(ids)])
    return table, meant.set_axis(ids)


def test_two_messy_tables_give_a_plan_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rng, files = np.random.default_rng(5), [Path("insurer.csv"), Path("clinic.csv")]
    meant = list[pd.DataFrame]()
    for seed, file in enumerate(files):
        table, numbers = messy(rng.permutation(1000 - seed)[:800], seed)
        table.to_csv(file, index=False)
        meant.append(numbers)
    assert main(["init", *map(str, files)]) == 0
    assert "800 rows, 6 of 8 columns are used" in capsys.readouterr().out
    assert load_plan("plan.yaml").normalise == ("strip",)
    coefficients = run_local("plan.yaml", server=fork_server(), reveal="coefficients").coefficients
    common = meant[0].join(meant[1]["plain"].rename("plain of B"), how="inner").rank()
    common = common.sub((common.count() + 1) / 2).fillna(0)
    for name in meant[0]:
        expected = common[name].corr(common["plain of B"])
        assert coefficients.loc[("A", name), "plain"] == pytest.approx(expected, abs=1e-12)
    before = Path("plan.yaml").read_bytes()
    assert main(["init", *map(str, files)]) == OutputError.exit_code
    assert Path("plan.yaml").read_bytes() == before


def test_the_shared_plan_comes_with_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--shared", "--party", "A"]) == PlanError.exit_code
    assert main(["init", "--shared"]) == 0
    assert capsys.readouterr().out.startswith("cluster.yaml: enter C's address and")
    assert load_plan("cluster.yaml").identities == dict.fromkeys("CBA")
    written = Path("cluster.yaml").read_bytes()
    assert written == (ROOT / "configs" / "cluster.yaml").read_bytes()
    assert main(["init", "--shared"]) == OutputError.exit_code
    assert Path("cluster.yaml").read_bytes() == written


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], PlanError.exit_code),
        (["a.csv", "b.csv", "c.csv"], PlanError.exit_code),
        (["a.csv", "b.csv", "--party", "A"], PlanError.exit_code),
        (["none.csv"], TableError.exit_code),
        (["header.csv"], TableError.exit_code),
    ],
)
def test_refused_arguments_and_tables_leave_no_file(folder: Path, arguments: list[str], code: int) -> None:
    (folder / "header.csv").write_text("id,x\n")
    before = sorted(folder.iterdir())
    assert main(["init", *arguments]) == code
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("ids", "other_ids", "steps", "asks"),
    [
        (["a1", "b2", "c3"], [" a1", "b2 ", "c3"], ["strip"], ""),
        (["A1", "B2", "C3"], ["a1", "b2", "c3"], ["strip", "casefold"], ""),
        (["7", "80", "900"], ["007", "080", "900"], ["strip", "unpad"], "Are 007 and 7 the same?"),
        (["12-34", "56-78", "90-12"], ["1234", "5678", "9012"], ["digits"], "Are A7 and B-7 the same?"),
        (["K-0012", "K-0034", "K-0560"], ["12", "34", "560"], ["digits", "unpad"], "Are 007 and 7 the same?"),
    ],
)
def test_steps_that_make_most_ids_equal_are_proposed(
    ids: list[str], other_ids: list[str], steps: list[str], asks: str
) -> None:
    for name, cells in (("a.csv", ids), ("b.csv", other_ids)):
        pd.DataFrame({"id": cells, "x": [1, 2, 4]}).to_csv(name, index=False)
    assert main(["init", "a.csv", "b.csv"]) == 0
    plan = load_plan("plan.yaml")
    assert list(plan.normalise) == steps
    text = " ".join(Path("plan.yaml").read_text().replace("#", "").split())
    assert asks in text
    assert ("for you to decide" in text) == bool(asks)


@pytest.mark.parametrize(
    ("ids", "other_ids", "why"),
    [
        (
            ["DE-Ax", "DE-By", "DE-Cz"],
            ["Ax", "By", "Cw"],
            "all ids of a.csv begin with 'DE-'; without that 2 ",
        ),
        (["A1", "B2", "C3"], ["123", "456", "789"], "a.csv has ids such as 'A9' and b.csv has "),
    ],
)
def test_tables_without_common_ids_are_refused_with_the_cause(
    ids: list[str], other_ids: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, cells in (("a.csv", ids), ("b.csv", other_ids)):
        pd.DataFrame({"id": cells, "x": [1, 2, 4]}).to_csv(name, index=False)
    assert main(["init", "a.csv", "b.csv"]) == TableError.exit_code
    out, err = capsys.readouterr()
    assert f"no id is common to a.csv and b.csv: {why}" in err
    assert "plan.yaml is written: correct it" in err
    assert "read it, then run" not in out
    assert f"# ? No id is common: {why}"[:60] in Path("plan.yaml").read_text()


def test_other_columns_are_tried_if_the_likeliest_have_no_id_in_common() -> None:
    rng = np.random.default_rng(2)
    person, policy = (rng.choice(10**6, 40, replace=False) for _ in range(2))
    pd.DataFrame({"patient": person, "policy_no": policy, "x": rng.normal(size=40)}).to_csv("a.csv")
    pd.DataFrame({"id": policy[:30], "y": rng.normal(size=30)}).to_csv("b.csv")
    assert main(["init", "a.csv", "b.csv"]) == 0
    plan = load_plan("plan.yaml")
    assert (plan.owner("A").id, plan.owner("B").id) == (("policy_no",), ("id",))
    assert (
        "# ? Of all columns that may be ids only these have any in common." in Path("plan.yaml").read_text()
    )
    assert read_table("A", Path("a.csv"), plan.owner("A")).features == ("patient", "x")


def test_a_column_of_repeated_ids_is_found_by_what_the_other_table_has() -> None:
    rng = np.random.default_rng(3)
    people = rng.choice(10**6, 40, replace=False)
    pd.DataFrame({"who": np.repeat(people, 3), "claims": np.tile(range(6), 20)}).to_csv("a.csv", index=False)
    pd.DataFrame({"id": people[:30], "y": rng.normal(size=30)}).to_csv("b.csv", index=False)
    assert main(["init", "a.csv", "b.csv"]) == 0
    assert load_plan("plan.yaml").owner("A").id == ("who",)
    assert "# ? 40 of 40 ids have several rows." in Path("plan.yaml").read_text()
    pd.DataFrame({"id": range(200), "y": rng.normal(size=200)}).to_csv("b.csv", index=False)
    pd.DataFrame({"age": rng.integers(20, 60, 200), "x": rng.normal(size=200)}).to_csv("a.csv", index=False)
    assert main(["init", "a.csv", "b.csv", "--out", "ages.yaml"]) == TableError.exit_code  # ages are no ids


def test_existing_files_are_refused_before_tables_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.yaml").write_text("mine")
    assert main(["init", "none.csv", "none.csv"]) == OutputError.exit_code
    assert (
        "plan.yaml exists and is not replaced; move it away first, or give --out FILE"
        in capsys.readouterr().err
    )
    Path("own.yaml").write_text("mine")
    assert main(["init", "none.csv", "--out", "own.yaml"]) == OutputError.exit_code
    Path("A.key").write_text("no key")
    assert main(["init", "none.csv", "--party", "A"]) == OutputError.exit_code
    assert main(["init", "--containers", "--out", "x.yaml"]) == PlanError.exit_code
    assert main(["init", "--shared", "--out", "ours.yaml"]) == 0
    assert load_plan("ours.yaml").identities == dict.fromkeys("CBA")


def test_paths_are_relative_to_the_file_that_out_names() -> None:
    Path("a.csv").write_text("id,x\n1,1\n2,3\n")
    Path("deep").mkdir()
    assert main(["init", "a.csv", "--party", "A", "--out", "deep/mine.yaml"]) == 0
    party = party_of("deep/mine.yaml")
    assert party.table == Path("a.csv").absolute()
    assert (party.key, party.policy.ledger) == tuple(
        Path(f"deep/A.{end}").absolute() for end in ("key", "ledger")
    )
    assert main(["init", "a.csv", "a.csv", "--out", "deep/plan.yaml"]) == 0
    assert load_plan("deep/plan.yaml").owner("B").table == Path("a.csv").absolute()


@pytest.mark.parametrize(
    ("cells", "csv", "features", "asks"),
    [
        ({"x": ["1,5", "2,25", "3"]}, {"decimal": ","}, "x", ""),
        ({"x": ["1,234", "2,345", "12"]}, {}, "", "csv.decimal to ','"),  # either mark
        (
            {"x": ["1,234", "2,345", "12"], "y": ["1.5", "2.5", "3"]},
            {"thousands": ","},
            "xy",
            "Is ',' no decimal",
        ),
        ({"x": ["1.234,5", "12,0", "7"]}, {"thousands": ".", "decimal": ","}, "x", "Is '.' no decimal mark?"),
        ({"x": ["1\u202f234", "12\u202f345", "7"]}, {"thousands": " "}, "x", "Numbers such as 1 234"),
        ({"x": ["1.5", "unbekannt", "-"]}, {}, "", ""),  # most are no numbers
        ({"x": ["1.5", "2.5", "#NV"]}, {}, "x", ""),
        ({"x": ["1.5", "2.5", "3+"]}, {}, "", "'3+' in 1 cells is no value like the others"),
        ({"x": ["yes", "no", "k.A."]}, {}, "x", ""),
        ({"x": ["2020-01-01", "2020-05-01", "?"]}, {}, "x", ""),
        ({"x": ["5 %", "7 %", "n.a."]}, {}, "x", ""),
        ({"x": ["5,5 %", "7 %", "k.A."]}, {"decimal": ","}, "x", ""),
        ({"x": ["01.02.2020", "03.04.2020", "unknown"]}, {}, "", "day_first or month_first"),
    ],
)
def test_the_notation_of_text_is_recognised_or_asked_for(
    cells: dict[str, list[str]], csv: dict[str, str], features: str, asks: str
) -> None:
    table = pd.DataFrame({"id": ["a", "b", "c"], **cells})
    table.to_csv("t.csv", index=False, sep=";", encoding="utf-8")
    assert main(["init", "t.csv"]) == 0
    party, text = party_of("t.yaml"), " ".join(Path("t.yaml").read_text().split())
    assert party.csv.model_dump(exclude_unset=True) == {"delimiter": ";", **csv}
    assert "".join(name for name in cells if name not in party.exclude) == features
    assert asks in text
    if features:
        assert {*read_table("A", Path("t.csv"), party.model_copy(update={"missing": "middle"})).features} == {
            *features
        }


def test_encodings_are_tried_and_lost_zeros_asked() -> None:
    rng = np.random.default_rng(3)
    numbers = [str(number) for number in rng.choice(10**8, 200, replace=False)]
    table = pd.DataFrame({"Nr": numbers, "Größe": rng.normal(size=200)})
    for encoding, name in (("cp1252", "a"), ("utf-16", "b"), ("utf-16-le", "c"), ("utf-8", "d")):
        table.to_csv(f"{name}.csv", index=False, sep="\t", encoding=encoding)
        assert main(["init", f"{name}.csv"]) == 0
        party, text = party_of(f"{name}.yaml"), Path(f"{name}.yaml").read_text()
        assert party.csv.encoding == encoding
        assert (f"# ? It is not UTF-8. Are accents and umlauts right as {encoding}?" in text) == (name != "d")
        assert read_table("A", Path(f"{name}.csv"), party).features == ("Größe",)
        short = sum(len(number) < 8 for number in numbers)
        assert f"# ? {short} ids have fewer digits than the others." in text
        assert "needs normalise: [unpad]" in text
