"""Measure what finding the common rows costs, in private and beside the reading; print docs/costs.md's table.

    python benchmarks/alignment.py [--write]

Each line is one run with three processes on this machine, over made-up Parquet files of so many ids each,
half of them in common, in any order, with one column: the phases `load` (reading), `intersect` and `align`
of the party that takes longest; what the three send each other in the latter two; and the most memory that
a data party, and the coordinator, have in the whole run, libraries included. `--write` puts the table into
docs/costs.md.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.config import AGREE_TO_ALL
from mpc_spearman.units import human_seconds

IDS = (10_000, 100_000, 1_000_000)


def main() -> None:
    """Run all sizes and print, or write, the table."""
    options, rows = measuring.parser(__doc__).parse_args(), []
    for ids in IDS:
        print(f"{ids} ids", file=sys.stderr)
        rows.append([f"{ids:,}", f"{ids // 2:,}", *cost(ids)])
    times = ["`load`", "`intersect`", "`align`"]
    heads = ["ids of each", "in common", *times, "sent in all", "memory, data party", "C"]
    text = measuring.table(heads, rows)
    measuring.show(f"{text}\n{measuring.environment('pyarrow')}\n", __file__, write=options.write)


def cost(ids: int) -> list[str]:
    """Run once; return times, bytes and memory."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"B": table(folder, "B", ids // 2, ids), "A": table(folder, "A", 0, ids)}
        # `strengths` takes any number of rows
        plan = measuring.plan(paths, alignment="intersect", reveal="strengths")
        for party in (plan["parties"]["target"], *plan["parties"]["sources"]):
            party["policy"] = {**AGREE_TO_ALL, "max_ids": ids}
        found = run_local(plan).cost
    wall = (found["seconds"] + found["wait_seconds"]).groupby(found["phase"]).max()
    here = found[found["phase"].isin(["intersect", "align"])]
    memory = found.groupby("party")["peak_memory_bytes"].max()
    return [
        *(human_seconds(wall[phase]) for phase in ("load", "intersect", "align")),
        decimal(int(here["bytes_sent"].sum())),
        decimal(int(memory[["A", "B"]].max())),
        decimal(int(memory["C"])),
    ]


def table(folder: str, party: str, first: int, ids: int) -> Path:
    """Write a table of ids from `first` on, in random order; return its path."""
    rng = np.random.default_rng([first, ids])
    numbers = pa.array(first + rng.permutation(ids))
    texts = pa.compute.binary_join_element_wise("person-", numbers.cast(pa.string()), "")
    path = Path(folder, f"{party}.parquet")
    pq.write_table(pa.table({"id": texts, "value": rng.normal(size=ids)}), path)
    return path


if __name__ == "__main__":
    main()
