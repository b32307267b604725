"""Measure how often confidence intervals cover the coefficient of the population, and sizes of tests.

    python benchmarks/coverage.py [--samples N] [--write]

Pairs of columns are cut from continuous ones: normal, t with 2 degrees of freedom, Clayton's copula, and
heteroscedastic (one spreads the more the larger the other is), each with positive and negative relation and
at three strengths. Noisy coefficients have noise of one standard error, and the receiver's rounded skewness.
Of what is found, families of 200 pairs of normal columns are tested, of which 20 are related. `--write` puts
the tables into docs/statistics-checks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import measuring
import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import random_table

from mpc_spearman.statistics.columns import Columns, Ties, rounded
from mpc_spearman.statistics.intervals import intervals, selected_intervals
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
SIZES = (500, 5_000, 20_000)
LEVEL = 0.95
TESTED = (100, 2_000, 20_000)
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
_POPULATION = 2_000_000
_CELLS = 2_000_000  # drawn at a time
_LEAST = 100  # intervals from which a share is counted

Floats = NDArray[np.float64]
Known = tuple[Columns, Columns]
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
FAMILIES, RELATED, UNRELATED, FOUND_AMONG = 120, 20, 180, 2_000


def ranked(values: NDArray[np.generic], groups: int | None) -> tuple[Floats, Columns]:
    """Rank rows of samples, (samples, n): unit vectors, and what is known of each as a column."""
    samples, n = values.shape
    if groups is None:
        places = np.argsort(values, axis=1)
        ranks = np.empty((samples, n))
        np.put_along_axis(ranks, places, np.arange(1.0 - n, n, 2)[None], axis=1)
        known = Columns(np.full(samples, Ties.NONE), np.zeros(samples))
        return ranks / np.sqrt(n * (n * n - 1) / 3), known
    counts = np.stack([(values == g).sum(axis=1) for g in range(groups)], axis=1).astype(np.float64)
    middles = 2 * np.cumsum(counts, axis=1) - counts - n
    squares = (counts * middles**2).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # a sample with one group has no coefficient
        unit = middles / np.sqrt(squares)
    skewness = np.nan_to_num(np.sqrt(n) * (counts * unit**3).sum(axis=1))
    tied = 1 - squares[:, 0] * 3 / (n * (n * n - 1))
    two = (counts > 0).sum(axis=1) == 2
    ties = np.where(two, Ties.TWO_VALUES, np.where(tied > 0.05, Ties.MANY, Ties.SOME))
    ties[squares[:, 0] == 0] = Ties.CONSTANT
    return np.take_along_axis(unit, values.astype(np.intp), axis=1), Columns(ties, skewness)


@cache
def population(dependence: str, strength: float) -> tuple[dict[str, Floats], dict[tuple[str, str], float]]:
    """Cut points of each shape on either side, and the coefficient of each kind of pair."""
    sides = DEPENDENCES[dependence](strength, (1, _POPULATION), np.random.default_rng(7))
    levels = {
        f"{side} {name}": np.quantile(values, np.cumsum(shares)[:-1]) if shares else np.empty(0)
        for side, values in zip("xy", sides, strict=True)
        for name, shares in SHAPES.items()
    }
    vectors = {key: vector[0] for key, (vector, _) in cut(sides, levels).items()}
    truths = {(a, b): float(vectors[f"x {a}"] @ vectors[f"y {b}"]) for a, b in KINDS}
    return levels, truths


def cut(sides: tuple[Floats, Floats], levels: dict[str, Floats]) -> dict[str, tuple[Floats, Columns]]:
    """Cut samples of both sides into the groups of each shape, and rank them."""
    found = {}
    for side, values in zip("xy", sides, strict=True):
        for name, shares in SHAPES.items():
            key = f"{side} {name}"
            groups = np.searchsorted(levels[key], values) if shares else values
            found[key] = ranked(groups, len(shares) if shares else None)
    return found


def samples_of(
    dependence: str, strength: float, n: int, samples: int, generator: np.random.Generator
) -> Iterator[tuple[tuple[str, str], int, float, Floats, Known]]:
    """Draw samples; give each kind of pair and sign with the population's coefficient, and the samples'."""
    levels, truths = population(dependence, strength)
    while samples > 0:
        now = min(samples, _CELLS // n)
        samples -= now
        sides = cut(DEPENDENCES[dependence](strength, (now, n), generator), levels)
        for a, b in KINDS:
            (x, source), (y, target) = sides[f"x {a}"], sides[f"y {b}"]
            rho = np.einsum("ij,ij->i", x, y)
            for sign in (1, -1):  # the other reverses the source's column
                known = (Columns(source.ties, sign * source.skewness), target)
                yield (a, b), sign, sign * truths[a, b], sign * rho, known


def covered(truth: float, rho: Floats, n: int, known: Known, noise: float) -> NDArray[np.bool_]:
    """Say of each sample whether it has an interval, and whether that covers the truth: (2, samples)."""
    if noise:
        known = (coarse(known[0]), coarse(known[1]))
    low, high = intervals(rho, Pairs(n, *known, noise=noise), LEVEL)
    return np.array([low <= high, (low <= truth) & (truth <= high)])


def coarse(columns: Columns) -> Columns:
    """Give a side's columns as a receiver is told them."""
    return Columns(columns.ties, rounded(columns.skewness))


