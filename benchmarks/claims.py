"""Measure what results claim of unrelated tables, and how often what they claim of others is right.

    python benchmarks/claims.py [--write]

Columns have no ties, and there are 1,000 rows. Noise is in standard errors. `--write` puts the tables into
docs/statistics-checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import measuring
import numpy as np

from mpc_spearman.statistics import canonical
from mpc_spearman.statistics.columns import Columns, Floats, Ties
from mpc_spearman.statistics.explained import Directions, r2_intervals
from mpc_spearman.statistics.intervals import bound_on_all, intervals, selected_intervals
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues
from mpc_spearman.statistics.rank_ranges import difference_variances, rank_ranges
from mpc_spearman.statistics.shrinkage import best_guesses

PAGE = Path(__file__).parents[1] / "docs" / "statistics-checks.md"
ROWS, TABLES, CONFIDENCE = 1_000, 200, 0.95
ERROR = 1 / math.sqrt(ROWS - 1)
NOISES = (0.0, 1.0, 3.0)


def main() -> None:
    """Make all tables and print, or write, them."""
    options = measuring.parser(__doc__).parse_args()
    made = (pairs(), ranks(), shares(), correlations())
    measuring.show("\n".join(made), __file__, write=options.write, page=PAGE)


def pairs() -> str:
    """Make the table of pairs: what is found, and how far off the intervals, bounds and best guesses are."""
    heads = (
        "columns", "related pairs", "noise", "something is found", "95 % intervals of found pairs that miss",
        "their intervals that miss", "bound exceeded", "largest |ρ|: published", "best guess", "true",
    )  # fmt: skip
    settings = product(((5, 5), (20, 20)), ((0.0, 0.0), (0.02, 0.2)), NOISES)
    return measuring.table(heads, (of_pairs(*setting) for setting in settings))


def of_pairs(sizes: tuple[int, int], related: tuple[float, float], noise: float) -> tuple[str, ...]:
    """Return a line of it."""
    (share, size), rng = related, np.random.default_rng([*sizes, int(100 * related[0]), int(noise)])
    sides = [Columns(np.full(m, Ties.NONE), np.zeros(m)) for m in sizes]
    s = np.full(sizes, noise * ERROR)
    pairs = Pairs(ROWS, sides[0].rows, sides[1], noise=s)
    claims, exceeded, plain, own, largest = 0, 0, [], [], []
    for _ in range(TABLES):
        truth = np.where(rng.random(sizes) < share, size * rng.uniform(0.5, 1.5, sizes), 0.0)
        rho = sampled(truth, rng) + s * rng.normal(size=sizes)
        found = qvalues(pvalues(rho, pairs)) <= 1 - CONFIDENCE
        claims += found.any()
        for ends, missed in (
            (intervals(rho, pairs, CONFIDENCE), plain),
            (selected_intervals(rho, pairs, found, CONFIDENCE, rho.size), own),
        ):
            out = ~((ends[0] <= truth) & (truth <= ends[1]))
            missed.append(out[found].mean() if found.any() else 0.0)
        exceeded += np.abs(truth).max() > bound_on_all(rho, pairs, CONFIDENCE, rho.size)[0]
        first = np.unravel_index(np.abs(rho).argmax(), sizes)
        largest.append([abs(of[first]) for of in (rho, best_guesses(rho, s**2 + ERROR**2), truth)])
    of = TABLES
    cells = (f"{claims / of:.1%}", f"{np.mean(plain):.1%}", f"{np.mean(own):.1%}", f"{exceeded / of:.1%}")
    about_pairs = f"{share:.0%} of {size:g}" if share else "none"
    sizes_of = f"{sizes[0]} × {sizes[1]}"
    return (sizes_of, about_pairs, f"{noise:g}", *cells, *(f"{x:.3f}" for x in np.mean(largest, axis=0)))


def sampled(rho: Floats, rng: np.random.Generator) -> Floats:
    """Draw coefficients of samples of normal columns."""
    spread = np.sqrt((1 + rho**2 / 2) / (ROWS - 3))
    return np.tanh(np.arctanh(rho) + spread * rng.normal(size=rho.shape))


def ranks() -> str:
    """Make the table of rankings: how often ranges have the true ranks, and neighbours are told apart."""
    heads = (
        "features", "correlation of neighbours", "known", "ranges with all true ranks", "width of a range",
        "equal neighbours told apart",
    )  # fmt: skip
    lines = []
    for m, correlation, known in product((5, 20, 60), (0.0, 0.8, -0.8), (True, False)):
        rng = np.random.default_rng([m, int(10 * correlation) + 10, known])
        related, error = np.eye(m), np.full(m, 0.01)
        for a in range(0, m - 1, 2):
            related[a, a + 1] = related[a + 1, a] = correlation
        truth, root = np.sort(rng.normal(size=m))[::-1] * 0.05, np.linalg.cholesky(related)
        all_of, widths, told = 0, [], []
        variances = difference_variances(error, 0.0, related if known else None)
        limits = 1.96 * np.sqrt(np.diagonal(variances, offset=1))
        for _ in range(2 * TABLES):
            drawn = root @ rng.normal(size=m) * 0.01
            first, last = rank_ranges(truth + drawn, variances, CONFIDENCE)
            all_of += ((first <= np.arange(1, m + 1)) & (np.arange(1, m + 1) <= last)).all()
            widths.append((last - first + 1).mean())
            told.append((np.abs(np.diff(drawn)) >= limits)[::2].mean())
        cells = (f"{all_of / (2 * TABLES):.1%}", f"{np.mean(widths):.1f}", f"{np.mean(told):.1%}")
        lines.append((m, f"{correlation:g}", "yes" if known else "no", *cells))
    return measuring.table(heads, lines)


def shares() -> str:
    """Make the table of R²: how often its interval has the share that is explained in the population."""
    truths = (0.0, 0.02, 0.1, 0.3, 0.7)
    heads = ("directions", "noise", *(f"R² of {theta:g}" for theta in truths), "above 0 where R² is 0")
    lines = []
    for k, noise in product((1, 5, 30), NOISES):
        s, cells, above = np.array(noise * ERROR), [], 0.0
        for theta in truths:
            rng = np.random.default_rng([k, int(noise), int(100 * theta)])
            products = Directions(ROWS, np.array(k), s)
            low, high = r2_intervals(drawn_r2(theta, k, s, rng), products, CONFIDENCE)
            cells.append(f"{np.mean((low <= theta) & (theta <= high)):.1%}")
            above = float(np.mean(low > 0)) if not theta else above
        lines.append((k, f"{noise:g}", *cells, f"{above:.1%}"))
    return measuring.table(heads, lines)


def drawn_r2(theta: float, k: int, s: Floats, rng: np.random.Generator, samples: int = 4_000) -> Floats:
    """Draw R² of normal columns, with noise, less the bias of noise."""
    signal = rng.noncentral_chisquare(k, rng.chisquare(ROWS - 1, samples) * theta / (1 - theta))
    z = s * rng.normal(size=(samples, k))
    z[:, 0] += np.sqrt(signal / (signal + rng.chisquare(ROWS - 1 - k, samples)))
    return np.asarray(np.square(z).sum(axis=1) - k * s**2)


def correlations() -> str:
    """Make the table of canonical correlations: how often the largest counts, and what it is then."""
    heads = ("directions", "noise", "true", "counts", "published", "without bias, if it counts")
    return measuring.table(heads, of_correlations())


def of_correlations() -> Iterator[tuple[object, ...]]:
    """Return its lines."""
    for (a, b), noise, rho in product(((3, 3), (20, 20)), NOISES, (0.0, 0.4, 0.8)):
        rng, s = np.random.default_rng([a, b, int(noise), int(10 * rho)]), np.array(noise * ERROR)
        products, found = Directions(ROWS, np.array(a), s, k_target=b), []
        for _ in range(TABLES if not rho else TABLES // 5):
            x, y = rng.normal(size=(ROWS, a)), rng.normal(size=(ROWS, b))
            y[:, 0] = rho * x[:, 0] + math.sqrt(1 - rho**2) * y[:, 0]
            one, other = (np.linalg.qr(side - side.mean(axis=0))[0] for side in (x, y))
            z = one.T @ other + s * rng.normal(size=(a, b))
            found.append(np.linalg.svd(z, compute_uv=False)[0])
        largest = np.array(found)
        counts = largest > canonical.largest_by_chance(products)
        corrected = canonical.without_bias(largest[counts], products)
        shown = f"{np.nanmean(corrected):.2f}" if counts.any() and rho else ""
        yield f"{a} × {b}", f"{noise:g}", f"{rho:g}", f"{counts.mean():.1%}", f"{largest.mean():.2f}", shown


if __name__ == "__main__":
    main()
