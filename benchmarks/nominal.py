"""Measure how often unrelated columns, one of them without an order, have p ≤ α, divided by α.

    python benchmarks/nominal.py [--write]

"Noise" is of so many standard errors in a flag of average range, and in others in proportion to their ranges.
With noise, shares of categories are those of the rounded skewness that an owner states. `--write` puts the
table into docs/statistics-checks.md.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import measuring
import numpy as np

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.privacy.scales import widths
from mpc_spearman.statistics.columns import Columns, Floats, rounded
from mpc_spearman.statistics.nominal import Side, association

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
SAMPLES, LEVELS, NOISE = 5_000, (0.05, 0.01), (0.0, 0.5, 3.0)
SHARES = {
    "4 of 25 %": (0.25,) * 4,
    "70, 20, 6, 4 %": (0.7, 0.2, 0.06, 0.04),
    "10 of 30 to 3 %": (0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03),
}
OTHERS = ("untied", "counts, 90 % zeros", "flag of 20 %", "3 of 60, 30, 10 %")
ROWS = (500, 5_000)


def main() -> None:
    """Measure all settings; print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    heads = ["categories", "other column", "rows"]
    heads += [f"α = {level:g}{f', noise {noise:g}' * (noise > 0)}" for noise in NOISE for level in LEVELS]
    lines = [measured(*setting) for setting in product(SHARES, OTHERS, ROWS)]
    measuring.show(measuring.table(heads, lines), __file__, write=options.write, page=PAGE)


def measured(categories: str, other: str, n: int) -> tuple[str, ...]:
    """Return a line of the table."""
    rng = np.random.default_rng([[*SHARES].index(categories), OTHERS.index(other), n])
    ranks = rank_columns(flags(SHARES[categories], n, rng)), rank_columns(drawn(other, n, rng))
    nominal = (True, other not in OTHERS[:2])
    x, y = (one.matrix for one in ranks)
    ranges = np.outer(widths(x), widths(y)) * 1.0
    ranges /= np.linalg.norm(ranges) / np.sqrt(ranges.size)
    cells = []
    x, y = (of / np.linalg.norm(of.astype(float), axis=1)[:, None] for of in (x, y))
    exact = [x @ y[:, rng.permutation(n)].T for _ in range(SAMPLES)]
    for noise in NOISE:
        source, target = (
            Side(known(one, as_stated=noise > 0), is_nominal)
            for one, is_nominal in zip(ranks, nominal, strict=True)
        )
        s = ranges * noise / np.sqrt(n)
        p = np.array(
            [association(rho + s * rng.normal(size=s.shape), s, n, source, target).p for rho in exact]
        )
        tested = not np.isnan(p[0])
        cells += [f"{np.mean(p <= level) / level:.2f}" if tested else "none" for level in LEVELS]
    return categories, other, f"{n:,}", *cells


def flags(shares: tuple[float, ...], n: int, rng: np.random.Generator) -> list[Floats]:
    """Draw a flag for each category."""
    of_row = rng.choice(len(shares), n, p=shares)
    return [(of_row == category).astype(float) for category in range(len(shares))]


def drawn(kind: str, n: int, rng: np.random.Generator) -> list[Floats]:
    """Draw the other column, or its flags."""
    if kind == "untied":
        return [rng.normal(size=n)]
    if kind.startswith("counts"):
        return [np.where(rng.random(n) < 0.9, 0.0, rng.poisson(2, n) + 1.0)]
    return flags((0.2, 0.8), n, rng)[:1] if kind.startswith("flag") else flags((0.6, 0.3, 0.1), n, rng)


def known(ranks: Ranks, *, as_stated: bool) -> Columns:
    """Return what is known of columns: by their owner, or by others."""
    columns = Columns.of(ranks)
    return replace(columns, skewness=rounded(columns.skewness)) if as_stated else columns


if __name__ == "__main__":
    main()
