"""Measure how large the noise of published numbers is, and what is found in spite of it.

    python benchmarks/noise.py [--write] [--real FOLDER]

Tables are the demo's, made-up ones, and real ones of a folder, if it is there. Of made-up tables with
independent columns, each feature of the target follows one of the source's; blocks of five columns at either
side follow a trait that both have; or all columns follow one trait. Features follow more or less closely.
"Before" is noise from scales as they were stated at first: R and D rounded up to powers of 2^(1/4), and D at
most four times the largest squared norm of a row. The second table is of a source that adds noise to its
inputs, as foreseen from the scales. `--write` puts both into docs/guarantee.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import measuring
import numpy as np
import pandas as pd

from mpc_spearman.attacks.guess import mean_scales, scales
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, unit
from mpc_spearman.config.sections import LOSS
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.levels.foreseen import foresee
from mpc_spearman.privacy.choice import noise_factor
from mpc_spearman.privacy.scales import Scales, deviations, input_deviations, untied_range
from mpc_spearman.statistics.columns import Columns, Flags
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues

PAGE = Path(__file__).parents[1] / "docs" / "guarantee.md"
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


def main() -> None:
    """Measure all tables and print, or write, what was found."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--real", type=Path, default=REAL, help="a folder with tables NAME_hetero_host.csv")
    options = parser.parse_args()
    demo = _read(measuring.ROOT / "data" / "insurer.csv"), _read(measuring.ROOT / "data" / "clinic.csv")
    real = [
        (file.name.split("_")[0], _read(file), _read(file.with_name(file.name.replace("host", "guest"))))
        for file in sorted(options.real.glob("*_hetero_host.csv"))
    ]
    rows = [measured("the demo", *demo), *(measured(*tables) for tables in [*real, *made_up()])]
    on_inputs = [inputs("the demo", *demo)]
    for n in (1000, 10_000, 100_000):
        on_inputs += [inputs("one factor", *drawn("one factor", n, m)) for m in (5, 50)]
    heads = (
        "table",
        "rows × columns of A + B",
        "noise / s.e. of coefficients",
        "noise / null sd of strengths",
    )
    text = (
        f"{measuring.table(HEADS, rows)}\n{measuring.table((*heads, 'strongest feature first'), on_inputs)}"
    )
    measuring.show(text, __file__, write=options.write, page=PAGE)


def _read(path: Path) -> Ranks:
    """Rank the numeric columns of a file that vary, but for its first, the ids."""
    frame = pd.read_csv(path, index_col=0).select_dtypes("number").dropna(axis=1)
    return rank_columns(list(frame.loc[:, frame.nunique() > 1].to_numpy().T))


def _integers(*sides: Ranks) -> list[Ints]:
    return [side.matrix.astype(np.int64) for side in sides]


def made_up() -> Iterator[tuple[str, Ranks, Ranks]]:
    """Make tables of every kind and size."""
    for kind in KINDS:
        for m in COLUMNS:
            for n in ROWS:
                yield kind, *drawn(kind, n, m)


