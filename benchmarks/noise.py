"""Measure how large the noise of published numbers is, and what is found in spite of it.

    python benchmarks/noise.py [--write]

Tables are the demo's and made-up ones, in which both sides' columns follow one trait, the target's more or
less closely. The last column is for a source that adds noise to its inputs: what the target gets, as foreseen
from the scales. `--write` puts the table into docs/guarantee.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import measuring
import numpy as np
import pandas as pd

from mpc_spearman.attacks.guess import mean_scales, scales
from mpc_spearman.attacks.simulated import Floats, Ints, coefficients, encoded, unit
from mpc_spearman.config.sections import LOSS
from mpc_spearman.levels.inputs import foresee
from mpc_spearman.privacy.scales import Scales, deviations, input_deviations
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.pvalues import pvalues, qvalues

PAGE = Path(__file__).parents[1] / "docs" / "guarantee.md"
ROWS, COLUMNS, DRAWS, RATE = (100, 300, 1000, 10_000, 100_000, 1_000_000), (5, 50), 200, 0.05


def main() -> None:
    """Measure all tables and print, or write, what was found."""
    options = measuring.parser(__doc__).parse_args()
    demo = (_read(measuring.ROOT / "data" / f"{name}.csv") for name in ("insurer", "clinic"))
    rows = [measured("the demo", *demo), *(measured(*tables) for tables in made_up())]
    heads = (
        "table",
        "rows × columns of A + B",
        "s / s.e. of coefficients",
        "s / null sd of strengths",
        "strongest is first; in the first 3",
        "pairs found, of those without noise",
        "with noise on A's inputs: s / s.e.; s / null sd; strongest is first",
    )
    measuring.show(measuring.table(heads, rows), __file__, write=options.write, page=PAGE)


def _read(path: Path) -> Ints:
    """Rank the columns of a file, but for its first, the ids."""
    return encoded(pd.read_csv(path, index_col=0).select_dtypes("number").dropna(axis=1).to_numpy().T)


def made_up() -> Iterator[tuple[str, Ints, Ints]]:
    """Make tables without ties, and of flags that one in ten has."""
    rng = np.random.default_rng(1)
    for flags in (False, True):
        for m in COLUMNS:
            for n in ROWS:
                trait = rng.standard_normal(n)
                sides = []
                for weights in (np.full(m, 0.5), np.linspace(0, 0.3, m)):
                    columns = [w * trait + np.sqrt(1 - w * w) * rng.standard_normal(n) for w in weights]
                    sides.append([column > 1.2816 for column in columns] if flags else columns)
                yield ("flags of 10 %" if flags else "no ties"), *(encoded(np.array(side)) for side in sides)


def measured(name: str, x: Ints, y: Ints) -> tuple[str, ...]:
    """Return a line of the table."""
    rng, n = np.random.default_rng(2), x.shape[1]
    s = deviations(scales(x), scales(y), LOSS)
    s_mean = deviations(mean_scales(x), scales(y), LOSS)[0]
    rho, error = coefficients(x, y), 1 / np.sqrt(n - 1)
    means = rho.mean(axis=0)
    null = float(np.linalg.norm(unit(x).mean(axis=0))) * error
    typical = Scales(np.array([np.median(scales(y).widths)]), scales(y).spread)
    s_inputs = foresee(scales(x), typical, (1.0, 1.0), (True, False), LOSS, n, None)
    s_mean_inputs = float(input_deviations(mean_scales(x), LOSS, "row")[0])
    first, among, first_inputs, found = 0, 0, 0, []
    untied = [Columns(np.full(len(side), Ties.NONE), np.zeros(len(side))) for side in (x, y)]

    def discovered(values: Floats, noise: Floats | float) -> Floats:
        p = pvalues(values, max(n, 16), untied[0].rows, untied[1], "tie_corrected", noise)
        return qvalues(p) < RATE

    without = discovered(rho, 0.0)
    for _ in range(DRAWS):
        order = np.argsort(-(means + s_mean * rng.standard_normal(len(y))))
        first += int(order[0] == means.argmax())
        among += int(means.argmax() in order[:3])
        noisy_means = means + s_mean_inputs * rng.standard_normal(len(y))
        first_inputs += int(noisy_means.argmax() == means.argmax())
        if without.any():
            noisy = discovered(rho + s * rng.standard_normal(s.shape), s)
            found.append((noisy & without).sum() / without.sum())
    return (
        name,
        f"{n:,} × ({len(x)} + {len(y)})",
        f"{np.median(s) / error:.2g}",
        f"{np.median(s_mean) / null:.2g}",
        f"{first / DRAWS:.0%}; {among / DRAWS:.0%}",
        f"{np.mean(found):.0%} of {without.sum()}" if found else "– of 0",
        f"{np.median(s_inputs) / error:.2g}; {s_mean_inputs / null:.2g}; {first_inputs / DRAWS:.0%}",
    )


if __name__ == "__main__":
    main()
