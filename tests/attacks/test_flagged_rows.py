"""Attacks on the rows of a flag: on exact results, on published ones, and on as many as a budget allows.

Rounding alone stops those that need exact integers. The others need more numbers than the column's budget
allows, and succeed on rounded ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.attacks import few_rows, integrality, lattice, mean, programme, rows
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, encoded, flag, untied
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid


class Flagged:
    """A source with one flag, a target with untied columns, and what the target has of them."""

    def __init__(self, n: int, columns: int, ones: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        marks = flag(n, ones, rng)
        self.ones, self.rows = ones, np.flatnonzero(marks)
        self.y = untied(columns, n, rng)
        self.exact = coefficients(encoded(marks[None]), self.y)[0]
        self.grid = coefficient_grid(n)

    def received(self, *, exact: bool) -> tuple[Floats, Ints, int, float]:
        """What an attack takes: coefficients, own columns, ones, step."""
        published = self.exact if exact else self.grid.round(self.exact)
        return published, self.y, self.ones, 0.0 if exact else self.grid.step

    def found(self, rows: Ints | None) -> float:
        """How many of the flagged rows are among so many named."""
        return 0.0 if rows is None else float(np.isin(rows, self.rows).mean())


precisions = pytest.mark.parametrize("exact", [True, False], ids=["exact", "statistical"])


# ---- integers ----


@pytest.mark.parametrize("ones", [28, 173])
def test_exact_coefficients_tell_that_a_column_is_binary_and_its_class_sizes(ones):
    case = Flagged(500, 6, ones)
    assert integrality.class_size(case.exact, case.y) == ones
    assert integrality.class_size(-case.exact, case.y) == ones  # as a flag with 500 - ones


def test_published_coefficients_do_not():
    case = Flagged(500, 6, 28)
    assert integrality.class_size(case.grid.round(case.exact), case.y) is None
    other = untied(1, 500, np.random.default_rng(2))
    assert integrality.class_size(coefficients(other, case.y)[0], case.y) is None


# ---- means ----


def _means(n: int, sizes: tuple[int, int], columns: int) -> tuple[Floats, Ints, list[Ints]]:
    rng = np.random.default_rng(3)
    flags = [flag(n, ones, rng) for ones in sizes]
    y = untied(columns, n, rng)
    return coefficients(encoded(np.array(flags)), y), y, [np.flatnonzero(marks) for marks in flags]


@pytest.mark.parametrize(
    ("n", "sizes"), [(200, (17, 61)), pytest.param(500, (28, 173), marks=pytest.mark.long)]
)
def test_exact_means_of_two_flags_tell_their_class_sizes_and_every_coefficient(n, sizes):
    rho, y, _ = _means(n, sizes, 6)
    means = rho.mean(axis=0)
    possible = mean.possible_sizes(means[0], y[0])
    for value, column in zip(means[1:], y[1:], strict=True):
        possible = mean.possible_sizes(value, column, possible)
    assert possible == [sizes]
    assert np.abs(mean.take_apart(means, y, sizes) - rho).max() < 1e-15


def test_exact_means_over_two_sources_of_one_flag_each_name_the_flagged_rows():
    n, sizes = 200, (6, 61)
    rho, y, rows = _means(n, sizes, 40)
    assert mean.possible_sizes(rho.mean(axis=0)[0], y[0]) == [sizes]
    parts = mean.take_apart(rho.mean(axis=0), y, sizes)
    assert np.array_equal(programme.name_rows(parts[0], y, sizes[0]), rows[0])


def test_published_means_leave_all_class_sizes_possible():
    n, sizes = 120, (11, 37)
    rho, y, _ = _means(n, sizes, 6)
    grid = strength_grid(n, 2)
    possible = None
    for value, column in zip(grid.round(rho.mean(axis=0)), y, strict=True):
        possible = mean.possible_sizes(value, column, possible, grid.step)
    assert possible is not None
    assert len(possible) == n // 2 * (n // 2 + 1) // 2


def test_the_coarse_means_that_the_coordinator_opens_leave_nearly_all():
    n, sizes = 120, (11, 37)
    rng = np.random.default_rng(3)
    source = rank_columns([flag(n, ones, rng) for ones in sizes])
    target = rank_columns(list(rng.random((6, n))))
    code = Encoding.strengths(n, columns=2, sources=1, estimator="tie_corrected", defined=2, distinct=2)
    opened = (code.source_vector(source, "A") @ code.column_vectors(target, "B").T)[0]
    means, _ = code.decode(opened.tolist(), [False] * 6)
    # what its rounding, at random by one owner and the other, leaves unknown in all but a hundredth of cases
    step = 0.04 * strength_grid(n, 2).step
    possible = None
    for value, column in zip(means, target.matrix, strict=True):
        possible = mean.possible_sizes(value, column, possible, step)
    assert possible is not None
    assert sizes in possible
    assert len(possible) > 0.95 * (n // 2 * (n // 2 + 1) // 2)


# ---- few rows: rounding does not stop this one; min_group and the budget do ----


@pytest.mark.parametrize(
    ("n", "columns", "exact"),
    [(300, 6, True), (300, 8, False), pytest.param(2000, 6, True, marks=pytest.mark.long)],
)
def test_a_handful_of_coefficients_names_four_rows(n, columns, exact):
    case = Flagged(n, columns, 4)
    assert few_rows.name_rows(*case.received(exact=exact)) == [tuple(case.rows)]


def test_as_many_as_the_budget_allows_leave_thousands_of_sets():
    case = Flagged(200, 2, 4)  # H = 26 bits, 6 a coefficient: 2 of them
    assert len(few_rows.name_rows(*case.received(exact=False))) > 1000


def test_whoever_knows_two_thirds_of_a_flag_finds_the_rest_within_the_budget():
    # H = 91 bits: 7 coefficients of 6 bits. That is a promise to those who know little of the flag
    case = Flagged(1000, 7, 12)
    known = case.rows[:8].tolist()
    assert few_rows.name_rows(*case.received(exact=False), known) == [tuple(case.rows[8:])]


# ---- rare flags: nor does it stop this one; the budget does ----


@pytest.mark.parametrize(("n", "columns", "ones"), [(1000, 120, 20), (900, 150, 18)])
@precisions
def test_a_linear_programme_names_all_rows_of_a_rare_flag(n, columns, ones, exact):
    case = Flagged(n, columns, ones)
    assert case.found(programme.name_rows(*case.received(exact=exact))) == 1


def test_with_as_many_columns_as_the_budget_allows_neither_it_nor_a_linear_estimate_names_them():
    by_programme, by_estimate = [], []
    for seed in range(10):
        case = Flagged(1000, 11, 20, seed)
        published, y, ones, step = case.received(exact=False)
        by_programme.append(case.found(programme.name_rows(published, y, ones, step)))
        likely = rows.estimate(published[None], y, step)[0]
        by_estimate.append(case.found(np.argsort(-likely)[:ones]))
    # drawing rows finds 0.02 of them; the best guess of 20 names one more than that
    assert np.mean(by_programme) < 0.08
    assert np.mean(by_estimate) < 0.15


# ---- small tables: nor this one; the budget does ----


@precisions
def test_lattice_reduction_names_all_rows_of_a_dense_flag_in_a_small_table(exact):
    case = Flagged(30, 9, 14)  # as many columns as min_rows_per_feature allows beside the flag
    assert case.found(lattice.name_rows(*case.received(exact=exact))) == 1


@pytest.mark.long
def test_lattice_reduction_names_48_of_99_rows():
    case = Flagged(99, 30, 48)
    assert case.found(lattice.name_rows(*case.received(exact=True))) == 1
    assert lattice.name_rows(*case.received(exact=False)) is None


@precisions
def test_with_as_many_columns_as_the_budget_allows_reduction_finds_no_flag(exact):
    for seed in range(5):
        case = Flagged(40, 3, 20, seed)
        assert case.found(lattice.name_rows(*case.received(exact=exact))) < 1
