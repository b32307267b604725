"""What an owner states about its columns, and the factors that keep its vectors within these statements.

Partners may choose the rows of a run: by `rows`, `intersect` or a file of ids. A number that is computed from
these rows and stated without noise could show a single person's value. So an owner's statements come from its
whole table, whatever rows a run uses. If a vector's range, or the diameter, is larger on the rows of a run
than the owner stated, it scales its vectors down, and nobody else learns that.

Without noise (``results.precision: exact``) nothing protects rows. Then statements are about the rows of the
run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.data.adjusted import Adjusted
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.privacy.scales import (
    NOTHING,
    Stated,
    column_grid,
    diameter,
    step_up,
    sum_grid,
    width_of_sum,
    widths,
)
from mpc_spearman.statistics.columns import Columns, Floats, rounded
from mpc_spearman.statistics.strengths import mean_length


@dataclass(frozen=True, eq=False)
class Statements:
    """What an owner states about its m columns."""

    #: Which columns are constant, and how many are not; for whitened columns, how many directions they have.
    constant: tuple[bool, ...]
    defined: int
    #: R and D of its vectors, one for each column, or whitened.
    vectors: Stated
    #: R of the sum of its columns.
    sum: Stated
    #: How much a mean over its columns varies (`mpc_spearman.statistics.strengths.mean_length`).
    length: float
    #: How far each column is tied, the skewness of its ranks, its share of missing cells, and what an
    #: adjustment for covariates changes in tests.
    columns: Columns
    #: ‖x‖ of each column, (m,), in lengths of a column without ties, rounded down; 0 for a constant column.
    lengths: Floats
    #: How unequal variances of residuals of all columns together are, as far as one test is about all
    #: (`mpc_spearman.data.adjusted`); 1 without covariates.
    unequal_together: float = 1.0

    @property
    def constants_hidden(self) -> Statements:
        """The same statements, but with constant columns as if they had no ties."""
        return replace(self, vectors=self.vectors.with_untied())


def rows_differ(plan: Plan) -> bool:
    """Return whether a run with noise may use other rows than all rows of an owner's table."""
    return plan.results.precision != "exact" and (plan.alignment != "same" or plan.rows is not None)


def state_columns(plan: Plan, ranks: Ranks, factors: Floats) -> Statements:
    """Return an owner's statements about its columns, from the ranks of its whole table.

    Each range is stated larger by a factor, (m,), of ``policy.range``, and where rows can differ one step
    larger, unless it is the range of a column without ties. D follows from the ranges without both. It is
    stated 1 + 2^-10 times as large, which allows for the rounding of vectors to integers.
    """
    length, columns = mean_length(ranks, plan.strength, plan.estimator), Columns.of(ranks)
    vectors = of_sum = Stated(())
    if plan.results.precision != "exact":
        columns = replace(columns, skewness=rounded(columns.skewness))
        vectors, of_sum = _ranges(plan, ranks, factors)
    if rows_differ(plan):
        length = min(1.0, 2.0 ** (step_up(max(length, 2.0**-10)) / 4))
    if plan.privacy.unit == "value":
        length = 1.0  # the largest length: the true one changes with one value
    lengths = np.array([stated_length(term, ranks.n) for term in ranks.tie_terms])
    unequal, together, fitted = np.ones(ranks.m), 1.0, 0
    if isinstance(ranks, Adjusted):
        unequal, fitted = ranks.unequal_columns, ranks.fitted
        together = float(unequal.max())
        if plan.strength == "mean":
            together = ranks.unequal(np.square(ranks.sum(column_units(plan, ranks))))
    return Statements(
        ranks.constant,
        ranks.defined,
        vectors,
        of_sum,
        round(length, 9),
        replace(columns, unequal=stated_unequal(plan, unequal), fitted=np.full(ranks.m, fitted)),
        lengths,
        float(stated_unequal(plan, np.array(together))),
    )


def stated_unequal(plan: Plan, unequal: Floats) -> Floats:
    """Return how unequal variances are stated: with noise rounded up to multiples of 1/32."""
    return unequal if plan.results.precision == "exact" else np.ceil(32 * unequal - 1e-9) / 32


