"""A party's table as the answer of its database: PostgreSQL or SQLite, through ADBC.

The database's address is read from an environment variable, and only there: it may hold a password.
Nothing that a driver says is passed on, since drivers quote addresses, queries and cells; errors say in words
of their own what an SQLSTATE, or a phrase that is always the same, means.

Nothing is written. The query is run as a subquery, where SQL's grammar has room for a SELECT alone, in a
read-only transaction or on a file that is opened for reading. What a function that it calls does is beyond
that: the database's user should have the right to read what is asked for, and no other.

Values are kept exactly. PostgreSQL's ``numeric``, which ADBC gives as text, becomes whole numbers or
decimals, its ``uuid`` text. A column of SQLite has no type but those of its cells, and gets the narrowest of
whole numbers, float64 and text that holds them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.data.refusals import show
from mpc_spearman.errors import SetupError, TableError

#: What installs the drivers.
INSTALL_DRIVERS = "pip install 'mpc_spearman[database]'"

_CONNECT_SECONDS = 30  # libpq by itself waits for as long as the network does
_ALL_ROWS = str(2**31 - 2)  # ADBC tells the type of a column of SQLite from the first batch of rows
_MOST_DIGITS = 76  # of decimal256
_HEXADECIMAL = np.frombuffer(b"0123456789abcdef", np.uint8)
# PostgreSQL's first day. Before it is where ADBC puts, side by side, its 'infinity' and '-infinity'.
_FIRST_DAY = -2_440_588
_MICROSECONDS = 86_400_000_000  # of a day
# What an SQLSTATE that begins so means, and what a phrase of a driver means that gives none.
_STATES = {
    "0A": "it does more than a single SELECT may do",
    "22": "a cell cannot be converted as the query asks",
    "25006": "it writes, but may only read",
    "42501": "the database's user has no right to read this",
    "42601": "it is not SQL, or not one SELECT",
    "42703": "it names a column that does not exist",
    "42P01": "it names a table that does not exist",
    "57014": "the database stopped it",
}
_PHRASES = {
    "password": "the server does not accept the user and password",
    "Connection refused": "nothing listens there",
    "could not translate host name": "there is no such host",
    "timeout expired": f"no answer within {_CONNECT_SECONDS} s",
    "pg_hba.conf": "the server does not let that user in from here",
    "SSL": "the two ends do not agree on TLS (sslmode)",
    "does not exist": "the server has no such database or user",
    "percent-encoded": "in a name or password write % as %25, @ as %40, / as %2F",
    "no such table": "it names a table that does not exist",
    "no such column": "it names a column that does not exist",
    "syntax error": "it is not SQL, or not one SELECT",
    "not authorized": "it does more than a single SELECT may do",
    "not a database": "the file is not a SQLite database",
    "locked": "another program is writing to the file",
}


def read_query(party: str, query: str, variable: str, rows: int | None) -> pa.Table:
    """Ask a party's database for its table.

    Parameters
    ----------
    party : str
        Whose table it is; every error begins with it.
    query : str
        One SELECT.
    variable : str
        Name of the environment variable with the database's address: ``postgresql://...`` as libpq takes
        it, or ``sqlite:FILE``.
    rows : int or None
        Ask for the first `rows` rows only.

    Returns
    -------
    pyarrow.Table
        With the query's names of columns. What is neither numbers, text nor time is as the driver gives it.

    Raises
    ------
    SetupError
        The drivers are not installed.
    TableError
        The database cannot be reached, does not answer the query, or answers what cannot be kept exactly.
    """
    where = f"{party}: the database of env:{variable}"
    # On lines of its own, for a comment at its end.
    query = f"SELECT * FROM (\n{query.strip().removesuffix(';')}\n) AS answer"
    if rows is not None:
        query += f" LIMIT {rows}"
    try:
        from adbc_driver_manager import Error
    except ImportError:
        raise SetupError(f"{where}: the drivers for it are not installed. Run: {INSTALL_DRIVERS}") from None
    doing = "it cannot be reached"
    try:
        with _connected(where, os.environ.get(variable, "")) as cursor:
            doing = "the query failed"
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
    except (Error, pa.ArrowException, OSError) as error:
        raise TableError(f"{where}: {doing}: {_reason(error)}") from None
    columns = [
        _exactly(f"{where}: column {show(field.name)}", field, column)
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


@contextmanager
def _connected(where: str, address: str) -> Iterator[Any]:
    """Connect, for reading alone; give a DB-API cursor that gives Arrow tables."""
    kind, _, rest = address.partition(":")
    if not address:
        raise TableError(f"{where}: there is no such environment variable here; set it where this role runs")
    if kind == "sqlite":
        import adbc_driver_sqlite.dbapi as sqlite

        if not Path(rest).is_file():  # the driver would say that memory is short
            raise TableError(f"{where}: there is no such file; the address is sqlite:FILE")
        options = {"adbc.sqlite.query.batch_rows": _ALL_ROWS}
        with (
            sqlite.connect(f"file:{quote(rest)}?mode=ro") as connection,
            connection.cursor(adbc_stmt_kwargs=options) as cursor,
        ):
            yield cursor
    elif kind in ("postgresql", "postgres"):
        import adbc_driver_postgresql.dbapi as postgresql

        if "connect_timeout" not in address:
            address += f"{'&' if '?' in address else '?'}connect_timeout={_CONNECT_SECONDS}"
        with postgresql.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            yield cursor
    else:
        raise TableError(f"{where}: its address does not begin with postgresql:// or sqlite:")


def _reason(error: Exception) -> str:
    state = getattr(error, "sqlstate", None)
    if state:
        known = (words for begins, words in _STATES.items() if state.startswith(begins))
        return f"{next(known, 'the database refuses it')} (SQLSTATE {state})"
    known = (words for phrase, words in _PHRASES.items() if phrase in str(error))
    return next(
        known,
        "the driver's message is not shown, since it may hold secrets; psql or sqlite3 will show the reason",
    )


def _exactly(where: str, field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn a column of a type that the reader has no use for into one that it has, losing nothing."""
    about = field.metadata or {}  # of version 1.12, the last for Python 3.10, under the second key alone
    kind = about.get(b"POSTGRESQL:type") or about.get(b"ADBC:postgresql:typname")
    if kind in (b"numeric", b"uuid"):
        stored = getattr(field.type, "storage_type", field.type)
        column = pa.chunked_array([getattr(chunk, "storage", chunk) for chunk in column.chunks], stored)
        return _decimals(where, column) if kind == b"numeric" else _uuids(column)
    if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type):
        day = pa.types.is_date32(field.type)
        since = column.cast(pa.int32() if day else pa.int64())
        if pc.any(pc.less(since, _FIRST_DAY * (1 if day else _MICROSECONDS))).as_py():
            raise TableError(
                f"{where}: it has dates that are infinite, or too late for 64 bits; leave them out"
            )
    return column


