"""Measure how often unrelated columns, one of them without an order, have p ≤ α, divided by α.

    python benchmarks/nominal.py [--write]

"Noise" is of so many standard errors in a flag of average range, and in others in proportion to their ranges.
With noise, shares of categories are those of the rounded skewness that an owner states. `--write` puts the
table into docs/statistics-checks.md.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import measuring
import numpy as np

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.privacy.scales import widths
from mpc_spearman.statistics.columns import Columns, Floats, rounded
from mpc_spearman.statistics.nominal import Side, association

SAMPLES, LEVELS, NOISE = 5_000, (0.05, 0.01), (0.0, 0.5, 3.0)
SHARES = {
    "4 of 25 %": (0.25,) * 4,
    "70, 20, 6, 4 %": (0.7, 0.2, 0.06, 0.04),
    "10 of 30 to 3 %": (0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03),
}
OTHERS = ("untied", "counts, 90 % zeros", "flag of 20 %", "3 of 60, 30, 10 %")
ROWS = (500, 5_000)


def text() -> str:
    """Return the table of all settings."""
    heads = ["categories", "other column", "rows"]
    heads += [f"α = {level:g}{f', noise {noise:g}' * (noise > 0)}" for noise in NOISE for level in LEVELS]
    lines = [
        (categories, other, f"{n:,}", *shares_of_small_pvalues(categories, other, n))
        for categories, other, n in product(SHARES, OTHERS, ROWS)
    ]
    return measuring.table(heads, lines)


def shares_of_small_pvalues(categories: str, other: str, n: int) -> list[str]:
    """Return how often p ≤ α over α, for each noise and α."""
    rng = np.random.default_rng([[*SHARES].index(categories), OTHERS.index(other), n])
    ranks = rank_columns(flags(SHARES[categories], n, rng)), rank_columns(other_column(other, n, rng))
    nominal = (True, other not in OTHERS[:2])
    ranges = np.outer(*(widths(side.matrix) for side in ranks)) * 1.0
    ranges /= np.linalg.norm(ranges) / np.sqrt(ranges.size)
    x, y = map(measuring.unit_vectors, ranks)
    exact = [x @ y[:, rng.permutation(n)].T for _ in range(SAMPLES)]
    cells = []
    for noise in NOISE:
        columns = [Columns.of(side) for side in ranks]
        if noise:
            columns = [replace(side, skewness=rounded(side.skewness)) for side in columns]
        source, target = map(Side, columns, nominal)
        s = ranges * noise / np.sqrt(n)
        published = (rho + s * rng.normal(size=s.shape) for rho in exact)
        p = np.array([association(rho, s, n, source, target).p for rho in published])
        tested = not np.isnan(p[0])
        cells += [f"{np.mean(p <= level) / level:.2f}" if tested else "none" for level in LEVELS]
    return cells


def flags(shares: tuple[float, ...], n: int, rng: np.random.Generator) -> list[Floats]:
    """Draw a flag for each category."""
    category_of_row = rng.choice(len(shares), n, p=shares)
    return [(category_of_row == category).astype(float) for category in range(len(shares))]


def other_column(kind: str, n: int, rng: np.random.Generator) -> list[Floats]:
    """Draw the other column, or its flags."""
    if kind == "untied":
        return [rng.normal(size=n)]
    if kind.startswith("counts"):
        return [np.where(rng.random(n) < 0.9, 0.0, rng.poisson(2, n) + 1.0)]
    return flags((0.2, 0.8), n, rng)[:1] if kind.startswith("flag") else flags((0.6, 0.3, 0.1), n, rng)


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")