def stated_length(tie_term: int, n: int) -> float:
    """Return ‖x‖ of n ranks in lengths of a column without ties, rounded down to a power of 2^(1/8)."""
    share = 1 - tie_term / total(n)
    return 2.0 ** (math.floor(4 * math.log2(share) + 1e-9) / 8) if share > 0 else 0.0


def _ranges(plan: Plan, ranks: Ranks, factors: Floats) -> tuple[Stated, Stated]:
    """Return the statements about an owner's vectors, and about their sum."""
    grid, of_sum, slack = column_grid(ranks.n, plan.estimator), sum_grid(ranks.n, ranks.m), rows_differ(plan)
    units = column_units(plan, ranks)
    column_widths = widths(ranks.matrix) * units
    steps = [grid.step(float(width)) if width else NOTHING for width in column_widths]
    # A column without ties has the same range in any rows. Residuals have not.
    fixed = () if isinstance(ranks, Adjusted) else (0,)
    larger = [
        NOTHING if step == NOTHING else grid.step(float(width * factor)) + (slack and step not in fixed)
        for step, width, factor in zip(steps, column_widths, factors, strict=True)
    ]
    ranges = np.array([grid.width(step) for step in steps])
    scaled = np.divide(units, ranges, out=np.zeros(ranks.m), where=ranges > 0)
    most = diameter(ranks.matrix, scaled) * (1 + 2.0**-10) if scaled.any() else 1.0
    width = width_of_sum(ranks.matrix, units.tolist()) + float(column_widths @ (factors - 1))
    step = of_sum.step(width) + slack if ranks.defined else NOTHING
    if plan.estimator == "paper" and not all(column_widths):
        # The product with a constant column is made of tie terms, which only noise hides.
        larger = [0 if step == NOTHING else step for step in larger]
        step = max(step, 0)
    return Stated(tuple(larger), step_up(most)), Stated((step,))


def column_units(plan: Plan, ranks: Ranks) -> Floats:
    """Return the factors that make unit vectors of ranks, (m,): 1/‖x‖ (``paper``: 1/√N), or 0 if constant."""
    full = total(ranks.n)
    norms = (full if plan.estimator == "paper" else square for square in ranks.squares)
    return np.array(
        [0.0 if flat else 1 / math.sqrt(norm) for norm, flat in zip(norms, ranks.constant, strict=True)]
    )


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of an owner's vectors in a run, which keep them within the owner's statements.

    One for each column, (m,), and one for their sum; 1 if the rows of the run do not exceed the statement.
    """

    columns: Floats
    sum: float = 1.0


def factors(
    plan: Plan, ranks: Ranks, stated: Statements, of_value: Floats, resolutions: tuple[float, float]
) -> Factors:
    """Return the factors that keep vectors within an owner's statements, for its ranks of a run's rows.

    Each vector keeps within its stated range over `of_value`, (m,). The two `resolutions` are the units to
    which elements are rounded: of the sum of all vectors, and of single ones.
    """
    of_sum_resolution, resolution = resolutions
    scales, units = column_grid(ranks.n, plan.estimator).scales(stated.vectors), column_units(plan, ranks)
    allowed, column_widths = scales.widths / of_value, widths(ranks.matrix) * units
    most = allowed - resolution
    exceeding = (column_widths > most) & (column_widths > 0)
    of_columns = np.divide(most, column_widths, out=np.ones(ranks.m), where=exceeding)
    width, sum_factor = width_of_sum(ranks.matrix, units.tolist()), 1.0
    if width:
        most_of_sum = float(sum_grid(ranks.n, ranks.m).scales(stated.sum).widths[0]) - of_sum_resolution
        sum_factor = min(1.0, max(0.0, most_of_sum) / width)
    if rows_differ(plan):
        scaled = np.divide(of_columns * units, allowed, out=np.zeros(ranks.m), where=allowed > 0)
        of_columns = of_columns * min(
            1.0, math.sqrt(scales.spread / max(diameter(ranks.matrix, scaled), 2.0**-20))
        )
    return Factors(of_columns, sum_factor)
