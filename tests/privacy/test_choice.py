"""The strongest results alone: the choice and the values together keep the promise, with less noise."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from mpc_spearman.attacks.guess import exchanged, scales
from mpc_spearman.attacks.simulated import coefficients, untied
from mpc_spearman.errors import SetupError
from mpc_spearman.privacy import choice
from mpc_spearman.privacy.loss import guess, separation
from support.in_memory import run_in_memory
from support.plans import plan
from support.references import table

LOSS = 2.0


def chances(scores: np.ndarray, k: int, loss: float) -> dict[tuple[int, ...], float]:
    """The chance of every ordered choice: exponential draws without replacement (peeling)."""
    weights, orders = np.exp(scores / np.sqrt(k / (2 * loss))), {}
    for order in permutations(range(len(scores)), k):
        remaining, orders[order] = weights.sum(), 1.0
        for item in order:
            orders[order] *= weights[item] / remaining
            remaining -= weights[item]
    return orders


def test_the_choice_costs_at_most_its_loss_for_any_scores() -> None:
    """Rényi divergences of orders 1.5 to 20 between scores that all change by at most 1."""
    rng, highest = np.random.default_rng(1), 0.0
    for _ in range(200):
        m, k = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        scores = rng.uniform(0, 6, m)
        change = rng.choice([-1.0, 1.0], m)
        p, q = (np.array([*chances(table, k, 1.0).values()]) for table in (scores, scores + change))
        for alpha in (1.5, 2.0, 5.0, 20.0):
            divergence = np.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
            highest = max(highest, divergence / alpha)
    assert 0.3 < highest <= 1.0


def test_the_noise_of_chosen_values_hides_any_exchange_whatever_is_chosen() -> None:
    """The k numbers that an exchange changes most, in their noise, change by no more than half the loss."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, y = untied(4, 9, rng), untied(3, 9, rng)
        a, b, before = scales(x), scales(y), coefficients(x, y)
        for k in (1, 3, 12):
            least = min(k, a.spread * b.spread)
            s = np.outer(a.widths, b.widths) * np.sqrt(least / LOSS)
            for rows in combinations(range(9), 2):
                moved = np.square((coefficients(exchanged(x, rows), y) - before) / s).ravel()
                assert np.sort(moved)[-k:].sum() <= separation(LOSS / 2) ** 2


@pytest.fixture
def opendp() -> Any:
    return pytest.importorskip("opendp")


def test_the_strongest_are_chosen_and_close_ones_in_random_order(opendp: Any) -> None:
    assert choice.strongest(np.array([0.0, 50.0, 3.0, 60.0]), 2, 1.0).tolist() == [1, 3]
    close = [int(choice.strongest(np.array([3.0, 2.0]), 1, 0.5)[0]) for _ in range(300)]
    assert 0 < np.mean(close) < 0.5


def test_an_exact_choice_used_to_show_whose_row_is_whose(opendp: Any) -> None:
    """Two tables in which an exchange of rows swaps the two strongest: the choice alone tells them apart."""
    scores = np.array([5.0, 5.9]), np.array([5.9, 5.0])
    which = np.random.default_rng(4).integers(0, 2, 4000)
    exact = np.array([int(np.argmax(scores[table])) for table in which])
    chosen = np.array([int(choice.strongest(scores[table], 1, LOSS / 2)[0]) for table in which])
    assert (exact != which).all()  # always right
    assert (chosen != which).mean() <= guess(LOSS) + 5 * np.sqrt(0.25 / 4000)


STRONGEST = {"target": "coefficients", "sources": "strengths", "precision": "statistical", "strongest": 3}


def test_receivers_get_the_strongest_alone_and_are_told_so(opendp: Any) -> None:
    rng, n = np.random.default_rng(5), 500
    common = rng.normal(size=n)
    tables = {
        "A": table(a=common, b=rng.normal(size=n), c=rng.normal(size=n), flat=np.zeros(n)),
        "B": table(x=common + 0.1 * rng.normal(size=n), y=rng.normal(size=n), z=rng.normal(size=n),
                   u=rng.normal(size=n)),
    }  # fmt: skip
    outcome = run_in_memory(plan(results=STRONGEST), tables)
    target, source, hub = (outcome.result(party) for party in "BAC")
    shown = target.coefficients.notna()
    assert shown.to_numpy().sum() == 3
    assert shown.loc[("A", "a"), "x"]
    assert (target.noise.to_numpy() > 0).tolist() == shown.to_numpy().tolist()
    assert target.strengths.notna().tolist() == shown.any().tolist()
    assert source.strengths.notna().sum() == 3
    assert hub.coefficients.notna().to_numpy().sum() == 12
    assert any("only 3 of 16 pairs are here" in line for line in target.warnings)
    assert any("only 3 of 4 features are here" in line for line in source.warnings)
    assert not any("strongest with noise" in line for line in hub.warnings)
    pairs, ranking, _ = target.findings.sections()
    assert pairs.table.more == 0  # of undefined ones there are none to see
    assert ranking.lead.startswith("Strengths have no test")
    assert len(ranking.table.rows) == shown.any().sum()
    assert "mean ρ of the pairs that are here." in ranking.how_to_read
    p, q = target.pvalues.loc[("A", "a"), "x"], target.qvalues.loc[("A", "a"), "x"]
    assert q == pytest.approx(min(1, 12 * p))  # of 12 pairs without a constant column


def test_no_choice_is_made_if_all_results_are_asked_for() -> None:
    """Then copies are as those without `strongest`: the noise of all numbers, and no word of a choice."""
    rng, n = np.random.default_rng(6), 300
    tables = {
        "A": table(a=rng.normal(size=n), b=rng.normal(size=n)),
        "B": table(x=rng.normal(size=n), y=rng.normal(size=n)),
    }
    results = {**STRONGEST, "sources": "coefficients", "strongest": 4}
    outcome = run_in_memory(plan(results=results), tables)
    all_pairs = run_in_memory(plan(results={**results, "strongest": None}), tables).result("B")
    for party in "AB":
        result = outcome.result(party)
        assert result.noise.equals(all_pairs.noise)
        assert not any("chosen" in line for line in result.warnings)
        assert result.coefficients.notna().all(axis=None)


def test_a_library_that_the_coordinator_lacks_is_named_before_the_meeting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    with pytest.raises(SetupError, match=r"pip install 'mpc_spearman\[strongest\]'"):
        choice.check_installed()
