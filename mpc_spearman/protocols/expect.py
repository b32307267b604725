"""How much noise results about an owner's columns will carry, estimated from these columns alone.

The other side's columns are taken as having no ties, and its diameter as their number, which is the most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import OUTSIDE, Plan
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import Scales, untied
from mpc_spearman.statistics import explained

Floats = NDArray[np.float64]


#: What levels outside the order are about.
NUMBERS = {"explained": "R²", "canonical": "Pillai's trace"}


@dataclass(frozen=True)
class Expected:
    """What is expected of numbers about each of one's own columns.

    Attributes
    ----------
    numbers : {'coefficients', 'strengths', 'explained', 'canonical'}
        The finest that anyone is passed on.
    noise : ndarray of float64, shape (m,)
        s; 0 of a constant column.
    error : float
        The standard error of such a number where nothing is correlated.
    """

    numbers: str
    noise: Floats
    error: float

    @property
    def ratio(self) -> Floats:
        """Noise in standard errors, (m,)."""
        return self.noise / self.error


def expected(plan: Plan, ranks: Ranks, role: Role, shapes: Shapes) -> Expected | None:
    """Foresee noise; None where numbers are exact."""
    level = level_of(plan)
    if not level.noisy:
        return None
    if plan.reveal in OUTSIDE:
        return Expected(plan.reveal, *level.foreseen(ranks, role, shapes))
    others = shapes.m_target if role is Role.SOURCE else shapes.m_sources
    n, mu, other = ranks.n, separation(plan.privacy.loss), untied(ranks.n)
    units = [
        0.0 if flat else 1 / math.sqrt(total(n) - term)
        for term, flat in zip(ranks.tie_terms, ranks.constant, strict=True)
    ]
    own, error = Scales.of(ranks.matrix, units), 1 / math.sqrt(n - 1)
    if "coefficients" in (plan.results.target, plan.results.sources):
        spread = others if plan.privacy.unit == "value" else own.spread * others
        return Expected("coefficients", own.widths * other * math.sqrt(spread) / mu, error)
    if role is Role.SOURCE:
        count = max(1, ranks.defined)
        mean = sum((x * unit for x, unit in zip(ranks.matrix, units, strict=True)), np.zeros(n)) / count
        width = float(Scales.of_sum(ranks.matrix, units).widths[0]) / count
        error *= max(float(np.linalg.norm(mean)), 1 / n)
        return Expected("strengths", np.where(units, width * other * math.sqrt(others) / mu, 0.0), error)
    # of a mean of columns that are independent
    width = min(other, 2 * math.sqrt(2 * math.log(n) / (n * others)))
    return Expected("strengths", own.widths * width * math.sqrt(own.spread) / mu, error / math.sqrt(others))


def too_few_rows(plan: Plan, roster: Roster, ranks: Ranks, shapes: Shapes) -> Iterator[str]:
    """Say so where noise in the middle one of one's own columns will be more than the sampling error."""
    found = expected(plan, ranks, roster.me.role, shapes)
    if found is not None and plan.reveal in OUTSIDE:
        if (total_spread := float(np.median(found.noise)) + found.error) > explained.SPREAD:
            yield (
                f"too few rows for these columns: with noise {NUMBERS[plan.reveal]} will vary by "
                f"{total_spread:.2g} where there is no relation. Use fewer columns, or more rows"
            )
    elif found is not None and found.noise.any():
        ratio = float(np.median(found.ratio[found.noise > 0]))
        if ratio > 1:
            how = f"noise will be {ratio:.2g} times the sampling error"
            yield f"too few rows for these columns: {how}. {_less(found)}"


def _less(found: Expected) -> str:
    if found.numbers == "coefficients":
        return "Grant strengths, use fewer columns, or agree on privacy.unit: value"
    return "Use fewer columns, or more rows"
