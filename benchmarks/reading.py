"""Measure what reading and checking a table takes, by format, beside pandas.read_csv on the same CSV file.

    python benchmarks/reading.py [--rows N] [--columns M] [--repeats R]

Each measurement is a process of its own, and they take turns, so that other work on this machine is shared
among them. Printed are the least processor time of the repeats, as a multiple of pandas', and the peak memory
above that of a process that has only imported the reader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

READ = """
import sys, time
from pathlib import Path
import pandas as pd
from mpc_spearman.config import TableKeys
from mpc_spearman.data.tables import read_table
def peak():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
before, start = peak(), time.process_time()
if sys.argv[1] == "pandas":
    pd.read_csv(sys.argv[2], low_memory=False)
else:
    read_table("A", Path(sys.argv[2]), TableKeys())
print(time.process_time() - start, peak() - before)
"""


def main() -> None:
    """Make the files, let the readers take turns, and print what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("rows", 1_000_000), ("columns", 50), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder), options.rows, options.columns)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in files}
        for _ in range(options.repeats):
            for name, path in files.items():
                found[name].append(measured(name, path))
        print(f"{options.rows:,} rows, {options.columns} columns; load {os.getloadavg()[0]:.1f}")
        base = min(seconds for seconds, _ in found["pandas"])
        for name, its in found.items():
            seconds, memory = min(seconds for seconds, _ in its), max(memory for _, memory in its)
            size = files[name].stat().st_size
            print(
                f"{name:8} {size / 1e6:7.0f} MB  {seconds / base:5.2f} of pandas' {base:.2f} s  "
                f"{memory / 1e6:7.0f} MB above imports"
            )


def made(folder: Path, rows: int, columns: int) -> dict[str, Path]:
    """Write one table in every format: half whole numbers, half normal ones."""
    rng = np.random.default_rng(3)
    features = {
        f"x{j}": rng.integers(0, 1000, rows) if j % 2 else rng.normal(size=rows) for j in range(columns)
    }
    table = pa.table({"id": [f"p{i:08}" for i in range(rows)], **features})
    files = {name: folder / f"t.{name}" for name in ("csv", "parquet", "arrow")}
    pa_csv.write_csv(table, files["csv"])
    pq.write_table(table, files["parquet"])
    feather.write_feather(table, files["arrow"], compression="uncompressed")
    return {"pandas": files["csv"], **files}


def measured(name: str, path: Path) -> tuple[float, float]:
    """Read in a process of its own; return its processor time and how much memory it took."""
    done = subprocess.run(
        [sys.executable, "-c", READ, name, str(path)], capture_output=True, text=True, check=True
    )
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


if __name__ == "__main__":
    main()
