"""Measure what a table costs that a Spark cluster holds, and what a billion rows would take by these slopes.

    python benchmarks/outgrown.py [--write] [--rows N]

Spark runs here, on one core and on two. Tables have integer ids and four columns of normals, of N and 4·N
rows; a slope is the difference. Seconds are of a core, Spark's own or those of one party's process, so that
they say something on a busy machine, too. `make test-all` installs the Spark.
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

PAGE = measuring.ROOT / "docs" / "outgrown.md"
COLUMNS, ASKED_ROWS, ASKED_COLUMNS = 4, 10**9, 10
VARIABLE = "MPC_SPEARMAN_BENCHMARK_SPARK"
KEYS = TableKeys(memory="500MB")


def main() -> None:
    """Measure every step at two sizes; print, or write, the slopes and what they make at a billion rows."""
    parser = measuring.parser(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    load, sizes = os.getloadavg()[0], (options.rows, 4 * options.rows)
    steps: dict[str, list[float]] = {}
    wall: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = [{party: made(Path(folder), party, n) for party in "AB"} for n in sizes]
        for cores in (1, 2):
            with tempfile.TemporaryDirectory() as place, spark(Path(place), cores=cores) as address:
                os.environ[VARIABLE] = address
                copy = Path(place) / "copy"
                write(tables[0]["A"], copy)  # the first of each is slow
                read_table("A", asked(tables[0]["A"]), KEYS)
                for files in tables:
                    if cores == 1:
                        with measured(steps, "Spark sorts, and writes Parquet", of_children):
                            write(files["A"], copy)
                    began = time.perf_counter()
                    with (
                        measured(steps, f"Spark sorts, and answers ({cores})", of_children),
                        measured(steps, "take the answer over", time.process_time),
                    ):
                        read_table("A", asked(files["A"]), KEYS)
                    wall[cores] = time.perf_counter() - began
        for files in tables:
            with measured(steps, "read Parquet", time.process_time):
                table = read_table("A", files["A"], KEYS)
            with measured(steps, "rank", time.process_time):
                table.ranks()
            cost = run_local(measuring.plan(files, alignment="same")).cost
            seconds = cost.query("party == 'A' and phase in ['share', 'multiply']")["seconds"].sum()
            steps.setdefault("share and multiply (on the wall)", []).append(float(seconds))
    cells = ASKED_ROWS * ASKED_COLUMNS
    lines = [
        (step, f"{slope * 1e9:,.0f} ns", f"{slope * cells / 3600:,.1f} h")
        for step, (one, two) in ((step, seconds[:2]) for step, seconds in steps.items())
        if (slope := (two - one) / (sizes[1] - sizes[0]) / COLUMNS)
    ]
    heads = ["step of one party", "a cell", f"10⁹ rows of {ASKED_COLUMNS} columns, on one core"]
    sent = cost["bytes_sent"].sum() / (sizes[1] * 2 * COLUMNS)
    text = (
        f"{measuring.table(heads, lines)}\nSlopes from {sizes[0]:,} to {sizes[1]:,} rows. "
        f"Beside the other work of the machine, Spark answered {wall[1] / wall[2]:.1f} times as fast on two "
        f"cores. Bytes sent: {sent:.1f} a cell. "
        f"{measuring.environment('pyarrow', 'numpy', load=load)}\n"
    )
    measuring.show(text, __file__, write=options.write, page=PAGE)


@contextmanager
def measured(steps: dict[str, list[float]], step: str, clock: Callable[[], float]) -> Iterator[None]:
    """Note how many seconds of a core a step takes."""
    began = clock()
    yield
    steps.setdefault(step, []).append(clock() - began)
    print(f"{step}: {steps[step][-1]:.1f} s", file=sys.stderr)


def of_children() -> float:
    """Return the seconds of a core that processes have taken which this one has started, and which go on."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    stats = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children)
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def asked(file: Path) -> Query:
    """Return the query of a file's rows to Spark, in the order of the ids."""
    return Query(query=f"SELECT * FROM parquet.`{file}`", connection=f"env:{VARIABLE}", order_by=("id",))


def made(folder: Path, party: str, n: int) -> Path:
    """Write a party's table; return its file."""
    draw, file = np.random.default_rng(n), folder / f"{party}{n}.parquet"
    columns = {f"{party}{i}": draw.normal(size=n) for i in range(COLUMNS)}
    pq.write_table(pa.table({"id": np.arange(n), **columns}), file)
    return file


def write(file: Path, folder: Path) -> None:
    """Have Spark write the rows of a file as a folder of Parquet files, in the order of the ids."""
    with connect(asked(file), 0) as database:
        session = database._session  # type: ignore[attr-defined]
        session.read.parquet(str(file)).orderBy("id").write.mode("overwrite").parquet(str(folder))


if __name__ == "__main__":
    main()
