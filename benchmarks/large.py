"""Measure whole runs at many rows: seconds, memory a party, and how far coefficients are from exact ones.

    python benchmarks/large.py [--write]
    python benchmarks/large.py --rows 200000 --columns 50

Two Parquet files are made, of so many columns each, all with a common part: in the first three quarters
normals, of the others half whole numbers with ties and half flags. Every repeat is one run at the defaults
with three processes on this machine and, up to a million rows, one of ``scipy.stats.spearmanr`` on the pooled
arrays, in turn. Seconds are after start-up. Exact coefficients are computed for one column of each kind, with
SciPy's ranks and integers. Without a number of rows the sizes of docs/costs.md are measured, the largest ones
once, which takes 16 GB of memory.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.filesize import decimal
from scipy.stats import rankdata, spearmanr

from mpc_spearman import Result, run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

BLOCK = 1 << 20  # rows
#: Rows, columns of each side, and how often they are run; up to so many rows beside SciPy.
SIZES = ((200_000, 50, 5), (1_000_000, 50, 5), (10_000_000, 20, 1), (50_000_000, 4, 1))
POOLED = 1_000_000


def text(rows: int | None, columns: int | None) -> str:
    """Return the table of all sizes, or of one."""
    sizes = ((rows, columns or 50, measuring.REPEATS),) if rows else SIZES
    lines = []
    for n, m, repeats in sizes:
        with tempfile.TemporaryDirectory() as folder:
            paths = {party: write(Path(folder), party, n, m) for party in "AB"}
            lines.append((f"{n:,}", m, repeats, *measured(paths, n, m, repeats)))
    heads = ("rows", "columns of each side", "runs", "seconds", "of SciPy's", "sent in all")
    table = measuring.table((*heads, "memory, data party", "C", "off exact coefficients"), lines)
    return f"{table}\nMedians; {measuring.environment('scipy', 'numpy', 'torch')}\n"


def write(folder: Path, party: str, n: int, columns: int) -> Path:
    """Write a party's table, a block of rows at a time; return its path."""
    path = folder / f"{party}.parquet"
    schema = pa.schema([("id", pa.int64()), *((f"{party}{i}", pa.float64()) for i in range(columns))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, BLOCK):
            rows = range(start, min(n, start + BLOCK))
            common = np.random.default_rng([start, 0]).standard_normal(len(rows))
            rng = np.random.default_rng([start, ord(party)])
            cells = [np.arange(rows.start, rows.stop), *drawn(columns, common, rng)]
            writer.write_table(pa.table(cells, schema=schema))
    return path


def drawn(columns: int, common: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw the columns of a block of rows."""
    ties, flags = columns - columns // 4, columns - columns // 8
    for i in range(columns):
        values = rng.standard_normal(len(common)) + i / columns * common
        yield values if i < ties else np.rint(10 * values) if i < flags else (values > 1).astype(float)


def measured(paths: dict[str, Path], n: int, m: int, repeats: int) -> list[str]:
    """Return what runs of the tables took, up to a million rows beside SciPy, as cells of the table."""

    def scipy_seconds() -> float:
        pooled = [pq.read_table(path).to_pandas().iloc[:, 1:].to_numpy() for path in paths.values()]
        began = time.perf_counter()
        spearmanr(*pooled)
        return time.perf_counter() - began

    ways: dict[str, Callable[[], Any]] = {"a run": lambda: run_local(measuring.plan(paths))}
    if n <= POOLED:
        ways["SciPy"] = scipy_seconds
    outcomes = measuring.in_turn(ways, repeats, note=f"{n:,} rows:")
    runs: list[Result] = outcomes["a run"]
    seconds = measuring.median_seconds(runs)
    kinds = sorted({0, m - m // 4 - 1, m - m // 8 - 1, m - 1})
    off = np.abs(runs[0].coefficients.to_numpy()[np.ix_(kinds, kinds)] - exact(paths, kinds)).max()
    return [
        human_seconds(seconds),
        f"{seconds / statistics.median(outcomes['SciPy']):.2f}" if n <= POOLED else "–",
        decimal(totals(runs[0]).wire),
        measuring.median_memory(runs),
        measuring.median_memory(runs, "C"),
        f"{off:.1e}" if off else "not at all",
    ]


def exact(paths: dict[str, Path], columns: list[int]) -> np.ndarray:
    """Compute coefficients of some columns with sums of integers."""
    sides = []
    for party, path in paths.items():
        table = pq.read_table(path, columns=[f"{party}{i}" for i in columns])
        n = table.num_rows
        ranks = ((2 * rankdata(column.to_numpy())).astype(np.int64) - (n + 1) for column in table.columns)
        sides.append([(x, product(x, x)) for x in ranks])
    return np.array([[product(x, y) / math.sqrt(xx * yy) for y, yy in sides[1]] for x, xx in sides[0]])


def product(x: np.ndarray, y: np.ndarray) -> int:
    """Sum products of doubled ranks exactly: in blocks whose sums fit 64 bits."""
    rows = max(1, (1 << 62) // len(x) ** 2)
    return sum(int(x[i : i + rows] @ y[i : i + rows]) for i in range(0, len(x), rows))


if __name__ == "__main__":
    measuring.publish(text, rows="this size alone", columns="of each side, with --rows")
