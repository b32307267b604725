"""Tables that a database makes: a real PostgreSQL, and SQLite files."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpc_spearman.data.database import read_query
from mpc_spearman.errors import TableError
from support.databases import PASSWORD, command, postgresql

ADDRESS = "CLINIC_DATABASE"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as address:
        command(address, "CREATE TABLE visits AS SELECT 'SECRET' || g AS id, g FROM generate_series(1, 9) g")
        yield address


@pytest.fixture
def ask(server: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pa.Table]:
    """Asks the PostgreSQL."""
    monkeypatch.setenv(ADDRESS, server)
    return lambda query, rows=None: read_query("B", query, ADDRESS, rows)


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pa.Table]:
    """Asks a SQLite file, made by a script."""
    file = tmp_path / "50% of a clinic?.db"
    monkeypatch.setenv(ADDRESS, f"sqlite:{file}")

    def ask(query: str, *script: str, rows: int | None = None) -> pa.Table:
        with sqlite3.connect(file) as connection:
            connection.executescript(";".join(script))
        connection.close()
        return read_query("B", query, ADDRESS, rows)

    return ask


def refusal(ask: Callable[[], Any]) -> str:
    """What the TableError says, after checking what none may say."""
    with pytest.raises(TableError) as caught:
        ask()
    shown = "".join(traceback.format_exception(caught.type, caught.value, None))
    assert not any(secret in shown for secret in ("SECRET", PASSWORD, "hunter", "owner", "/tmp"))
    start = f"B: the database of env:{ADDRESS}: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


# ---- PostgreSQL: what is in a column


def test_every_type_of_number_time_and_key_comes_as_one_that_loses_nothing(ask: Any) -> None:
    table = ask(
        """SELECT * FROM (VALUES
        (1::int2, 2::int4, 9007199254740993::int8, 0.1::float4, 0.1::float8, true, 'a'::text, 'b'::varchar,
         '2024-02-29'::date, '2024-02-29 01:02:03.000004'::timestamp, '2024-02-29 00:00+02'::timestamptz,
         '0b9e6a8e-1c7d-4f00-8000-00000000abcd'::uuid, 7::numeric, 12.50::numeric(10, 2)),
        (null, null, null, null, null, null, null, null, null, null, null, null, null, null))
        AS t (a, b, c, d, e, f, g, h, i, j, k, l, m, n)"""
    )
    assert [str(kind) for kind in table.schema.types] == [
        *("int16", "int32", "int64", "float", "double", "bool", "string", "string", "date32[day]"),
        *("timestamp[us]", "timestamp[us, tz=UTC]", "string", "int64", "decimal128(4, 2)"),
    ]
    assert all(column.null_count == 1 for column in table.columns)
    assert table["c"][0].as_py() == 2**53 + 1
    assert table["l"][0].as_py() == "0b9e6a8e-1c7d-4f00-8000-00000000abcd"
    assert table["n"][0].as_py() == Decimal("12.5")


numerics = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**35), max_value=10**35, places=30
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.none(), numerics, st.integers(-(10**17) + 1, 10**17)), min_size=1, max_size=20))
def test_numerics_come_as_they_are_to_the_last_digit(ask: Any, cells: list[Any]) -> None:
    rows = ", ".join(f"({i}, {'NULL' if cell is None else cell}::numeric)" for i, cell in enumerate(cells))
    column = ask(f"SELECT x FROM (VALUES {rows}) AS t (i, x) ORDER BY i")["x"]
    assert column.to_pylist() == cells
    # What another party has as integers are integers here, whatever the column is declared as.
    whole = all(isinstance(cell, int) or cell is None for cell in cells)
    assert pa.types.is_int64(column.type) == whole


def test_a_numeric_that_is_not_a_number_is_a_missing_value(ask: Any) -> None:
    table = ask("SELECT * FROM (VALUES ('NaN'::numeric), (1.5), (null)) AS t (x)")
    assert table["x"].to_pylist() == [None, Decimal("1.5"), None]


@pytest.mark.parametrize("cell", ["infinity", "-infinity"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_an_infinite_date_is_refused(ask: Any, kind: str, cell: str) -> None:
    text = refusal(lambda: ask(f"SELECT '{cell}'::{kind} AS seen UNION ALL SELECT now()"))
    assert text == "column 'seen': it has dates that are infinite, or too late for 64 bits; leave them out"


def test_the_first_and_the_last_day_of_postgresql_are_not_infinite(ask: Any) -> None:
    days = ask(
        "SELECT '4713-01-01 BC'::date AS a, '5874897-12-31'::date AS b, '290000-12-31'::timestamp AS c"
    )
    assert days["a"].cast(pa.int32()).to_pylist() < days["b"].cast(pa.int32()).to_pylist()


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("'-Infinity'::numeric", "it has infinite values; leave them out"),
        ("1e76::numeric", "its numbers take more than 76 digits; round them, or use a power of ten as "),
        ("1e60::numeric + 1e-20::numeric", "its numbers take more than 76 digits; round them, "),
    ],
)
def test_a_numeric_that_no_decimal_holds_is_refused(ask: Any, number: str, why: str) -> None:
    assert refusal(lambda: ask(f"SELECT {number} AS cost")).startswith(f"column 'cost': {why}")


def test_an_answer_without_rows_has_its_columns(ask: Any) -> None:
    table = ask("SELECT gen_random_uuid() AS u, 1.5 AS x, now() AS t WHERE false")
    assert (table.num_rows, table.column_names) == (0, ["u", "x", "t"])


def test_many_uuids_of_several_batches_are_written_as_postgresql_does(ask: Any) -> None:
    table = ask(
        "SELECT u, u::text AS t FROM (SELECT gen_random_uuid() AS u FROM generate_series(1, 90000)) x"
    )
    assert table["u"].to_pylist() == table["t"].to_pylist()


# ---- PostgreSQL: what is asked

MORE = "it does more than a single SELECT may do"
CELL = "a cell cannot be converted as the query asks"


def test_rows_come_in_the_order_of_the_query_and_no_more_than_asked_for(ask: Any) -> None:
    last = ask("SELECT g FROM visits ORDER BY g DESC -- the last first", rows=4)
    assert last["g"].to_pylist() == [9, 8, 7, 6]
    assert ask("WITH w AS (SELECT g FROM visits) SELECT max(g) AS g FROM w;")["g"].to_pylist() == [9]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("DELETE FROM visits", "it is not SQL, or not one SELECT (SQLSTATE 42601)"),
        ("WITH w AS (DELETE FROM visits RETURNING g) SELECT * FROM w", MORE),
        ("SELECT 1) AS a; DELETE FROM visits; SELECT * FROM (SELECT 1", "it is not SQL, or not one SELECT"),
        ("SELECT g FROM visits FOR UPDATE", "it writes, but may only read (SQLSTATE 25006)"),
        ("SELECT nextval('visited')", "it writes, but may only read"),
        ("SELECT set_config('transaction_read_only', 'off', false)", "the database refuses it"),
        ("COPY visits TO '/tmp/mpc-spearman-visits'", "it is not SQL, or not one SELECT"),
        ("SELECT g INTO more FROM visits", "it is not SQL, or not one SELECT"),
        ("SELECT nosuch FROM visits", "it names a column that does not exist (SQLSTATE 42703)"),
        ("SELECT * FROM nosuch", "it names a table that does not exist (SQLSTATE 42P01)"),
        ("SELECT id::int AS id FROM visits", f"{CELL} (SQLSTATE 22P02)"),
        ("SELECT 1 / (g - g) AS g FROM visits", f"{CELL} (SQLSTATE 22012)"),
    ],
)
def test_what_is_not_one_select_that_reads_is_refused_and_changes_nothing(
    ask: Any, server: str, query: str, why: str
) -> None:
    command(server, "CREATE SEQUENCE IF NOT EXISTS visited")
    assert refusal(lambda: ask(query)).startswith(f"the query failed: {why}")
    there = ask("SELECT count(*) AS n, (SELECT count(*) FROM pg_class WHERE relkind = 'r') AS t FROM visits")
    assert there["n"].to_pylist() == [9]
    assert not Path("/tmp/mpc-spearman-visits").exists()


def test_a_user_without_the_right_is_told_so(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command(server, "CREATE ROLE reader LOGIN PASSWORD 'hunter'")
    monkeypatch.setenv(ADDRESS, server.replace(f"owner:{PASSWORD}", "reader:hunter"))
    text = refusal(lambda: read_query("B", "SELECT * FROM visits", ADDRESS, None))
    assert text == "the query failed: the database's user has no right to read this (SQLSTATE 42501)"


# ---- addresses


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((PASSWORD, "SECRET"), "the server does not accept the user and password"),
        ((f":{PASSWORD}", ""), "the server does not accept the user and password"),
        (("/postgres?", "/SECRET?"), "the server has no such database or user"),
        ((PASSWORD, "SECRET%zz"), "in a name or password write % as %25, @ as %40, / as %2F"),
        (("?host=", "?host=127.0.0.1&port=1&was="), "the driver's message is not shown"),
        (("?host=", "?port=1&host="), "the driver's message is not shown"),
    ],
)
def test_a_database_that_cannot_be_reached_is_refused_without_a_word_of_its_address(
    server: str, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], why: str
) -> None:
    monkeypatch.setenv(ADDRESS, server.replace(*change))
    text = refusal(lambda: read_query("B", "SELECT 1 AS x", ADDRESS, None))
    assert text.startswith(f"it cannot be reached: {why}")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "there is no such environment variable here; set it where this role runs"),
        ("", "there is no such environment variable here; set it where this role runs"),
        ("mysql://owner:hunter@h/d", "its address does not begin with postgresql:// or sqlite:"),
        ("host=h password=hunter", "its address does not begin with postgresql:// or sqlite:"),
        ("postgresql://owner:hunter@127.0.0.1:1/d", "it cannot be reached: nothing listens there"),
        ("postgresql://owner:hunter@nosuch.invalid/d", "it cannot be reached: there is no such host"),
        ("sqlite:/tmp/SECRET.db", "there is no such file; the address is sqlite:FILE"),
        ("sqlite:/tmp", "there is no such file; the address is sqlite:FILE"),
        (f"sqlite:{__file__}", "the query failed: the file is not a SQLite database"),
    ],
)
def test_an_address_of_no_database_is_refused_without_a_word_of_it(
    monkeypatch: pytest.MonkeyPatch, address: str | None, why: str
) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    if address is not None:
        monkeypatch.setenv(ADDRESS, address)
    assert refusal(lambda: read_query("B", "SELECT 1 AS x", ADDRESS, None)) == why


# ---- SQLite


def test_a_column_of_sqlite_is_whole_numbers_floats_or_text_by_all_its_cells(sqlite: Any) -> None:
    table = sqlite(
        "SELECT id, whole, real, first, last, none FROM visits ORDER BY id",
        "CREATE TABLE visits (id TEXT, whole, real, first, last, none)",
        # Far beyond the 1,024 rows from which the driver would tell types by itself.
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999) INSERT INTO visits "
        "SELECT printf('%04d', i), 4611686018427387905 + i, CASE WHEN i < 2000 THEN i ELSE i + 0.5 END, "
        "CASE WHEN i < 2000 THEN i ELSE 'high' END, CASE WHEN i < 2000 THEN NULL ELSE i END, NULL FROM n",
    )
    kinds = [str(kind) for kind in table.schema.types]
    assert kinds == ["string", "int64", "double", "string", "int64", "int64"]
    assert table["id"][7].as_py() == "0007"
    assert table["whole"].to_pylist() == [2**62 + 1 + i for i in range(3000)]
    assert table["real"].to_pylist() == [i if i < 2000 else i + 0.5 for i in range(3000)]
    assert (table["last"].null_count, table["none"].null_count) == (2000, 3000)


def test_rows_of_sqlite_come_in_the_order_of_the_query_and_no_more_than_asked_for(sqlite: Any) -> None:
    made = "CREATE TABLE t (x); INSERT INTO t VALUES (1), (3), (2)"
    assert sqlite("SELECT x FROM t ORDER BY x DESC -- x", made, rows=2)["x"].to_pylist() == [3, 2]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("DELETE FROM t", "it is not SQL, or not one SELECT"),
        ("ATTACH 'more.db' AS more", "it is not SQL, or not one SELECT"),
        ("SELECT load_extension('x')", MORE),
        ("SELECT * FROM nosuch", "it names a table that does not exist"),
        ("SELECT nosuch FROM t", "it names a column that does not exist"),
    ],
)
def test_sqlite_refuses_what_is_not_one_select_that_reads(sqlite: Any, query: str, why: str) -> None:
    made = "CREATE TABLE IF NOT EXISTS t (x)"
    assert refusal(lambda: sqlite(query, made)) == f"the query failed: {why}"


def test_of_two_statements_sqlite_does_the_first_alone(sqlite: Any) -> None:
    made = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)")
    assert sqlite("SELECT x FROM t); DELETE FROM t; SELECT (1", *made).num_rows == 2
    assert sqlite("SELECT count(*) AS n FROM t")["n"].to_pylist() == [2]


def test_a_missing_file_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, f"sqlite:{tmp_path / 'nosuch.db'}")
    with pytest.raises(TableError, match="there is no such file"):
        read_query("B", "SELECT 1 AS x", ADDRESS, None)
    assert not list(tmp_path.iterdir())
