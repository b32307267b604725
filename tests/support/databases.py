"""Databases of their own for tests: a PostgreSQL that listens on a socket in a folder, and SQLite files."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.config import Query
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import TableError
from support.processes import EVER

PASSWORD = "hunter%2Fsecret"  # as an address has it
ADDRESS = "CLINIC_DATABASE"
ENGINES = ("parquet", "duckdb", "sqlite", "postgresql")
#: Each with the query that asks for it; its answer's ``id`` and ``x`` are used.
Ask = Callable[..., Table]


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL, and give its address; skip where none is installed, or nobody may run it."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:  # as whom PostgreSQL refuses to run
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        as_whom = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has at most 107 bytes
    (folder / "password").write_text("hunter/secret\n")
    for path in (folder, folder / "password"):
        os.chown(path, as_whom.get("user", -1), as_whom.get("group", -1))
    data = folder / "data"
    initdb = f"{programs[-1]}/initdb -U owner -A scram-sha-256 -N -E UTF8 --no-locale -D".split()
    subprocess.run(
        [*initdb, data, "--pwfile", folder / "password"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **as_whom,
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs[-1] / "postgres", "-D", data, "-k", folder, "-F", "-c", "listen_addresses="],
            stdout=log,
            stderr=log,
            cwd=folder,
            **as_whom,
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
        shutil.rmtree(folder, ignore_errors=True)  # what it has started may still end


def command(address: str, *statements: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def into_postgresql(address: str, name: str, frame: pd.DataFrame) -> None:
    """Make a table of a DataFrame, in place of one of that name."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, pa.Table.from_pandas(frame, preserve_index=False), mode="replace")
        connection.commit()


def into_sqlite(file: Path, name: str, frame: pd.DataFrame) -> str:
    """Make a table of a DataFrame, in a file; return its address."""
    with sqlite3.connect(file) as connection:
        frame.to_sql(name, connection, index=False)
    connection.close()
    return f"sqlite:{file}"


def made(engine: str, frame: pd.DataFrame, folder: Path, server: str, environ: pytest.MonkeyPatch) -> Query:
    """Put a table where an engine has it."""
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


def refusal(ask: Callable[[], Any]) -> str:
    """What the TableError says, after checking what none may say."""
    with pytest.raises(TableError) as caught:
        ask()
    shown = "".join(traceback.format_exception(caught.type, caught.value, None))
    assert not any(secret in shown for secret in ("SECRET", PASSWORD, "hunter", "owner", "/tmp"))
    start = f"B: the database of env:{ADDRESS}: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def average(table: Table) -> list[list[float]]:
    return [((row + (table.n + 1)) / 2).tolist() for row in table.ranks().matrix]
