"""Measure how large the noise of published numbers is, and what is found in spite of it.

    python benchmarks/noise.py [--write]

Tables are the demo's, made-up ones, and real ones of ../shared/data, if it is there. Of made-up tables with
independent columns, each feature of the target follows one of the source's; blocks of five columns at either
side follow a trait that both have; or all columns follow one trait. Features follow more or less closely.
"Before" is noise from scales as they were stated at first: R and D rounded up to powers of 2^(1/4), and D at
most four times the largest squared norm of a row. The second table is of a source that adds noise to its
inputs, as expected from the scales. `--write` puts both into docs/guarantee.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import measuring
import numpy as np
import pandas as pd

from mpc_spearman.attacks.guess import mean_scales, scales
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, encoded, unit
from mpc_spearman.config.sections import LOSS
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.levels.expected_noise import expected_deviations
from mpc_spearman.privacy.choice import noise_factor
from mpc_spearman.privacy.scales import Scales, deviations, input_deviations, untied_range
from mpc_spearman.statistics.columns import Columns, Flags
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues

REAL = measuring.ROOT.parent / "shared" / "data"
KINDS = ("independent", "blocks", "one factor", "flags of 10 %, one factor")
ROWS, COLUMNS, DRAWS, RATE, TOP = (200, 1000, 5000, 50_000), (5, 20, 50), 100, 0.05, 3
HEADS = (
    "table",
    "rows × columns of A + B",
    "noise / s.e. of coefficients, before; now; of the 3 strongest",
    "strongest pairs right, before; now; the 3 strongest",
    "pairs found, of those without noise, before; now",
    "noise / null sd of strengths, before; now",
    "strongest feature first, before; now",
    "in the first 3",
)
HEADS_OF_INPUTS = (
    "table",
    "rows × columns of A + B",
    "noise / s.e. of coefficients",
    "noise / null sd of strengths",
    "strongest feature first",
)
#: Encoded columns of A and of B.
Sides = tuple[Ints, Ints]


def text() -> str:
    """Return both tables."""
    demo = read(measuring.ROOT / "data" / "insurer.csv"), read(measuring.ROOT / "data" / "clinic.csv")
    lines = [noise_of_results("the demo", demo)]
    for file in sorted(REAL.glob("*_hetero_host.csv")):
        sides = read(file), read(file.with_name(file.name.replace("host", "guest")))
        lines.append(noise_of_results(file.name.split("_")[0], sides))
    for kind, m, n in product(KINDS, COLUMNS, ROWS):
        lines.append(noise_of_results(kind, drawn(kind, n, m)))
    on_inputs = [noise_on_inputs("the demo", demo)]
    for n, m in product((1000, 10_000, 100_000), (5, 50)):
        on_inputs.append(noise_on_inputs("one factor", drawn("one factor", n, m)))
    return f"{measuring.table(HEADS, lines)}\n{measuring.table(HEADS_OF_INPUTS, on_inputs)}"


def read(path: Path) -> Ints:
    """Rank the numeric columns of a file that vary, but for its first, the ids."""
    frame = pd.read_csv(path, index_col=0).select_dtypes("number").dropna(axis=1)
    return encoded(frame.loc[:, frame.nunique() > 1].to_numpy().T)


def drawn(kind: str, n: int, m: int) -> Sides:
    """Draw two tables of a kind, n rows and m columns each."""
    rng, weights = np.random.default_rng([KINDS.index(kind), n, m]), np.linspace(0, 0.3, m)
    if kind == "independent":
        traits = source = rng.standard_normal((m, n))
    else:
        count = m // 5 if kind == "blocks" else 1
        traits = rng.standard_normal((count, n))[np.arange(m) * count // m]
        source = following(traits, np.full(m, 0.5), rng)
    target = following(traits, rng.permutation(weights), rng)
    if kind.startswith("flags"):
        return encoded(source > 1.2816), encoded(target > 1.2816)
    return encoded(source), encoded(target)


def following(traits: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
    """Draw columns with these correlations with traits, (m, n)."""
    unrelated = np.sqrt(1 - weights**2)[:, None] * rng.standard_normal(traits.shape)
    return np.asarray(weights[:, None] * traits + unrelated)


def scales_before(x: Ints, of_mean: bool) -> Scales:
    """Return the scales that columns, or their mean, used to have."""
    lengths = np.sqrt(np.square(x.astype(float)).sum(axis=1))
    vectors = x / lengths[:, None]
    if of_mean:
        return Scales(_up(np.ptp(vectors.mean(axis=0), keepdims=True)))
    widths = np.ptp(vectors, axis=1)
    farthest = float(np.square(vectors / widths[:, None]).sum(axis=0).max())
    return Scales(_up(widths), float(_up(np.array(max(1.0, min(len(x), 4 * farthest))))))


def _up(values: np.ndarray) -> Floats:
    """Round up to powers of 2^(1/4)."""
    return np.asarray(2.0 ** (np.ceil(4 * np.log2(values) - 1e-11) / 4))


def noise_of_results(name: str, sides: Sides) -> tuple[str, ...]:
    """Return a line of the first table."""
    (x, y), rng, n = sides, np.random.default_rng(2), sides[0].shape[1]
    rho, error = coefficients(x, y), 1 / np.sqrt(n - 1)
    of_x, of_y = scales(x), scales(y)
    noises = [
        deviations(scales_before(x, False), scales_before(y, False), LOSS),
        deviations(of_x, of_y, LOSS),
    ]
    of_strongest = noises[1] * noise_factor(TOP, rho.size, of_x.spread * of_y.spread)
    columns = Columns.of(rank_columns(list(x))).rows, Columns.of(rank_columns(list(y)))

    def found(values: Floats, noise: Floats | float) -> Flags:
        return np.asarray(qvalues(pvalues(values, Pairs(n, *columns, noise=noise))) <= RATE)

    found_exactly, right, shares = found(rho, 0.0), [], []
    for _ in range(DRAWS):
        copies = [rho + noise * rng.standard_normal(noise.shape) for noise in noises]
        # The choice: Gumbel noise of scale √(k/ρ) on |ρ|/max(R_p·R_q, r²).
        scores = np.abs(rho) / np.maximum(np.outer(of_x.widths, of_y.widths), untied_range(n) ** 2)
        scores = scores + np.sqrt(TOP / LOSS) * rng.gumbel(size=scores.shape)
        right.append([strongest_among_first(rho, np.abs(values)) for values in (*copies, scores)])
        if found_exactly.any():
            again = [found(*pair) & found_exactly for pair in zip(copies, noises, strict=True)]
            shares.append([flags.sum() / found_exactly.sum() for flags in again])
    strengths, null = rho.mean(axis=0), null_deviation(x)
    of_strengths = [
        deviations(scales_before(x, True), scales_before(y, False), LOSS)[0],
        deviations(mean_scales(x), of_y, LOSS)[0],
    ]
    first, in_first_three = zip(*(places_of_largest(strengths, s, rng) for s in of_strengths), strict=True)
    return (
        name,
        f"{n:,} × ({len(x)} + {len(y)})",
        "; ".join(f"{np.median(s) / error:.2g}" for s in (*noises, of_strongest)),
        percentages(np.mean(right, axis=0)),
        f"{percentages(np.mean(shares, axis=0)) if shares else '–'} of {found_exactly.sum():,}",
        "; ".join(f"{np.median(s) / null:.2g}" for s in of_strengths),
        percentages(first),
        percentages(in_first_three),
    )


def null_deviation(x: Ints) -> float:
    """Return the standard deviation of the strength of an unrelated feature."""
    return float(np.linalg.norm(unit(x).mean(axis=0))) / np.sqrt(x.shape[1] - 1)


def percentages(shares: Iterable[float]) -> str:
    """Return shares as a cell."""
    return "; ".join(f"{share:.0%}" for share in shares)


def strongest_among_first(rho: Floats, values: Floats) -> float:
    """Return which share of the strongest pairs are among as many with the largest values."""
    strongest, largest = (np.argsort(-of.ravel())[:TOP] for of in (np.abs(rho), values))
    return len(np.intersect1d(strongest, largest)) / TOP


def places_of_largest(means: Floats, noise: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Return how often the feature with the largest mean is first, and among the first three."""
    noisy = means + noise * rng.standard_normal((DRAWS, len(noise)))
    place = (noisy > noisy[:, [means.argmax()]]).sum(axis=1)
    return float(np.mean(place == 0)), float(np.mean(place < TOP))


def noise_on_inputs(name: str, sides: Sides) -> tuple[str, ...]:
    """Return a line of the table of noise on the source's inputs: what the target gets."""
    (x, y), n = sides, sides[0].shape[1]
    typical = Scales(np.array([np.median(scales(y).widths)]), scales(y).spread)
    noise = expected_deviations(scales(x), typical, (1.0, 1.0), (True, False), LOSS, n, None)
    of_strengths = np.full(len(y), float(input_deviations(mean_scales(x), LOSS, "row")[0]))
    first, _ = places_of_largest(coefficients(x, y).mean(axis=0), of_strengths, np.random.default_rng(3))
    sizes, error = f"{n:,} × ({len(x)} + {len(y)})", 1 / np.sqrt(n - 1)
    ratio = of_strengths[0] / null_deviation(x)
    return name, sizes, f"{np.median(noise) / error:.2g}", f"{ratio:.2g}", f"{first:.0%}"


if __name__ == "__main__":
    measuring.publish(text, "guarantee.md")
