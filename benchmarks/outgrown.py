"""Measure what a table costs that a Spark cluster holds, and what a billion rows would take by these slopes.

    python benchmarks/outgrown.py [--write]

Spark runs here, on one core and on two. Tables have integer ids and four columns of normals, of 2 and 8
million rows; a slope is the difference. Seconds are of a core, Spark's own or those of one party's process,
so that they say something on a busy machine, too. `make test-all` installs the Spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mpc_spearman import run_local
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.databases import connect
from mpc_spearman.data.tables import read_table

sys.path.append(str(measuring.ROOT / "tests"))
from support.spark import spark

SIZES, COLUMNS = (2_000_000, 8_000_000), 4
QUERY_ROWS, QUERY_COLUMNS = 10**9, 10
VARIABLE = "MPC_SPEARMAN_BENCHMARK_SPARK"
KEYS = TableKeys(memory="500MB")


def text() -> str:
    """Return the slopes of every step, and what they make at a billion rows."""
    steps: dict[str, list[float]] = {}
    wall: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = [{party: write(Path(folder), party, n) for party in "AB"} for n in SIZES]
        for cores in (1, 2):
            with tempfile.TemporaryDirectory() as place, spark(Path(place), cores=cores) as address:
                os.environ[VARIABLE] = address
                copy = Path(place) / "copy"
                write_by_spark(tables[0]["A"], copy)  # the first of each is slow
                read_table("A", query_of(tables[0]["A"]), KEYS)
                for paths in tables:
                    if cores == 1:
                        with timed(steps, "Spark sorts, and writes Parquet", seconds_of_children):
                            write_by_spark(paths["A"], copy)
                    began = time.perf_counter()
                    with (
                        timed(steps, f"Spark sorts, and answers ({cores})", seconds_of_children),
                        timed(steps, "take the answer over", time.process_time),
                    ):
                        read_table("A", query_of(paths["A"]), KEYS)
                    wall[cores] = time.perf_counter() - began
        for paths in tables:
            with timed(steps, "read Parquet", time.process_time):
                table = read_table("A", paths["A"], KEYS)
            with timed(steps, "rank", time.process_time):
                table.ranks()
            cost = run_local(measuring.plan(paths, alignment="same")).cost
            seconds = cost.query("party == 'A' and phase in ['share', 'multiply']")["seconds"].sum()
            steps.setdefault("share and multiply (on the wall)", []).append(float(seconds))
    lines = []
    for step, (few, many, *_) in steps.items():
        if slope := (many - few) / (SIZES[1] - SIZES[0]) / COLUMNS:
            hours = slope * QUERY_ROWS * QUERY_COLUMNS / 3600
            lines.append((step, f"{slope * 1e9:,.0f} ns", f"{hours:,.1f} h"))
    heads = ["step of one party", "a cell", f"10⁹ rows of {QUERY_COLUMNS} columns, on one core"]
    sent = cost["bytes_sent"].sum() / (SIZES[1] * 2 * COLUMNS)
    return (
        f"{measuring.table(heads, lines)}\nSlopes from {SIZES[0]:,} to {SIZES[1]:,} rows. "
        f"Beside the other work of the machine, Spark answered {wall[1] / wall[2]:.1f} times as fast on two "
        f"cores. Bytes sent: {sent:.1f} a cell. {measuring.environment('pyarrow', 'numpy')}\n"
    )


@contextmanager
def timed(steps: dict[str, list[float]], step: str, clock: Callable[[], float]) -> Iterator[None]:
    """Note how many seconds of a core a step takes."""
    began = clock()
    yield
    steps.setdefault(step, []).append(clock() - began)
    print(f"{step}: {steps[step][-1]:.1f} s", file=sys.stderr)


def seconds_of_children() -> float:
    """Return the seconds of a core that running child processes have taken."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    stats = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children)
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def query_of(file: Path) -> Query:
    """Return the query of a file's rows to Spark, in the order of the ids."""
    return Query(query=f"SELECT * FROM parquet.`{file}`", connection=f"env:{VARIABLE}", order_by=("id",))


def write(folder: Path, party: str, n: int) -> Path:
    """Write a party's table; return its file."""
    rng, file = np.random.default_rng(n), folder / f"{party}{n}.parquet"
    columns = {f"{party}{i}": rng.normal(size=n) for i in range(COLUMNS)}
    pq.write_table(pa.table({"id": np.arange(n), **columns}), file)
    return file


def write_by_spark(file: Path, folder: Path) -> None:
    """Have Spark write the rows of a file as a folder of Parquet files, in the order of the ids."""
    with connect(query_of(file), 0) as database:
        session = database._session  # type: ignore[attr-defined]
        session.read.parquet(str(file)).orderBy("id").write.mode("overwrite").parquet(str(folder))


if __name__ == "__main__":
    measuring.publish(text, "outgrown.md")
