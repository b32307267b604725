"""The noise is as wide as the proof requires: checked for all exchanges of rows in small tables."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from mpc_spearman.privacy import scales as grids
from mpc_spearman.privacy.loss import guess, separation
from mpc_spearman.privacy.scales import SLACK, Scales, Stated, add_scales, deviations, diameter, stack_scales

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


def _scales(ranks: np.ndarray, estimator: str = "tie_corrected") -> Scales:
    grid = grids.column_grid(ranks.shape[1], estimator)
    return grid.scales(grid.stated(ranks, _units(ranks, estimator)))


def _of_sum(ranks: np.ndarray, units: list[float]) -> Scales:
    grid, width = grids.sum_grid(ranks.shape[1], len(ranks)), grids.width_of_sum(ranks, units)
    return Scales(np.array([grid.width(grid.step(width)) if any(units) else 0.0]))


def _ratio(change: Any, s: np.ndarray) -> float:
    """ΣΔ²/s² over numbers with noise; those without must not change at all."""
    assert np.abs(change[s == 0]).max(initial=0) < 1e-9
    return float(np.square(change[s > 0] / s[s > 0]).sum())


@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
def test_no_exchange_of_two_rows_changes_all_numbers_beyond_mu(estimator: str) -> None:
    rng, highest = np.random.default_rng(5), 0.0
    for _ in range(60):
        n = int(rng.integers(5, 12))
        owners = [_ranks(rng, n, int(rng.integers(1, 5))) for _ in range(int(rng.integers(2, 4)))]
        scales = [_scales(ranks, estimator) for ranks in owners]
        exact = [ranks * np.array(_units(ranks, estimator))[:, None] for ranks in owners]
        *sources, target = scales
        count = sum(len(x) for x in exact[:-1])
        sums = [_of_sum(ranks, _units(ranks, estimator)) for ranks in owners[:-1]]

        def numbers(tables: list[np.ndarray], count: int = count) -> tuple[np.ndarray, ...]:
            rho = np.vstack(tables[:-1]) @ tables[-1].T
            return rho, rho.sum(0) / count, np.abs(rho).sum(0) / count

        spreads = (
            deviations(stack_scales(sources), target, RHO),
            deviations(add_scales(sums), target, RHO)[0] / count,
            deviations(add_scales([stack_scales(sources)]), target, RHO)[0] / count,
        )
        before = numbers(exact)
        for owner, (i, j) in ((o, pair) for o in range(len(exact)) for pair in combinations(range(n), 2)):
            tables = list(exact)
            tables[owner] = exact[owner].copy()
            tables[owner][:, [i, j]] = exact[owner][:, [j, i]]
            for old, new, s in zip(before, numbers(tables), spreads, strict=True):
                highest = max(highest, _ratio(new - old, s) / separation(RHO) ** 2)
    assert 0.6 < highest <= 1


def test_under_unit_value_only_the_other_sides_columns_count() -> None:
    rng = np.random.default_rng(6)
    x, y = _ranks(rng, 9, 3), _ranks(rng, 9, 4)
    a, b = _scales(x), _scales(y)
    s = deviations(a, b, RHO, numbers_of_value=4)
    units = np.outer(_units(x, "tie_corrected"), _units(y, "tie_corrected"))
    for p, (i, j) in ((p, pair) for p in range(3) for pair in combinations(range(9), 2)):
        moved = x.copy()
        moved[p, [i, j]] = x[p, [j, i]]
        assert _ratio((moved @ y.T - x @ y.T) * units, s) <= separation(RHO) ** 2


@pytest.mark.parametrize("n", [3, 10, 99, 100, 4406, 1_000_000])
def test_an_untied_column_states_its_range_to_a_sixty_fourth(n: int) -> None:
    grid = grids.column_grid(n, "tie_corrected")
    assert [grid.step(grids.untied_range(n) * times) for times in (1, 1.015, 1.016)] == [0, 0, 1]
    assert grid.width(0) == pytest.approx(grids.untied_range(n) * SLACK)
    assert grid.width(400) == pytest.approx(np.sqrt(2) * SLACK)


def test_a_constant_vector_has_no_range_and_counts_in_no_diameter() -> None:
    ranks = np.array([np.arange(-9, 10, 2), np.zeros(10, dtype=int), np.arange(-9, 10, 2)])
    scales = _scales(ranks)
    assert scales.widths[1] == 0 < scales.widths[0]
    assert scales.spread == 2
    assert stack_scales([scales, scales]).spread == 4


@pytest.mark.parametrize("m", [1, 3, 20])
def test_the_diameter_is_that_of_the_two_rows_that_lie_farthest_apart(m: int) -> None:
    rng = np.random.default_rng(m)
    for n in (5, 40, 700):
        vectors, factors = _ranks(rng, n, m), rng.random(m)
        rows = (vectors * factors[:, None]).T
        apart = np.square(rows[:, None] - rows).sum(axis=2).max()
        assert diameter(vectors, factors) == pytest.approx(apart, rel=1e-12)
        shuffled = vectors[:, rng.permutation(n)]
        assert diameter(shuffled, factors) == pytest.approx(diameter(vectors, factors), rel=1e-12)


def test_with_too_many_rows_the_diameter_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "_EXACT", 30)
    monkeypatch.setattr(grids, "_FARTHEST", 20)
    rng, loose = np.random.default_rng(1), []
    for _ in range(50):
        vectors, factors = _ranks(rng, 60, 4), np.ones(4)
        exact = np.square(vectors.T[:, None] - vectors.T).sum(axis=2).max()
        loose.append(diameter(vectors, factors) / exact)
        assert diameter(vectors[:, ::-1], factors) == pytest.approx(loose[-1] * exact, rel=1e-12)
    assert 1 - 1e-12 < min(loose) < max(loose) < 1.6


def test_flags_of_many_rows_stay_within_the_largest_possible_diameter() -> None:
    """A tenth of the rows is far from 0, but all of these rows are equal."""
    n = 25_000
    flag = np.where(np.arange(n) < n // 10, n - n // 10, -(n // 10))
    assert diameter(flag[None], np.array([1 / n])) == pytest.approx(1, rel=1e-12)
    ranks = np.array([np.arange(1 - n, n, 2), flag])
    stated = grids.column_grid(n, "tie_corrected").stated(
        ranks, 1 / np.sqrt(np.square(ranks.astype(float)).sum(axis=1))
    )
    assert grids.column_grid(n, "tie_corrected").problem(stated, of_length_1=True) is None


@pytest.mark.parametrize(
    ("ranges", "diameter", "fits"),
    [
        ((0,), 0, True),
        ((-3,), 0, True),
        ((-4,), 0, False),
        ((2000,), 0, False),
        ((0,), -11, False),
        ((0, 0), 5, False),
        ((0,) * 12, 4, True),  # a sixth of 12 columns without ties
        ((0,) * 12, 3, False),
    ],
)
def test_scales_that_no_columns_have_are_named(ranges: tuple[int, ...], diameter: int, fits: bool) -> None:
    grid = grids.column_grid(100, "tie_corrected")
    assert (grid.problem(Stated(ranges, diameter), of_length_1=True) is None) == fits


def test_honest_scales_are_never_refused() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        n = int(rng.integers(3, 14))
        ranks = _ranks(rng, n, int(rng.integers(1, 7)))
        for estimator in ("tie_corrected", "paper"):
            grid = grids.column_grid(n, estimator)
            stated = grid.stated(ranks, _units(ranks, estimator))
            for statement in (stated, stated.with_untied()):
                assert grid.problem(statement, of_length_1=estimator == "tie_corrected") is None


def epsilon(loss: float, delta: float = 1e-6) -> float:
    """Return an ε for which ρ-zCDP is (ε, δ)-differential privacy.

    The least over α > 1 of αρ + (ln(1/δ) + (α - 1)·ln(1 - 1/α) - ln α)/(α - 1): C. Canonne, G. Kamath, T.
    Steinke, arXiv 2004.00010, section 2.3.
    """
    from scipy.optimize import minimize_scalar

    def bound(log: float) -> float:
        order = 1 + math.exp(log)
        slack = (order - 1) * math.log1p(-1 / order) - math.log(order) - math.log(delta)
        return order * loss + slack / (order - 1)

    return max(0.0, float(minimize_scalar(bound, bounds=(-10, 20), method="bounded").fun))


def test_a_loss_of_two_means_what_the_docs_state() -> None:
    assert [round(guess(loss), 2) for loss in (0.02, 2, 4)] == [0.54, 0.84, 0.92]
    assert [round(epsilon(loss), 1) for loss in (0.02, 2)] == [0.9, 11.7]
