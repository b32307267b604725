"""``mpc-spearman init`` of tables: a file that works, and that leaves to its owner what only it knows."""

from __future__ import annotations

import os
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
from mpc_spearman.results.result import Result
from support.harness import ROOT, fork_server
from support.log_lines import timeless
from support.plans import mapping
from support.server import Command

OWN = """\
patient nr;age;true;grade;share;seen;note;flag
001;34;1;low;5 %;01.02.2020;"a ""b"" #c: é";0
002;45;2;mid;10 %;03.02.2020;"x; y";0
003;;3;low;7 %;02.03.2020;z;0
004;51;4;high;1 %;04.05.2021;w;0
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my own.csv").write_text(OWN, encoding="utf-8")
    return tmp_path


def own(file: str) -> DataParty:
    plan = mapping(cautious=True, alignment="intersect")
    return load_plan(plan, local=Path(file), party="A").owner("A")


@pytest.mark.usefixtures("here")
def test_the_file_of_a_table_is_read_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "my own.csv"]) == 0
    assert "4 rows, 3 of 7 columns are used" in capsys.readouterr().out
    party = own("my own.yaml")
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


@pytest.mark.usefixtures("here")
def test_repeated_ids_and_a_table_without_ids_are_for_the_owner() -> None:
    Path("a.csv").write_text("id,x\n1,1\n1,2\n2,3\n")
    Path("b.csv").write_text("who,x\nAnn,1\nAnn,1\nBob,2\n")
    assert main(["init", "a.csv", "--party", "A"]) == main(["init", "b.csv"]) == 0
    assert own("A.yaml").duplicates == "drop"
    assert "# ? No column identifies every row" in Path("b.yaml").read_text()
    assert own("A.yaml").key == Path("A.key").absolute()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("columns", "best", "asks"),
    [
        ({"No": range(1, 41), "patient_id": "text"}, "patient_id", False),
        ({"Unnamed: 0": range(40), "patient": "text"}, "patient", False),
        ({"": range(40), "patient": "text"}, "patient", False),
        ({"X": range(1, 41), "visit": "text"}, "visit", True),
        ({"id": range(1, 41), "member_no": "text"}, "member_no", False),
        ({"id": range(1, 41)}, "id", True),
        ({"uric_acid": "real", "code": "text"}, "code", True),
        ({"paid": "real", "covid": "real", "insured": "text"}, "insured", False),
        ({"patientId": "text", "case_id": "text"}, "patientId", True),
        ({"id": "text", "x": "real"}, "id", False),
    ],
)
def test_ids_are_a_column_that_identifies_people_or_the_owner_is_asked(
    columns: dict[str, object], best: str, asks: bool
) -> None:
    draw = np.random.default_rng(1)
    kinds = {"text": [f"{i:06}" for i in draw.permutation(900_000)[:40]], "real": draw.normal(size=40)}
    cells = {name: kinds.get(str(of), of) for name, of in columns.items()}
    pd.DataFrame({**cells, "age": draw.integers(20, 90, 40)}).to_csv("t.csv", index=False)
    assert main(["init", "t.csv"]) == 0
    text = Path("t.yaml").read_text()
    assert (own("t.yaml").id, "# ?" in text) == ((best,), asks)
    assert not {"No", "X", "Unnamed: 0"} & {*read_table("A", Path("t.csv"), own("t.yaml")).features}


@pytest.mark.usefixtures("here")
def test_an_owner_gets_a_ledger_and_a_complete_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.csv").write_text("id,x\n1,1\n2,3\n")
    assert main(["init", "a.csv", "--party", "A"]) == 0
    written = yaml.safe_load(Path("A.yaml").read_text())["policy"]
    assert set(written) == set(Policy.model_fields) - {"approved_by", "approval"}
    ledger = Path("A.ledger").absolute()
    assert own("A.yaml").policy == Policy(ledger=ledger)
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


@pytest.mark.usefixtures("here")
def test_of_two_tables_comes_a_plan_that_runs() -> None:
    tables = [str(ROOT / "data" / f"{name}_raw.csv") for name in ("insurer", "clinic")]
    assert main(["init", *tables]) == 0
    assert len(run_local("plan.yaml", server=fork_server()).strengths) == 6
    assert load_plan("plan.yaml").normalise == ("strip", "casefold")
    before = Path("plan.yaml").read_bytes()
    assert main(["init", *tables]) == OutputError.exit_code
    assert Path("plan.yaml").read_bytes() == before


def messy(path: Path, rows: np.ndarray, latent: np.ndarray, seed: int) -> None:
    """A table of 60 columns, of which 3 cells in a hundred are missing and ids have spaces around them."""
    rng, values = np.random.default_rng(seed), {}
    for kind, count in {"day": 6, "iso": 6, "share": 6, "yes": 6, "cost": 6, "note": 4, "plain": 24}.items():
        for number in range(count):
            x = pd.Series(0.4 * latent[rows] + rng.normal(size=len(rows)))
            days = pd.Timestamp("2020-01-01") + pd.to_timedelta((x * 300).astype(int), unit="D")
            values[f"{kind}{number}"] = {
                "day": days.dt.strftime("%d.%m.%Y"),
                "iso": days.dt.strftime("%Y-%m-%d"),
                "share": x.map("{:.3f}%".format),
                "yes": x.gt(0).map({True: "yes", False: "no"}),
                "cost": np.exp(7 + x).map("{:,.0f}".format),
                "note": x.map("said {:.5f}".format),
                "plain": x,
            }[kind].mask(rng.random(len(rows)) < 0.03)
    table = pd.DataFrame(values).assign(constant=1)
    table.insert(0, "member id", [f" p{row}" if row % 3 else f"p{row}" for row in rows + seed % 2])
    table.to_csv(path, index=False)


@pytest.mark.usefixtures("here")
def test_the_shared_plan_comes_with_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--shared", "--party", "A"]) == PlanError.exit_code
    assert main(["init", "--shared"]) == 0
    assert capsys.readouterr().out.startswith("cluster.yaml: enter C's address and")
    assert load_plan("cluster.yaml").identities == dict.fromkeys("CBA")
    written = Path("cluster.yaml").read_bytes()
    assert written == (ROOT / "configs" / "cluster.yaml").read_bytes()
    assert main(["init", "--shared"]) == OutputError.exit_code
    assert Path("cluster.yaml").read_bytes() == written


@pytest.mark.usefixtures("here")
def test_two_messy_tables_give_a_first_answer_in_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(5)
    latent = rng.normal(size=1000)
    files = [Path("insurer.csv"), Path("clinic.csv")]
    for seed, file in enumerate(files):
        messy(file, rng.permutation(1000 - seed)[:800], np.roll(latent, -seed), seed)
    assert main(["init", *map(str, files)]) == 0
    assert "800 rows, 48 of 59 columns are used" in capsys.readouterr().out
    asked = ("local", "plan.yaml", "reveal=coefficients", "--out", "out")
    command = Command(asked, folder=Path.cwd(), environment=os.environ)
    assert (timeless(command.communicate()[1])[:17], command.returncode) == ("running: C, B, A\n", 0)
    found = Result.load("out/C").coefficients
    one, other = (pd.read_csv(file).assign(key=lambda its: its["member id"].str.strip()) for file in files)
    both = one.merge(other, on="key", suffixes=("", " of B"))
    cleaned = {
        "day0": lambda cells: pd.to_datetime(cells, format="%d.%m.%Y").map(pd.Timestamp.timestamp, "ignore"),
        "share1": lambda cells: cells.str.rstrip("%").astype(float),
        "yes2": lambda cells: cells.map({"yes": 1.0, "no": 0.0}),
        "plain3": lambda cells: cells,
    }
    for mine, clean in cleaned.items():
        a, b = clean(both[mine]), both["plain4 of B"]
        a, b = (side.rank() - (side.notna().sum() + 1) / 2 for side in (a, b))
        expected = a.fillna(0).corr(b.fillna(0))
        assert found.loc[("A", mine), "plain4"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], PlanError.exit_code),
        (["a.csv", "b.csv", "c.csv"], PlanError.exit_code),
        (["a.csv", "b.csv", "--party", "A"], PlanError.exit_code),
        (["none.csv"], TableError.exit_code),
    ],
)
def test_what_cannot_be_made_leaves_nothing(here: Path, arguments: list[str], code: int) -> None:
    before = sorted(here.iterdir())
    assert main(["init", *arguments]) == code
    assert sorted(here.iterdir()) == before
