"""Databases for tests: a PostgreSQL that listens at a socket in a folder, SQLite files, and their tables."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import rankdata

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import TableError
from support.processes import EVER

PASSWORD = "hunter%2Fsecret"  # as an address has it
ADDRESS = "CLINIC_DATABASE"
ENGINES = ("parquet", "duckdb", "sqlite", "postgresql")
#: Reads the answer of a query as a table.
Ask = Callable[..., Table]


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL, and give its address; skip where none is installed, or nobody may run it."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    account_settings: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        account_settings = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has at most 107 bytes
    (folder / "password").write_text("hunter/secret\n")
    for path in (folder, folder / "password"):
        os.chown(path, account_settings.get("user", -1), account_settings.get("group", -1))
    data = folder / "data"
    initdb = f"{programs[-1]}/initdb -U owner -A scram-sha-256 -N -E UTF8 --no-locale -D".split()
    subprocess.run(
        [*initdb, data, "--pwfile", folder / "password"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **account_settings,
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs[-1] / "postgres", "-D", data, "-k", folder, "-F", "-c", "listen_addresses="],
            stdout=log,
            stderr=log,
            cwd=folder,
            **account_settings,
        )
    try:
        deadline = monotonic() + EVER
        state = data / "postmaster.pid"
        while not state.is_file() or "ready" not in state.read_text():
            if server.poll() is not None or monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text())
            sleep(0.02)
        yield f"postgresql://owner:{PASSWORD}@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGQUIT)  # at once
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)  # its child processes may still write


def command(address: str, *statements: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def into_postgresql(address: str, name: str, frame: pd.DataFrame) -> None:
    """Write a DataFrame as a table, in place of one of that name."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, pa.Table.from_pandas(frame, preserve_index=False), mode="replace")
        connection.commit()


def into_sqlite(file: Path, name: str, frame: pd.DataFrame) -> str:
    """Write a DataFrame as a table of a file; return the database's address."""
    with sqlite3.connect(file) as connection:
        frame.to_sql(name, connection, index=False)
    connection.close()
    return f"sqlite:{file}"


def made(engine: str, frame: pd.DataFrame, folder: Path, server: str, environ: pytest.MonkeyPatch) -> Query:
    """Write a DataFrame as a table `t` of an engine; return the query of all its rows."""
    if engine == "parquet":
        frame.to_parquet(folder / "t.parquet", index=False)
        return Query(query=f"SELECT * FROM '{folder / 't.parquet'}'")
    if engine == "duckdb":
        with duckdb.connect(str(folder / "t.duckdb")) as connection:
            connection.register("frame", frame)
            connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        environ.setenv(ADDRESS, f"duckdb:{folder / 't.duckdb'}")
    elif engine == "sqlite":
        environ.setenv(ADDRESS, into_sqlite(folder / "50% of it?.db", "t", frame))
    else:
        into_postgresql(server, "t", frame)
        environ.setenv(ADDRESS, server)
    return Query(query="SELECT * FROM t -- all\n;", connection=f"env:{ADDRESS}")


DAYS = pd.to_datetime(["2024-02-29", "1969-12-31", "2024-03-01", "0001-01-01", "9999-12-31"])


def columns_of_every_kind(n: int = 400) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "id": [f"k{i:03}" for i in draw.permutation(n)],
            "flag": draw.random(n) < 0.1,
            "few": draw.integers(-3, 3, n),
            "whole": draw.integers(2**62, 2**62 + 50, n),
            "real": draw.choice([-0.0, 0.0, 1e-300, -1e300, 0.1], n) + draw.choice([0, 0, 1], n),
            "many": draw.normal(size=n),
            "single": draw.normal(size=n).astype(np.float32),
            "grade": draw.choice(["low", " mid", "High"], n),
            "text": [f"{value:.2f}" for value in draw.normal(size=n)],
            "day": draw.choice(DAYS, n),
            "one": 7,
            "code": draw.choice([-999, *range(20)], n),
        }
    )
    frame["gaps"] = np.where(draw.random(n) < 0.1, np.nan, draw.integers(0, 9, n) / 4)
    return frame


KEYS = TableKeys.model_validate({"encode": {"grade": ["low", "mid", "High"]}, "missing": "drop_rows"})


def check_ranks(query: Query, frame: pd.DataFrame) -> None:
    """Compare the ranks of a query, whose answer is `columns_of_every_kind`, with SciPy's."""
    table = read_table("B", query, KEYS)
    frame["grade"] = frame["grade"].map({"low": 0, " mid": 1, "High": 2})
    frame["text"] = frame["text"].astype(float)
    complete = frame.sort_values("id").dropna().reset_index(drop=True)
    assert (table.ids.to_pylist(), table.features) == (complete["id"].tolist(), tuple(frame.columns[1:]))
    assert any("'code': -999 (" in caution for caution in table.cautions)
    some = np.random.default_rng(4).permutation(len(complete))[:77]
    for rows, part in ((slice(None), table), (some, table.take(some))):
        ranks = part.ranks()
        for place, name in enumerate(part.features):
            values = rankdata(complete[name][rows])
            assert ranks.matrix[place].tolist() == (2 * values - (part.n + 1)).tolist(), name
            groups = rank_columns([values]).groups[0]
            assert ranks.groups[place].how_many == groups.how_many
            assert ranks.groups[place].skewness == pytest.approx(groups.skewness, rel=1e-9, abs=1e-9)


def refusal(ask: Callable[[], Any]) -> str:
    """Return the text of the TableError, after checking that it shows no secret."""
    with pytest.raises(TableError) as caught:
        ask()
    shown = "".join(traceback.format_exception(caught.type, caught.value, None))
    assert not any(secret in shown for secret in ("SECRET", PASSWORD, "hunter", "owner", "/tmp"))
    start = f"B: the database of env:{ADDRESS}: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def check_cells(ask: Callable[..., Table], query: str, cells: Sequence[str], expected: Any) -> None:
    """Expect the ranks of a query's column x, whose NaN are missing, or the beginning of a refusal."""
    if isinstance(expected, str):
        with pytest.raises(TableError, match=re.escape(expected)):
            ask(query, missing="drop_rows")
    else:
        ranks = average(ask(query, missing="middle"))[0]
        present = [rank for rank, cell in zip(ranks, cells, strict=False) if "NaN" not in cell]
        assert rankdata(present).tolist() == expected


def average(table: Table) -> list[list[float]]:
    return [((row + (table.n + 1)) / 2).tolist() for row in table.ranks().matrix]
