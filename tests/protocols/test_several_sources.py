"""Several sources: exact results in both protocols, and what is refused."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import load_plan
from mpc_spearman.errors import AlignmentError, PolicyError
from mpc_spearman.results.result import Result
from support.harness import ROOT
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, freed, plan
from support.references import check_result, table

N = 211
LEVELS = ("differences", "coefficients", "strengths")


def _tables() -> dict[str, pd.DataFrame]:
    """Three sources of unequal width, one with a single column, one constant; equal names in two of them."""
    rng = np.random.default_rng(17)
    common = rng.normal(size=N)
    return {
        "A1": table(
            age=common + rng.normal(size=N), visits=rng.poisson(2.0, N), same=np.full(N, 7), flag=common > 1
        ),
        "A2": table(age=rng.normal(size=N) - common),
        "A3": table(one=np.full(N, 1), two=np.full(N, 2.5)),
        "B": table(
            height=common + rng.normal(size=N),
            steps=rng.integers(0, 9, N),
            same=np.full(N, True),
            weight=rng.normal(size=N),
        ),
    }


TABLES = _tables()
SOURCES = ("A1", "A3", "A2")


def run(level: str, estimator: str, protocol: str) -> Result:
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    chosen = plan(*SOURCES, reveal=level, estimator=estimator, **PROTOCOLS[protocol])
    return run_in_memory(chosen, TABLES).result()


@pytest.mark.parametrize(
    ("protocol", "level", "estimator"), list(product(PROTOCOLS, LEVELS, ("tie_corrected", "paper")))
)
def test_results_are_those_of_the_pooled_tables(protocol, level, estimator):
    result = run(level, estimator, protocol)
    frames = {name: TABLES[name].drop(columns="id") for name in (*SOURCES, "B")}
    target = frames.pop("B")
    check_result(result, frames, target, level, estimator)
    matches = [
        re.match(r"\d+ constant columns? of (\w+):[^\n]*\n(.*)", text, re.DOTALL) for text in result.warnings
    ]
    warned = {match[1]: match[2].splitlines() for match in matches if match}
    if level != "strengths":  # warnings name the owner of each column
        assert warned == {"A1": ["same"], "A3": ["one", "two"], "B": ["same"]}


def test_the_example_plan_gives_the_rows_of_the_one_source_demo():
    two, one = (freed(ROOT / "configs" / f"{name}.yaml") for name in ("two_sources", "mpc"))
    assert [source.name for source in two.parties.sources] == ["A", "D"]
    ended = run_in_memory(two, {})
    both, demo = ended.result(), run_in_memory(one, {}).result()
    assert both.coefficients.index.tolist() == [
        ("A", "visits"),
        ("A", "outpatient"),
        ("D", "emergency"),
        ("D", "stays"),
    ]
    np.testing.assert_array_equal(both.coefficients, demo.coefficients)
    np.testing.assert_array_equal(both.strengths, demo.strengths)
    for source in "AD":
        own_errors = ended.results[source]
        pd.testing.assert_frame_equal(own_errors.coefficients, both.coefficients.loc[[source]])
        pd.testing.assert_series_equal(own_errors.strengths, both.strengths)
        assert own_errors.cost["party"].unique().tolist() == [source]
    assert ended.results["B"].coefficients.equals(both.coefficients)
    assert both.cost["party"].unique().tolist() == ["C", "B", "A", "D"]


def test_one_source_with_other_ids_is_named():
    tables = {"A1": TABLES["A1"], "A2": TABLES["A2"].iloc[::-1], "B": TABLES["B"]}
    ended = run_in_memory(plan("A1", "A2"), tables)
    assert not ended.results
    assert ended.classes() == dict.fromkeys(("C", "B", "A1", "A2"), "AlignmentError")
    # Who is told of it before it has looked itself names the other's error.
    own_errors = {party: str(error) for party, error in ended.errors.items() if not error.heard}
    assert own_errors
    assert own_errors.keys() <= {"A2", "B"}
    assert all(
        f"{party} and {'B' if party == 'A2' else 'A2'} hold" in text for party, text in own_errors.items()
    )


def test_different_numbers_of_rows_name_every_party():
    tables = {"A1": TABLES["A1"], "A2": TABLES["A2"][:100], "B": TABLES["B"]}
    ended = run_in_memory(plan("A1", "A2"), tables)
    assert ended.classes() == dict.fromkeys(("C", "B", "A1", "A2"), "AlignmentError")
    # Who is told of another's error before it has looked itself names that one's.
    own_errors = [
        str(error) for error in ended.errors.values() if isinstance(error, AlignmentError) and not error.heard
    ]
    assert own_errors
    assert all(words in text for text in own_errors for words in ("B has 211", "A1 has 211", "A2 has 100"))


@pytest.mark.parametrize("sources", [("A2", "A3"), ("A3", "A2")])
def test_a_mean_over_one_usable_column_needs_its_owners_consent(sources):
    """A2 has one column, A3 only constant ones: each strength is A2's coefficient. A2 does not allow that."""
    careful = load_plan(
        plan(*sources, reveal="strengths").model_dump(mode="json"),
        ["parties.sources.A2.policy.max_reveal=strengths", "parties.sources.A2.policy.min_columns=2"],
    )
    tables = {name: TABLES[name] for name in (*sources, "B")}
    ended = run_in_memory(careful, tables)
    error = ended.errors["A2"]
    assert isinstance(error, PolicyError)
    assert "party A2 does not allow this plan: its policy.min_columns: 2 or more" in str(error)
    assert not ended.results


# ---- all protocols compute the same ----


@pytest.mark.parametrize("estimator", ["tie_corrected", pytest.param("paper", marks=pytest.mark.long)])
@pytest.mark.parametrize("protocol", ["bfv", "paillier"])
def test_strengths_are_equal_bit_for_bit_across_protocols_and_runs(protocol, estimator):
    by_mpc, by_he, again = (run("strengths", estimator, one) for one in ("mpc", protocol, protocol))
    assert by_he.strengths.equals(by_mpc.strengths)
    assert again.strengths.equals(by_he.strengths)
    assert by_he.counts.equals(by_mpc.counts)
