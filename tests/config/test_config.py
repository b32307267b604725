"""The plan: what is read, what is refused and in which words, what is shared and what never is."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mpc_spearman.config import (
    AGREE_TO_ALL,
    DataParty,
    Plan,
    Results,
    TargetParty,
    check_policy,
    check_policy_columns,
    check_policy_network,
    check_policy_rows,
    differences,
    host_and_port,
    load_plan,
)
from mpc_spearman.errors import PlanError, PolicyError, ProtocolViolation

ROOT = Path(__file__).parents[2]
PLANS = ("mpc.yaml", "paper_mpc.yaml", "strengths.yaml")

MINIMAL: dict[str, Any] = {
    "parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}
}
YAML = """\
reveal: coefficients
parties:
  coordinator: {name: C}
  target: {name: B, table: b.csv}
  sources: [{name: A, table: sub/a.csv}]
"""


def plan_with(changes: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """MINIMAL with values set by dotted key; list items by position."""
    plan = copy.deepcopy(MINIMAL) | top
    for key, value in (changes or {}).items():
        node: Any = plan
        *above, last = key.split(".")
        for part in above:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    return plan


def problems(source: Any, *overrides: str, **tables: Path | None) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(source, overrides, tables)
    return str(caught.value).splitlines()


def problem(source: Any, *overrides: str) -> str:
    (line,) = problems(source, *overrides)
    return line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


# ---- what is read ----------------------------------------------------------------------------------


def test_defaults() -> None:
    plan = load_plan(MINIMAL)
    assert (plan.protocol, plan.reveal, plan.estimator) == ("mpc", "coefficients", "tie_corrected")
    assert (plan.strength, plan.order, plan.rows) == ("mean", "descending", None)
    assert (plan.privacy.min_group, plan.privacy.min_rows_per_feature, plan.privacy.budget) == (10, 3, 0.5)
    assert (plan.results.precision, plan.network.timeout) == ("statistical", 60.0)
    assert plan.names == ("C", "B", "A")
    policy = plan.parties.target.policy
    assert (policy.max_reveal, policy.protocols, policy.min_rows) == ("coefficients", ("mpc", "he"), None)


@pytest.mark.parametrize("name", PLANS)
def test_shipped_plans_load_and_satisfy_their_owners(name: str) -> None:
    plan = load_plan(ROOT / "configs" / name)
    assert plan.names == ("C", "B", "A")
    assert plan.parties.target.table == ROOT / "data" / "clinic.csv"
    assert plan.parties.sources[0].table == ROOT / "data" / "insurer.csv"
    for party in plan.names:
        check_policy(plan, party)


def test_the_shipped_plans_are_what_their_names_say() -> None:
    mpc, paper, strengths = (load_plan(ROOT / "configs" / name) for name in PLANS)
    assert (mpc.reveal, mpc.estimator) == ("coefficients", "tie_corrected")
    assert (paper.reveal, paper.estimator) == ("differences", "paper")
    assert (strengths.reveal, strengths.estimator) == ("strengths", "tie_corrected")
    # The override that mpc.yaml's first lines propose has to work.
    assert load_plan(ROOT / "configs" / "mpc.yaml", ["reveal=strengths"]).results.target == "strengths"


@pytest.mark.parametrize(
    ("reveal", "target"),
    [("differences", "strengths"), ("coefficients", "strengths"), ("strengths", "strengths")],
)
@pytest.mark.parametrize("results", [{}, {"target": None}, {"sources": "ranking"}])
def test_results_left_out_are_filled_in_before_they_are_shared(
    reveal: str, target: str, results: dict[str, Any]
) -> None:
    plan = load_plan(plan_with(reveal=reveal, results=results))
    assert plan.results.target == target
    assert plan.shared()["results"]["target"] == target
    explicit = load_plan(plan_with(reveal=reveal, results=results | {"target": target}))
    assert explicit.digest() == plan.digest()


def test_tables_are_relative_to_the_file_and_else_to_the_working_directory(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    plan = load_plan(Path("..") / "plan.yaml")
    assert plan.parties.target.table == tmp_path / "b.csv"
    assert plan.parties.sources[0].table == tmp_path / "sub" / "a.csv"
    plan = load_plan(file, ["parties.target.table=x.csv"], {"A": Path("y.csv")})
    assert (plan.parties.target.table, plan.parties.sources[0].table) == (here / "x.csv", here / "y.csv")
    assert load_plan(file, tables={"A": None}).parties.sources[0].table is None
    mapping = plan_with({"parties.target.table": Path("z.csv")})
    assert load_plan(mapping).parties.target.table == here / "z.csv"
    assert load_plan(file, tables={"A": Path("/data/a.csv")}).parties.sources[0].table == Path("/data/a.csv")


def test_overrides(file: Path) -> None:
    plan = load_plan(
        file,
        [
            "network.timeout=5",
            "privacy={min_group: 5}",
            "privacy.min_rows_per_feature=0",
            "parties.sources.A.exclude=[x, y]",
            "parties.sources.0.id=key=value",
            "order=ascending",
            "order=descending",
        ],
    )
    assert plan.network.timeout == 5.0
    assert (plan.privacy.min_group, plan.privacy.min_rows_per_feature) == (5, 0)
    assert (plan.parties.sources[0].exclude, plan.parties.sources[0].id) == (("x", "y"), "key=value")
    assert plan.order == "descending"


def test_loading_leaves_the_callers_mapping_alone() -> None:
    mine = plan_with()
    load_plan(mine, ["parties.sources.A.id=other"], {"A": Path("a.csv")})
    assert mine == MINIMAL


def test_an_override_does_not_reach_a_second_party_through_a_yaml_alias(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "parties:\n  coordinator: {name: C}\n  target: {name: B, policy: &p {min_rows: 5}}\n"
        "  sources: [{name: A, policy: *p}]\n",
        encoding="utf-8",
    )
    plan = load_plan(path, ["parties.target.policy.min_rows=9"])
    assert plan.parties.target.policy.min_rows == 9
    assert plan.parties.sources[0].policy.min_rows == 5


def test_byte_order_mark_merge_keys_and_dollars(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    text = (
        "parties:\n  coordinator: {name: C}\n  target: &t {name: B, id: '${HOME}'}\n"
        "  sources: [{<<: *t, name: Zürich}]\n"
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    plan = load_plan(path)
    assert plan.names == ("C", "B", "Zürich")
    assert plan.parties.sources[0].id == "${HOME}"


def test_config_imports_nothing_heavy() -> None:
    code = "import sys, mpc_spearman.config; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"torch", "crypten", "pandas", "numpy", "scipy", "pyarrow"} & set(done.stdout.split())


# ---- what is refused: files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"- a\n- b\n", "it is not a plan: a plan is made of 'key: value' lines"),
        (b"just words", "it is not a plan: a plan is made of 'key: value' lines"),
        (b"a: 1\nb: [1,\n", "line 3, column 1: not valid YAML"),
        (b"a:\n\t- b", "line 2, column 1: not valid YAML: found character '\\t'"),
        (b"a:\n\t- b", "indent with spaces"),
        (b"ok: 1\nid: caf\xe9", "not UTF-8 text (byte 13)"),
        (b"a: 1\nb: \x01", "line 2: not valid YAML: a character that text cannot hold"),
        (b"rows: 3\nid: 2024-02-31", "line 2, column 5: not valid YAML: day is out of range"),
        (b"a: 1\n---\nb: 1\n", "line 2, column 1"),
        (b"a: &a [*a]\n", "nested without end"),
        (b"? [a]\n: 3\n", "line 1, column 3: not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_files_that_are_no_plan(file: Path, content: bytes, words: str) -> None:
    file.write_bytes(content)
    line = problem(file)
    assert line.startswith(f"{file}: ")
    assert words in line


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    assert (
        problem(tmp_path / "plam.yaml")
        == f"{tmp_path / 'plam.yaml'}: no such file; did you mean 'plan.yaml'?"
    )
    assert problem(str(tmp_path / "x")) == f"{tmp_path / 'x'}: no such file; plans in {tmp_path}: plan.yaml"
    assert problem(tmp_path / "no" / "x") == f"{tmp_path / 'no' / 'x'}: no such file"
    assert problem(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_keys_given_twice_are_refused_at_every_depth(file: Path) -> None:
    file.write_text(YAML.replace("{name: A,", "{name: A, 'id': a, id: b,") + "reveal: strengths\n", "utf-8")
    assert problems(file) == [
        f"{file}: parties.sources.0.id: the key is given twice, on lines 5 and 5; keep one of them",
        f"{file}: reveal: the key is given twice, on lines 1 and 6; keep one of them",
    ]
    file.write_text(YAML, "utf-8")
    text = "privacy={min_group: 3, min_group: 1}"
    twice = "the key is given twice, on lines 1 and 1; keep one of them"
    assert problem(file, text) == f"override {text!r}: privacy.min_group: {twice}"


# ---- what is refused: values -----------------------------------------------------------------------

SECONDS = "a number of seconds above 0 and at most 1000000"
NUMBER = "is not text but a number; put it in quotes"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("protocol", "mcp", "'mcp' is not allowed; allowed: mpc, he; did you mean 'mpc'?"),
        (
            "reveal",
            "ranking",
            "'ranking' is not available yet; allowed: differences, coefficients, strengths",
        ),
        (
            "estimator",
            "Paper",
            "'Paper' is not allowed; allowed: tie_corrected, paper; did you mean 'paper'?",
        ),
        ("order", True, "true is not allowed; allowed: descending, ascending"),
        ("order", None, "null is not a value here; leave the key out to use its default"),
        ("rows", 2, "2 is not a whole number from 3 to 1000000000"),
        ("rows", True, "true is not a whole number from 3 to 1000000000"),
        ("rows", 10.0, "10.0 is not a whole number from 3 to 1000000000"),
        ("rows", "10", "'10' is not a whole number from 3 to 1000000000; YAML reads it as text, write 10"),
        ("network.timeout", True, f"true is not {SECONDS}"),
        ("network.timeout", float("nan"), f".nan is not {SECONDS}"),
        ("network.timeout", float("inf"), f".inf is not {SECONDS}"),
        ("network.timeout", 0, f"0 is not {SECONDS}"),
        ("network.timeout", -1.5, f"-1.5 is not {SECONDS}"),
        ("network.timeout", 1e7, f"10000000.0 is not {SECONDS}"),
        pytest.param("network.timeout", 10**5000, f"a number too long to show is not {SECONDS}", id="huge"),
        ("rows", 10**9 + 1, "1000000001 is not a whole number from 3 to 1000000000"),
        ("network.timeout", "1e3", f"'1e3' is not {SECONDS}; YAML reads it as text, write 1000"),
        ("network.timeout", "soon", f"'soon' is not {SECONDS}"),
        ("network", None, "null is not a value here; leave the key out to use its default"),
        (
            "network",
            60,
            "60 is not a group of keys; write timeout, join_timeout, address, port, tls below it",
        ),
        ("privacy.min_group", 0, "0 is not a whole number from 1 to 1000000000"),
        ("privacy.min_rows_per_feature", -1, "-1 is not a whole number from 0 to 1000000000"),
        (
            "results.sources",
            "all",
            "'all' is not allowed; allowed: nothing, ranking, strengths, coefficients",
        ),
        ("parties", None, "null is not a value here; this key is needed"),
        ("parties.coordinator", "C", "'C' is not a group of keys; write name, listen below it"),
        ("parties.sources", [], "[] is not a list of at least one source"),
        (
            "parties.sources",
            {"name": "A"},
            "{'name': 'A'} is not a list of at least one source; start each item with '- '",
        ),
        ("parties.target.name", 7, f"7 {NUMBER}"),
        ("parties.target.name", "", "'' is not a name: it is empty, or starts or ends with a space"),
        ("parties.target.name", "B ", "'B ' is not a name: it is empty, or starts or ends with a space"),
        ("parties.target.id", 7, f"7 {NUMBER}"),
        ("parties.target.id", "", "'' is not a column name: it is empty"),
        ("parties.target.table", 7, "7 is not a file path"),
        (
            "parties.target.table",
            "",
            "'' is not a file path; leave the key out if there is no such file here",
        ),
        ("parties.target.exclude", "flag", "'flag' is not a list of column names; write [flag]"),
        ("parties.target.features", [], "[] is not a list of at least one column name"),
        ("parties.target.features", ["a", "b", "a"], "lists 'a' more than once"),
        ("parties.target.features", ["id"], "lists 'id', which is this party's id column; take it out"),
        ("parties.target.policy.max_reveal", "coefficient", None),
        ("parties.target.policy.protocols", "mpc", "'mpc' is not a list of protocols; write [mpc]"),
        ("parties.target.policy.min_rows", True, "true is not a whole number from 1 to 1000000000"),
    ],
)
def test_bad_values(key: str, value: object, message: str | None) -> None:
    levels = "differences, coefficients, strengths, ranking"
    message = message or f"{value!r} is not allowed; allowed: {levels}; did you mean 'coefficients'?"
    assert problem(plan_with({key: value})) == f"plan: {key}: {message}"


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "a\\b", "a=b", "a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800"]
)
def test_names_that_cannot_be_folders(name: str) -> None:
    line = problem(plan_with({"parties.coordinator.name": name}))
    assert line.startswith("plan: parties.coordinator.name: ")
    assert "cannot be a folder's name" in line
    assert line.isprintable()


def test_name_length() -> None:
    assert load_plan(plan_with({"parties.target.name": "b" * 64})).names[1] == "b" * 64
    assert "is 65 characters long; a name has at most 64" in problem(
        plan_with({"parties.target.name": "b" * 65})
    )


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("7", "a number"),
        ("1.5", "a number"),
        ("no", "true or false"),
        ("2024-01-31", "a date"),
        ("[a]", "a list"),
    ],
)
def test_column_names_that_yaml_does_not_read_as_text(file: Path, written: str, kind: str) -> None:
    line = problem(file, f"parties.target.features=[ok, {written}]")
    assert ": parties.target.features.1: " in line
    assert f"is not text but {kind}" in line
    assert line.endswith("put it in quotes")
    assert load_plan(file, [f"parties.target.features=[ok, '{written}']"]).parties.target.features == (
        "ok",
        written,
    )


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("protocl", "did you mean 'protocol'?"),
        ("Reveal", "did you mean 'reveal'?"),
        ("timeout", "did you mean network.timeout?"),
        ("table", "did you mean parties.target.table or parties.sources.0.table?"),
        (
            "parties.target.feature",
            "keys here: name, listen, table, id, exclude, features, policy, alignment_key; did you mean "
            "'features'?",
        ),
        ("parties.sources.0.alignment_key", "did you mean parties.target.alignment_key?"),
        ("parties.coordinator.table", "keys here: name, listen; did you mean parties.target.table or"),
        ("parties.sources.0.policy.min_row", "did you mean 'min_rows'?"),
        (
            "zzz",
            "reveal, estimator, strength, order, rows, parties, results, privacy, network",
        ),
    ],
)
def test_unknown_keys(key: str, hint: str) -> None:
    line = problem(plan_with({key: 1}))
    assert line.startswith(f"plan: {key}: there is no such key; keys here: ")
    assert hint in line


def test_missing_and_odd_keys() -> None:
    assert problem({}) == "plan: parties: is missing; every plan needs it"
    lines = problems({"parties": {"target": {}}})
    missing = ("parties.coordinator", "parties.target.name", "parties.sources")
    assert lines == [f"plan: {key}: is missing; every plan needs it" for key in missing]
    odd: dict[Any, Any] = {**MINIMAL, 1: 2}
    assert problem(odd) == "plan: 1: 1 is not a key; keys are text"


# ---- what is refused: values that do not go together -----------------------------------------------


@pytest.mark.parametrize("role", ["target", "sources"])
def test_results_beyond_reveal(role: str) -> None:
    line = problem(plan_with(reveal="strengths", results={role: "coefficients"}))
    assert line == (
        f"plan: results.{role}: 'coefficients' is more than the coordinator has under reveal: 'strengths'; "
        "allowed: nothing, ranking, strengths"
    )
    load_plan(plan_with(reveal="strengths", results={role: "strengths"}))
    load_plan(plan_with(reveal="differences", results={role: "coefficients"}))


def test_mean_abs_needs_the_coefficients() -> None:
    line = problem(plan_with(reveal="strengths", strength="mean_abs"))
    assert line.startswith("plan: strength: 'mean_abs' needs the coefficients, and reveal: 'strengths'")
    for reveal in ("coefficients", "differences"):
        assert load_plan(plan_with(reveal=reveal, strength="mean_abs")).strength == "mean_abs"


@pytest.mark.parametrize(
    ("key", "name", "other"),
    [
        ("parties.target.name", "C", "parties.coordinator.name"),
        ("parties.sources.0.name", "b", "parties.target.name"),
    ],
)
def test_names_are_unique_even_on_a_file_system_without_case(key: str, name: str, other: str) -> None:
    line = problem(plan_with({key: name}))
    assert line.startswith(f"plan: {key}: {name!r} is also the name at {other} ")


def test_features_and_exclude() -> None:
    line = problem(plan_with({"parties.target.features": ["a"], "parties.target.exclude": ["a"]}))
    expected = "lists 'a', which exclude lists too; take it out of one of them"
    assert line == f"plan: parties.target.features: {expected}"


def test_everything_wrong_is_said_at_once_and_names_file_or_override(file: Path) -> None:
    file.write_text(YAML.replace("coefficients", "strengths") + "strength: mean_abs\norder: up\n", "utf-8")
    lines = problems(file, "network.timeout=true", "netwrk.timeout=3", "oops", Z=None)
    assert len(lines) == 6
    starts = (
        "override 'oops': not of the form key=value",
        "table for 'Z': the plan has no data party of that name; data parties: B, A",
        f"{file}: strength: 'mean_abs' needs",
        f"{file}: order: 'up' is not allowed",
        "override 'network.timeout=true': network.timeout: true is not",
        "override 'netwrk.timeout=3': netwrk: there is no such key",
    )
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows", "not of the form key=value, as in network.timeout=30"),
        ("=3", "not of the form key=value, as in network.timeout=30"),
        ("a..b=3", "not of the form key=value, as in network.timeout=30"),
        ("rows=[", "the value is not valid YAML: expected the node content"),
        ("reveal.x=3", "reveal is 'coefficients', and has no keys below it"),
        ("parties.sources.AA.id=x", "parties.sources has no item 'AA'; did you mean 'A'?"),
        ("parties.sources.1.id=x", "parties.sources has no item '1'; it has A"),
        ("parties.sources.-1.id=x", "parties.sources has no item '-1'; it has A"),
        ("parties.target.nam=x", "parties.target.nam: there is no such key"),
    ],
)
def test_bad_overrides(file: Path, text: str, message: str) -> None:
    assert problem(file, text).startswith(f"override {text!r}: {message}")


def test_the_last_override_of_a_key_is_the_one_blamed(file: Path) -> None:
    line = problem(file, "network.timeout=3", "network={timeout: no}")
    assert line.startswith("override 'network={timeout: no}': network.timeout: false")


def test_tables_for_parties_that_hold_none(file: Path) -> None:
    (line,) = problems(file, C=Path("c.csv"))
    assert line == "table for 'C': the plan has no data party of that name; data parties: B, A"


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
KEYS = [
    *("protocol", "reveal", "results", "results.target", "rows", "network.timeout", "privacy.min_group", "x"),
    *("parties", "parties.target", "parties.target.name", "parties.target.table", "parties.target.features"),
    *("parties.sources", "parties.sources.0", "parties.sources.0.policy", "parties.sources.0.exclude"),
]


@given(
    st.sampled_from(KEYS),
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3)
    ),
)
def test_any_value_anywhere_gives_a_plan_or_printable_lines(key: str, value: object) -> None:
    said = ""
    try:
        plan = load_plan(plan_with({key: value}))
    except PlanError as error:
        said = str(error)
        plan = None
    if plan is None:
        assert all(line.isprintable() and line.startswith("plan: ") for line in said.split("\n"))
    else:
        assert plan.canonical_json()


# ---- the models themselves -------------------------------------------------------------------------


def test_a_plan_cannot_be_changed() -> None:
    plan = load_plan(MINIMAL)
    with pytest.raises(ValidationError, match="frozen"):
        plan.reveal = "differences"


def test_a_plan_made_without_load_plan_is_checked_too() -> None:
    parties = load_plan(MINIMAL).parties
    assert Plan(parties=parties, reveal="strengths").results.target == "strengths"
    with pytest.raises(PlanError, match=r"results\.target: 'coefficients' is more than"):
        Plan(parties=parties, reveal="strengths", results=Results(target="coefficients"))


def test_party_by_name() -> None:
    plan = load_plan(MINIMAL)
    assert plan.party("C") is plan.parties.coordinator
    assert plan.party("B") is plan.parties.target
    assert plan.party("A") is plan.parties.sources[0]
    with pytest.raises(PlanError, match=r"the plan has no party 'X'; parties: C, B, A"):
        plan.party("X")


# ---- shared and local ------------------------------------------------------------------------------

#: For every local field a value that would be recognised if it got out. A new field must be added here.
LOCAL: dict[str, Any] = {
    "listen": "secret.example.org:4242",
    "table": "/secret/table.csv",
    "id": "secret_id",
    "exclude": ["secret_column"],
    "features": ["secret_feature"],
    "policy": {
        "max_reveal": "differences",
        "min_rows": 424242,
        "min_group": 434343,
        "protocols": ["mpc"],
        "results_to": [],
    },
}


#: Those that only the target has.
TARGET: dict[str, Any] = {"alignment_key": "/secret/alignment.key"}


def with_secrets() -> Plan:
    secrets = {
        f"parties.{place}.{key}": value
        for place, local in (("target", LOCAL | TARGET), ("sources.0", LOCAL))
        for key, value in local.items()
    }
    return load_plan(plan_with(secrets))


def test_nothing_local_is_shared() -> None:
    assert set(LOCAL) == set(DataParty.model_fields) - {"name"}
    assert set(LOCAL | TARGET) == set(TargetParty.model_fields) - {"name"}
    plan = with_secrets()
    text = plan.canonical_json()
    assert plan.parties.target.id == "secret_id"
    for trace in (
        "secret",
        "424242",
        "434343",
        "policy",
        "table",
        "features",
        "exclude",
        "alignment",
        "max_reveal",
        "results_to",
    ):
        assert trace not in text
    assert plan.shared()["parties"] == {
        "coordinator": {"name": "C"},
        "target": {"name": "B"},
        "sources": [{"name": "A"}],
    }
    assert plan.digest() == load_plan(MINIMAL).digest()


SHARED: dict[str, Any] = {
    "reveal": "differences",
    "estimator": "paper",
    "strength": "mean_abs",
    "order": "ascending",
    "rows": 100,
    "results.target": "nothing",
    "results.sources": "ranking",
    "results.precision": "exact",
    "privacy.min_group": 2,
    "privacy.min_rows_per_feature": 1,
    "privacy.budget": 0.25,
    "network.timeout": 30,
    "network.join_timeout": 30,
    "network.tls": "insecure",
    "parties.coordinator.name": "C1",
    "parties.target.name": "B1",
    "parties.sources.0.name": "A1",
}


@pytest.mark.parametrize("key", SHARED)
def test_every_shared_value_is_in_the_digest_and_named_when_it_differs(key: str) -> None:
    mine, theirs = load_plan(MINIMAL), load_plan(plan_with({key: SHARED[key]}))
    assert mine.digest() != theirs.digest()
    (line,) = differences(mine.canonical_json(), theirs.canonical_json())
    assert line.startswith(f"{key}: ")


def test_every_shared_key_has_a_case_above() -> None:
    keys = {key for key, value in load_plan(MINIMAL).shared().items() if not isinstance(value, dict)}
    keys |= {
        f"{top}.{key}"
        for top in ("results", "privacy", "network")
        for key in load_plan(MINIMAL).shared()[top]
    }
    assert keys - {"protocol"} == {key for key in SHARED if not key.startswith("parties.")}
    assert set(Plan.model_fields) == set(load_plan(MINIMAL).shared())


def test_canonical_json_and_digest() -> None:
    plan = load_plan(plan_with({"parties.sources.0.name": "Zürich"}, network={"timeout": 60}))
    text = plan.canonical_json()
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(text) == plan.shared()
    assert '"timeout":60.0' in text
    assert plan.digest() == hashlib.sha256(text.encode()).digest()
    reordered = load_plan(dict(reversed(list(plan.shared().items()))))
    assert reordered.digest() == plan.digest()


@pytest.mark.parametrize("name", ["C", "B", "A"])
def test_restricted_to_keeps_only_its_own_local_part(name: str) -> None:
    plan = with_secrets()
    own = plan.restricted_to(name)
    assert own.digest() == plan.digest()
    assert own.names == plan.names
    for party in (own.parties.target, own.parties.sources[0]):
        assert party == (plan.party(party.name) if party.name == name else type(party)(name=party.name))
    assert pickle.loads(pickle.dumps(own)) == own  # noqa: S301
    assert (b"secret" in pickle.dumps(own)) == (name != "C")
    with pytest.raises(PlanError, match="no party 'X'"):
        plan.restricted_to("X")


# ---- differences -----------------------------------------------------------------------------------


def test_differences_name_key_and_both_values() -> None:
    mine = load_plan(MINIMAL)
    theirs = load_plan(plan_with(reveal="strengths", network={"timeout": 30}))
    assert differences(mine.canonical_json(), mine.canonical_json()) == []
    assert differences(mine.canonical_json(), theirs.canonical_json()) == [
        "network.timeout: 60.0 here, 30.0 there",
        'reveal: "coefficients" here, "strengths" there',
    ]
    assert differences('{"a":[1],"b":{}}', '{"a":[1,2],"c":null}') == [
        "a.1: absent here, 2 there",
        "b: {} here, absent there",
        "c: absent here, null there",
    ]
    assert differences('{"a":1}', '{"a":true}') == ["a: 1 here, true there"]
    assert differences('{"a":60}', '{"a":60.0}') == ["a: 60 here, 60.0 there"]


def test_what_a_peer_wrote_can_be_printed() -> None:
    theirs = json.dumps(
        {"\x1b[2J": "\x1b]0;\u202e", "k" * 999: "v" * 9999}, sort_keys=True, separators=(",", ":")
    )
    for line in differences('{"a":1}', theirs):
        assert line.replace("…", "").isascii()
        assert line.isprintable()
        assert len(line) < 200
    many = json.dumps({f"k{i:03}": i for i in range(60)}, separators=(",", ":"))
    assert differences("{}", many)[-1] == "and 10 more keys"


@pytest.mark.parametrize(
    "theirs",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        '{"a": 1}',
        '{"b":1,"a":1}',
        '{"a":1,"a":1}',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":1e999}',
        '{"a":"ü"}',
        '{"a":1}{}',
        '{"a":' + "9" * 5000 + "}",
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda text: text[:12],
)
def test_a_peer_that_sends_no_canonical_json(theirs: str) -> None:
    with pytest.raises(ProtocolViolation, match="canonical JSON"):
        differences("{}", theirs)


contents = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.text("a.0", max_size=3), inner, max_size=2)
        ),
        max_leaves=5,
    ),
    max_size=3,
)


@given(contents, contents)
def test_differences_are_empty_exactly_for_equal_texts(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    here, there = (json.dumps(plan, sort_keys=True, separators=(",", ":")) for plan in (mine, theirs))
    assert (differences(here, there) == []) == (here == there)
    assert differences(here, here) == []
    assert len(differences(here, there)) == len(differences(there, here))


# ---- policies --------------------------------------------------------------------------------------

START = "party A does not allow this plan: its policy."


@pytest.mark.parametrize(
    ("policy", "plan", "message"),
    [
        (
            {},
            {"reveal": "differences"},
            "max_reveal: coefficients at most, but the plan has reveal: differences",
        ),
        (
            {"max_reveal": "strengths"},
            {},
            "max_reveal: strengths at most, but the plan has reveal: coefficients",
        ),
        (
            {"max_reveal": "ranking"},
            {"reveal": "strengths"},
            "max_reveal: ranking at most, but the plan has reveal: ",
        ),
        ({"protocols": ["he"]}, {}, "protocols: he only, but the plan has protocol: mpc"),
        ({"protocols": []}, {}, "protocols: none only, but the plan has protocol: mpc"),
        (
            {"results_to": ["sources"]},
            {},
            "results_to: sources only, but the plan has results.target: strengths",
        ),
        (
            {"results_to": ["target"]},
            {"results": {"sources": "ranking"}},
            "results_to: target only, but the plan has results.sources: ranking",
        ),
        ({"min_group": 11}, {}, "min_group: 11 or more, but the plan has privacy.min_group: 10"),
        ({}, {"privacy": {"min_group": 9}}, "min_group: 10 or more, but the plan has privacy.min_group: 9"),
        (
            {},
            {"privacy": {"min_rows_per_feature": 2}},
            "min_rows_per_feature: 3 or more, but the plan has privacy.min_rows_per_feature: 2",
        ),
        (
            {},
            {"privacy": {"budget": 0.6}},
            "budget: 0.5 at most, but the plan has privacy.budget: 0.6",
        ),
        (
            {},
            {"results": {"precision": "exact"}},
            "exact: false, but the plan has results.precision: exact",
        ),
        (
            {},
            {"protocol": "he", "he": {"key_bits": 2048}},
            "min_key_bits: 3072 or more, but the plan has he.key_bits: 2048",
        ),
    ],
)
def test_a_plan_beyond_one_owners_policy(policy: dict[str, Any], plan: dict[str, Any], message: str) -> None:
    loaded = load_plan(
        plan_with({"parties.sources.0.policy": policy, "parties.target.policy": ALLOWS_ALL}, **plan)
    )
    with pytest.raises(PolicyError) as caught:
        check_policy(loaded, "A")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(START + message)
    check_policy(loaded, "B")
    check_policy(loaded, "C")


ALLOWS_ALL = dict(AGREE_TO_ALL)


def test_a_plan_within_the_policy() -> None:
    policy = {
        "max_reveal": "strengths",
        "protocols": ["mpc"],
        "min_group": 10,
        "results_to": [],
        "min_rows": 10,
    }
    plan = load_plan(
        plan_with({"parties.sources.0.policy": policy}, reveal="strengths", results={"target": "nothing"})
    )
    check_policy(plan, "A")
    check_policy_rows(plan, "A", 10)
    check_policy_rows(plan, "B", 3)
    check_policy_rows(plan, "C", 3)
    with pytest.raises(PolicyError) as caught:
        check_policy_rows(plan, "A", 9)
    assert str(caught.value) == f"{START}min_rows: 10 or more, but there are 9 aligned rows"


def test_every_broken_rule_is_named_and_unknown_parties_are_refused() -> None:
    policy = {"max_reveal": "strengths", "protocols": ["he"], "min_group": 11, "results_to": []}
    plan = load_plan(plan_with({"parties.sources.0.policy": policy}))
    with pytest.raises(PolicyError) as caught:
        check_policy(plan, "A")
    rules = [line.removeprefix(START).partition(":")[0] for line in str(caught.value).splitlines()]
    assert rules == ["max_reveal", "protocols", "results_to", "min_group"]
    for check in (lambda: check_policy(plan, "X"), lambda: check_policy_rows(plan, "X", 9)):
        with pytest.raises(PlanError, match="no party 'X'"):
            check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"he": {"key_bits": 1024}},
            "plan: he.key_bits: 1024 is not 2048 or 3072; other sizes need he.insecure: true",
        ),
        (
            {"he": {"packing": False}},
            "plan: he.packing: false is for reveal: differences only; leave it out",
        ),
        (
            {"he": {"pairs": "all"}},
            "plan: he.pairs: 'all' is for reveal: differences only; leave it out",
        ),
        (
            {"he": {"scheme": "bfv", "randomness": "short"}},
            "plan: he.randomness: 'short' is for he.scheme: paillier only; leave it out for 'bfv'",
        ),
    ],
)
def test_he_settings_that_do_not_go_together(
    settings: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpc_spearman.config.plan.find_spec", lambda name: True)  # TenSEAL is here
    assert problem(plan_with({"protocol": "he"} | settings)) == message


def test_ranking_under_he_names_mpc() -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(plan_with({"protocol": "he", "reveal": "ranking"}))
    text = str(caught.value)
    assert "reveal: 'ranking' compares values in private, which is for protocol: mpc, not 'he'" in text


def test_bfv_without_tenseal_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpc_spearman.config.plan.find_spec", lambda name: None)
    text = problem(plan_with({"protocol": "he", "he": {"scheme": "bfv"}}))
    assert text.startswith("plan: he.scheme: 'bfv' needs TenSEAL, which is not installed here")
    assert "Python 3.10" in text
    assert "he.scheme: paillier" in text


def test_threads_are_a_partys_own_business() -> None:
    one, other = (load_plan(plan_with({"protocol": "he", "he": {"workers": workers}})) for workers in (1, 2))
    assert one.digest() == other.digest()
    assert "workers" not in one.canonical_json()


@pytest.mark.parametrize("source", [None, 7, ["parties"]])
def test_what_is_neither_a_file_nor_a_mapping(source: Any) -> None:
    with pytest.raises(PlanError, match="a plan is a file or a mapping, not"):
        load_plan(source)


@pytest.mark.parametrize("level", ["strengths", "ranking"])
def test_a_mean_over_few_columns_needs_consent_to_coefficients(level: str) -> None:
    local = {"policy": {"max_reveal": level}}
    plan = load_plan(plan_with({"reveal": "strengths", "parties.target": {"name": "B"} | local}))
    check_policy_columns(plan, "B", 2)
    check_policy_columns(plan, "C", 1)
    with pytest.raises(PolicyError, match=r"min_columns: 2 or more distinct, .* columns, but there is one"):
        check_policy_columns(plan, "B", 1)
    check_policy_columns(load_plan(plan_with({"reveal": "strengths"})), "B", 1)
    local["policy"]["min_columns"] = 5
    plan = load_plan(plan_with({"reveal": "strengths", "parties.target": {"name": "B"} | local}))
    with pytest.raises(PolicyError, match=r"min_columns: 5 or more distinct, .* columns, but there are 4"):
        check_policy_columns(plan, "B", 4)


def test_links_without_tls_need_each_owners_consent() -> None:
    plan = load_plan(plan_with({"parties.target": {"name": "B", "policy": {"tls": "insecure"}}}))
    check_policy_network(plan, "A")  # not asked for where all roles are on one machine
    plan = load_plan(plan.model_dump(mode="json"), ["network.tls=insecure"])
    for party in ("B", "C"):
        check_policy_network(plan, party)
    with pytest.raises(
        PolicyError, match=r"^party A .* policy.tls: mutual, but the plan has network.tls: insecure$"
    ):
        check_policy_network(plan, "A")


def test_exact_strengths_are_refused_where_only_strengths_are_opened() -> None:
    needs = "'exact' needs the coefficients, and reveal: 'strengths' does not give them"
    assert (
        problem(plan_with(reveal="strengths", results={"precision": "exact"}))
        == f"plan: results.precision: {needs}; use precision: statistical"
    )


FILES = {"ca": "tls/ca.pem", "certificate": "tls/{party}.pem", "key": "tls/{party}.key"}


def test_of_tls_only_whether_there_is_any_is_shared(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps({**MINIMAL, "network": {"tls": FILES, "address": "10.1.1.1", "port": 4711}}))
    plan = load_plan(file)
    assert plan.network.tls is not None
    assert plan.network.tls.ca == tmp_path / "tls/ca.pem"
    assert plan.shared()["network"] == {"timeout": 60.0, "join_timeout": 600.0, "tls": "mutual"}
    elsewhere = load_plan(plan_with(network={"tls": {key: f"/other/{name}" for key, name in FILES.items()}}))
    assert elsewhere.digest() == plan.digest()
    assert (
        load_plan(MINIMAL).digest() != plan.digest() != load_plan(MINIMAL, ["network.tls=insecure"]).digest()
    )


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        ({"ca": "ca.pem"}, "needs ca, certificate and key; missing: certificate, key"),
        ({**FILES, "insecure": True}, "is 'insecure' and has files of TLS: take out one or the other"),
        ({**FILES, "ca": " "}, "is not a file path"),
        ("none", "'none' is not a group of keys; write ca, certificate, key, insecure below it"),
    ],
)
def test_bad_tls(tls: Any, text: str) -> None:
    with pytest.raises(PlanError, match=re.escape(text)):
        load_plan(plan_with(network={"tls": tls}))


@pytest.mark.parametrize(
    "listen", ["10.0.0.7", "10.0.0.7:", ":29500", "h:70000", "0.0.0.0:29500", "[::]:1", 29500]
)
def test_bad_listen(listen: Any) -> None:
    with pytest.raises(PlanError, match=r"parties\.coordinator\.listen: "):
        load_plan(plan_with({"parties.coordinator.listen": listen}))


def test_listen() -> None:
    assert host_and_port("10.0.0.7:0") == ("10.0.0.7", 0)
    assert host_and_port("[fe80::1]:29500") == ("fe80::1", 29500)
    plan = load_plan(plan_with({"parties.coordinator.listen": "[::1]:29500"}))
    assert plan.restricted_to("A").parties.coordinator.listen is None
    assert plan.restricted_to("C").parties.coordinator.listen == "[::1]:29500"
