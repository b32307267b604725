"""Measure how often confidence intervals cover the coefficient of the population, and sizes of tests.

    python benchmarks/coverage.py [--write]

Pairs of columns are cut from continuous ones: normal, t with 2 degrees of freedom, Clayton's copula, and
heteroscedastic (one spreads the more the larger the other is), each with positive and negative relation and
at three strengths. Noisy coefficients have noise of one standard error, and the receiver's rounded skewness.
The second table has families of 200 pairs of normal columns, of which 20 are related: how many intervals of
found pairs miss. The third has how often independent columns have a p-value of at most α, divided by α.
`--write` puts the tables into docs/statistics-checks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import measuring
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr
from scipy.stats import random_table

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics.columns import Columns, Flags, Floats, Ints, rounded
from mpc_spearman.statistics.intervals import intervals, selected_intervals
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues

#: Rows, and how many samples of the fewest.
SIZES, SAMPLES = (500, 5_000, 20_000), 1_000
LEVEL = 0.95
#: Rows of the tables of independent columns, how many are drawn, and the levels of tests.
TESTED, DRAWS = (100, 2_000, 20_000), 100_000
ALPHAS = (0.05, 0.01, 0.001, 1e-4)
#: Shares of rows of equal values, from the lowest on; None for a column without ties.
SHAPES: dict[str, list[float] | None] = {
    "untied": None,
    "terciles": [1 / 3, 1 / 3, 1 / 3],
    "five levels": [0.1, 0.2, 0.4, 0.2, 0.1],
    "counts, 60 % zeros": [0.6, 0.2, 0.1, 0.05, 0.03, 0.02],
    "counts, 90 % zeros": [0.9, 0.06, 0.03, 0.01],
    "flag of 20 %": [0.8, 0.2],
    "flag of 5 %": [0.95, 0.05],
}
KINDS = [
    *((name, name) for name in SHAPES),
    ("untied", "counts, 90 % zeros"),
    ("untied", "flag of 5 %"),
    ("five levels", "flag of 20 %"),
    ("five levels", "flag of 5 %"),
    ("counts, 60 % zeros", "counts, 90 % zeros"),
    ("counts, 60 % zeros", "flag of 20 %"),
    ("flag of 20 %", "flag of 5 %"),
]
POPULATION = 2_000_000  # rows
CELLS_AT_ONCE = 2_000_000
LEAST = 100  # intervals from which a share is counted

#: Ranked samples of one side: unit vectors, (samples, n), and what tests know of each as a column.
Sample = tuple[Floats, Columns]
Kind = tuple[str, str]
Draw = Callable[[float, tuple[int, ...], np.random.Generator], tuple[Floats, Floats]]


def normal(strength: float, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw pairs of normals of that correlation."""
    x, other = generator.standard_normal((2, *shape))
    return x, strength * x + np.sqrt(1 - strength**2) * other


