"""The noise is as wide as the proof requires: checked for all exchanges of rows in small tables."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from mpc_spearman.privacy.loss import epsilon, guess, separation
from mpc_spearman.privacy.scales import NOTHING, Scales, deviations, joined, summed

RHO = 2.0


def _ranks(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Make centred doubled ranks of normals, flags, few values and single rows that stand apart."""
    kinds = (
        lambda: rng.normal(size=n),
        lambda: rng.integers(0, 2, n),
        lambda: rng.integers(0, 4, n),
        lambda: np.arange(n) == rng.integers(n),
    )
    columns = [2 * rankdata(kinds[rng.integers(4)]()) - (n + 1) for _ in range(m)]
    return np.array(columns).astype(np.int64)


def _units(ranks: np.ndarray, estimator: str) -> list[float]:
    n = ranks.shape[1]
    squares = [float(x @ x) if estimator == "tie_corrected" else n * (n * n - 1) / 3 for x in ranks]
    return [1 / np.sqrt(square) if x.any() else 0.0 for x, square in zip(ranks, squares, strict=True)]


def _ratio(change: Any, s: np.ndarray) -> float:
    """ΣΔ²/s² over numbers with noise; those without must not change at all."""
    assert np.abs(change[s == 0]).max(initial=0) < 1e-9
    return float(np.square(change[s > 0] / s[s > 0]).sum())


@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
def test_no_exchange_of_two_rows_changes_all_numbers_together_by_more_than_mu(estimator: str) -> None:
    rng, highest, fine = np.random.default_rng(5), 0.0, 2**30
    for _ in range(60):
        n = int(rng.integers(5, 12))
        owners = [_ranks(rng, n, int(rng.integers(1, 5))) for _ in range(int(rng.integers(2, 4)))]
        scales = [Scales.of(ranks, _units(ranks, estimator)) for ranks in owners]
        exact = [ranks * np.array(_units(ranks, estimator))[:, None] for ranks in owners]
        *sources, target = scales
        count = sum(len(x) for x in exact[:-1])
        sums = [np.rint(fine * x.sum(0, keepdims=True) / count).astype(np.int64) for x in exact[:-1]]

        def numbers(tables: list[np.ndarray], count: int = count) -> tuple[np.ndarray, ...]:
            rho = np.vstack(tables[:-1]) @ tables[-1].T
            return rho, rho.sum(0) / count, np.abs(rho).sum(0) / count

        spreads = (
            deviations(joined(sources), target, RHO),
            deviations(summed(Scales.of(u, [1 / fine]) for u in sums), target, RHO)[0],
            deviations(joined(sources).absolute, target, RHO)[0] / count,
        )
        before = numbers(exact)
        for owner, (i, j) in ((o, pair) for o in range(len(exact)) for pair in combinations(range(n), 2)):
            tables = list(exact)
            tables[owner] = exact[owner].copy()
            tables[owner][:, [i, j]] = exact[owner][:, [j, i]]
            for old, new, s in zip(before, numbers(tables), spreads, strict=True):
                highest = max(highest, _ratio(new - old, s) / separation(RHO) ** 2)
    assert 0.2 < highest <= 1


def test_of_a_value_the_other_sides_columns_alone_count() -> None:
    rng = np.random.default_rng(6)
    x, y = _ranks(rng, 9, 3), _ranks(rng, 9, 4)
    a, b = (Scales.of(ranks, _units(ranks, "tie_corrected")) for ranks in (x, y))
    s = deviations(a, b, RHO, others=4)
    units = np.outer(_units(x, "tie_corrected"), _units(y, "tie_corrected"))
    for p, (i, j) in ((p, pair) for p in range(3) for pair in combinations(range(9), 2)):
        moved = x.copy()
        moved[p, [i, j]] = x[p, [j, i]]
        assert _ratio((moved @ y.T - x @ y.T) * units, s) <= separation(RHO) ** 2


def test_scales_are_rounded_up_to_a_quarter_of_a_doubling() -> None:
    scales = Scales.of(np.array([[0, 3, 1], [2, 2, 2]]), [1.0, 1.0])
    assert scales.ranges == (7, NOTHING)  # 2^(6/4) < 3 <= 2^(7/4)
    assert scales.spread == 1 == joined([scales]).spread
    assert Scales.of(np.array([[0, 4]]), [1.0]).ranges == (8,)


@pytest.mark.parametrize(
    ("ranges", "diameter", "fits"),
    [((0,), 0, True), ((-16,), 0, False), ((9,), 0, False), ((0,), -1, False), ((0, 0), 5, False)],
)
def test_scales_that_no_columns_have_are_named(ranges: tuple[int, ...], diameter: int, fits: bool) -> None:
    assert (Scales(ranges, diameter).problem(0.1, 2**0.5) is None) == fits


def test_a_loss_of_two_means_what_the_docs_state() -> None:
    assert [round(guess(loss), 2) for loss in (0.02, 2, 4)] == [0.54, 0.84, 0.92]
    assert [round(epsilon(loss), 1) for loss in (0.02, 2)] == [0.9, 11.7]
