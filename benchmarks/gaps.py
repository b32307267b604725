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

import measuring
import numpy as np

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels import whitening
from mpc_spearman.statistics import explained
from mpc_spearman.statistics.columns import Columns, Flags, Floats
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues

ROWS, PAIRS, SHARES = 1_000, 4_000, (0.1, 0.4)
#: How many pairs of sides are drawn, and columns of each.
SIDES, WIDTH = 4_000, 5
KINDS = ("untied", "counts, 50 % zeros", "flags of 20 %")
PATTERNS = ("the same people lack both", "independent", "only x", "only y, where x is in the middle")


def text() -> str:
    """Return both tables."""
    tests = ("p ≤ 0.05, all rows", "p ≤ 0.05, rows that count")
    heads = ("columns", "missing", "share", *tests, "ρ of scores / of complete rows", "expected")
    pairs = [tests_of_pairs(*setting) for setting in product(KINDS, PATTERNS, SHARES)]
    tests_by_rows = [
        f"{test}: {rows}" for test in ("R²", "with noise", "trace") for rows in ("all", "that count")
    ]
    sides = [tests_of_sides(*setting) for setting in product(KINDS[::2], PATTERNS[:2], SHARES)]
    second = measuring.table((*heads[:3], *tests_by_rows), sides)
    return f"{measuring.table(heads, pairs)}\n{second}"


def tests_of_pairs(kind: str, pattern: str, share: float) -> tuple[str, ...]:
    """Return a line on how often pairs of unrelated columns have p ≤ 0.05."""
    rng = np.random.default_rng([KINDS.index(kind), PATTERNS.index(pattern), int(100 * share)])
    x, y = (drawn(kind, PAIRS, rng) for _ in range(2))
    missing_x, missing_y = missing_cells(pattern, share, x, rng)
    source, target = ranked(x, missing_x), ranked(y, missing_y)
    rho = correlated(source, target)
    columns = Columns.of(source), Columns.of(target)
    as_if_complete = [Columns(side.ties, side.skewness) for side in columns]
    small = [np.mean(pvalues(rho, Pairs(ROWS, *sides)) <= 0.05) for sides in (as_if_complete, columns)]
    ratios = shrinkage(pattern, share, rng) if kind == KINDS[0] and pattern != PATTERNS[3] else ("", "")
    return kind, pattern, f"{share:.0%}", *(f"{rate:.1%}" for rate in small), *ratios


def tests_of_sides(kind: str, pattern: str, share: float) -> tuple[str, ...]:
    """Return a line on how often R² and Pillai's trace of unrelated sides have p ≤ 0.05."""
    rng = np.random.default_rng([KINDS.index(kind), PATTERNS.index(pattern), int(100 * share), 5])
    small = np.mean([small_pvalues(kind, pattern, share, rng) for _ in range(SIDES)], axis=0)
    return kind, pattern, f"{share:.0%}", *(f"{rate:.1%}" for rate in small)


def small_pvalues(kind: str, pattern: str, share: float, rng: np.random.Generator) -> list[bool]:
    """Draw two sides of `WIDTH` columns; return whether p ≤ 0.05 of R² and of the trace, by both counts."""
    missing = np.broadcast_to(rng.random((1, ROWS)) < share, (WIDTH, ROWS))
    missing_in_target = missing if pattern == PATTERNS[0] else rng.random((WIDTH, ROWS)) < share
    sides = [ranked(drawn(kind, WIDTH, rng), cells) for cells in (missing, missing_in_target)]
    source, target = (whitening.directions(side, exact=True) @ side.matrix for side in sides)
    feature = measuring.unit_vectors(sides[1])[:1]
    most_gaps = [side.gaps.max() for side in sides]
    k, small = np.array([WIDTH]), []
    for other, noise, gaps in (
        (feature, 0.0, min(most_gaps[0], sides[1].gaps[0])),
        (feature, 1 / np.sqrt(ROWS - 1), min(most_gaps[0], sides[1].gaps[0])),
        (target, 0.0, min(most_gaps)),
    ):
        z = source @ other.T
        trace = np.array([np.square(z + noise * rng.normal(size=z.shape)).sum() - z.size * noise**2])
        variance = explained.dispersion(kurtosis(source), k, kurtosis(other), len(other), ROWS)
        test = explained.pvalues if len(other) == 1 else explained.pillai_pvalues
        for rows in (np.array([float(ROWS)]), explained.counted_rows(ROWS, gaps, 0, 1.0, k)):
            dispersion = 1.0 if noise else variance
            p = test(trace, explained.Directions(rows, k, np.array([noise]), dispersion, len(other)))
            small.append(bool(p[0] <= 0.05))
    return small


def kurtosis(vectors: Floats) -> Floats:
    """Return the kurtosis of orthonormal vectors together (Mardia's)."""
    return ROWS * np.square(np.square(vectors).sum(axis=0)).sum()


def drawn(kind: str, m: int, rng: np.random.Generator) -> Floats:
    """Draw m columns of a kind."""
    if kind == "untied":
        return rng.normal(size=(m, ROWS))
    if kind.startswith("counts"):
        return rng.poisson(0.7, (m, ROWS)).astype(np.float64)
    return (rng.random((m, ROWS)) < 0.2).astype(np.float64)


def missing_cells(pattern: str, share: float, x: Floats, rng: np.random.Generator) -> tuple[Flags, Flags]:
    """Return which cells of x and of y are missing."""
    missing, none = rng.random(x.shape) < share, np.zeros(x.shape, dtype=bool)
    if pattern == PATTERNS[0]:
        return missing, missing
    if pattern == PATTERNS[1]:
        return missing, rng.random(x.shape) < share
    if pattern == PATTERNS[2]:
        return missing, none
    places = (x + 1e-6 * rng.normal(size=x.shape)).argsort(axis=1).argsort(axis=1)
    return none, np.abs(places - ROWS / 2) < share * ROWS / 2


def ranked(values: Floats, missing: Flags) -> Ranks:
    """Rank columns with missing cells."""
    return rank_columns([np.ma.masked_array(*column) for column in zip(values, missing, strict=True)])


def correlated(source: Ranks, target: Ranks) -> Floats:
    """Return the coefficient of each pair of scores."""
    return np.einsum("ij,ij->i", measuring.unit_vectors(source), measuring.unit_vectors(target))


def shrinkage(pattern: str, share: float, rng: np.random.Generator) -> tuple[str, str]:
    """Compare the coefficient of scores with that of complete rows, of correlated normal columns."""
    x = rng.normal(size=(PAIRS, ROWS))
    y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=(PAIRS, ROWS))
    missing_x, missing_y = missing_cells(pattern, share, x, rng)
    incomplete = missing_x | missing_y
    of_scores = correlated(ranked(x, missing_x), ranked(y, missing_y)).mean()
    of_complete_rows = correlated(ranked(x, incomplete), ranked(y, incomplete)).mean()
    present = np.sqrt((~missing_x).sum(axis=1) * (~missing_y).sum(axis=1))
    expected = np.mean((~incomplete).sum(axis=1) / present)
    return f"{of_scores / of_complete_rows:.2f}", f"{expected:.2f}"


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")
