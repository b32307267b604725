from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.privacy.precision import Grid, coefficient_grid, strength_grid

#: Every δ there can be, from the coarsest down.
STEPS = [digit * 10**power for power in range(2, 12) for digit in (1, 2, 5)]
grids = st.sampled_from(STEPS).map(Grid)
values = st.floats(-1.2, 1.2)


def largest(square: int) -> Fraction:
    """By definition: the largest δ <= 1/100 of the form {1, 2, 5}·10^-j with δ² <= 1/square."""
    deltas = [Fraction(digit, 10**j) for j in range(1, 14) for digit in (1, 2, 5)]
    return max(d for d in deltas if d <= Fraction(1, 100) and d * d * square <= 1)


@given(st.integers(1, 3_024_616))
def test_the_grid_of_coefficients_is_the_coarsest_that_is_fine_enough(n):
    assert Fraction(1, coefficient_grid(n).steps) == largest(100 * n)


@given(st.integers(1, 3_024_616), st.integers(1, 10_000))
def test_the_grid_of_strengths_is_the_coarsest_that_is_fine_enough(n, k):
    assert Fraction(1, strength_grid(n, k).steps) == largest(64 * n * k)


@pytest.mark.parametrize(
    ("n", "step"),
    [(3, "0.01"), (100, "0.01"), (101, "0.005"), (400, "0.005"), (401, "0.002"), (2500, "0.002"),
     (2501, "0.001"), (10_000, "0.001"), (10_001, "0.0005"), (20_190, "0.0005"), (1_000_000, "0.0001")],
)  # fmt: skip
def test_bounds_that_are_met_exactly_are_decided_on_integers(n, step):
    assert str(coefficient_grid(n)) == step
    assert coefficient_grid(np.int64(n)) == coefficient_grid(n)


@pytest.mark.parametrize("steps", STEPS)
def test_decimals_write_every_point_in_full(steps):
    grid = Grid(steps)
    for i in (1, 3, 7, steps - 1):
        point = Decimal(i) / Decimal(steps)
        assert Decimal(f"{i / steps:.{grid.decimals}f}") == point
    assert grid.decimals == -Decimal(str(grid)).as_tuple().exponent
    assert grid.step == float(str(grid))


@given(grids, st.lists(values, min_size=1))
def test_rounding_gives_the_float_nearest_to_the_nearest_decimal(grid, numbers):
    for number, rounded in zip(numbers, grid.round(np.array(numbers)).tolist(), strict=True):
        clipped = Fraction(max(-1.0, min(1.0, number)))
        multiple = round(Fraction(rounded) * grid.steps)
        assert rounded == float(f"{multiple / grid.steps:.{grid.decimals}f}")
        # half a step, but for the last place of the product
        assert abs(Fraction(multiple, grid.steps) - clipped) <= Fraction(1, 2 * grid.steps) + Fraction(
            1, 2**52
        )
        assert math.copysign(1, rounded) == 1 or rounded != 0
        assert -1 <= rounded <= 1


def test_rounded_values_print_as_short_decimals():
    assert Grid(100).round(np.array([0.031, 0.29, -0.57])).tolist() == [0.03, 0.29, -0.57]
    assert Grid(100).round(np.array([35 * 0.01])).tolist() == [0.35] != [35 * 0.01]


def test_ties_go_to_the_even_point_and_undefined_values_stay():
    rounded = Grid(2).round(np.array([0.25, 0.75, -0.25, -0.75, np.nan, 7.0]))
    np.testing.assert_array_equal(rounded, [0.0, 1.0, 0.0, -1.0, np.nan, 1.0])
    assert not np.signbit(rounded[2])


@given(grids, st.lists(values, min_size=1))
def test_rounded_values_lie_on_the_grid_and_stay_where_they_are(grid, numbers):
    once = grid.round(np.array(numbers))
    assert grid.holds(once).all()
    np.testing.assert_array_equal(grid.round(once), once)
    assert not grid.holds(np.nextafter(once, 2)).any()


def test_what_lies_beside_the_grid_is_told():
    told = Grid(100).holds(np.array([0.35, 35 * 0.01, 0.355, 1.0, 1.01, np.nan]))
    assert told.tolist() == [True, False, False, True, False, True]


@given(grids)
def test_one_counts_as_half_a_step_less_in_a_pvalue(grid):
    below = float(1 - Fraction(1, 2 * grid.steps))
    inner = 1 - grid.step
    np.testing.assert_array_equal(
        grid.within(np.array([1.0, -1.0, inner, 0.0, np.nan])), [below, -below, inner, 0.0, np.nan]
    )


@pytest.mark.parametrize("steps", [0, -100, 3, 120, 250])
def test_other_grids_are_refused(steps):
    with pytest.raises(ValueError, match="1, 2 or 5"):
        Grid(steps)
