"""How many rows a plan needs, before any table is read: those at which noise is as large as chance variation.

The columns are taken as independent of each other and without ties. Related columns can lie farther apart (D
up to their number), and ties widen a column's range, so such tables need more rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from mpc_spearman.config import Plan
from mpc_spearman.privacy.choice import noise_factor
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import SLACK, untied_range
from mpc_spearman.statistics.explained import SPREAD

_FEWEST, _MOST = 10, 10**12
#: A correlation that rows are to show, and how many standard deviations show it in 8 of 10 samples at 5 %.
SHOWN, _DEVIATIONS = 0.1, 2.8
#: Numbers of columns for which examples are given.
EXAMPLES = (5, 20, 50)


def on_inputs(plan: Plan) -> list[str]:
    """Return the names of the parties that add noise to their inputs."""
    return [owner.name for owner in (*plan.parties.sources, plan.parties.target) if owner.noise == "inputs"]


def typical_diameter(columns: int, rows: int) -> float:
    """Estimate the diameter D of independent columns without ties.

    The squared difference of two rows has a mean of 1/6 in each column, in units of its range, and a standard
    deviation of 0.2; the largest of all pairs is taken to be the largest of as many normal numbers.
    """
    return min(columns, columns / 6 + 0.2 * math.sqrt(2 * columns * math.log(rows * rows / 2)))


def noise_ratio(plan: Plan, rows: int, source: int, target: int) -> float:
    """Return noise over chance variation in the most detailed numbers that a plan passes on.

    `source` and `target` count the columns of each source and of the target. For R² and Pillai's trace it is
    their whole variation, noise included, over the most that is useful.
    """
    mu, sources = separation(plan.privacy.loss), len(plan.parties.sources)
    width, of_target = SLACK * untied_range(rows), typical_diameter(target, rows)
    if plan.reveal in ("explained", "canonical"):
        products, source_range = source, 2 * math.sqrt(min(0.5, 3 * source / rows))
        target_range = width * math.sqrt(of_target)
        if plan.reveal == "canonical":
            products, target_range = source * target, 2 * math.sqrt(min(0.5, 3 * target / rows))
        noise = 2 * (source_range * target_range / mu) ** 2  # of both owners
        return math.sqrt(2 * products) * (noise + 1 / rows) / SPREAD
    columns = source * sources
    if passes_pairs(plan):
        diameters = math.sqrt(typical_diameter(columns, rows) * of_target)
        diameters *= factor_of_choice(plan, rows, source, target)
        if plan.privacy.unit == "value":
            diameters = math.sqrt(max(columns, target))
        return width**2 * diameters / mu * math.sqrt(rows - 1)
    of_mean = min(width, 2 * math.sqrt(2 * math.log(rows) / (rows * columns)))
    noises = factor_of_choice(plan, rows, source, target) ** 2  # of C, or of all owners but the receiver
    if plan.reveal in ("strengths", "ranking"):
        noises = sources if "strengths" in (plan.results.target, plan.results.sources) else sources + 1
    return of_mean * width * math.sqrt(noises * of_target * columns * (rows - 1)) / mu


def factor_of_choice(plan: Plan, rows: int, source: int, target: int) -> float:
    """Return the noise of what ``results.strongest`` passes on, in multiples of the noise of all numbers."""
    columns, of_target = source * len(plan.parties.sources), typical_diameter(target, rows)
    if passes_pairs(plan):
        spread = typical_diameter(columns, rows) * of_target
        return noise_factor(plan.results.strongest, columns * target, spread)
    return noise_factor(plan.results.strongest, target, of_target)


def passes_pairs(plan: Plan) -> bool:
    """Return whether a data party gets coefficients."""
    return "coefficients" in (plan.results.target, plan.results.sources)


def on_choice(plan: Plan, sizes: Sequence[tuple[int, int]]) -> list[str]:
    """Say how much noise the strongest results have, if a plan passes on only these."""
    k, items = plan.results.strongest, "pairs" if passes_pairs(plan) else "features"
    if k is None:
        return []
    factors = {size: factor_of_choice(plan, rows_needed(plan, *size), *size) for size in sizes}
    multiples = ", ".join(
        f"{source} × {target} columns {factor:.2g}{' (there are no more, so all)' if factor == 1 else ''}"
        for (source, target), factor in factors.items()
    )
    hint = ". Where it is above 1, leave it out or choose fewer" if max(factors.values()) > 1 else ""
    return [f"noise of the {k} strongest {items}, in multiples of the noise of all: {multiples}{hint}"]


def rows_needed(plan: Plan, source: int, target: int) -> int:
    """Return the least number of rows with a `noise_ratio` of at most 1, rounded up to two digits."""
    low, high = _FEWEST, _MOST
    while high - low > 1:
        rows = (low + high) // 2
        low, high = (rows, high) if noise_ratio(plan, rows, source, target) > 1 else (low, rows)
    return _two_digits(high)


def _two_digits(rows: int) -> int:
    """Round up to two digits."""
    step: int = 10 ** max(0, len(str(rows)) - 2)
    return -(-rows // step) * step


def rows_on_inputs(plan: Plan, source: int, target: int) -> int:
    """Return how many rows show a correlation of `SHOWN` through noise on inputs, rounded up to two digits.

    For the most detailed numbers that a plan passes on. This noise is √(24·D)/μ times chance variation,
    however many rows there are. What protects the other side decreases, and is left out. At ``strengths`` a
    source has one vector. The range of a mean of independent columns is the range of one, or of as many
    normal numbers, while the mean varies less.
    """
    times, rows = 24 / separation(plan.privacy.loss) ** 2, 100_000
    of_source, of_target = typical_diameter(source, rows), typical_diameter(target, rows)
    if plan.privacy.unit == "value":
        of_source = of_target = 1.0
    if plan.reveal == "strengths":
        of_source = min(source * len(plan.parties.sources), NormalDist().inv_cdf(1 - 1 / rows) ** 2 / 3)
    needed = (_DEVIATIONS / SHOWN) ** 2
    if any(party.noise == "inputs" for party in plan.parties.sources):
        needed *= 1 + times * of_source
    if plan.parties.target.noise == "inputs":
        needed *= 1 + times * of_target
    return _two_digits(math.ceil(needed))


def advice(plan: Plan, *sizes: tuple[int, int]) -> list[str]:
    """Say how many rows tables of some sizes need, by default `EXAMPLES`; nothing without noise."""
    if plan.results.precision == "exact":
        return []
    names, sizes = on_inputs(plan), sizes or tuple((m, m) for m in EXAMPLES)
    rows_for = rows_on_inputs if names else rows_needed
    rows = ", ".join(
        f"{source} × {target} columns about {rows_for(plan, source, target):,}" for source, target in sizes
    )
    if names:
        return [
            f"rows needed to find a correlation of {SHOWN} in 8 of 10 samples, with noise on the inputs of "
            f"{', '.join(names)}: {rows}"
        ]
    for_each = " for each source and the target" if len(plan.parties.sources) > 1 else ""
    return [
        f"rows needed{for_each}, so that noise is no larger than chance variation: {rows}; more if "
        "columns are related or have many ties",
        *on_choice(plan, sizes),
    ]
