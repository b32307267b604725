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
from mpc_spearman.comparison.variants import Size, variants
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.units import human_seconds

REPEATS = 3
#: How the figures are shown: time, bytes and memory.
UNITS = (human_seconds, decimal, decimal)
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


def text() -> str:
    """Return the table of all plans and sizes."""
    lines, deviations = [], []
    with ForkServer() as server:
        for settings, sizes in PLANS:
            (variant,) = variants([measuring.plan(**settings)])
            for size in sizes:
                print(f"{variant}, {size}", file=sys.stderr, flush=True)
                estimated = figures(estimate(variant, size, server=server).table)
                runs = [figures(measure(variant, size, server=server)) for _ in range(REPEATS)]
                cells = [f"{variant.scheme}, {variant.plan.reveal}", str(size).replace(" columns", "")]
                for guess, values, shown in zip(estimated, zip(*runs, strict=True), UNITS, strict=True):
                    median = statistics.median(values)
                    deviations.append(guess / median - 1)
                    cells += [f"{shown(guess)} / {shown(median)}", f"{deviations[-1]:+.0%}"]
                lines.append(cells)
    heads = ["plan", "size", "time", "off", "sent in all", "off", "memory", "off"]
    middle = statistics.median(map(abs, deviations))
    return (
        f"{measuring.table(heads, lines)}\nHalf of the figures are within {middle:.0%}. "
        f"Estimated / measured, the median of {REPEATS}; {measuring.environment('torch', 'numpy')}\n"
    )


def figures(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return the seconds, the bytes that all send, and the memory of the owner that takes most."""
    (run,) = per_run(table).to_dict("records")
    return run["seconds"], run["bytes"], float(table.loc[table["party"] != "C", "memory"].max())


if __name__ == "__main__":
    measuring.publish(text)
