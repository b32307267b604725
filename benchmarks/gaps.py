"""Measure how often unrelated columns with missing cells have p ≤ 0.05, and how much coefficients shrink.

    python benchmarks/gaps.py [--write]

Under `missing: middle`. "All rows" is the share if tests counted all rows, "rows that count" that of the
tests as they are. The last columns are of normal columns with a correlation of 0.5: the coefficient of scores
over that of the rows in which both have a value, and what this ratio should be, n_xy/√(n_x·n_y).

The second table has the tests of `explained` and `canonical`, of sides with five columns each that are
independent of the other side's. `--write` puts both into docs/statistics-checks.md.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import measuring
import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels import whitening
from mpc_spearman.statistics import explained
from mpc_spearman.statistics.columns import Columns, Floats
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
ROWS, PAIRS, SHARES = 1_000, 4_000, (0.1, 0.4)
SIDES, WIDTH = 4_000, 5
KINDS = ("untied", "counts, 50 % zeros", "flags of 20 %")
PATTERNS = ("the same people lack both", "independent", "only x", "only y, where x is in the middle")
SHAPE = (PAIRS, ROWS)

Mask = NDArray[np.bool_]


def main() -> None:
    """Measure all kinds and patterns; print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    tests = ("p ≤ 0.05, all rows", "p ≤ 0.05, rows that count")
    heads = ("columns", "missing", "share", *tests, "ρ of scores / of complete rows", "expected")
    lines = [measured(*setting) for setting in product(KINDS, PATTERNS, SHARES)]
    text = f"{measuring.table(heads, lines)}\n{of_sides()}"
    measuring.show(text, __file__, write=options.write, page=PAGE)


def measured(kind: str, pattern: str, share: float) -> tuple[str, ...]:
    """Return a line of the table."""
    rng = np.random.default_rng([KINDS.index(kind), PATTERNS.index(pattern), int(100 * share)])
    x, y = (drawn(kind, rng) for _ in range(2))
    rho, known = coefficients(x, y, *gaps(pattern, share, x, rng))
    as_if_none = [Columns(side.ties, side.skewness) for side in known]
    found = [np.mean(pvalues(rho, Pairs(ROWS, *sides)) <= 0.05) for sides in (as_if_none, known)]
    weaker = shrunk(pattern, share, rng) if kind == KINDS[0] and pattern != PATTERNS[3] else ("", "")
    return kind, pattern, f"{share:.0%}", *(f"{one:.1%}" for one in found), *weaker


def of_sides() -> str:
    """Make the table of how often R² and Pillai's trace of unrelated sides have p ≤ 0.05."""
    tests = [f"{test}: {rows}" for test in ("R²", "with noise", "trace") for rows in ("all", "that count")]
    lines = []
    for kind, pattern, share in product(KINDS[::2], PATTERNS[:2], SHARES):
        rng = np.random.default_rng([KINDS.index(kind), PATTERNS.index(pattern), int(100 * share), 5])
        small = np.mean([small_pvalues(kind, pattern, share, rng) for _ in range(SIDES)], axis=0)
        lines.append((kind, pattern, f"{share:.0%}", *(f"{one:.1%}" for one in small)))
    return measuring.table(("columns", "missing", "share", *tests), lines)


def small_pvalues(kind: str, pattern: str, share: float, rng: np.random.Generator) -> list[bool]:
    """Draw two sides of `WIDTH` columns; return whether p ≤ 0.05 of R² and of the trace, by both counts."""
    shape = (WIDTH, ROWS)
    missing = np.broadcast_to(rng.random((1, ROWS)) < share, shape)
    lacks = missing if pattern == PATTERNS[0] else rng.random(shape) < share
    sides = [ranked(drawn(kind, rng, shape), gone) for gone in (missing, lacks)]
    of_source, of_target = (whitening.directions(side, exact=True) @ side.matrix for side in sides)
    feature = sides[1].matrix[:1] / np.linalg.norm(sides[1].matrix[0])
    least = min(sides[0].gaps.max(), sides[1].gaps[0]), min(side.gaps.max() for side in sides)
    weights = [ROWS * np.square(np.square(one).sum(axis=0)).sum() for one in (of_source, feature, of_target)]
    k, error, small = np.array([WIDTH]), 1 / np.sqrt(ROWS - 1), []
    for other, noise, gaps in (
        (feature, 0.0, least[0]),
        (feature, error, least[0]),
        (of_target, 0.0, least[1]),
    ):
        z = of_source @ other.T
        trace = np.square(z + noise * rng.normal(size=z.shape)).sum() - z.size * noise**2
        varies = explained.dispersion(weights[0], k, weights[1 if len(other) == 1 else 2], len(other), ROWS)
        for rows in (np.array([float(ROWS)]), explained.counted_rows(ROWS, gaps, 0, 1.0, k)):
            dispersion, several = varies if not noise else 1.0, len(other) > 1
            products = explained.Directions(rows, k, np.array([noise]), dispersion, k if several else 1)
            test = explained.pillai_pvalues if several else explained.pvalues
            p = test(np.array([trace]), products)
            small.append(bool(p[0] <= 0.05))
    return small


def drawn(kind: str, rng: np.random.Generator, shape: tuple[int, int] = SHAPE) -> Floats:
    """Draw columns of a kind."""
    if kind == "untied":
        return rng.normal(size=shape)
    if kind.startswith("counts"):
        return rng.poisson(0.7, shape).astype(np.float64)
    return (rng.random(shape) < 0.2).astype(np.float64)


def gaps(pattern: str, share: float, x: Floats, rng: np.random.Generator) -> tuple[Mask, Mask]:
    """Say which cells of x and of y are missing."""
    missing = rng.random(SHAPE) < share
    if pattern == PATTERNS[0]:
        return missing, missing
    if pattern == PATTERNS[1]:
        return missing, rng.random(SHAPE) < share
    if pattern == PATTERNS[2]:
        return missing, np.zeros(SHAPE, dtype=bool)
    places = (x + 1e-6 * rng.normal(size=SHAPE)).argsort(axis=1).argsort(axis=1)
    return np.zeros(SHAPE, dtype=bool), np.abs(places - ROWS / 2) < share * ROWS / 2


def coefficients(x: Floats, y: Floats, missing: Mask, lacks: Mask) -> tuple[Floats, list[Columns]]:
    """Correlate the scores of pairs; return what is known of their columns too."""
    sides = [ranked(values, gone) for values, gone in ((x, missing), (y, lacks))]
    units = [side.matrix / np.linalg.norm(side.matrix, axis=1)[:, None] for side in sides]
    return np.einsum("ij,ij->i", *units), [Columns.of(side) for side in sides]


def ranked(values: Floats, missing: Mask) -> Ranks:
    """Rank columns with missing cells."""
    return rank_columns([np.ma.masked_array(*column) for column in zip(values, missing, strict=True)])


def shrunk(pattern: str, share: float, rng: np.random.Generator) -> tuple[str, str]:
    """Compare the coefficient of scores with that of complete rows, of correlated normal columns."""
    x = rng.normal(size=SHAPE)
    y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=SHAPE)
    missing, lacks = gaps(pattern, share, x, rng)
    incomplete = missing | lacks
    ratio = (
        coefficients(x, y, missing, lacks)[0].mean() / coefficients(x, y, incomplete, incomplete)[0].mean()
    )
    present = np.sqrt((~missing).sum(axis=1) * (~lacks).sum(axis=1))
    return f"{ratio:.2f}", f"{np.mean((~incomplete).sum(axis=1) / present):.2f}"


if __name__ == "__main__":
    main()