def t2(strength: float, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw from the bivariate t with 2 degrees of freedom: both are extreme together, in either direction."""
    x, y = normal(strength, shape, generator)
    scale = np.sqrt(generator.standard_exponential(shape))
    return x / scale, y / scale


def clayton(strength: float, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw from Clayton's copula: low values go together, high ones hardly."""
    theta = 2 * strength / (1 - strength)
    u, w = generator.random((2, *shape))
    return u, (u**-theta * (w ** (-theta / (1 + theta)) - 1) + 1) ** (-1 / theta)


def fan(strength: float, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw normals, the second with a spread that grows with the first."""
    x, other = generator.standard_normal((2, *shape))
    return x, strength * x + np.sqrt(1 - strength**2) * other * np.exp(x / 2)


DEPENDENCES: dict[str, Draw] = {"normal": normal, "t2": t2, "Clayton": clayton, "heteroscedastic": fan}
STRENGTHS = (0.1, 0.3, 0.6)
#: Families of pairs of which some are found: how many, of how many pairs, related and not; and their rows.
FAMILIES, RELATED, UNRELATED, FAMILY_ROWS = 120, 20, 180, 2_000


def ranked(values: NDArray[np.generic]) -> Sample:
    """Rank samples, (samples, n)."""
    ranks = rank_columns(list(values))
    with np.errstate(invalid="ignore"):  # a constant sample has no coefficient
        return measuring.unit_vectors(ranks), Columns.of(ranks)


def as_stated(columns: Columns) -> Columns:
    """Return what a receiver of noisy coefficients knows of columns."""
    return replace(columns, skewness=rounded(columns.skewness))


@cache
def population(dependence: str, strength: float) -> tuple[list[dict[str, Floats]], dict[Kind, float]]:
    """Return the values at which each side is cut into each shape, and coefficients of each kind of pair."""
    sides = DEPENDENCES[dependence](strength, (1, POPULATION), np.random.default_rng(7))
    cuts = [
        {name: np.quantile(side, np.cumsum(shares)[:-1]) for name, shares in SHAPES.items() if shares}
        for side in sides
    ]
    x, y = cut(sides, cuts)
    return cuts, {(a, b): float(x[a][0][0] @ y[b][0][0]) for a, b in KINDS}


def cut(sides: Sequence[Floats], cuts: list[dict[str, Floats]]) -> list[dict[str, Sample]]:
    """Cut samples of both sides into each shape."""
    return [
        {
            name: ranked(np.searchsorted(points[name], side) if shares else side)
            for name, shares in SHAPES.items()
        }
        for side, points in zip(sides, cuts, strict=True)
    ]


def coverage() -> str:
    """Return the table of coverage: its lowest, middle and highest share over all relations.

    In brackets is in how many of the settings there are intervals at all.
    """
    generator = np.random.default_rng(20260801)
    shares: dict[tuple[Kind, int, bool], list[float]] = {}
    for n, dependence, strength in product(SIZES, DEPENDENCES, STRENGTHS):
        covered: dict[tuple[Kind, int, bool], list[Flags]] = {}
        samples = max(SAMPLES // 4, SAMPLES * SIZES[0] // n)
        cuts, truths = population(dependence, strength)
        for start in range(0, samples, CELLS_AT_ONCE // n):
            count = min(samples - start, CELLS_AT_ONCE // n)
            x, y = cut(DEPENDENCES[dependence](strength, (count, n), generator), cuts)
            for (a, b), sign in product(KINDS, (1, -1)):  # the other sign reverses the source's column
                (units, source), (target_units, target) = x[a], y[b]
                source = replace(source, skewness=sign * source.skewness)
                rho = sign * np.einsum("ij,ij->i", units, target_units)
                noise = 1 / np.sqrt(n - 1)
                noisy = rho + noise * generator.standard_normal(rho.shape)
                exact = intervals(rho, Pairs(n, source, target), LEVEL)
                stated = Pairs(n, as_stated(source), as_stated(target), noise=noise)
                ends = {False: exact, True: intervals(noisy, stated, LEVEL)}
                truth = sign * truths[a, b]
                for is_noisy, (low, high) in ends.items():
                    inside = np.array([low <= high, (low <= truth) & (truth <= high)])
                    covered.setdefault(((a, b), sign, is_noisy), []).append(inside)
        for (kind, _, is_noisy), parts in covered.items():
            count, inside = np.concatenate(parts, axis=1).sum(axis=1)
            if count >= LEAST:
                shares.setdefault((kind, n, is_noisy), []).append(inside / count)
    settings = len(DEPENDENCES) * len(STRENGTHS) * 2

    def cell(values: list[float]) -> str:
        if not values:
            return "none"
        fewer = "" if len(values) == settings else f" ({len(values)} of {settings})"
        return f"{100 * min(values):.0f}–{100 * np.median(values):.0f}–{100 * max(values):.0f} %{fewer}"

    heads = ["columns", *(head for n in SIZES for head in (f"n = {n:,}", "with noise"))]
    lines = [
        (name(kind), *(cell(shares.get((kind, n, noisy), [])) for n in SIZES for noisy in (False, True)))
        for kind in KINDS
    ]
    return measuring.table(heads, lines)


def found_pairs() -> str:
    """Return the table of pairs that are found: how many plain and how many adjusted intervals miss."""
    generator = np.random.default_rng(20260804)
    misses: dict[tuple[Kind, bool], list[list[float]]] = {}
    for family in range(FAMILIES):
        strength = STRENGTHS[family % 2]
        cuts, truths = population("normal", strength)
        parts = [normal(of, (m, FAMILY_ROWS), generator) for of, m in ((strength, RELATED), (0.0, UNRELATED))]
        x, y = cut([np.concatenate(side) for side in zip(*parts, strict=True)], cuts)
        for (a, b), noise in product(KINDS, (0.0, 1 / np.sqrt(FAMILY_ROWS - 1))):
            truth = np.repeat([truths[a, b], 0.0], [RELATED, UNRELATED])
            (units, source), (target_units, target) = x[a], y[b]
            rho = np.einsum("ij,ij->i", units, target_units)
            rho += noise * generator.standard_normal(rho.shape)
            if noise:
                source, target = as_stated(source), as_stated(target)
            pairs = Pairs(FAMILY_ROWS, source, target, noise=noise)
            p = pvalues(rho, pairs)
            found, tests = qvalues(p) <= 1 - LEVEL, int((~np.isnan(p)).sum())
            plain = intervals(rho, pairs, LEVEL)
            adjusted = selected_intervals(rho, pairs, found, LEVEL, tests)
            counted = ~np.isnan(adjusted[0])
            shares = [
                np.mean(((truth < low) | (truth > high))[counted]) if counted.any() else 0.0
                for low, high in (plain, adjusted)
            ]
            misses.setdefault(((a, b), bool(noise)), []).append([counted.sum(), *shares])
    lines = []
    for kind in KINDS:
        cells = []
        for noisy in (False, True):
            count, *shares = np.mean(misses[kind, noisy], axis=0)
            cells += [f"{count:.0f}", *(f"{100 * share:.1f} %" if count else "" for share in shares)]
        lines.append((name(kind), *cells))
    heads = ("columns", "pairs found", "95 % intervals that miss", "own intervals that miss")
    return measuring.table((*heads, "with noise", "", ""), lines)


def test_sizes() -> str:
    """Return the table of how often independent columns have a p-value of alpha or less, over alpha."""
    generator = np.random.default_rng(20260802)
    lines = []
    for (a, b), n in product([kind for kind in KINDS if "untied" not in kind], TESTED):
        (sizes, x, source), (other_sizes, y, target) = grouped(a, n), grouped(b, n)
        # Tables of independent columns with those sizes of groups.
        tables = random_table(sizes, other_sizes).rvs(DRAWS, random_state=generator)
        rho = np.clip(np.einsum("i,kij,j->k", x, tables, y), -1, 1)[None]
        skewness = float(Pairs(n, source, target).null_skewness[0])
        for noise in (0.0, 1 / np.sqrt(n - 1)):
            sides = [as_stated(side) if noise else side for side in (source, target)]
            published = rho + noise * generator.standard_normal(rho.shape)
            p = pvalues(published, Pairs(n, *sides, noise=noise))
            shares = [np.mean(p <= alpha) / alpha for alpha in ALPHAS]
            cells = ["none" if np.isnan(p).all() else f"{share:.2f}" for share in shares]
            if noise:
                lines.append((name((a, b)), f"{n:,}", "with noise", *cells, ""))
            else:
                student = np.mean(students_pvalues(rho, n) <= ALPHAS[-1]) / ALPHAS[-1]
                lines.append((name((a, b)), f"{n:,}", f"{skewness:.2f}", *cells, f"{student:.1f}"))
    heads = ("columns", "n", "skewness", *(f"{alpha:g}" for alpha in ALPHAS), f"t at {ALPHAS[-1]:g}")
    return measuring.table(heads, lines)


def grouped(shape: str, n: int) -> tuple[Ints, Floats, Columns]:
    """Return a tied column's sizes of groups, the unit vector's value in each, and what tests know of it."""
    sizes = np.rint(np.array(SHAPES[shape]) * n).astype(np.int64)
    sizes[0] += n - sizes.sum()
    units, columns = ranked(np.repeat(np.arange(len(sizes)), sizes)[None])
    return sizes, units[0, np.cumsum(sizes) - 1], columns


def students_pvalues(rho: Floats, n: int) -> Floats:
    """Return p-values of Student's t, as other software has them."""
    with np.errstate(divide="ignore"):
        return np.asarray(2 * stdtr(n - 2, -np.abs(rho) * np.sqrt((n - 2) / (1 - rho**2))))


def name(kind: Kind) -> str:
    """Return what a line calls a kind of pair."""
    return " × ".join(dict.fromkeys(kind))


def text() -> str:
    """Return the three tables."""
    return "\n".join([coverage(), found_pairs(), test_sizes()])


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")
