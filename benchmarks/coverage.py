"""Measure how often confidence intervals cover the coefficient of the population, ties included.

    python benchmarks/coverage.py [--samples N] [--write]

Pairs are bivariate normal; in the rows with ties one column, or both, are cut into groups. Coefficients are
rounded as a run publishes them. `--write` puts the table into docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mpc_spearman.privacy.precision import coefficient_grid
from mpc_spearman.statistics.inference import Ties, intervals

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
SIZES = (50, 500)
LEVEL = 0.95
#: By name: the shares of rows of equal values, in the order of the values; None for a column without ties.
SHAPES: dict[str, list[float] | None] = {
    "no ties": None,
    "five groups of a fifth": [0.2] * 5,
    "four groups of a quarter": [0.25] * 4,
    "three groups of a third": [1 / 3] * 3,
    "a flag, half and half": [0.5, 0.5],
    "a flag of 20 %": [0.8, 0.2],
}
#: Of the normal variables: with Spearman's coefficient at 0, 0.5 and 0.9 where nothing ties.
LATENT = [2 * float(np.sin(np.pi / 6 * rho)) for rho in (0.0, 0.5, 0.9)]
_POPULATION = 1_000_000

Floats = NDArray[np.float64]


def draw(latent: float, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw pairs of normals of that correlation."""
    x, other = generator.standard_normal((2, *shape))
    return x, latent * x + np.sqrt(1 - latent**2) * other


def cut(values: Floats, shares: list[float] | None) -> Floats:
    """Replace normals by the number of their group."""
    if shares is None:
        return values
    return np.searchsorted(stats.norm.ppf(np.cumsum(shares)[:-1]), values).astype(np.float64)


def spearman(x: Floats, y: Floats) -> Floats:
    """Coefficients along the last axis."""
    a, b = (stats.rankdata(values, axis=-1) for values in (x, y))
    a, b = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (a, b))
    with np.errstate(invalid="ignore"):  # a sample with nobody in one group is not covered
        return np.asarray((a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1)))


def covered(
    latent: float,
    n: int,
    samples: int,
    generator: np.random.Generator,
    source: list[float] | None = None,
    target: list[float] | None = None,
) -> tuple[float, float]:
    """Return the population's coefficient, and which share of the samples' intervals covers it."""
    x, y = draw(latent, (_POPULATION,), generator)
    truth = float(spearman(cut(x, source), cut(y, target)))
    x, y = draw(latent, (samples, n), generator)
    grid = coefficient_grid(n)
    published = grid.round(spearman(cut(x, source), cut(y, target)))
    # As if nothing tied: it is what ties would do to intervals that is measured.
    tied = np.full(published.shape, Ties.NONE)
    low, high = intervals(published, n, tied, "tie_corrected", LEVEL, grid.step)
    return truth, float(np.mean((low <= truth) & (truth <= high)))


def tie_share(shares: list[float] | None) -> float:
    """Tie term of a column, as a share of the largest possible, in the limit of many rows."""
    return sum(share**3 for share in shares or ())


def lines(samples: int) -> Iterator[str]:
    """Make the table: a row for each shape, and whether one column has it or both."""
    generator = np.random.default_rng(20260801)
    yield "| columns | tie term, of the largest | ρ | covered at n = 50 | at n = 500 |"
    yield "|---|---:|---:|---:|---:|"
    for name, shares in SHAPES.items():
        for target in [None] if shares is None else [None, shares]:
            which = name if shares is None else f"{name}, {'both' if target else 'one'}"
            for latent in LATENT:
                found = [covered(latent, n, samples, generator, shares, target) for n in SIZES]
                cells = " | ".join(f"{share:.1%}" for _, share in found)
                yield f"| {which} | {tie_share(shares):.2f} | {found[-1][0]:.2f} | {cells} |".replace(
                    "-0.00", "0.00"
                )


def main() -> None:
    """Print, or write, the table."""
    import measuring  # beside this file: a test loads the rest by its path

    parser = measuring.parser(__doc__)
    parser.add_argument("--samples", type=int, default=10_000, help="samples for each figure")
    options = parser.parse_args()
    text = "".join(f"{line}\n" for line in lines(options.samples))
    measuring.show(text, __file__, write=options.write, page=PAGE)


if __name__ == "__main__":
    main()
