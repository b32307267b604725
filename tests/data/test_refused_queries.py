"""What an engine refuses, and what its errors never quote."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from mpc_spearman.arrays import Memory
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.databases import connect
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.tables import read_table
from mpc_spearman.errors import SetupError, TableError
from support.databases import ADDRESS, PASSWORD, Ask, average, command, into_sqlite, made, refusal


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("WITH w AS (DELETE FROM visits RETURNING g) SELECT * FROM w", "it does more than a single SELECT"),
        ("SELECT id, g FROM visits FOR UPDATE", "it writes, but may only read (SQLSTATE 25006)"),
        ("SELECT id, nextval('visited') AS g FROM visits", "it writes, but may only read"),
        ("SELECT set_config('transaction_read_only', 'off', false) AS id, 1 AS x", "it refuses; its"),
        (
            "SELECT id, g INTO more FROM visits",
            "it is not SQL, or not one SELECT; names such as order need double quotes",
        ),
        ("SELECT nosuch FROM visits", "it names a column that does not exist (SQLSTATE 42703)"),
        ("SELECT * FROM nosuch", "it names a table that does not exist (SQLSTATE 42P01)"),
        ("SELECT id, 1 / (g - g) AS g FROM visits", "a cell cannot be computed or converted as the query"),
    ],
)
def test_what_is_not_one_select_that_reads_is_refused_and_changes_nothing(
    ask: Ask, server: str, query: str, why: str
) -> None:
    command(server, "CREATE SEQUENCE IF NOT EXISTS visited")
    assert refusal(lambda: ask(query)).startswith(f"postgres: the query failed: {why}")
    assert ask("SELECT * FROM visits").n == 9
    command(server, "SELECT 1 / (nextval('visited') = 1)::int", "DROP SEQUENCE visited")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            "ATTACH 'more.db' AS more",
            "it is not SQL, or not one SELECT; names such as order need double quotes",
        ),
        ("SELECT id, load_extension('x') AS x FROM t", "it does more than a single SELECT may do"),
        ("SELECT * FROM nosuch", "it names a table that does not exist"),
        ("SELECT nosuch FROM t", "it names a column that does not exist"),
    ],
)
def test_sqlite_refuses_what_is_not_one_select_that_reads(
    query: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("abc"), "x": [1, 2, 3]})
    monkeypatch.setenv(ADDRESS, into_sqlite(tmp_path / "t.db", "t", frame))
    table_query = Query.model_construct(query=query, connection=f"env:{ADDRESS}", order_by=())
    text = refusal(lambda: read_table("B", table_query, TableKeys()))
    assert text.removeprefix("column 'x': ") == f"sqlite: the query failed: {why}"


HIDDEN = "COPY (SELECT 1) TO 'written.csv'"


@pytest.mark.parametrize(
    "query",
    [
        rf"SELECT E'\'' AS id) AS x; {HIDDEN}; SELECT * FROM (SELECT 1 AS id --'",
        f"SELECT $$'$$ AS id) AS x; {HIDDEN}; SELECT * FROM (SELECT 1 AS id --'",
        f"SELECT 1 AS id --\r) AS x; {HIDDEN}; SELECT * FROM (SELECT 1 AS id",
        f"SELECT * FROM query($${HIDDEN}$$)",
        "SELECT * FROM 'http://127.0.0.1:1/t.parquet'",
        "SELECT * FROM statements",
        "SELECT * FROM '*.parquet'",
    ],
    ids=["escaped", "dollars", "carriage return", "query", "address", "variable", "file"],
)
def test_duckdb_executes_one_select_fetches_nothing_and_sees_no_variable(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=r"one SELECT|needs an extension|does not exist"):
        read_table("B", Query(query=query), TableKeys())
    assert not [*tmp_path.iterdir()]


def test_a_lack_of_memory_here_is_no_refusal_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Memory, "keep", full)
    with pytest.raises(MemoryError):
        read_table("B", Query(query="SELECT 'a' AS id, 1 AS x", order_by=("x",)), TableKeys())


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgresql"])
def test_not_even_a_statement_that_writes_changes_an_owners_table(
    engine: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("abc"), "x": [1, 2, 3]})
    table_query = made(engine, frame, tmp_path, server, monkeypatch)
    for query, rows in (("DELETE FROM t", 0), ("SELECT * FROM t", 3)):
        with suppress(Unusable), connect(table_query, 1 << 30) as database:
            assert sum(map(len, database.batches(query))) == rows


def test_a_column_of_sqlite_is_what_all_its_cells_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT, mixed, text, none, bytes)")
        rows = [(f"{i:02}", i if i < 5 else i + 0.5, i if i else "0.5", None, b"x") for i in range(9)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    monkeypatch.setenv(ADDRESS, f"sqlite:{tmp_path / 't.db'}")
    table_query = Query(query="SELECT * FROM t", connection=f"env:{ADDRESS}")
    table = read_table("B", table_query, TableKeys(features=["mixed", "text"]))
    assert table.ids.to_pylist() == [f"{i:02}" for i in range(9)]
    assert average(table) == [[1, 2, 3, 4, 5, 6, 7, 8, 9]] * 2
    text = refusal(lambda: read_table("B", table_query, TableKeys(features=["none", "bytes"])))
    assert text.split("\n  ") == [
        "2 bad columns",
        "column 'none': all 9 values are missing",
        "column 'bytes': binary, not numbers: cast it to float64, or leave it out (exclude)",
    ]


# ---- addresses

NO_ADDRESS = "its address does not begin with postgresql://, sqlite:, duckdb: or sc:// (Spark)"
UNREACHED = "postgres: it cannot be reached: "


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((PASSWORD, "SECRET"), f"{UNREACHED}the server does not accept the user and password"),
        ((f":{PASSWORD}", ""), f"{UNREACHED}the server does not accept the user and password"),
        (("/postgres?", "/SECRET?"), f"{UNREACHED}the server has no such database or user"),
        ((PASSWORD, "SECRET%zz"), f"{UNREACHED}in a name or password write % as %25, @ as %40"),
        ((PASSWORD, "SECRET/x"), f"{UNREACHED}in a name or password write % as %25, @ as %40"),
        (("?host=", "?port=1&host="), f"{UNREACHED}it refuses; its message is not shown"),
        (
            (f"owner:{PASSWORD}", "reader:hunter"),
            "postgres: the query failed: the database's user has no right",
        ),
    ],
)
def test_an_unreachable_database_is_refused_without_showing_its_address(
    ask: Ask, server: str, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], why: str
) -> None:
    monkeypatch.setenv(ADDRESS, server.replace(*change))
    assert refusal(lambda: ask("SELECT * FROM visits")).startswith(why)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "there is no such environment variable here; set it where this role runs"),
        (
            "mysql://owner:hunter@h/d",
            NO_ADDRESS,
        ),
        (
            "host=h password=hunter",
            NO_ADDRESS,
        ),
        ("postgresql://owner:hunter@127.0.0.1:1/d", f"{UNREACHED}nothing listens there"),
        ("postgresql://owner:hunter@nosuch.invalid/d", f"{UNREACHED}there is no such host"),
        ("sqlite:/tmp/SECRET.db", "there is no such file; the address is sqlite:FILE"),
        (f"sqlite:{__file__}", "sqlite: it cannot be reached: the file is not a database of that kind"),
        (f"duckdb:{__file__}", "duckdb: it cannot be reached: the file is not a database of that kind"),
    ],
)
def test_an_address_of_no_database_is_refused_without_a_word_of_it(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, address: str | None, why: str
) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    if address is not None:
        monkeypatch.setenv(ADDRESS, address)
    assert refusal(lambda: ask("SELECT 1 AS x")) == why


def test_without_the_drivers_the_error_says_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SetupError, match=r"duckdb, which is not installed\. Run: pip install 'duckdb>="):
        read_table("B", Query(query="SELECT 1 AS id"), TableKeys())