def _decimals(where: str, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn PostgreSQL's ``numeric``, as text, into whole numbers or decimals; its NaN is a missing value."""
    if pc.any(pc.match_substring(text, "inf")).as_py():
        raise TableError(f"{where}: it has infinite values; leave them out")
    text = pc.if_else(pc.equal(text, "nan"), None, text)
    length, point = pc.utf8_length(text), pc.find_substring(text, ".")
    whole = pc.max(pc.if_else(pc.less(point, 0), length, point)).as_py() or 1  # with the sign
    scale = pc.max(pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))).as_py() or 0
    if whole + scale > _MOST_DIGITS:
        raise TableError(
            f"{where}: its numbers take more than {_MOST_DIGITS} digits; round them, or use a power "
            "of ten as their unit, in the query"
        )
    if scale == 0 and whole <= 18:  # as a key often is, of which the other side has an integer
        return text.cast(pa.int64())
    return text.cast((pa.decimal128 if whole + scale <= 38 else pa.decimal256)(whole + scale, scale))


def _uuids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write UUIDs, 16 bytes each, as PostgreSQL shows them: 8-4-4-4-12 hexadecimal digits."""
    if not len(column):
        return column.cast(pa.string())
    cells = pa.concat_arrays(column.cast(pa.binary(16)).chunks)
    octets = np.frombuffer(cells.buffers()[1], np.uint8).reshape(-1, 16)[cells.offset :][: len(cells)]
    halves = np.stack([octets >> 4, octets & 15], axis=2).reshape(-1, 32)
    text = np.full((len(cells), 36), ord("-"), np.uint8)
    text[:, [*range(8), *range(9, 13), *range(14, 18), *range(19, 23), *range(24, 36)]] = _HEXADECIMAL[halves]
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), len(cells), [None, pa.py_buffer(text)])
    return pa.chunked_array([pc.if_else(cells.is_valid(), made.cast(pa.string()), None)])