def coverage(samples: int) -> Iterator[str]:
    """Make the table of coverage."""
    generator = np.random.default_rng(20260801)
    shares: dict[tuple[tuple[str, str], int, bool], list[float]] = {}
    for n in SIZES:
        count = max(samples // 4, samples * SIZES[0] // n)
        for dependence, strength in product(DEPENDENCES, STRENGTHS):
            parts: dict[tuple[tuple[str, str], int, bool], list[NDArray[np.bool_]]] = {}
            for kind, sign, truth, rho, known in samples_of(dependence, strength, n, count, generator):
                noise = 1 / np.sqrt(n - 1)
                noisy = rho + noise * generator.standard_normal(rho.shape)
                parts.setdefault((kind, sign, False), []).append(covered(truth, rho, n, known, 0.0))
                parts.setdefault((kind, sign, True), []).append(covered(truth, noisy, n, known, noise))
            for (kind, _, noisy), found in parts.items():
                there, inside = np.concatenate(found, axis=1).sum(axis=1)
                if there >= _LEAST:
                    shares.setdefault((kind, n, noisy), []).append(inside / there)
    yield f"| columns | {' | '.join(f'n = {n:,} | with noise' for n in SIZES)} |"
    yield "|---" * (1 + 2 * len(SIZES)) + "|"
    for a, b in KINDS:
        cells = [_cell(shares.get(((a, b), n, noisy), [])) for n in SIZES for noisy in (False, True)]
        yield f"| {a if a == b else f'{a} × {b}'} | {' | '.join(cells)} |"


def _cell(shares: list[float]) -> str:
    """Lowest, middle and highest coverage, and in how many of the settings there are intervals at all."""
    if not shares:
        return "none"
    of = len(DEPENDENCES) * len(STRENGTHS) * 2
    given = "" if len(shares) == of else f" ({len(shares)} of {of})"
    return f"{100 * min(shares):.0f}–{100 * np.median(shares):.0f}–{100 * max(shares):.0f} %{given}"


def found() -> Iterator[str]:
    """Make the table of pairs that are found: how many of their intervals miss, and how many plain ones."""
    generator = np.random.default_rng(20260804)
    misses: dict[tuple[tuple[str, str], bool], list[list[float]]] = {}
    for family in range(FAMILIES):
        strength = STRENGTHS[family % 2]
        levels, truths = population("normal", strength)
        sides = [
            cut(normal(of, (pairs, FOUND_AMONG), generator), levels)
            for of, pairs in ((strength, RELATED), (0.0, UNRELATED))
        ]
        for (a, b), noise in product(KINDS, (0.0, 1 / np.sqrt(FOUND_AMONG - 1))):
            x, y = ([side[f"{of} {name}"] for side in sides] for of, name in (("x", a), ("y", b)))
            truth = np.repeat([truths[a, b], 0.0], [RELATED, UNRELATED])
            rho = np.concatenate([np.einsum("ij,ij->i", u, v) for (u, _), (v, _) in zip(x, y, strict=True)])
            rho += noise * generator.standard_normal(rho.shape)
            known = [Columns.joined(coarse(c) if noise else c for _, c in side) for side in (x, y)]
            pairs = Pairs(FOUND_AMONG, *known, noise=noise)
            p = pvalues(rho, pairs)
            chosen, tested = qvalues(p) <= 1 - LEVEL, int((~np.isnan(p)).sum())
            plain = intervals(rho, pairs, LEVEL)
            own = selected_intervals(rho, pairs, chosen, LEVEL, tested)
            there = ~np.isnan(own[0])
            shares = [
                np.mean(((truth < low) | (truth > high))[there]) if there.any() else 0.0
                for low, high in (plain, own)
            ]
            misses.setdefault(((a, b), bool(noise)), []).append([there.sum(), *shares])
    yield "| columns | pairs found | 95 % intervals that miss | own intervals that miss | with noise | | |"
    yield "|---" * 7 + "|"
    for a, b in KINDS:
        cells = []
        for noisy in (False, True):
            count, plain, own = np.mean(misses[(a, b), noisy], axis=0)
            cells += [
                f"{count:.0f}",
                *((f"{100 * plain:.1f} %", f"{100 * own:.1f} %") if count else ("", "")),
            ]
        yield f"| {a if a == b else f'{a} × {b}'} | {' | '.join(cells)} |"


def column(shares: list[float], n: int) -> tuple[NDArray[np.int64], Floats, Columns]:
    """Sizes of a column's groups, the unit vector's value in each, and what is known of it."""
    sizes = np.rint(np.array(shares) * n).astype(np.int64)
    sizes[0] += n - sizes.sum()
    values = np.repeat(np.arange(len(sizes)), sizes)[None]
    vector, known = ranked(values, len(sizes))
    return sizes, vector[0, np.cumsum(sizes) - 1], known


def test_sizes(draws: int) -> Iterator[str]:
    """Make the table of how often independent columns have a p-value of alpha or less, over alpha."""
    generator = np.random.default_rng(20260802)
    yield f"| columns | n | skewness | {' | '.join(f'{alpha:g}' for alpha in ALPHAS)} | t at {ALPHAS[-1]:g} |"
    yield "|---" * (4 + len(ALPHAS)) + "|"
    for (a, b), n in product([kind for kind in KINDS if "untied" not in kind], TESTED):
        (sizes, x, source), (others, y, target) = column(SHAPES[a] or [], n), column(SHAPES[b] or [], n)
        # Tables of independent columns with those sizes of groups.
        drawn = random_table(sizes, others).rvs(draws, random_state=generator)
        rho = np.clip(np.einsum("i,kij,j->k", x, drawn, y), -1, 1)[None]
        skew = float(Pairs(n, source, target).null_skewness[0])
        name = a if a == b else f"{a} × {b}"
        for noise in (0.0, 1 / np.sqrt(n - 1)):
            known = (coarse(source), coarse(target)) if noise else (source, target)
            published = rho + noise * generator.standard_normal(rho.shape)
            p = pvalues(published, Pairs(n, *known, noise=noise))
            shares = [np.mean(p <= alpha) / alpha for alpha in ALPHAS]
            cells = ["none" if np.isnan(p).all() else f"{share:.2f}" for share in shares]
            student = "" if noise else f"{np.mean(students(rho, n) <= ALPHAS[-1]) / ALPHAS[-1]:.1f}"
            skewness = f"{skew:.2f}" if not noise else "with noise"
            yield f"| {name} | {n:,} | {skewness} | {' | '.join(cells)} | {student} |"


def students(rho: Floats, n: int) -> Floats:
    """p-values of Student's t, as everybody has them."""
    with np.errstate(divide="ignore"):
        found: Floats = 2 * special.stdtr(n - 2, -np.abs(rho) * np.sqrt((n - 2) / (1 - rho**2)))
    return found


def main() -> None:
    """Print, or write, the tables."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--samples", type=int, default=1_000, help="samples at the fewest rows")
    options = parser.parse_args()
    made = [*coverage(options.samples), "", *found(), "", *test_sizes(100 * options.samples)]
    text = "".join(f"{line}\n" for line in made)
    measuring.show(text, __file__, write=options.write, page=PAGE)


if __name__ == "__main__":
    main()
