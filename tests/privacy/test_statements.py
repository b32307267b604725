"""Statements come from the whole table, and no vector of a run exceeds them, whatever rows it uses."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from mpc_spearman.config import load_plan
from mpc_spearman.data.adjusted import adjusted
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import Scales, add_scales, deviations
from mpc_spearman.privacy.statements import Statements
from mpc_spearman.statistics.reading import weakened
from support.plans import plan

SOURCE, TARGET = Party("A", Role.SOURCE, 2), Party("B", Role.TARGET, 1)


def made_columns(rng: np.random.Generator, n: int, m: int) -> list[np.ndarray]:
    """Columns of normals, flags, rare flags and few values."""
    kinds = (
        lambda: rng.normal(size=n),
        lambda: rng.integers(0, 2, n),
        lambda: np.isin(np.arange(n), rng.choice(n, 2, replace=False)).astype(int),
        lambda: rng.poisson(0.5, n),
    )
    return [kinds[rng.integers(4)]() for _ in range(m)]


class Side:
    """One owner: run_plan statements about a whole table, and run_plan vectors of some rows."""

    def __init__(
        self,
        run_plan: Any,
        role: Role,
        columns: list[np.ndarray],
        rows: np.ndarray,
        m: int,
        covariates: list[np.ndarray] | None = None,
    ) -> None:
        self.level, self.role = level_of(run_plan), role
        if covariates:
            whole: Any = adjusted(rank_columns([*columns, *covariates]), len(covariates))
            self.ranks = whole.of_rows(rows)
        else:
            whole, self.ranks = (
                rank_columns([column[some] for column in columns]) for some in (slice(None), rows)
            )
        shapes = Shapes(len(rows), {SOURCE: m}, m)
        self.stated: Statements = self.level.statements(whole, role, np.ones(len(columns)))
        self.factors = self.level.factors(self.ranks, role, shapes, self.stated, np.ones(self.ranks.m))
        contribution = self.level.contribution(self.ranks, role, shapes, self.stated, self.factors)
        self.vectors, self.shapes = contribution.vectors.astype(float), shapes
        self.sent = self.level.stated_scales(self.stated, role)

    def scales(self, field: str = "ranges") -> Scales:
        grid = self.level.grid(self.role, field, self.ranks.n, self.ranks.m, self.stated.defined)
        return grid.scales(self.sent[field])

    def unit(self) -> np.ndarray:
        """Its columns of the run as C passes them on."""
        norms = np.sqrt(np.array(self.ranks.squares, dtype=float))
        scaled = self.factors.columns / np.where(norms, norms, 1)
        return self.ranks.matrix * scaled[:, None]


def most(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> float:
    """The largest Σ Δ²/s² over exchanges of two rows; a number without noise must not change."""
    squares = [0.0]
    for i, j in combinations(range(a.shape[1]), 2):
        change = np.outer(a[:, i] - a[:, j], b[:, j] - b[:, i])
        assert np.abs(change[s == 0]).max(initial=0) == 0
        squares.append(float(np.square(change[s > 0] / s[s > 0]).sum()))
    return max(squares)


@pytest.mark.parametrize("adjusting", [False, True], ids=["ranks", "residuals"])
@pytest.mark.parametrize("level", ["coefficients", "strengths", "explained", "canonical"])
def test_no_exchange_in_any_rows_changes_numbers_by_more_than_mu(level: str, adjusting: bool) -> None:
    run_plan = plan(
        reveal=level, alignment="intersect", results={"target": level, "precision": "statistical"}
    )
    rng, changes, bound = np.random.default_rng(3), [], separation(run_plan.privacy.loss) ** 2
    for _ in range(150 if level in ("coefficients", "strengths") else 40):
        n, m = int(rng.integers(8, 40)), int(rng.integers(1, 4))
        tables = made_columns(rng, n, m), made_columns(rng, n, m)
        rows = rng.permutation(n)[: int(rng.integers(4, n + 1))]
        covariates = made_columns(rng, n, 2) if adjusting else None
        source, target = (
            Side(run_plan, role, columns, rows, m, covariates)
            for role, columns in zip((Role.SOURCE, Role.TARGET), tables, strict=True)
        )
        if not (source.stated.defined and target.stated.defined):
            continue
        if level == "coefficients":
            s = deviations(source.scales(), target.scales(), run_plan.privacy.loss)
            changes.append(most(source.unit(), target.unit(), s))
            mean = source.unit() / np.where(source.factors.columns, source.factors.columns, 1)[:, None]
            mean = mean.sum(axis=0, keepdims=True) * source.factors.sum
            s = deviations(add_scales([source.scales("mean_range")]), target.scales(), run_plan.privacy.loss)
            changes.append(most(mean, target.unit(), s))
            continue
        encoding = source.level.encoding(source.shapes)
        s = deviations(source.scales(), target.scales(), run_plan.privacy.loss)
        s = np.broadcast_to(s, (len(source.vectors), len(target.vectors)))
        unit = encoding.source_scale * encoding.target_scale
        if level != "strengths":  # vectors of zeros need no noise
            s = np.where(source.vectors.any(axis=1)[:, None], s, 0.0)
        changes.append(most(source.vectors, target.vectors, np.ceil(s * unit)))
    assert 0.3 * bound < max(changes) <= bound


def test_no_search_finds_a_replaced_row_that_shows_by_more_than_mu() -> None:
    """Of two people only one is in the rows used; the other side's column is the worst that it can have."""
    run_plan = plan(reveal="coefficients", alignment="intersect", results={"precision": "statistical"})
    rng, changes = np.random.default_rng(9), [0.0]
    for _ in range(300):
        n, m = int(rng.integers(6, 60)), int(rng.integers(1, 4))
        columns, count = made_columns(rng, n, m), int(rng.integers(4, n))
        rows, unused = (order := rng.permutation(n))[:count], order[count]
        replaced = [column.copy() for column in columns]
        for column in replaced:
            column[[rows[0], unused]] = column[[unused, rows[0]]]
        before, after = (Side(run_plan, Role.SOURCE, table, rows, m) for table in (columns, replaced))
        widths = before.scales().widths[:, None]
        change = np.divide(before.unit() - after.unit(), widths, out=np.zeros((m, count)), where=widths > 0)
        for towards in (*change, *rng.normal(size=(4, m)) @ change):
            flags = [towards >= limit for limit in np.unique(towards)[1:]]
            for column in (rankdata(towards), *flags):
                b = column - column.mean()
                if np.ptp(b):
                    size = np.linalg.norm(change @ b) / np.ptp(b) / np.sqrt(before.scales().spread)
                    changes.append(float(size))
    assert 0.8 < max(changes) <= 1


