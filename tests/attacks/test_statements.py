"""Attacks on what is stated about columns: each succeeds by an earlier rule, and fails now."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpc_spearman.attacks import rows
from mpc_spearman.attacks.guess import exchanged, scales
from mpc_spearman.attacks.simulated import coefficients, encoded, flag, untied
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import total
from mpc_spearman.engines.differences import Squares
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy import scales as grids
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import Scales, Stated, deviations
from mpc_spearman.statistics.strengths import mean_length
from support.in_memory import run_in_memory
from support.plans import plan
from support.references import table

LOSS = 2.0


def stated_length(columns: list[np.ndarray], **settings: Any) -> float:
    level = level_of(plan(**settings))
    return level.statements(rank_columns(columns), Role.SOURCE, np.ones(len(columns))).length


def length_of(columns: list[np.ndarray], chosen: np.ndarray) -> float:
    """The length of the mean in nine digits, as it used to be stated of the rows of a run."""
    return round(
        mean_length(rank_columns([column[chosen] for column in columns]), "mean", "tie_corrected"), 9
    )


def test_a_mean_over_chosen_rows_used_to_show_a_persons_flags() -> None:
    """Two people's flags are 1, 0 and 0, 1 or the reverse; one run has one of them, who is the 31st."""
    rng, old, new = np.random.default_rng(1), [], []
    for _ in range(30):
        columns = [rng.permutation(400) < 40, rng.permutation(400) < 80, rng.normal(size=400)]
        for column, value in zip(columns, (True, False), strict=False):
            column[[0, 1]] = value, not value
        other = [column.copy() for column in columns]
        for column in other[:2]:
            column[[0, 1]] = column[[1, 0]]
        other[2][[0, 1]] = other[2][[1, 0]]
        chosen = np.append(rng.choice(np.arange(2, 400), 30, replace=False), 0)
        old.append(length_of(columns, chosen) != length_of(other, chosen))
        settings = {"alignment": "intersect", "results": {"precision": "statistical"}}
        new.append(stated_length(columns, **settings) != stated_length(other, **settings))
    assert np.mean(old) > 0.9
    assert not any(new)


def test_the_length_of_a_mean_used_to_show_a_persons_flag() -> None:
    """Under ``unit: value`` two people exchange one column's values, which changes the length."""
    rng, old, new = np.random.default_rng(2), [], []
    settings = {"privacy": {"unit": "value"}, "results": {"precision": "statistical"}}
    for _ in range(30):
        columns = [rng.normal(size=100) for _ in range(3)]
        other = [exchanged(columns[0][None], (3, 8))[0], *columns[1:]]
        every = np.arange(100)
        old.append(length_of(columns, every) != length_of(other, every))
        new.append(stated_length(columns, **settings) != stated_length(other, **settings))
    assert np.mean(old) > 0.9
    assert not any(new)


def test_a_constant_column_used_to_show_a_flags_people_exactly_under_paper() -> None:
    """(2S + T_x + T_y)/2N with S = 0 and T_y = N: T_x says how many people have the flag."""
    n, ones = 200, 37
    tables = {
        "A": table(flag=np.arange(n) < ones, other=np.arange(n)),
        "B": table(flat=np.ones(n), y=np.arange(n)),
    }
    run_plan = plan(estimator="paper", results={"target": "coefficients", "precision": "statistical"})
    outcome = run_in_memory(run_plan, tables)
    exact, published = (outcome.result(party).coefficients.to_numpy()[0, 0] for party in "CB")
    sizes = np.arange(1, n // 2)
    terms = [total(n) - n * size * (n - size) for size in sizes]
    could_be = (np.array(terms) + total(n)) / (2 * total(n))
    assert sizes[np.isclose(could_be, exact, rtol=1e-12)].tolist() == [ones]
    noise = outcome.result("B").noise.to_numpy()
    assert (noise > 0).all()
    assert (abs(could_be - published) < 2 * noise[0, 0]).sum() > 5


@pytest.mark.parametrize("columns", [300, 600])
def test_a_target_used_to_read_a_flag_by_lying_about_its_scales(columns: int) -> None:
    """It invents columns, and states the smallest ranges and diameter that others take."""
    rng, n, ones = np.random.default_rng(3), 300, 60
    marks, y = flag(n, ones, rng), untied(columns, n, rng)
    x = encoded(marks[None])
    grid = grids.column_grid(n, "tie_corrected")
    lie = Stated((-3,) * columns, 0)
    assert "a diameter of" in str(grid.problem(lie, of_length_1=True))
    least = Stated(lie.ranges, lie.least_diameter)
    assert grid.problem(least, of_length_1=True) is None

    def named(stated: Scales) -> float:
        noise = deviations(scales(x), stated, LOSS)[0]
        published = coefficients(x, y)[0] + noise * rng.standard_normal(columns)
        return float(marks[np.argsort(-rows.estimate(published, y, noise))[:ones]].mean())

    used_to_be_taken = Scales(np.full(columns, 2 / np.sqrt(n) * 2**-0.25), 1.0)
    assert named(used_to_be_taken) > 0.95
    assert named(grid.scales(least)) < 0.75


def test_a_shifted_term_used_to_show_exact_bits_by_undefined_numbers() -> None:
    """Sums near what ranks can give were NaN beyond it; now they fall back, and noise hides where."""
    level, n = level_of(plan(results={"target": "coefficients", "precision": "statistical"})), 100
    column = Description(ties=(0,), factors=(1.0,))
    described = Descriptions((column,), column)
    shapes = Shapes(n, {Party("A", Role.SOURCE, 2): 1}, 1, descriptions=described)
    sums = total(n) + np.arange(-3, 4)[:, None, None] * 1000
    values = [
        level._bounded_coefficients(level.ratios(S, shapes), np.ones(1), shapes)[0, 0]  # type: ignore[attr-defined]
        for S in sums
    ]
    steps = np.abs(np.diff(values))
    assert np.isfinite(values).all()
    assert np.allclose(steps, 1000 / total(n))
    far = level._bounded_coefficients(np.array([[2.5]]), np.ones(1), shapes)  # type: ignore[attr-defined]
    assert far[0, 0] == 0
    noise = 12 / n / separation(LOSS)
    assert steps.max() < noise


def test_a_shifted_difference_used_to_show_a_large_element_of_a_peer() -> None:
    """At ``differences`` pairs with a difference that no ranks give had the ratio of Q = -1, which is 1."""
    run_plan = plan(reveal="differences", results={"target": "coefficients", "precision": "statistical"})
    level, n, rng = level_of(run_plan), 100, np.random.default_rng(1)
    column = Description(ties=(0,), factors=(1.0,))
    described = Descriptions((column,), column)
    shapes = Shapes(n, {Party("A", Role.SOURCE, 2): 1}, 1, descriptions=described)
    x, y = (2 * rng.permutation(n) - (n - 1) for _ in range(2))
    values, undefined = [], []
    for at_row in range(2 * (n - 1) - 3, 2 * (n - 1) + 4):
        opened = (x - y)[None]
        opened[0, 0] = at_row
        squares = Squares(1, 1, n)
        squares.add_basis(opened)
        values.append(level.ratios(squares.total, shapes)[0, 0])  # type: ignore[attr-defined]
        undefined.append(level.products(squares.total, shapes)[0, 0] > total(n))  # type: ignore[attr-defined]
    assert undefined[-3:] == [True] * 3
    assert np.abs(np.diff(values)).max() < 12 / n / separation(LOSS) / 10