def drawn(kind: str, n: int, m: int) -> tuple[Ranks, Ranks]:
    """Make two tables of a kind, n rows and m columns each."""
    rng, weights = np.random.default_rng([KINDS.index(kind), n, m]), np.linspace(0, 0.3, m)
    if kind == "independent":
        source = rng.standard_normal((m, n))
        traits, of_source = source, np.zeros(m)
    else:
        count = m // 5 if kind == "blocks" else 1
        traits = rng.standard_normal((count, n))[np.arange(m) * count // m]
        of_source = np.full(m, 0.5)
        source = _following(traits, of_source, rng)
    target = _following(traits, rng.permutation(weights), rng)
    sides = (source, target)
    if kind.startswith("flags"):
        sides = (source > 1.2816, target > 1.2816)
    return rank_columns(list(sides[0])), rank_columns(list(sides[1]))


def _following(traits: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
    """Make columns with these correlations with traits, (m, n)."""
    own = np.sqrt(1 - weights**2)[:, None] * rng.standard_normal(traits.shape)
    return np.asarray(weights[:, None] * traits + own)


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


def measured(name: str, source: Ranks, target: Ranks) -> tuple[str, ...]:
    """Return a line of the first table."""
    rng, (x, y), n = np.random.default_rng(2), _integers(source, target), source.n
    rho, error = coefficients(x, y), 1 / np.sqrt(n - 1)
    own, other = scales(x), scales(y)
    s_before = deviations(scales_before(x, False), scales_before(y, False), LOSS)
    s_now = deviations(own, other, LOSS)
    s_few = s_now * noise_factor(TOP, rho.size, own.spread * other.spread)
    columns = Columns.of(source).rows, Columns.of(target)

    def found(values: Floats, noise: Floats | float) -> Flags:
        return np.asarray(qvalues(pvalues(values, Pairs(n, *columns, noise=noise))) <= RATE)

    without, right, shares = found(rho, 0.0), [], []
    for _ in range(DRAWS):
        copies = [rho + s * rng.standard_normal(s.shape) for s in (s_before, s_now)]
        # The choice: Gumbel noise of scale √(k/ρ) on |ρ|/max(R_p·R_q, r²).
        scores = np.abs(rho) / np.maximum(np.outer(own.widths, other.widths), untied_range(n) ** 2)
        scores = scores + np.sqrt(TOP / LOSS) * rng.gumbel(size=scores.shape)
        right.append([_in_first(rho, np.abs(values)) for values in (*copies, scores)])
        if without.any():
            each = zip(copies, (s_before, s_now), strict=True)
            shares.append([(found(*copy) & without).sum() / without.sum() for copy in each])
    means, null = rho.mean(axis=0), float(np.linalg.norm(unit(x).mean(axis=0))) * error
    s_means = (
        deviations(scales_before(x, True), scales_before(y, False), LOSS)[0],
        deviations(mean_scales(x), other, LOSS)[0],
    )
    first, among = zip(*(_strongest_feature(means, s, rng) for s in s_means), strict=True)
    return (
        name,
        f"{n:,} × ({len(x)} + {len(y)})",
        "; ".join(f"{np.median(s) / error:.2g}" for s in (s_before, s_now, s_few)),
        _percent(np.mean(right, axis=0)),
        f"{_percent(np.mean(shares, axis=0)) if shares else '–'} of {without.sum():,}",
        "; ".join(f"{np.median(s) / null:.2g}" for s in s_means),
        *map(_percent, (first, among)),
    )


def _percent(shares: Iterable[float]) -> str:
    return "; ".join(f"{share:.0%}" for share in shares)


def _in_first(rho: Floats, values: Floats) -> float:
    """Return which share of the strongest pairs are among as many with the largest values."""
    strongest, largest = (np.argsort(-of.ravel())[:TOP] for of in (np.abs(rho), values))
    return len(np.intersect1d(strongest, largest)) / TOP


def _strongest_feature(means: Floats, s: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Return how often the feature with the largest mean is first, and among the first three."""
    noisy = means + s * rng.standard_normal((DRAWS, len(s)))
    place = (noisy > noisy[:, [means.argmax()]]).sum(axis=1)
    return float(np.mean(place == 0)), float(np.mean(place < TOP))


def inputs(name: str, source: Ranks, target: Ranks) -> tuple[str, ...]:
    """Return a line of the table of noise on the source's inputs: what the target gets."""
    (x, y), n = _integers(source, target), source.n
    means, error = coefficients(x, y).mean(axis=0), 1 / np.sqrt(n - 1)
    null = float(np.linalg.norm(unit(x).mean(axis=0))) * error
    typical = Scales(np.array([np.median(scales(y).widths)]), scales(y).spread)
    s = foresee(scales(x), typical, (1.0, 1.0), (True, False), LOSS, n, None)
    s_mean = np.full(len(y), float(input_deviations(mean_scales(x), LOSS, "row")[0]))
    first, _ = _strongest_feature(means, s_mean, np.random.default_rng(3))
    sizes = f"{n:,} × ({len(x)} + {len(y)})"
    return name, sizes, f"{np.median(s) / error:.2g}", f"{s_mean[0] / null:.2g}", f"{first:.0%}"


if __name__ == "__main__":
    main()
