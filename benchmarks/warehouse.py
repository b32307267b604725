"""Measure how an engine ranks a file beside the reader of small tables: seconds and memory at the peak.

    python benchmarks/warehouse.py [--rows N] [--columns M] [--memory 500MB] [--repeats 3] [--folder DIR]

Each repeat is a process that reads and ranks one Parquet file of normals and of whole numbers with ties, and
maps the ranks to a file. Its memory is what it holds of its own: pages of mapped files are not counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.filesize import decimal

BLOCK = 1 << 18  # rows
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
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--memory", default="500MB", help="that DuckDB may use")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="for the table, rather than a temporary one")
    options = parser.parse_args()
    ways = {f"DuckDB, memory: {options.memory}": options.memory, "the reader of small tables": ""}
    peaks: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "t.parquet"
        write(file, options.rows, options.columns)

        def ranked(name: str) -> float:
            made = [sys.executable, "-c", RANK, str(file), ways[name]]
            seconds, held = map(float, subprocess.check_output(made, text=True).split())
            peaks[name].append(held)
            return seconds

        seconds = measuring.in_turn({name: lambda name=name: ranked(name) for name in ways}, options.repeats)
        size = decimal(file.stat().st_size)
    rows = [[name, f"{seconds[name]:.1f}", decimal(int(max(peaks[name])))] for name in ways]
    print(f"{options.rows:,} rows, {options.columns} columns, a file of {size}\n")
    print(measuring.table(["way", "seconds", "memory"], rows))
    print(measuring.environment("duckdb", "ibis-framework", "pyarrow", "numpy"))


def write(file: Path, rows: int, columns: int) -> None:
    """Write a table, every second column with many ties."""
    schema = pa.schema([("id", pa.int64()), *((f"c{i}", pa.float64()) for i in range(columns))])
    with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, BLOCK):
            draw, n = np.random.default_rng(start), min(BLOCK, rows - start)
            cells = (draw.normal(size=n).round(1 if i % 2 else 12) for i in range(columns))
            writer.write_table(pa.table([np.arange(start, start + n), *cells], schema=schema))


if __name__ == "__main__":
    main()
