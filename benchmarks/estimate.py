"""Compare `mpc-spearman estimate` with runs of the size that it estimates.

    python benchmarks/estimate.py [--write]

For every plan and size: the time after start-up, the bytes that all send, and the largest resident memory of
an owner, each estimated from smaller runs and then measured, the median of the repeats. The sizes are larger
than those that `estimate` runs itself. Tables are Parquet files.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import measuring
import pandas as pd
from rich.filesize import decimal

from mpc_spearman.comparison import per_run
from mpc_spearman.comparison.prediction import estimate
from mpc_spearman.comparison.sweep import measure
from mpc_spearman.comparison.variants import Size, Variant, variants
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.units import human_seconds

REPEATS = 3
#: Plans, and at which sizes each is tried.
MPC = (Size(600_000, 20, 20), Size(400_000, 50, 50))
BFV = (Size(40_000, 10, 10), Size(60_000, 20, 5))
PAILLIER = (Size(10_000, 10, 10), Size(5000, 70, 4))
PLANS: tuple[tuple[dict[str, Any], tuple[Size, ...]], ...] = (
    ({"reveal": "coefficients"}, MPC),
    ({"reveal": "strengths"}, MPC),
    ({"reveal": "differences"}, MPC),
    ({"protocol": "he", "he": {"scheme": "bfv"}}, BFV),
    ({"protocol": "he", "he": {"randomness": "short"}}, PAILLIER),
)


def main() -> None:
    """Measure everything and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    rows, off = [], []
    with ForkServer() as server:
        for settings, sizes in PLANS:
            (variant,) = variants([measuring.plan(**settings)])
            for size in sizes:
                print(f"{variant}, {size}", file=sys.stderr, flush=True)
                found = figures(estimate(variant, size, server=server).table)
                cells, apart = compared(found, measured(variant, size, server))
                rows.append(
                    [f"{variant.scheme}, {variant.plan.reveal}", str(size).replace(" columns", ""), *cells]
                )
                off += apart
                print(*cells, file=sys.stderr, sep=", ", flush=True)
    heads = ["plan", "size", "time", "off", "sent in all", "off", "memory", "off"]
    middle = statistics.median(map(abs, off))
    line = measuring.environment("torch", "numpy")
    about = (
        f"Half of the figures are within {middle:.0%}. Estimated / measured, the median of {REPEATS}; {line}"
    )
    measuring.show(f"{measuring.table(heads, rows)}\n{about}\n", __file__, write=options.write)


def figures(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the seconds, the bytes that all send, and the memory of the owner that takes most."""
    (run,) = per_run(table).to_dict("records")
    return run["seconds"], run["bytes"], float(table.loc[table["party"] != "C", "memory"].max())


def compared(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[list[str], list[float]]:
    """Put estimated and measured figures side by side; return cells, and by how much each is off."""
    cells, off = [], []
    for a, b, shown in zip(one, other, (human_seconds, decimal, decimal), strict=True):
        off.append(a / b - 1)
        cells += [f"{shown(a)} / {shown(b)}", f"{off[-1]:+.0%}"]
    return cells, off


def measured(variant: Variant, size: Size, server: ForkServer) -> tuple[float, ...]:
    """Run, and take the median of each figure."""
    found = [figures(measure(variant, size, server=server)) for _ in range(REPEATS)]
    return tuple(map(statistics.median, zip(*found, strict=True)))


if __name__ == "__main__":
    main()
