"""Measure what proofs cost: a run with them beside one without; print docs/costs.md's table.

    python benchmarks/proofs.py [--write]

Tables are made up, of normals. The two ways take turns. Noise is that of the median coefficient, in standard
errors of a coefficient.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import large
import measuring
from rich.filesize import decimal

from mpc_spearman import Result, run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

#: Rows, columns of each side, and how often they are run.
SIZES = ((10_000, 10, 5), (100_000, 50, 3), (1_000_000, 10, 3))


def main() -> None:
    """Run everything and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    rows = [row for size in SIZES for row in beside(*size)]
    heads = ("rows", "columns of each side", "proofs", "seconds", "ratio", "sent in all", "rounds of A")
    text = measuring.table((*heads, "memory, data party", "noise / s.e."), rows)
    measuring.show(f"{text}\nMedians; {measuring.environment('torch')}\n", __file__, write=options.write)


def beside(n: int, columns: int, repeats: int) -> list[list[object]]:
    """Run with and without proofs in turn on the same tables."""
    last: dict[str, Result] = {}
    noise: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        paths = {party: large.write(Path(folder), party, n, columns) for party in "AB"}

        def run(proofs: str) -> float:
            plan = measuring.plan(paths, reveal="coefficients", proofs=proofs == "yes")
            plan["results"] = {"target": "coefficients"}
            out = Path(folder, proofs)
            last[proofs] = run_local(plan, out=out)
            target = Result.load(out / "B")
            noise[proofs] = float(median(target.noise.to_numpy().ravel().tolist())) * math.sqrt(n - 1)
            return totals(last[proofs]).seconds

        took = measuring.in_turn({way: partial(run, way) for way in ("no", "yes")}, repeats, note=f"{n:,}:")
    rows: list[list[object]] = []
    for way, seconds in took.items():
        spent, cost = totals(last[way]), last[way].cost
        rounds = int(cost[cost["party"] == "A"]["rounds"].sum())
        memory = max(dict(spent.memory)[party] for party in "AB")
        figures = (human_seconds(seconds), f"{seconds / took['no']:.1f}", decimal(spent.wire), rounds)
        rows.append([f"{n:,}", columns, way, *figures, decimal(memory), f"{noise[way]:.2g}"])
    return rows


if __name__ == "__main__":
    main()
