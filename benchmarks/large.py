"""Measure whole runs at many rows: seconds, memory a party, and how far coefficients are from exact ones.

    python benchmarks/large.py [--write] [--folder DIR]
    python benchmarks/large.py --rows 200000 --columns 50 [--no-scipy]

Two Parquet files are made, of so many columns each, all with a common part: in the first three quarters
normals, of the others half whole numbers with ties and half flags. Every repeat is one run at the defaults
with three processes on this machine and, up to a million rows, one of ``scipy.stats.spearmanr`` on the pooled
arrays, in turn. Seconds are after start-up. Exact coefficients are computed for one column of each kind, with
SciPy's ranks and integers. Without a number of rows the sizes of docs/costs.md are measured, the largest ones
once, which takes 16 GB of memory.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.filesize import decimal
from scipy.stats import rankdata, spearmanr

from mpc_spearman import run_local
from mpc_spearman.data.ranks import total
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

BLOCK = 1 << 20  # rows
#: Rows, columns of each side, and how often they are run; up to so many rows beside SciPy.
SIZES = ((200_000, 50, 5), (1_000_000, 50, 5), (10_000_000, 20, 1), (50_000_000, 4, 1))
POOLED = 1_000_000


def main() -> None:
    """Make tables, run, and print, or write, what it took."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, help="this size alone")
    parser.add_argument("--columns", type=int, default=50, help="of each side, with --rows")
    parser.add_argument("--no-scipy", action="store_true", help="private runs alone")
    parser.add_argument("--folder", type=Path, help="for the tables, rather than a temporary one")
    options = parser.parse_args()
    if options.write and options.rows:
        parser.error("--write is for all sizes")
    load = os.getloadavg()[0]
    rows = []
    sizes = [(options.rows, options.columns, measuring.REPEATS)] if options.rows else SIZES
    for n, columns, repeats in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            paths = {party: write(Path(folder), party, n, columns) for party in "AB"}
            scipy = n <= POOLED and not options.no_scipy
            rows.append([f"{n:,}", columns, repeats, *measured(paths, repeats, scipy)])
    heads = ["rows", "columns of each side", "runs", "seconds", "of SciPy's", "sent in all"]
    heads += ["memory, data party", "C", "off exact coefficients"]
    line = measuring.environment("scipy", "numpy", "torch", load=load)
    measuring.show(f"{measuring.table(heads, rows)}\nMedians; {line}\n", __file__, write=options.write)


def write(folder: Path, party: str, n: int, columns: int) -> Path:
    """Write a party's table, a block of rows at a time; return its path."""
    path = folder / f"{party}.parquet"
    schema = pa.schema([("id", pa.int64()), *((f"{party}{i}", pa.float64()) for i in range(columns))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n, BLOCK):
            rows = range(start, min(n, start + BLOCK))
            common = np.random.default_rng([start, 0]).standard_normal(len(rows))
            rng = np.random.default_rng([start, ord(party)])
            cells = [np.arange(rows.start, rows.stop), *made(columns, common, rng)]
            writer.write_table(pa.table(cells, schema=schema))
    return path


def made(columns: int, common: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw the columns of a block of rows."""
    ties, flags = columns - columns // 4, columns - columns // 8
    for i in range(columns):
        values = rng.standard_normal(len(common)) + i / columns * common
        yield values if i < ties else np.rint(10 * values) if i < flags else (values > 1).astype(float)


def measured(paths: dict[str, Path], repeats: int, scipy: bool) -> list[str]:
    """Run, alternating, and return the medians as cells of the table."""
    plan, results = measuring.plan(paths), []

    def ours() -> float:
        results.append(run_local(plan))
        return totals(results[-1]).seconds

    def theirs() -> float:
        pooled = [pq.read_table(path).to_pandas().iloc[:, 1:].to_numpy() for path in paths.values()]
        began = time.perf_counter()
        spearmanr(*pooled)
        return time.perf_counter() - began

    ways = {"a run": ours} | ({"SciPy": theirs} if scipy else {})
    took = measuring.in_turn(ways, repeats, note=f"{pq.read_metadata(paths['A']).num_rows:,} rows:")
    result, spent = results[-1], [totals(one) for one in results]
    memory = {party: statistics.median(dict(one.memory)[party] for one in spent) for party in "ABC"}
    m = result.coefficients.shape[1]
    some = sorted({0, m - m // 4 - 1, m - m // 8 - 1, m - 1})
    off = np.abs(result.coefficients.to_numpy()[np.ix_(some, some)] - exact(paths, some)).max()
    return [
        human_seconds(took["a run"]),
        f"{took['a run'] / took['SciPy']:.2f}" if scipy else "–",
        decimal(spent[0].wire),
        decimal(int(max(memory["A"], memory["B"]))),
        decimal(int(memory["C"])),
        f"{off:.1e}" if off else "not at all",
    ]


def exact(paths: dict[str, Path], columns: list[int]) -> np.ndarray:
    """Compute coefficients of some columns with sums of integers."""
    sides = []
    for party, path in paths.items():
        table = pq.read_table(path, columns=[f"{party}{i}" for i in columns])
        n = table.num_rows
        ranks = ((2 * rankdata(one.to_numpy())).astype(np.int64) - (n + 1) for one in table.columns)
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
