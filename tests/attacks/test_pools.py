"""Pooled testing on published numbers: within the budget, by columns that lie on few rows."""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.attacks import pools, programme, rows
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, encoded, flag, untied
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid


class Pooled:
    """A source with flags; a target whose yes-or-no questions were asked of few of all people."""

    def __init__(self, n: int, asked: int, questions: int, ones: tuple[int, ...], seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.ones = ones
        flags = np.array([flag(n, some, rng) for some in ones])
        those = rng.choice(n, asked, replace=False)
        self.y = encoded(np.array([flag(n, asked // 2, rng, those) for _ in range(questions)]))
        self.grid = coefficient_grid(n) if len(ones) == 1 else strength_grid(n, len(ones))
        self.published: Floats = self.grid.round(coefficients(encoded(flags), self.y).mean(axis=0))
        self.truth: Ints = flags[:, pools.where_columns_lie(self.y)]

    def attack(self) -> Ints | None:
        return pools.name_rows(self.published, self.y, self.ones, self.grid.step)


@pytest.mark.parametrize(
    ("n", "asked", "questions", "ones"),
    [
        (1000, 120, 38, 100),  # 464 bits, 6 a coefficient: the budget allows 38
        (1000, 60, 11, 20),  # 138 bits: 11
        (5000, 120, 50, 500),
    ],
)
def test_published_coefficients_name_every_flagged_row_among_those_asked(n, asked, questions, ones):
    case = Pooled(n, asked, questions, (ones,))
    assert len(case.truth[0]) > 0.9 * asked
    assert case.truth.any()
    assert np.array_equal(case.attack(), case.truth)


def test_published_means_over_two_flags_name_the_flagged_rows_of_both():
    case = Pooled(5000, 60, 45, (500, 750))
    assert case.truth.any(axis=1).all()
    assert np.array_equal(case.attack(), case.truth)


def test_published_coefficients_tell_most_of_the_ranks_of_those_asked():
    case = Pooled(1000, 40, 30, (100,))
    x = untied(100, 1000, np.random.default_rng(4))
    estimates = rows.estimate(case.grid.round(coefficients(x, case.y)), case.y, case.grid.step)
    those = pools.where_columns_lie(case.y)
    assert np.corrcoef(estimates[:, those].ravel(), x[:, those].ravel())[0, 1] > 0.8


def test_as_many_columns_that_lie_on_all_rows_do_not():
    rng = np.random.default_rng(2)
    marks, y = flag(1000, 100, rng), untied(38, 1000, rng)
    grid = coefficient_grid(1000)
    named = programme.name_rows(grid.round(coefficients(encoded(marks[None]), y)[0]), y, 100, grid.step)
    assert marks[named].mean() < 0.3  # drawing rows finds 0.1


def test_their_leverage_shows_it():
    case = Pooled(1000, 120, 38, (100,))
    spread = untied(38, 1000, np.random.default_rng(3))
    assert rows.leverage(case.y, case.grid.step).max() > 0.3
    assert rows.leverage(spread, case.grid.step).max() < 0.07
