"""What a plan may not say, and in which words it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.config import fields, load_plan
from mpc_spearman.errors import PlanError
from support.plan_files import MINIMAL, YAML, plan_with, problem, problems

# ---- what is refused: values -----------------------------------------------------------------------

SECONDS = "a number of seconds above 0 and at most 1000000"
NUMBER = "is not text but a number; put it in quotes"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("protocol", "mcp", "'mcp' is not allowed; allowed: mpc, he; did you mean 'mpc'?"),
        (
            "reveal",
            "order",
            "'order' is not allowed; allowed: differences, coefficients, strengths, ranking",
        ),
        ("top", "3", "'3' is not a whole number from 1 to 1000000000; YAML reads it as text, write 3"),
        ("opened_to", "B", "'B' is not allowed; allowed: coordinator, target"),
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
            "60 is not a group of keys; write timeout, join_timeout, address, port, proxy below it",
        ),
        ("privacy.loss", 0, "0 is not a number from 0.001 to 100"),
        ("parties.target.policy.lifetime", 101, "101 is not a number from 0.001 to 100"),
        (
            "results.sources",
            "all",
            "'all' is not allowed; allowed: nothing, ranking, strengths, coefficients",
        ),
        ("parties", None, "null is not a value here; this key is needed"),
        (
            "parties.coordinator",
            "C",
            "'C' is not a group of keys; write name, identity, key, advertise, listen below it",
        ),
        ("parties.sources", [], "[] is not a list of at least one source"),
        (
            "parties.sources",
            {"name": "A"},
            "{'name': 'A'} is not a list of at least one source; start each item with '- '",
        ),
        ("parties.target.name", 7, f"7 {NUMBER}"),
        ("parties.target.name", "", "'' is not a name: it is empty, or starts or ends with a space"),
        ("parties.target.name", "B ", "'B ' is not a name: it is empty, or starts or ends with a space"),
        ("parties.target.id", [], "[] is not a column name, or a list of column names"),
        ("parties.target.id", ["a", "b", "a"], "lists 'a' more than once"),
        (
            "parties.target.missing",
            "drop",
            "'drop' is not a group of keys; write drop_rows, drop_columns, middle below it",
        ),
        ("parties.target.missing.drop_columns", 1.5, "1.5 is not a share from 0 to below 1"),
        ("parties.target.duplicates", "keep", "'keep' is not allowed; allowed: error, drop"),
        ("parties.target.csv.delimiter", ";;", '\';;\' is not one ASCII character, such as ";" or "\\t"'),
        ("parties.target.csv.decimal", ";", "';' is not allowed; allowed: ., ,"),
        (
            "parties.target.csv.encoding",
            "utf-9",
            "'utf-9' is not an encoding that Python knows, such as utf-8 or cp1252",
        ),
        (
            "parties.target.encode",
            ["a"],
            "['a'] is not an order of categories for each column, as in {grade: [low, high]}",
        ),
        (
            "parties.target.encode",
            {"a": ["b"]},
            "gives 'a' fewer than two categories, or one of them twice",
        ),
        (
            "parties.target.encode",
            {"a": ["b", " b"]},
            "gives 'a' fewer than two categories, or one of them twice",
        ),
        ("parties.target.table", 7, "7 is not a file path, or query and connection below it"),
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


def test_bad_values_inside_of_others() -> None:
    for key, value, said in (
        ("id", 7, f"id.0: 7 {NUMBER}"),
        ("id", "", "id.0: '' is not a column name: it is empty"),
        ("encode", {"a": ["b", 7]}, f"encode.a.1: 7 {NUMBER}"),
        (
            "encode",
            {"a": "b"},
            "encode.a: 'b' is not an order of categories for each column, as in {grade: [low, high]}; "
            "write [b]",
        ),
        (
            "csv",
            ";",
            "csv: ';' is not a group of keys; write delimiter, decimal, thousands, encoding below it",
        ),
    ):
        assert problem(plan_with({f"parties.target.{key}": value})) == f"plan: parties.target.{said}"


def test_rows_are_left_out_only_where_the_others_can_tell_which_are_there() -> None:
    why = "leaves out rows that others may have, and alignment: 'same' asks for the same everywhere; "
    for key, value in (("missing", "drop_rows"), ("missing", {"drop_rows": True}), ("duplicates", "drop")):
        said = problem(plan_with({f"parties.sources.0.{key}": value}))
        assert said.startswith(f"plan: parties.sources.0.{key}: ")
        assert said.endswith(f" {why}set alignment: intersect")
        load_plan(plan_with({f"parties.sources.0.{key}": value}, alignment="intersect"))
    for value in ("error", {}, {"drop_columns": 0.5}):
        load_plan(plan_with({"parties.sources.0.missing": value}))


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
        ("true", "true or false"),
        ("[a]", "a list"),
    ],
)
def test_column_names_that_yaml_does_not_read_as_text(plan_file: Path, written: str, kind: str) -> None:
    line = problem(plan_file, f"parties.target.features=[ok, {written}]")
    assert ": parties.target.features.1: " in line
    assert f"is not text but {kind}" in line
    assert line.endswith("put it in quotes")
    assert load_plan(plan_file, [f"parties.target.features=[ok, '{written}']"]).parties.target.features == (
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
            "keys here: name, identity, key, advertise, listen, id, exclude, features, encode, convert, "
            "missing, missing_flags, missing_values, duplicates, csv, table, policy, aligned, write_aligned, "
            "write_unaligned, alignment_key; did you mean 'features'?",
        ),
        ("parties.sources.0.alignment_key", "did you mean parties.target.alignment_key?"),
        (
            "parties.coordinator.table",
            "keys here: name, identity, key, advertise, listen; did you mean parties.target.table or",
        ),
        ("parties.sources.0.policy.min_row", "did you mean 'min_rows'?"),
        (
            "zzz",
            "confidence, purpose, retention, rows, alignment, normalise, parties, results, privacy",
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


def test_everything_wrong_is_said_at_once_and_names_file_or_override(plan_file: Path) -> None:
    plan_file.write_text(
        YAML.replace("coefficients", "strengths") + "strength: mean_abs\norder: up\n", "utf-8"
    )
    lines = problems(plan_file, "network.timeout=true", "netwrk.timeout=3", "oops", Z=None)
    assert len(lines) == 6
    starts = (
        "override 'oops': not of the form key=value",
        "table for 'Z': the plan has no data party of that name; data parties: B, A",
        f"{plan_file}: strength: 'mean_abs' needs",
        f"{plan_file}: order: 'up' is not allowed",
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
def test_bad_overrides(plan_file: Path, text: str, message: str) -> None:
    assert problem(plan_file, text).startswith(f"override {text!r}: {message}")


def test_the_last_override_of_a_key_is_the_one_blamed(plan_file: Path) -> None:
    line = problem(plan_file, "network.timeout=3", "network={timeout: true}")
    assert line.startswith("override 'network={timeout: true}': network.timeout: true")


def test_tables_for_parties_that_hold_none(plan_file: Path) -> None:
    (line,) = problems(plan_file, C=Path("c.csv"))
    assert line == "table for 'C': the plan has no data party of that name; data parties: B, A"


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"he": {"key_bits": 1024}},
            "plan: he.key_bits: 1024 is not 2048 or 3072; other sizes need he.insecure: true",
        ),
        (
            {"he": {"form": "literal"}},
            "plan: he.form: 'literal' is for reveal: differences only; leave it out",
        ),
        (
            {"he": {"pairs": "all"}, "reveal": "differences"},
            "plan: he.pairs: is gone: write he.form: literal for the paper to the letter, or take this out",
        ),
        (
            {"he": {"form": "literal", "scheme": "bfv"}, "reveal": "differences"},
            "plan: he.form: 'literal' is for he.scheme: paillier only; leave it out for 'bfv'",
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
    monkeypatch.setattr("mpc_spearman.config.contradictions.find_spec", lambda name: True)  # TenSEAL is here
    assert problem(plan_with({"protocol": "he"} | settings)) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top": 3}, "plan: top: 3 is for reveal: ranking only; leave it out"),
        (
            {"reveal": "strengths", "opened_to": "target"},
            "plan: opened_to: 'target' is for reveal: ranking only; leave it out",
        ),
        (
            {"reveal": "ranking", "opened_to": "target", "results": {"sources": "ranking"}},
            "plan: results.sources: 'ranking': of what is opened to the target alone (opened_to) the "
            "coordinator has nothing to pass on; use nothing",
        ),
        (
            {"reveal": "ranking", "opened_to": "target", "results": {"target": "nothing"}},
            "plan: results.target: 'nothing', but the order is opened to the target (opened_to)",
        ),
        (
            {"reveal": "ranking", "results": {"target": "strengths"}},
            "plan: results.target: 'strengths' is more than the coordinator has under reveal: 'ranking'; "
            "allowed: nothing, ranking",
        ),
        (
            {"reveal": "ranking", "strength": "mean_abs"},
            "plan: strength: 'mean_abs' needs the coefficients, and reveal: 'ranking' does not give them; "
            "use strength: mean, or reveal: coefficients",
        ),
    ],
)
def test_what_does_not_go_with_an_order(settings: dict[str, Any], message: str) -> None:
    assert problem(plan_with(settings)) == message


def test_the_defaults_of_an_order() -> None:
    plan = load_plan(plan_with({"reveal": "ranking"}))
    assert (plan.opened_to, plan.top, plan.informed) == ("coordinator", None, "C")
    assert (plan.results.target, plan.results.sources) == ("ranking", "nothing")
    theirs = load_plan(plan_with({"reveal": "ranking", "opened_to": "target", "top": 2}))
    assert (theirs.informed, theirs.results.target) == ("B", "ranking")


def test_ranking_under_he_names_mpc() -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(plan_with({"protocol": "he", "reveal": "ranking"}))
    text = str(caught.value)
    assert "reveal: 'ranking' compares values in private, which is for protocol: mpc, not 'he'" in text


def test_bfv_without_tenseal_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpc_spearman.config.contradictions.find_spec", lambda name: None)
    text = problem(plan_with({"protocol": "he", "he": {"scheme": "bfv"}}))
    assert text.startswith("plan: he.scheme: 'bfv' needs TenSEAL, which is not installed here")
    assert "Python 3.10" in text
    assert "he.scheme: paillier" in text


@pytest.mark.parametrize("key", ["parties.target.name", "parties.target.table"])
def test_names_that_the_locale_lacks(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields.os, "fsencode", lambda name: name.encode("latin-1"))
    with pytest.raises(PlanError, match=rf"{key}.* lacks: set PYTHONUTF8=1"):
        load_plan(MINIMAL, [f"{key}=医院"])
    load_plan(MINIMAL, [f"{key}=größe"])


@pytest.mark.parametrize(
    "changes",
    [
        {"reveal": "strengths"},
        {"results.target": "strengths"},
        {"results.target": "coefficients", "results.sources": "ranking"},
    ],
)
def test_noise_that_hides_single_values_is_for_granted_coefficients_alone(changes: dict[str, Any]) -> None:
    lines = problem(plan_with({"privacy.unit": "value", **changes}))
    assert lines.startswith("plan: privacy.unit: 'value' hides one value at a time")


@pytest.mark.parametrize("section", ["privacy", "parties.target.policy"])
@pytest.mark.parametrize("key", ["budget", "min_group", "min_rows_per_feature"])
def test_a_key_that_went_says_what_took_its_place(section: str, key: str) -> None:
    line = problem(plan_with({f"{section}.{key}": 1}))
    assert line.startswith(f"plan: {section}.{key}: is gone: ")
    assert ("policy.loss" if "policy" in section else "privacy.loss") in line
