"""Measure what proofs cost: a run with them beside one without.

    python benchmarks/proofs.py [--write]

Tables are made up, of normals. The two ways take turns. Noise is that of the median coefficient, in standard
errors of a coefficient. `--write` puts the table into docs/costs.md.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import large
import measuring
from rich.filesize import decimal

from mpc_spearman import Result, run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

#: Rows, columns of each side, and how often they are run.
SIZES = ((10_000, 10, 5), (100_000, 50, 3), (1_000_000, 10, 3))


def text() -> str:
    """Return the table of all sizes."""
    lines = [line for size in SIZES for line in with_and_without(*size)]
    heads = ("rows", "columns of each side", "proofs", "seconds", "ratio", "sent in all", "rounds of A")
    table = measuring.table((*heads, "memory, data party", "noise / s.e."), lines)
    return f"{table}\nMedians; {measuring.environment('torch')}\n"


def with_and_without(n: int, columns: int, repeats: int) -> list[list[object]]:
    """Run with and without proofs in turn on the same tables."""
    with TemporaryDirectory() as folder:
        paths = {party: large.write(Path(folder), party, n, columns) for party in "AB"}

        def run(proofs: str) -> Result:
            results = {"target": "coefficients"}
            plan = measuring.plan(paths, reveal="coefficients", proofs=proofs == "yes", results=results)
            return run_local(plan, out=Path(folder, proofs))

        runs = measuring.in_turn({way: partial(run, way) for way in ("no", "yes")}, repeats, f"{n:,}:")
        noise = {way: Result.load(Path(folder, way, "B")).noise.stack().median() for way in runs}
    lines: list[list[object]] = []
    for way, results in runs.items():
        seconds, cost = measuring.median_seconds(results), results[-1].cost
        ratio = f"{seconds / measuring.median_seconds(runs['no']):.1f}"
        figures = (human_seconds(seconds), ratio, decimal(totals(results[-1]).wire))
        rounds = int(cost[cost["party"] == "A"]["rounds"].sum())
        of_error = f"{noise[way] * math.sqrt(n - 1):.2g}"
        lines.append([f"{n:,}", columns, way, *figures, rounds, measuring.median_memory(results), of_error])
    return lines


if __name__ == "__main__":
    measuring.publish(text)
