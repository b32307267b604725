"""Measure whole runs at many rows: seconds, memory a party, and how far coefficients are from exact ones.

    python benchmarks/large.py [--rows 1_000_000] [--columns 50] [--scipy] [--repeats 5] [--folder DIR]

Two Parquet files are made, of `--columns` columns each, all with a common part: in the first three quarters
normals, of the others half whole numbers with ties and half flags. Every repeat is one run at the defaults
with three processes on this machine, and with `--scipy` one of ``scipy.stats.spearmanr`` on the pooled
arrays, in turn. Seconds are after start-up. Exact coefficients are computed for one column of each kind, with
SciPy's ranks and integers.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.filesize import decimal
from scipy.stats import rankdata, spearmanr

from mpc_spearman import run_local
from mpc_spearman.data.ranks import total
from mpc_spearman.results.costs import totals

BLOCK = 1 << 20  # rows


def main() -> None:
    """Make tables, run, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50, help="of each side")
    parser.add_argument("--scipy", action="store_true", help="beside SciPy on the pooled arrays")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the tables, rather than a temporary one")
    options = parser.parse_args()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, load {load}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = {party: Path(folder) / f"{party}.parquet" for party in "AB"}
        for party, path in paths.items():
            write(path, party, options.rows, options.columns)
        measure(paths, options.rows, options.repeats, options.scipy)


def write(path: Path, party: str, n: int, columns: int) -> None:
    """Write a party's table, a block of rows at a time."""
    schema = pa.schema([("id", pa.int64()), *((f"{party}{i}", pa.float64()) for i in range(columns))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, BLOCK):
            rows = range(start, min(n, start + BLOCK))
            common = np.random.default_rng([start, 0]).standard_normal(len(rows))
            rng = np.random.default_rng([start, ord(party)])
            cells = [np.arange(rows.start, rows.stop), *made(columns, common, rng)]
            writer.write_table(pa.table(cells, schema=schema))


def made(columns: int, common: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw the columns of a block of rows."""
    ties, flags = columns - columns // 4, columns - columns // 8
    for i in range(columns):
        values = rng.standard_normal(len(common)) + i / columns * common
        yield values if i < ties else np.rint(10 * values) if i < flags else (values > 1).astype(float)


def measure(paths: dict[str, Path], n: int, repeats: int, scipy: bool) -> None:
    """Run, alternating, and print the medians."""
    plan = {
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B", "table": str(paths["B"])},
            "sources": [{"name": "A", "table": str(paths["A"])}],
        }
    }
    ours, theirs = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        result = run_local(plan)
        whole = time.perf_counter() - began
        spent = totals(result)
        ours.append(spent.seconds)
        memory = ", ".join(f"{party} {decimal(size)}" for party, size in spent.memory)
        print(f"run: {spent.seconds:.2f} s ({whole:.2f} s with start-up), {decimal(spent.wire)}, {memory}")
        if scipy:
            pooled = [pq.read_table(path).to_pandas().iloc[:, 1:].to_numpy() for path in paths.values()]
            began = time.perf_counter()
            spearmanr(*pooled)
            theirs.append(time.perf_counter() - began)
            del pooled
            print(f"scipy.stats.spearmanr: {theirs[-1]:.2f} s; {ours[-1] / theirs[-1]:.2f} times that")
    print(f"median: {statistics.median(ours):.2f} s")
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(f"median of SciPy: {statistics.median(theirs):.2f} s; {ratio:.2f} times that")
    for line in result.warnings:
        print("note:", line)
    m = result.coefficients.shape[1]
    some = sorted({0, m - m // 4 - 1, m - m // 8 - 1, m - 1})
    off = np.abs(result.coefficients.to_numpy()[np.ix_(some, some)] - exact(paths, some))
    print(f"largest distance to exact coefficients, {len(some)} × {len(some)} of them: {off.max():.1e}")


def exact(paths: dict[str, Path], columns: list[int]) -> np.ndarray:
    """Compute coefficients of some columns with sums of integers."""
    sides = []
    for party, path in paths.items():
        table = pq.read_table(path, columns=[f"{party}{i}" for i in columns])
        n = table.num_rows
        ranks = (
            (2 * rankdata(table.column(k).to_numpy())).astype(np.int64) - (n + 1) for k in range(len(columns))
        )
        sides.append([(x, product(x, x)) for x in ranks])
    return np.array([[product(x, y) / math.sqrt(xx * yy) for y, yy in sides[1]] for x, xx in sides[0]])


def product(x: np.ndarray, y: np.ndarray) -> int:
    """Sum products of doubled ranks exactly: in blocks whose sums fit 64 bits."""
    rows = max(1, (1 << 62) // len(x) ** 2)
    found = sum(int(x[i : i + rows] @ y[i : i + rows]) for i in range(0, len(x), rows))
    assert abs(found) <= total(len(x))
    return found


if __name__ == "__main__":
    main()
