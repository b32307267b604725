"""Measure how an engine ranks a file beside the reader of small tables: seconds and memory at the peak.

    python benchmarks/warehouse.py [--rows N]

Each of three repeats is a process that reads and ranks one Parquet file of `benchmarks/large.py`, and maps
the ranks to a file. Its memory is what it holds of its own: pages of mapped files are not counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import large
import measuring
from rich.filesize import decimal

COLUMNS, MEMORY = 8, "500MB"  # that DuckDB may use
RANK = """
import sys, threading, time
from pathlib import Path
import numpy as np
from mpc_spearman.arrays import room
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.tables import read_table

held = [0]
def watch():
    while True:
        status = Path("/proc/self/status").read_text()
        held[0] = max(held[0], int(status.split("RssAnon:")[1].split()[0]))
        time.sleep(0.02)

threading.Thread(target=watch, daemon=True).start()
start = time.monotonic()
file, memory = Path(sys.argv[1]), sys.argv[2]
table = read_table("B", Query(path=file, memory=memory) if memory else file, TableKeys())
table.ranks(workers=2, place=lambda shape: room(shape, np.int32, in_file=True))
table.close()
print(time.monotonic() - start, held[0] * 1024)
"""


def main() -> None:
    """Make a file, rank it in both ways in turn, and print what it took."""
    parser = measuring.parser(__doc__, writes=False)
    parser.add_argument("--rows", type=int, default=4_000_000)
    rows = parser.parse_args().rows
    ways = {f"DuckDB, memory: {MEMORY}": MEMORY, "the reader of small tables": ""}
    peaks: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        file = large.write(Path(folder), "A", rows, COLUMNS)

        def ranked(name: str) -> float:
            made = [sys.executable, "-c", RANK, str(file), ways[name]]
            seconds, held = map(float, subprocess.check_output(made, text=True).split())
            peaks[name].append(held)
            return seconds

        seconds = measuring.in_turn({name: lambda name=name: ranked(name) for name in ways}, repeats=3)
        size = decimal(file.stat().st_size)
    lines = [[name, f"{seconds[name]:.1f}", decimal(int(max(peaks[name])))] for name in ways]
    print(f"{rows:,} rows, {COLUMNS} columns, a file of {size}\n")
    print(measuring.table(["way", "seconds", "memory"], lines))
    print(measuring.environment("duckdb", "ibis-framework", "pyarrow", "numpy"))


if __name__ == "__main__":
    main()
