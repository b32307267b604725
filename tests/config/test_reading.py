"""What a plan says: how it is read, and its defaults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Plan, Results, check_policy, load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.launch import local
from support.harness import ROOT
from support.plans import MINIMAL, YAML, plan_with, problem, problems

PLANS = ("mpc.yaml", "paper_mpc.yaml", "strengths.yaml")


# ---- what is read ----------------------------------------------------------------------------------


def test_defaults() -> None:
    plan = load_plan(MINIMAL)
    assert (plan.protocol, plan.reveal, plan.estimator) == ("mpc", "coefficients", "tie_corrected")
    assert (plan.strength, plan.order, plan.rows) == ("mean", "descending", None)
    assert (plan.privacy.loss, plan.privacy.unit, plan.network.timeout) == (2.0, "row", 60.0)
    assert plan.results.precision == "statistical"
    assert (plan.results.target, plan.results.sources) == ("strengths", "nothing")
    assert plan.names == ("C", "B", "A")
    policy = plan.parties.target.policy
    assert (policy.max_reveal, policy.protocols, policy.min_rows) == (("coefficients",), ("mpc", "he"), 30)
    assert (policy.loss, policy.lifetime, policy.unit) == (2.0, 4.0, "row")
    assert (policy.exact, policy.min_columns, policy.min_key_bits) == (False, 2, 3072)


def test_a_plan_is_checked_once() -> None:
    plan = load_plan(MINIMAL)
    assert local._plan(plan, {}, [], {}) is plan  # as the command gives it to `run_local`


@pytest.mark.parametrize("name", PLANS)
def test_shipped_plans_load_and_satisfy_their_owners(name: str) -> None:
    plan = load_plan(ROOT / "configs" / name)
    assert plan.names == ("C", "B", "A")
    assert plan.parties.target.table == ROOT / "data" / "clinic.csv"
    assert plan.parties.sources[0].table == ROOT / "data" / "insurer.csv"
    for party in plan.names:
        check_policy(plan, party)


@pytest.mark.parametrize("reveal", ["differences", "coefficients", "strengths"])
@pytest.mark.parametrize("results", [{}, {"target": None}, {"sources": "ranking"}])
def test_results_left_out_are_filled_in_before_they_are_shared(reveal: str, results: dict[str, Any]) -> None:
    plan = load_plan(plan_with(reveal=reveal, results=results))
    assert plan.results.target == plan.shared()["results"]["target"] == "strengths"
    explicit = load_plan(plan_with(reveal=reveal, results=results | {"target": "strengths"}))
    assert explicit.digest() == plan.digest()


def test_tables_are_relative_to_the_file_and_else_to_the_working_directory(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    plan = load_plan(Path("..") / "plan.yaml")
    assert plan.parties.target.table == tmp_path / "b.csv"
    assert plan.parties.sources[0].table == tmp_path / "sub" / "a.csv"
    changes = ["parties.target.table=x.csv", "parties.target.alignment_key=b.key"]
    plan = load_plan(plan_file, changes, {"A": Path("y.csv")})
    assert plan.parties.target.alignment_key == elsewhere / "b.key"
    assert (plan.parties.target.table, plan.parties.sources[0].table) == (
        elsewhere / "x.csv",
        elsewhere / "y.csv",
    )
    assert load_plan(plan_file, tables={"A": None}).parties.sources[0].table is None
    mapping = plan_with({"parties.target.table": Path("z.csv")})
    assert load_plan(mapping).parties.target.table == elsewhere / "z.csv"
    absolute = Path("/data/a.csv")
    assert load_plan(plan_file, tables={"A": absolute}).parties.sources[0].table == absolute


def test_overrides(plan_file: Path) -> None:
    plan = load_plan(
        plan_file,
        [
            "network.timeout=5",
            "privacy={loss: 1}",
            "privacy.loss=0.5",
            "parties.sources.A.exclude=[x, y]",
            "parties.sources.0.id=key=value",
            "order=ascending",
            "order=descending",
        ],
    )
    assert plan.network.timeout == 5.0
    assert plan.privacy.loss == 0.5
    assert (plan.parties.sources[0].exclude, plan.parties.sources[0].id) == (("x", "y"), ("key=value",))
    assert plan.order == "descending"


def test_a_changed_plan_has_the_defaults_of_its_new_values(plan_file: Path) -> None:
    plan = load_plan(plan_file, ["privacy.loss=0.5"])
    assert load_plan(plan) is plan
    changed = load_plan(plan, ["reveal=canonical"], {"A": Path("x.csv")})
    assert (changed.results.target, changed.results.sources) == ("canonical", "canonical")
    assert (changed.privacy.loss, changed.parties.sources[0].table) == (0.5, Path.cwd() / "x.csv")
    assert load_plan(changed, ["reveal=coefficients"], {"A": plan.parties.sources[0].table}) == plan
    assert load_plan(changed.as_written()) == changed


def test_loading_leaves_the_callers_mapping_alone() -> None:
    content = plan_with()
    load_plan(content, ["parties.sources.A.id=other"], {"A": Path("a.csv")})
    assert content == MINIMAL


def test_byte_order_marks_and_dollars_are_no_syntax(tmp_path: Path) -> None:
    text = YAML.replace("name: A", "name: Zürich").replace("name: B", "name: B, id: '${HOME}'")
    (tmp_path / "plan.yaml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    plan = load_plan(tmp_path / "plan.yaml")
    assert plan.names == ("C", "B", "Zürich")
    assert plan.parties.target.id == ("${HOME}",)


def test_config_imports_nothing_heavy() -> None:
    code = "import sys, mpc_spearman.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "crypten", "pandas", "numpy", "scipy", "pyarrow"} & set(done.stdout.split())


# ---- the models themselves -------------------------------------------------------------------------


def test_a_plan_made_without_load_plan_is_checked_with_every_policy() -> None:
    parties = load_plan(MINIMAL).parties
    plan = Plan(parties=parties, reveal="strengths")
    assert plan.results.target == "strengths"
    check_policy(plan, "A")
    with pytest.raises(PlanError, match=r"^plan: results\.target: 'coefficients' is more than"):
        check_policy(Plan(parties=parties, reveal="strengths", results=Results(target="coefficients")), "A")


@pytest.mark.parametrize("source", [None, 7, ["parties"]])
def test_a_plan_must_be_a_file_or_a_mapping(source: Any) -> None:
    with pytest.raises(PlanError, match="a plan is a file or a mapping, not"):
        load_plan(source)


# ---- what is refused: files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"# only a comment\n", "it is not a plan: a plan is made of 'key: value' lines"),
        (b"- a\n- b\n", "it is not a plan: a plan is made of 'key: value' lines"),
        (b"just words", "it is not a plan: a plan is made of 'key: value' lines"),
        (b"a,b\n" * 300_000, "it is not a plan: it is longer than 1 MiB"),
        (b"a: 1\nb: [1,\n", "line 3, column 1: not valid YAML"),
        (b"a:\n\t- b", "line 2, column 1: not valid YAML: found character '\\t'"),
        (b"a:\n\t- b", "indent with spaces"),
        (b"ok: 1\nid: caf\xe9", "not UTF-8 text (byte 13)"),
        (b"a: 1\nb: \x01", "line 2: not valid YAML: a character that text cannot hold"),
        (b"rows: 3\nid: !!timestamp 2024-02-31", "line 2, column 5: not valid YAML: day is out of range"),
        (b"a: 1\n---\nb: 1\n", "line 2, column 1"),
        (b"a: 1\nb: [::1]:29500\n", "put quotes around an address in brackets"),
        (b"b: [fe80::1]:29500\n", "put quotes around an address in brackets"),
        (b"a: &a [1]\nb: *a\n", "line 2, column 4: not valid YAML: write the value out"),
        (b"a: " + b"[" * 10_000, "nested too deeply"),
        (b"? [a]\n: 3\n", "line 1, column 3: not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_files_that_are_not_plans_are_refused(plan_file: Path, content: bytes, words: str) -> None:
    plan_file.write_bytes(content)
    line = problem(plan_file)
    assert line.startswith(f"{plan_file}: ")
    assert words in line


def test_files_that_cannot_be_read(plan_file: Path, tmp_path: Path) -> None:
    assert (
        problem(tmp_path / "plam.yaml")
        == f"{tmp_path / 'plam.yaml'}: no such file; did you mean 'plan.yaml'?"
    )
    assert problem(tmp_path / "no" / "x") == f"{tmp_path / 'no' / 'x'}: no such file"
    assert problem(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_keys_given_twice_are_refused_at_every_depth(plan_file: Path) -> None:
    plan_file.write_text(
        YAML.replace("{name: A,", "{name: A, 'id': a, id: b,") + "reveal: strengths\n", "utf-8"
    )
    assert problems(plan_file) == [
        f"{plan_file}: parties.sources.0.id: the key is given twice, on lines 5 and 5; keep one of them",
        f"{plan_file}: reveal: the key is given twice, on lines 1 and 6; keep one of them",
    ]
    plan_file.write_text(YAML, "utf-8")
    text = "privacy={loss: 3, loss: 1}"
    twice = "the key is given twice, on lines 1 and 1; keep one of them"
    assert problem(plan_file, text) == f"setting {text!r}: privacy.loss: {twice}"


# ---- nothing is read otherwise than it looks -------------------------------------------------------


LOOKS = ["010", "0x1F", "0b11", "1:30", "1_000", "no", "Yes", "on", "~", "2024-01-31", "0o17", "y"]


@pytest.mark.parametrize("written", LOOKS)
def test_text_is_taken_as_written(plan_file: Path, written: str) -> None:
    plan_file.write_text(YAML.replace("name: C", f"name: {written}") + f"# {written}\n", "utf-8")
    assert load_plan(plan_file).parties.coordinator.name == written
    override = f"parties.target.features=[ok, {written}]"
    assert load_plan(plan_file, [override]).parties.target.features == ("ok", written)
    assert load_plan(plan_file, [f"parties.target.id={written}"]).parties.target.id == (written,)


@pytest.mark.parametrize("written", ["010", "0x1F", "1:30", "1_000", "0b11"])
def test_a_number_that_looks_like_another_is_refused(plan_file: Path, written: str) -> None:
    plan_file.write_text(YAML + f"rows: {written}\n", "utf-8")
    assert f"rows: '{written}' is text, not a whole number" in problem(plan_file)
    plan_file.write_text(YAML, "utf-8")
    assert f"rows: '{written}' is text, not a whole number" in problem(plan_file, f"rows={written}")
    assert f"network.timeout: '{written}' is text, not a number" in problem(
        plan_file, f"network.timeout={written}"
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [("1e3", 1000.0), ("1e-07", 1e-07), ("+2.5", 2.5), (".5", 0.5), ("30", 30.0), ("2.E+1", 20.0)],
)
def test_numbers_are_decimal(plan_file: Path, written: str, value: float) -> None:
    assert load_plan(plan_file, [f"network.timeout={written}"]).network.timeout == value


def test_a_setting_from_python_is_read_as_python_writes_it() -> None:
    overrides = ['privacy={"loss": 1e-02}', 'parties.target.id="010"']
    plan = load_plan(MINIMAL, overrides)
    assert (plan.privacy.loss, plan.parties.target.id) == (1e-02, ("010",))


@pytest.mark.parametrize("name", ["my #1.csv", "#1.csv", "my # 1.csv", "&a b.csv", "!x y.csv", "'my' #1.csv"])
def test_a_setting_without_quotes_is_taken_whole(plan_file: Path, name: str) -> None:
    plan = load_plan(plan_file, [f"parties.target.table={name}"])
    assert plan.parties.target.table == Path.cwd() / name
    assert load_plan(plan_file, tables={"A": Path(name)}).parties.sources[0].table == Path.cwd() / name


@pytest.mark.parametrize("written", ["[a, b] # those", '{a: "x"} y', "['a'] ]"])
def test_what_follows_the_value_of_a_setting_is_refused(plan_file: Path, written: str) -> None:
    assert "exclude=" in problem(plan_file, f"parties.target.exclude={written}")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("  target: {name: B, table: b.csv}", None),
        ("  target:\n    name: B\n    table: my #1.csv", "parties.target.table"),
        ("  target:\n    name: B\n    table: #1.csv", "parties.target.table"),
        ("  target:\n    name: B\n    exclude:\n      - ok\n      - no #1", "parties.target.exclude.1"),
        ("  target:\n    name: B\n    table: my.csv  # the first", None),
        ("  target:\n    name: B\n    table: my.csv  #", None),
        ("  target:\n    name: B\n    table: 'my #1.csv'  #1", None),
        ("  target:\n    name: B\n    # table: x #1.csv", None),
    ],
)
def test_a_value_in_a_plan_that_a_hash_cuts_short_is_refused(
    plan_file: Path, line: str, key: str | None
) -> None:
    plan_file.write_text(YAML.replace("  target: {name: B, table: b.csv}", line), "utf-8")
    if key is None:
        load_plan(plan_file)
    else:
        assert f"{plan_file}: {key}: YAML reads what follows '#' as a comment" in problem(plan_file)
