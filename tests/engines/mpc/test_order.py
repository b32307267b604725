"""The order alone: compared values against plain integers, whole runs against the plaintext's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.engines.computation import LARGEST
from mpc_spearman.engines.mpc.order import Comparison
from mpc_spearman.errors import BoundError, NotRevealed, PlanError
from mpc_spearman.levels.ranking import MAX_COMPARED, Ranking
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.privacy.charges import Charge
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.run import Run
from mpc_spearman.statistics.reference import reference
from support.in_memory import play_connected, run_in_memory
from support.plans import mapping, plan
from support.references import table

ESTIMATORS = ("tie_corrected", "paper")


def shares(values: Sequence[int], seed: int) -> dict[str, np.ndarray]:
    """Return additive shares of values: two are uniform."""
    c, b = np.random.default_rng(seed).integers(-(2**63), 2**63, (2, len(values)), dtype=np.int64)
    return {"C": c, "B": b, "A": np.array(values, dtype=np.int64) - c - b}


def compared(cases: Sequence[Sequence[int]], ks: Sequence[int] | None = None) -> list[list[bool]]:
    """Return of each list of values "q not less than r" of its pairs, or with `ks` its k greatest."""

    def play(run: Run) -> list[Any]:
        comparison, outcomes = Comparison(run), []
        for seed, values in enumerate(cases):
            share = shares(values, seed)[run.roster.me.name]
            bits = comparison.strongest(share, ks[seed]) if ks else comparison.before(share)
            outcomes.append(comparison.open(bits))
        return outcomes

    opened = play_connected(plan(reveal="ranking"), play)
    assert all(bits is None for party in "AB" for bits in opened[party])
    return [bits.tolist() for bits in opened["C"]]


UNDEFINED = -(LARGEST + 1)


def adversarial() -> list[list[int]]:
    """Return lists of 1, 2, 3 and more values: equal, neighbouring, extreme, alternating, undefined."""
    near = [0, 1, -1, 2, -2, 3]
    extreme = [LARGEST, -LARGEST, UNDEFINED, 0, LARGEST - 1, 1 - LARGEST, UNDEFINED, LARGEST]
    powers = [sign * (1 << e) + d for e in range(0, 62, 4) for sign in (1, -1) for d in (-1, 0, 1)]
    return [
        [5],
        [UNDEFINED],
        *([a, b] for a in (LARGEST, 0, -LARGEST, UNDEFINED) for b in (LARGEST, 1, 0, -1, UNDEFINED)),
        *([a, b, c] for a in (LARGEST, 0, UNDEFINED) for b in (0, 1) for c in (-LARGEST, 0, LARGEST)),
        [0] * 7,
        [UNDEFINED] * 4,
        [LARGEST] * 3 + [-LARGEST] * 3,
        near,
        near[::-1],
        extreme,
        extreme[::-1],
        list(range(-9, 9)),
        list(range(9, -9, -1)),
        powers,
    ]


def random_cases() -> list[list[int]]:
    rng, cases = np.random.default_rng(12), []
    for size in (2, 3, 4, 5, 8, 13):
        for bits in (1, 2, 8, 31, 32, 33, 61):
            cases.append(rng.integers(-(2**bits), 2**bits, size).tolist())
    return [*cases, rng.integers(-LARGEST, LARGEST, 100).tolist(), rng.integers(-3, 3, 100).tolist()]


def test_values_compare_as_plain_integers_do():
    cases = [*adversarial(), *random_cases()]
    for values, order in zip(cases, compared(cases), strict=True):
        m = len(values)
        assert order == [values[q] >= values[r] for q in range(m) for r in range(q + 1, m)]


def test_the_greatest_are_those_of_plain_integers():
    cases = [values for values in (*adversarial(), *random_cases()[::4]) if len(values) > 1]
    ks = [(1, len(values) // 2, len(values) - 1)[i % 3] for i, values in enumerate(cases)]
    for values, k, chosen in zip(cases, ks, compared(cases, ks), strict=True):
        by_value = sorted(range(len(values)), key=lambda q: -values[q])  # stable: of equal ones the first
        assert chosen == [q in by_value[:k] for q in range(len(values))]


# ---- whole runs ----


def _tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(23)
    common = rng.normal(size=61)
    height = common + rng.normal(size=61)
    return {
        "A": table(age=common + rng.normal(size=61), visits=rng.poisson(2.0, 61), same=np.full(61, 7)),
        "D": table(car=rng.integers(0, 2, 61), age=rng.normal(size=61) - common),
        "E": table(one=np.full(61, 3)),
        "B": table(
            smoker=(rng.normal(size=61) > 0).astype(int),
            flat=np.full(61, 1),
            height=height,
            same=height**3,
            steps=rng.integers(0, 9, 61),
            plain=np.full(61, 2.5),
            weight=-common,
        ),
    }


TABLES = _tables()
SOURCES = [("A",), ("A", "D"), ("E", "D", "A")]


def ran(sources: Sequence[str], **settings: Any) -> Any:
    tables = {name: TABLES[name] for name in (*sources, "B")}
    return run_in_memory(plan(*sources, reveal="ranking", **settings), tables)


def truth(sources: Sequence[str], **settings: Any) -> list[str]:
    frames = {name: TABLES[name].drop(columns="id") for name in (*sources, "B")}
    features = reference({name: frames[name] for name in sources}, frames["B"], **settings).ranking["feature"]
    return [str(name) for name in features]


@pytest.mark.parametrize("order", ["descending", "ascending"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sources", SOURCES, ids="+".join)
def test_the_order_is_that_of_the_plaintext(sources, estimator, order):
    how = {"estimator": estimator, "order": order}
    expected = truth(sources, **how)
    outcome = ran(sources, results={"sources": "ranking"}, **how)
    for party in ("C", "B", *sources):
        ranking = outcome.result(party).ranking
        assert ranking.columns.tolist() == ["position", "feature"]
        assert ranking["feature"].tolist() == expected
        assert ranking["position"].tolist() == list(range(1, 8))
        for part in ("strengths", "counts", "coefficients"):
            with pytest.raises(NotRevealed):
                getattr(outcome.result(party), part)
    if estimator == "tie_corrected":
        assert expected[-2:] == ["flat", "plain"]


@pytest.mark.parametrize(("sources", "k"), [(("A",), 1), (("A", "D"), 3), (("A",), 6)])
def test_the_strongest_are_opened_as_a_set(sources, k):
    expected, outcome = truth(sources), ran(sources, top=k)
    for party in ("C", "B"):
        ranking = outcome.result(party).ranking
        names = list(TABLES["B"].columns[1:])
        first = ranking[ranking["position"] == 1]["feature"].tolist()
        assert first == [name for name in names if name in expected[:k]]  # in the table's order
        assert ranking["position"].tolist() == [1] * k + [k + 1] * (7 - k)


@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize("sources", SOURCES[:2], ids="+".join)
def test_the_order_can_be_opened_to_the_target_alone(sources, top):
    outcome = ran(sources, opened_to="target", top=top)
    expected, ranking = truth(sources), outcome.result("B").ranking
    if top is None:
        assert ranking["feature"].tolist() == expected
    else:
        assert set(ranking[ranking["position"] == 1]["feature"]) == set(expected[:top])
    for party in ("C", *sources):
        with pytest.raises(NotRevealed):
            _ = outcome.result(party).ranking


@pytest.mark.parametrize("opened_to", ["coordinator", "target"])
def test_one_column_of_the_target_has_an_order_without_a_comparison(opened_to):
    tables = {"A": TABLES["A"], "B": TABLES["B"][["id", "height"]]}
    ranking_plan = plan(reveal="ranking", opened_to=opened_to)
    ranking = run_in_memory(ranking_plan, tables).result(ranking_plan.informed).ranking
    assert (ranking["position"].tolist(), ranking["feature"].tolist()) == ([1], ["height"])


def test_top_must_be_less_than_the_number_of_features():
    message = "top: 7 leaves out none of the target's 7 features"
    errors = [error for error in ran(("A",), top=7).errors.values() if message in str(error)]
    assert {type(error) for error in errors} == {PlanError}


def test_too_many_columns_to_compare_are_refused():
    source = plan(reveal="ranking").roster("C").sources[0]
    level = Ranking(plan(reveal="ranking"))
    level.check(Shapes(61, {source: 2}, MAX_COMPARED))
    with pytest.raises(BoundError, match=f"{MAX_COMPARED + 1:,} features; it takes at most {MAX_COMPARED:,}"):
        level.check(Shapes(61, {source: 2}, MAX_COMPARED + 1))


def test_a_ledger_says_that_the_coordinator_was_told_nothing(tmp_path):
    for opened_to, grant in (("coordinator", "ranking"), ("target", "nothing")):
        content = mapping(reveal="ranking", opened_to=opened_to)
        content["parties"]["target"]["policy"]["ledger"] = str(Ledger.begin(tmp_path / opened_to).path)
        run_in_memory(load_plan(content), {name: TABLES[name] for name in "AB"}).result("B")
        (charge,) = (entry for entry in Ledger(tmp_path / opened_to).entries() if isinstance(entry, Charge))
        assert charge.run.told["C"].what == grant


# ---- what no order is ----


def concluded(bits: Sequence[bool], m: int, **settings: Any) -> Any:
    level = Ranking(plan(reveal="ranking", **settings))
    (source,) = level.plan.roster("C").sources
    sizes = Shapes(61, {source: 2}, m, defined={source: 2})
    numbers = level.conclude(np.array(bits), sizes)
    return numbers["positions"].tolist(), level.warnings(numbers, sizes)


def test_comparisons_that_contradict_each_other_are_counted_with_a_warning():
    circle, warnings = concluded([True, False, True], 3)  # 0 before 1, 2 before 0, 1 before 2
    assert circle == [1, 1, 1]
    assert any("contradict each other" in warning for warning in warnings)
    order, warnings = concluded([True, False, False], 3)
    assert order == [2, 3, 1]
    assert not any("contradict" in warning for warning in warnings)


def test_a_wrong_number_of_strongest_gives_a_warning():
    assert concluded([True, True, False, True], 4, top=3)[0] == [1, 1, 4, 1]
    wrong, warnings = concluded([True, False, False, True], 4, top=3)
    assert wrong == [1, 3, 3, 1]
    assert any("contradict each other" in warning for warning in warnings)
