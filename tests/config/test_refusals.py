"""Invalid plans, and the words in which they are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.config import load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.identity import Identity
from support.harness import ROOT
from support.plans import MINIMAL, YAML, plan_with, problem, problems

# ---- what is refused: values -----------------------------------------------------------------------

#: Values that are refused wherever they stand alone, by key.
BAD: dict[str, list[Any]] = {
    "protocol": ["mcp"],
    "reveal": ["order"],
    "top": ["3"],
    "opened_to": ["B"],
    "estimator": ["Paper"],
    "order": [True, None],
    "rows": [2, True, 10.0, "10", 10**9 + 1],
    "network.timeout": [True, float("nan"), float("inf"), 0, -1.5, 10000000.0, 10**5000, "1e3", "soon"],
    "network": [None, 60],
    "privacy.loss": [0],
    "parties.target.policy.lifetime": [101],
    "results.sources": ["all"],
    "parties": [None],
    "parties.coordinator": ["C"],
    "parties.sources": [[], {"name": "A"}],
    "parties.target.name": [7, "", "B "],
    "parties.target.id": [[], ["a", "b", "a"], 7, ""],
    "parties.target.missing": ["drop", {"drop_rows": True}],
    "parties.target.duplicates": ["keep"],
    "parties.target.csv.delimiter": [";;"],
    "parties.target.csv.decimal": [";"],
    "parties.target.csv.encoding": ["utf-9"],
    "parties.target.encode": [
        ["a"],
        {"a": ["b"]},
        {"a": ["b", " b"]},
        {"a": ["b", 7]},
        {"a": "b"},
        {"a": "flag"},
    ],
    "parties.target.table": [7, ""],
    "parties.target.exclude": ["flag"],
    "parties.target.adjust": ["age", ["age", "age"]],
    "parties.target.features": [[], ["a", "b", "a"], ["id"]],
    "parties.target.policy.max_reveal": ["coefficient"],
    "parties.target.policy.protocols": ["mpc"],
    "parties.target.policy.min_rows": [True],
    "parties.target.csv": [";"],
    "parties.coordinator.name": [
        *(".", "..", "a/b", "a\\b", "a=b", "a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800"),
        "b" * 65,
    ],
    "protocl": [1],
    "Reveal": [1],
    "timeout": [1],
    "table": [1],
    "parties.target.feature": [1],
    "parties.sources.0.alignment_key": [1],
    "parties.coordinator.table": [1],
    "parties.sources.0.policy.min_row": [1],
    "zzz": [1],
    # keys of earlier versions
    "network.tls": ["insecure"],
    "parties.target.policy.tls": ["insecure"],
    "results.strongest": [0],
    "privacy.budget": [1],
    "parties.target.policy.min_group": [1],
    "shards": [2],
    "parties.coordinator.workers": ["10.0.0.7:29600"],
    "parties.sources.0.workers": ["10.0.0.7:29600"],
    "network.address": ["c-{shard}.example.org", "10.0.0.7:29500", "[::1]:29500", "[c]", "a:b"],
    "network.proxy": ["https://10.0.0.1:3128", "http://me:hunter2@10.0.0.1:3128"],
    "parties.coordinator.listen": [
        *("10.0.0.7", "10.0.0.7:", ":29500", "h:70000", "*:29500", "[h]:1", "fe80::1:29500", 29500, ["::1"]),
    ],
    "parties.coordinator.advertise": ["10.0.0.8:29501"],
    "parties.target.advertise": ["10.0.0.8:29501"],
    "parties.target.listen": ["0.0.0.0:29501"],
    "parties.target.identity": ["ed25519:AA"],
}
ONE = str(Identity(Ed25519PrivateKey.from_private_bytes(bytes(32))))
#: Settings that are refused together.
TOGETHER: list[dict[str, Any]] = [
    {"protocol": "he", "he": {"key_bits": 1024}},
    {"protocol": "he", "he": {"key_bits": 520, "insecure": True}},
    {"protocol": "he", "he": {"form": "literal"}},
    {"protocol": "he", "he": {"pairs": "all"}, "reveal": "differences"},
    {"protocol": "he", "he": {"form": "literal", "scheme": "bfv"}, "reveal": "differences"},
    {"protocol": "he", "he": {"scheme": "bfv", "randomness": "short"}},
    {"top": 3},
    {"reveal": "strengths", "opened_to": "target"},
    {"reveal": "ranking", "opened_to": "target", "results": {"sources": "ranking"}},
    {"reveal": "ranking", "opened_to": "target", "results": {"target": "nothing"}},
    {"reveal": "ranking", "results": {"target": "strengths"}},
    {"reveal": "ranking", "strength": "mean_abs"},
    {"protocol": "he", "reveal": "ranking"},
    {"protocol": "he", "reveal": "ranking", "results": {"target": "strengths"}, "top": 3},
    {"reveal": "strengths", "strength": "mean_abs"},
    {"reveal": "explained", "parties.sources.0.noise": "inputs"},
    {"reveal": "explained", "estimator": "paper"},
    {"reveal": "explained", "strength": "mean_abs"},
    {"reveal": "explained", "results.target": "coefficients"},
    {"reveal": "explained", "results.sources": "strengths"},
    {"reveal": "explained", "top": 2},
    {"reveal": "strengths", "results.strongest": 2},
    {"results.strongest": 2, "results.precision": "exact"},
    {"results.strongest": 2, "results.target": "ranking"},
    {"results.strongest": 2, "results.target": "coefficients", "privacy.unit": "value"},
    {"proofs": True, "reveal": "strengths"},
    {"proofs": True, "reveal": "differences"},
    {"proofs": True, "protocol": "he"},
    {"proofs": True, "parties.target.noise": "inputs"},
    {"estimator": "paper", "parties.target.noise": "inputs"},
    {"results.precision": "exact", "parties.target.noise": "inputs"},
    {"reveal": "strengths", "results.target": "coefficients"},
    {"reveal": "strengths", "results.sources": "coefficients"},
    {"parties.target.features": ["a"], "parties.target.exclude": ["a"]},
    {"parties.target.identity": ONE, "parties.sources.0.identity": ONE},
    {"parties.sources.0.missing": "drop_rows"},
    {"parties.sources.0.duplicates": "drop"},
    {"parties.sources.0.missing": "middle", "estimator": "paper"},
    {"reveal": "differences", "parties.target.adjust": ["age"]},
    {"estimator": "paper", "parties.target.adjust": ["age"]},
    {"proofs": True, "parties.sources.0.adjust": ["age"]},
    {"privacy.unit": "value", "results.target": "coefficients", "parties.target.adjust": ["age"]},
    {"parties.target.adjust": ["age"], "parties.target.exclude": ["age"]},
    {"parties.target.adjust": ["age"], "parties.target.features": ["bmi", "age"]},
    {"parties.target.name": "C"},
    {"parties.sources.0.name": "b"},
    {"privacy.unit": "value", "reveal": "strengths"},
    {"privacy.unit": "value", "reveal": "explained", "results.target": "nothing"},
    {"privacy.unit": "value", "results.target": "strengths"},
    {"privacy.unit": "value", "results.target": "coefficients", "results.sources": "ranking"},
]


TABLE = "parties.target.table"
ADDRESS = "postgresql://owner:hunter2@10.0.0.7/clinic"
QUERY = {"query": "SELECT id, visits FROM clinic", "connection": "env:CLINIC", "order_by": ["id"]}
SELECTS = (
    "DELETE FROM clinic",
    "selection",
    "-- SELECT",
    "SELECT 1; -- all",
    "SELECT 1; DELETE FROM x",
    "",
    7,
)
CONNECTIONS = ("CLINIC", "env:", "env:A B", ADDRESS, [ADDRESS])
QUERIES = [
    *({TABLE: {**QUERY, "query": query}} for query in SELECTS),
    *({TABLE: {**QUERY, "connection": connection}} for connection in CONNECTIONS),
    *(
        {TABLE: {**QUERY, key: value}}
        for key, value in (("memory", "1GB"), ("path", "t"), ("password", "hunter2"))
    ),
    {TABLE: {**QUERY, "order_by": []}},
    {TABLE: {**QUERY, "order_by": []}, "alignment": "intersect", "rows": 100},
]
CASES = [{key: value} for key, values in BAD.items() for value in values] + TOGETHER + QUERIES
WORDING = Path(__file__).with_name("wording.txt")


def test_each_value_is_refused_under_its_key_in_known_words() -> None:
    """The words are in wording.txt; WRITE_WORDING=1 in the environment writes it again."""
    wording = []
    for case in CASES:
        lines = [line for line in problems(plan_with(case)) if "needs TenSEAL" not in line]
        assert any(line.startswith(f"plan: {key}") for line in lines for key in case), (case, lines)
        assert all(line.isprintable() and "hunter2" not in line for line in lines)
        wording += lines
    if os.environ.get("WRITE_WORDING"):
        WORDING.write_text("".join(f"{line}\n" for line in wording), "utf-8")
    assert wording == WORDING.read_text("utf-8").splitlines()


@pytest.mark.parametrize("written", ["7", "1.5", "true", "[a]"])
def test_column_names_that_yaml_does_not_read_as_text(plan_file: Path, written: str) -> None:
    line = problem(plan_file, f"parties.target.features=[ok, {written}]")
    assert ": parties.target.features.1: " in line
    assert line.endswith("is not text; put it in quotes")
    assert load_plan(plan_file, [f"parties.target.features=[ok, '{written}']"]).parties.target.features == (
        "ok",
        written,
    )


def test_values_at_the_edge_of_what_is_allowed() -> None:
    assert load_plan(plan_with({"parties.target.name": "b" * 64})).names[1] == "b" * 64
    for role in ("target", "sources"):
        load_plan(plan_with(reveal="strengths", results={role: "strengths"}))
        load_plan(plan_with(reveal="differences", results={role: "coefficients"}))
    for reveal in ("coefficients", "differences"):
        assert load_plan(plan_with(reveal=reveal, strength="mean_abs")).strength == "mean_abs"
    for key, value in (("missing", "drop_rows"), ("duplicates", "drop")):
        load_plan(plan_with({f"parties.sources.0.{key}": value}, alignment="intersect"))
    load_plan(plan_with({"parties.sources.0.missing": "middle"}))
    addresses = {"listen": "0.0.0.0:29501", "advertise": "10.0.0.8:29501"}
    load_plan(plan_with({f"parties.target.{key}": value for key, value in addresses.items()}))


def test_missing_and_odd_keys() -> None:
    assert problem({}) == "plan: parties: is missing; every plan needs it"
    lines = problems({"parties": {"target": {}}})
    missing = ("parties.coordinator", "parties.target.name", "parties.sources")
    assert lines == [f"plan: {key}: is missing; every plan needs it" for key in missing]
    odd: dict[Any, Any] = {**MINIMAL, 1: 2}
    assert problem(odd) == "plan: 1: 1 is not a key; keys are text"


# ---- what is refused: values that do not go together -----------------------------------------------


def test_all_problems_come_at_once_with_their_file_or_setting(plan_file: Path) -> None:
    plan_file.write_text(
        YAML.replace("coefficients", "strengths") + "strength: mean_abs\norder: up\n", "utf-8"
    )
    assert problem(plan_file, "order=ascending").startswith(f"{plan_file}: strength: 'mean_abs' needs")
    lines = problems(plan_file, "network.timeout=true", "netwrk.timeout=3", "oops", Z=None)
    starts = (
        "setting 'oops': not of the form key=value",
        "table for 'Z': the plan has no data party of that name; data parties: B, A",
        f"{plan_file}: order: 'up' is not allowed",
        "setting 'network.timeout=true': network.timeout: true is not",
        "setting 'netwrk.timeout=3': netwrk: there is no such key",
    )
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows", "not of the form key=value, as in network.timeout=30"),
        ("=3", "not of the form key=value, as in network.timeout=30"),
        ("a..b=3", "not of the form key=value, as in network.timeout=30"),
        ("rows=[a, ]]", "line 1, column 6: not valid YAML: "),
        ("reveal.x=3", "reveal is 'coefficients', and has no keys below it"),
        ("parties.sources.AA.id=x", "parties.sources has no item 'AA'; it has A"),
        ("parties.sources.1.id=x", "parties.sources has no item '1'; it has A"),
        ("parties.sources.-1.id=x", "parties.sources has no item '-1'; it has A"),
        ("parties.target.nam=x", "parties.target.nam: there is no such key"),
    ],
)
def test_bad_overrides(plan_file: Path, text: str, message: str) -> None:
    assert problem(plan_file, text).startswith(f"setting {text!r}: {message}")


def test_overrides_in_one_text_are_refused_as_a_whole(plan_file: Path) -> None:
    with pytest.raises(PlanError, match=r"overrides: a list is needed, such as \['rows=5'\]$"):
        load_plan(plan_file, "rows=5")


def test_the_last_override_of_a_key_is_the_one_blamed(plan_file: Path) -> None:
    line = problem(plan_file, "network.timeout=3", "network={timeout: true}")
    assert line.startswith("setting 'network={timeout: true}': network.timeout: true")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
KEYS = [
    *("protocol", "reveal", "results", "results.target", "rows", "network.timeout", "privacy.loss", "x"),
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
    message = ""
    try:
        plan = load_plan(plan_with({key: value}))
    except PlanError as error:
        message = str(error)
        plan = None
    if plan is None:
        assert all(line.isprintable() and line.startswith("plan: ") for line in message.split("\n"))
    else:
        assert plan.canonical_json()


def test_the_defaults_of_an_order() -> None:
    plan = load_plan(plan_with({"reveal": "ranking"}))
    assert (plan.opened_to, plan.top, plan.informed) == ("coordinator", None, "C")
    assert (plan.results.target, plan.results.sources) == ("ranking", "nothing")
    opened_to_target = load_plan(plan_with({"reveal": "ranking", "opened_to": "target", "top": 2}))
    assert (opened_to_target.informed, opened_to_target.results.target) == ("B", "ranking")


IN_ASCII = """
import sys
from mpc_spearman.config import load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.identity import Identity
for key in ("parties.target.name", "parties.target.table"):
    try:
        load_plan(sys.argv[1], [f"{key}=\\u533b"])
    except PlanError as error:
        assert f"{key}" in str(error) and "cannot write: set PYTHONUTF8=1" in str(error), ascii(str(error))
    else:
        sys.exit(key)
"""


def test_names_that_the_locale_lacks(plan_file: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-X", "utf8=0", "-c", IN_ASCII, str(plan_file)]
    assert subprocess.run(command, env=environment, check=False).returncode == 0
