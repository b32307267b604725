"""Measure runs of tables in files that DuckDB ranks, by one process a party and by several.

    python benchmarks/shards.py [--write] [--folder DIR]
    python benchmarks/shards.py --rows 10000000 [--columns 4] [--shards 1 4] [--memory 2GB]

Tables are those of `benchmarks/large.py`, as Parquet files; DuckDB may use so much memory at each data party.
The first run ranks them and keeps the ranks, which all further runs use (``--keep-ranks``). Seconds are after
start-up, bytes those between parties. Memory is the most that a process of its kind had at a time. Pages of
mapped files are in it, which the system takes back where memory is short: a test runs with less
(tests/launch/test_larger_than_memory.py). Coefficients are held against those of the first run.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import large
import measuring
import numpy as np
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

ROWS = (10_000_000, 100_000_000)


def main() -> None:
    """Make tables, run with each number of shards, and print, or write, what it took."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="of each table")
    parser.add_argument("--columns", type=int, default=4, help="of each side")
    parser.add_argument("--shards", type=int, nargs="+", default=(1, 4), help="processes of a party")
    parser.add_argument("--memory", default="2GB", help="that DuckDB may use at each data party")
    parser.add_argument("--folder", type=Path, help="for the tables, rather than a temporary one")
    options = parser.parse_args()
    load, rows = os.getloadavg()[0], []
    for n in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            paths = {party: large.write(Path(folder), party, n, options.columns) for party in "AB"}
            made: np.ndarray | None = None
            for shards in (options.shards[0], *options.shards):
                cells, found = measured(paths, shards, options.memory)
                ranks, made = ("made", found) if made is None else ("kept", made)
                off = float(np.abs(found - made).max())
                same = f"{off:.1e}" if off else "not at all"
                rows.append([f"{n:,}", options.columns, shards, ranks, *cells, same])
    heads = ["rows", "columns of each side", "shards", "ranks", "seconds", "of them load and rank", "sent"]
    heads += ["memory of A or B", "of C", "of another worker", "off the first"]
    line = measuring.environment("duckdb", "torch", load=load)
    text = f"{measuring.table(heads, rows)}\nOne run each, DuckDB's memory {options.memory}; {line}\n"
    measuring.show(text, __file__, write=options.write)


def measured(paths: dict[str, Path], shards: int, memory: str) -> tuple[list[str], np.ndarray]:
    """Run once; return the cells of the table, and the coefficients."""
    plan = measuring.plan(paths, shards=shards, network={"join_timeout": 7200})
    for party in (plan["parties"]["target"], *plan["parties"]["sources"]):
        party["table"] = {"path": party["table"], "memory": memory, "order_by": "id"}
    result = run_local(plan, keep_ranks=paths["A"].parent / "ranks")
    spent, cost = totals(result), result.cost
    memory_of = dict(spent.memory)
    most = [max(memory_of[name] for name in "AB"), memory_of["C"]]
    most += [max((size for name, size in memory_of.items() if "/" in name), default=0)]
    ranking = cost[cost["phase"].isin(["load", "rank"])].groupby("party")["seconds"].sum().max()
    return [
        human_seconds(spent.seconds),
        human_seconds(ranking),
        decimal(spent.wire),
        *(decimal(int(size)) if size else "–" for size in most),
    ], result.coefficients.to_numpy()


if __name__ == "__main__":
    main()