def side(run_plan: Any, columns: list[np.ndarray], rows: np.ndarray) -> Side:
    return Side(run_plan, Role.TARGET, columns, rows, len(columns))


CHOSEN = {"reveal": "strengths", "alignment": "intersect", "results": {"precision": "statistical"}}


def test_statements_do_not_depend_on_the_rows_of_a_run() -> None:
    run_plan, rng = plan(**CHOSEN), np.random.default_rng(1)
    columns = [np.arange(60) < 2, rng.normal(size=60), np.zeros(60), np.arange(60) % 2]
    some = (slice(2, 40), slice(50), slice(5))
    sent = {str(side(run_plan, columns, np.arange(60)[rows]).sent) for rows in some}
    assert len(sent) == 1


def test_a_column_constant_in_the_common_rows_is_zeros_with_noise() -> None:
    columns = [np.arange(60) < 2, np.arange(60)]
    target = side(plan(**CHOSEN), columns, np.arange(10, 40))
    assert not target.vectors[0].any()
    assert target.scales().widths[0] > 0
    assert target.stated.constant == (False, False)


def test_a_rarer_column_is_scaled_down_and_one_without_ties_is_not() -> None:
    columns = [np.arange(60) < 30, np.arange(60)]
    target = side(plan(**CHOSEN), columns, np.arange(29, 60))
    assert 0.3 < target.factors.columns[0] < 0.5
    assert np.isclose(target.factors.columns[1], 1.0)
    widest = np.ptp(target.vectors, axis=1) / target.level.encoding(target.shapes).target_scale
    assert (widest <= target.scales().widths).all()


@pytest.mark.parametrize(
    "settings",
    [{"alignment": "same"}, {"results": {"precision": "exact"}}],
    ids=["the whole table", "without noise"],
)
def test_nothing_is_scaled_where_rows_cannot_differ_or_results_are_exact(settings: Any) -> None:
    rng = np.random.default_rng(4)
    run_plan = plan(**{**CHOSEN, **settings})
    for n in (5, 30, 200):
        rows = np.arange(n)
        assert (side(run_plan, made_columns(rng, n, 4), rows).factors.columns == 1).all()


def test_an_owner_can_state_a_larger_range() -> None:
    level, ranks = level_of(plan(**CHOSEN)), rank_columns([np.arange(60) < 6, np.arange(60)])
    least, more = (level.statements(ranks, Role.TARGET, np.array([f, 1.0])).vectors for f in (1.0, 2.0))
    assert more.ranges[0] == least.ranges[0] + 4
    assert (more.ranges[1], more.diameter) == (least.ranges[1], least.diameter)


def test_the_stated_length_of_a_mean_hides_any_one_value() -> None:
    ranks = rank_columns(list(np.random.default_rng(5).normal(size=(4, 50))))

    def length(**settings: Any) -> float:
        chosen = load_plan(plan(cautious=True, **settings).model_dump(mode="json"))
        return level_of(chosen).statements(ranks, Role.SOURCE, np.ones(4)).length

    exact = length()
    assert exact <= length(alignment="intersect") <= exact * 2**0.25
    assert length(privacy={"unit": "value"}, results={"target": "coefficients"}) == 1


def test_columns_that_chosen_rows_may_weaken_follow_from_statements() -> None:
    level = level_of(plan(**CHOSEN))

    def times(ones: int) -> np.ndarray:
        ranks: Ranks = rank_columns([np.arange(4000) < ones, np.arange(4000)])
        sent = level.statements(ranks, Role.TARGET, np.ones(2)).vectors
        grid = level.grid(Role.TARGET, "ranges", 300, 2, 2)
        return grid.scales(sent).widths / grid.unit

    assert weakened(times(200), 300).tolist() == [True, False]
    assert weakened(times(200), 3000).tolist() == [False, False]
