"""Compare a whole private run with SciPy, pandas and polars on the same tables, pooled.

    python benchmarks/plaintext.py [--rows 20000 200000] [--features 50x50] [--repeats 5] [--write]

The others have both tables in memory, side by side, and compute all coefficients of all columns: SciPy's
`spearmanr`, pandas' `DataFrame.corr` and polars' ranks and `corr`. The run has three processes here, and each
owner's table in a Parquet file: its time is that after start-up, with reading, every rule, sharing and
opening. All ways take turns, and a ratio is that of the medians. The run's coefficients are checked against
SciPy's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measuring
import numpy as np
import pandas as pd
import polars as pl
from rich.filesize import decimal
from scipy.stats import spearmanr

from mpc_spearman import run_local
from mpc_spearman.cli.arguments import features
from mpc_spearman.comparison import data
from mpc_spearman.comparison.variants import Size, variants
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

PLAN = {
    "parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]},
    "results": {"target": "coefficients", "precision": "exact"},
}


def main() -> None:
    """Measure all sizes and print, or write, the table."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=(20_000, 200_000), metavar="N")
    parser.add_argument("--features", type=features, default=(50, 50), metavar="AxB")
    parser.add_argument("--repeats", type=int, default=measuring.REPEATS)
    options = parser.parse_args()
    rows = [line for n in options.rows for line in compared(Size(n, *options.features), options.repeats)]
    heads = ["rows", "columns", "", "seconds", "of SciPy's", "memory of an owner"]
    line = measuring.environment("scipy", "pandas", "polars", "numpy", "torch")
    text = f"{measuring.table(heads, rows)}\nMedians of {options.repeats}, in turn; {line}\n"
    measuring.show(text, __file__, write=options.write)


def compared(size: Size, repeats: int) -> list[list[str]]:
    """Measure one size; return a line for each way."""
    (variant,) = variants([PLAN])
    tables = data.tables(variant.plan, size)
    pooled = pd.concat([tables["A"].drop(columns="id"), tables["B"].drop(columns="id")], axis=1)
    array, lazy = pooled.to_numpy(), pl.from_pandas(pooled)
    owners: list[int] = []
    truth = spearmanr(array).statistic[: size.m_A, size.m_A :]
    with tempfile.TemporaryDirectory() as folder, ForkServer() as server:
        files = {party: Path(folder, f"{party}.parquet") for party in tables}
        for party, path in files.items():
            tables[party].to_parquet(path, index=False)
        tables.clear()

        def private() -> float:
            result = run_local(variant.plan, files, server=server)
            assert np.abs(result.coefficients.to_numpy() - truth).max() < 1e-12
            spent = totals(result)
            owners.append(max(peak for party, peak in spent.memory if party != "C"))
            return spent.seconds

        def polars() -> None:
            lazy.select(pl.all().rank("average")).corr()

        ways: dict[str, Callable[[], float]] = {
            "SciPy, pooled": lambda: timed(lambda: spearmanr(array)),
            "pandas, pooled": lambda: timed(lambda: pooled.corr(method="spearman")),
            "polars, pooled": lambda: timed(polars),
            "private run": private,
        }
        found = measuring.in_turn(ways, repeats, f"{size}:")
    whole = found["SciPy, pooled"]
    return [
        [
            f"{size.n:,}",
            f"{size.m_A} × {size.m_B}",
            name,
            human_seconds(seconds),
            f"{seconds / whole:.2f}",
            decimal(max(owners)) if name == "private run" else "",
        ]
        for name, seconds in found.items()
    ]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
