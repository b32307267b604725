"""Measure what results claim of unrelated tables, and how often what they claim of others is right.

    python benchmarks/claims.py [--write]

Columns have no ties, and there are 1,000 rows. Noise is in standard errors. `--write` puts the tables into
docs/statistics-checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

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

ROWS, TABLES, CONFIDENCE = 1_000, 200, 0.95
ERROR = 1 / math.sqrt(ROWS - 1)
NOISES = (0.0, 1.0, 3.0)


def text() -> str:
    """Return the four tables."""
    pairs = (
        "columns",
        "related pairs",
        "noise",
        "something is found",
        "95 % intervals of found pairs that miss",
        "their intervals that miss",
        "bound exceeded",
        "largest |ρ|: published",
        "best guess",
        "true",
    )
    rankings = (
        "features",
        "correlation of neighbours",
        "known",
        "ranges with all true ranks",
        "width of a range",
        "equal neighbours told apart",
    )
    settings = product(((5, 5), (20, 20)), ((0.0, 0.0), (0.02, 0.2)), NOISES)
    truths = (0.0, 0.02, 0.1, 0.3, 0.7)
    shares = ("directions", "noise", *(f"R² of {theta:g}" for theta in truths), "above 0 where R² is 0")
    correlations = ("directions", "noise", "true", "counts", "published", "without bias, if it counts")
    return "\n".join(
        [
            measuring.table(pairs, (claims_about_pairs(*setting) for setting in settings)),
            measuring.table(rankings, rank_ranges_of_features()),
            measuring.table(shares, intervals_of_r2(truths)),
            measuring.table(correlations, largest_correlations()),
        ]
    )


def claims_about_pairs(sizes: tuple[int, int], related: tuple[float, float], ratio: float) -> tuple[str, ...]:
    """Return a line about tables of these sizes, with this share and strength of related pairs.

    It has how often a pair is found, and how far off intervals, bounds and best guesses are.
    """
    (share, strength), rng = related, np.random.default_rng([*sizes, int(100 * related[0]), int(ratio)])
    source, target = (Columns(np.full(m, Ties.NONE), np.zeros(m)) for m in sizes)
    noise = np.full(sizes, ratio * ERROR)
    pairs = Pairs(ROWS, source.rows, target, noise=noise)
    claims, exceeded, missed, missed_by_adjusted, largest = 0, 0, [], [], []
    for _ in range(TABLES):
        truth = np.where(rng.random(sizes) < share, strength * rng.uniform(0.5, 1.5, sizes), 0.0)
        rho = sample_coefficients(truth, rng) + noise * rng.normal(size=sizes)
        found = qvalues(pvalues(rho, pairs)) <= 1 - CONFIDENCE
        claims += found.any()
        for (low, high), shares in (
            (intervals(rho, pairs, CONFIDENCE), missed),
            (selected_intervals(rho, pairs, found, CONFIDENCE, rho.size), missed_by_adjusted),
        ):
            outside = ~((low <= truth) & (truth <= high))
            shares.append(outside[found].mean() if found.any() else 0.0)
        exceeded += np.abs(truth).max() > bound_on_all(rho, pairs, CONFIDENCE, rho.size)[0]
        strongest = np.unravel_index(np.abs(rho).argmax(), sizes)
        guesses = best_guesses(rho, noise**2 + ERROR**2)
        largest.append([abs(values[strongest]) for values in (rho, guesses, truth)])
    cells = (claims / TABLES, np.mean(missed), np.mean(missed_by_adjusted), exceeded / TABLES)
    return (
        f"{sizes[0]} × {sizes[1]}",
        f"{share:.0%} of {strength:g}" if share else "none",
        f"{ratio:g}",
        *(f"{cell:.1%}" for cell in cells),
        *(f"{mean:.3f}" for mean in np.mean(largest, axis=0)),
    )


def sample_coefficients(rho: Floats, rng: np.random.Generator) -> Floats:
    """Draw coefficients of samples of normal columns."""
    spread = np.sqrt((1 + rho**2 / 2) / (ROWS - 3))
    return np.tanh(np.arctanh(rho) + spread * rng.normal(size=rho.shape))


def rank_ranges_of_features() -> Iterator[tuple[object, ...]]:
    """Yield lines on how often ranges have the true ranks, and equal neighbours are told apart."""
    for m, correlation, known in product((5, 20, 60), (0.0, 0.8, -0.8), (True, False)):
        rng = np.random.default_rng([m, int(10 * correlation) + 10, known])
        correlations, error = np.eye(m), np.full(m, 0.01)
        for i in range(0, m - 1, 2):
            correlations[i, i + 1] = correlations[i + 1, i] = correlation
        truth, root = np.sort(rng.normal(size=m))[::-1] * 0.05, np.linalg.cholesky(correlations)
        variances = difference_variances(error, 0.0, correlations if known else None)
        limits = 1.96 * np.sqrt(np.diagonal(variances, offset=1))
        ranks = np.arange(1, m + 1)
        measured = []
        for _ in range(2 * TABLES):
            errors = root @ rng.normal(size=m) * 0.01
            first, last = rank_ranges(truth + errors, variances, CONFIDENCE)
            apart = (np.abs(np.diff(errors)) >= limits)[::2].mean()
            measured.append((((first <= ranks) & (ranks <= last)).all(), (last - first + 1).mean(), apart))
        right, width, apart = np.mean(measured, axis=0)
        cells = (f"{right:.1%}", f"{width:.1f}", f"{apart:.1%}")
        yield m, f"{correlation:g}", "yes" if known else "no", *cells


def intervals_of_r2(truths: tuple[float, ...]) -> Iterator[tuple[object, ...]]:
    """Yield lines on how often the interval of R² has the share that is explained in the population."""
    for k, ratio in product((1, 5, 30), NOISES):
        noise, right, above = np.array(ratio * ERROR), [], 0.0
        for theta in truths:
            rng = np.random.default_rng([k, int(ratio), int(100 * theta)])
            r2 = sample_r2(theta, k, noise, rng)
            low, high = r2_intervals(r2, Directions(ROWS, np.array(k), noise), CONFIDENCE)
            right.append(f"{np.mean((low <= theta) & (theta <= high)):.1%}")
            above = float(np.mean(low > 0)) if not theta else above
        yield k, f"{ratio:g}", *right, f"{above:.1%}"


def sample_r2(theta: float, k: int, noise: Floats, rng: np.random.Generator, samples: int = 4_000) -> Floats:
    """Draw R² of normal columns, with noise, less the bias of noise."""
    signal = rng.noncentral_chisquare(k, rng.chisquare(ROWS - 1, samples) * theta / (1 - theta))
    z = noise * rng.normal(size=(samples, k))
    z[:, 0] += np.sqrt(signal / (signal + rng.chisquare(ROWS - 1 - k, samples)))
    return np.asarray(np.square(z).sum(axis=1) - k * noise**2)


def largest_correlations() -> Iterator[tuple[object, ...]]:
    """Yield lines on how often the largest canonical correlation counts, and what it is then."""
    for (a, b), ratio, rho in product(((3, 3), (20, 20)), NOISES, (0.0, 0.4, 0.8)):
        rng = np.random.default_rng([a, b, int(ratio), int(10 * rho)])
        noise, values = np.array(ratio * ERROR), []
        directions = Directions(ROWS, np.array(a), noise, k_target=b)
        for _ in range(TABLES if not rho else TABLES // 5):
            x, y = rng.normal(size=(ROWS, a)), rng.normal(size=(ROWS, b))
            y[:, 0] = rho * x[:, 0] + math.sqrt(1 - rho**2) * y[:, 0]
            white_x, white_y = (np.linalg.qr(side - side.mean(axis=0))[0] for side in (x, y))
            z = white_x.T @ white_y + noise * rng.normal(size=(a, b))
            values.append(np.linalg.svd(z, compute_uv=False)[0])
        largest = np.array(values)
        counts = largest > canonical.largest_by_chance(directions)
        corrected = canonical.without_bias(largest[counts], directions)
        shown = f"{np.nanmean(corrected):.2f}" if counts.any() and rho else ""
        cells = (f"{counts.mean():.1%}", f"{largest.mean():.2f}", shown)
        yield f"{a} × {b}", f"{ratio:g}", f"{rho:g}", *cells


if __name__ == "__main__":
    measuring.publish(text, "statistics-checks.md")
