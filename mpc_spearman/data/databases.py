"""Databases that hold and rank a table, called engines: DuckDB, PostgreSQL and SQLite.

Ibis writes each engine's SQL; answers come as Arrow. A database's address is read only from an environment
variable, as it may contain a password. Engines' messages are never passed on, since they quote addresses,
queries and cells. Our errors restate their SQLSTATE, class or a fixed phrase.

Only temporary tables are written. The owner's query runs as a subquery, where SQL's grammar allows only a
SELECT, in a read-only transaction (PostgreSQL) or on a file opened for reading. This does not limit functions
that the query calls, so the database's user should have no other right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ibis
import pyarrow as pa

from mpc_spearman.config import Query
from mpc_spearman.data.refusals import EngineFailed, Unusable
from mpc_spearman.files import private_folder, temporary_folder

_CONNECT_SECONDS = 30  # libpq by itself waits for as long as the network does
_BATCH = 1 << 20  # rows
# Settings of PostgreSQL that decide what a query's answer is.
_SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle", "role", "row_security", "bytea_output")
_SPILL = "mpc_spearman-spill-"
# What an SQLSTATE means, by its first characters; without one, what an error's class or a phrase means.
_STATES = {
    "0A": "it does more than a single SELECT may do",
    "22": "a cell cannot be computed or converted as the query asks",
    "25006": "it writes, but may only read",
    "42501": "the database's user has no right to read this",
    "42601": "it is not SQL, or not one SELECT",
    "42703": "it names a column that does not exist",
    "42P01": "it names a table that does not exist",
    "57014": "the database stopped it",
}
_PHRASES = {
    "read-only transaction": _STATES["25006"],
    "password": "the server does not accept the user and password",
    "Connection refused": "nothing listens there",
    "could not translate host name": "there is no such host",
    "timeout expired": f"no answer within {_CONNECT_SECONDS} s",
    "pg_hba.conf": "the server does not accept that user from this host",
    "SSL": "the two ends do not agree on TLS (sslmode)",
    "percent-encoded|invalid integer value": "in a name or password write % as %25, @ as %40, / as %2F",
    "No files found": "it names a file that does not exist; a relative path begins at the current folder",
    "sqlite_scanner": "the file is not a database of that kind",
    "requires the extension": "it needs an extension of DuckDB, and none is loaded; use local files",
    "no such function|Function with name": "it names a function that does not exist",
    "no such table|Table with name": _STATES["42P01"],
    "no such column|Referenced column": _STATES["42703"],
    "does not exist": "the server has no such database or user",
    "syntax error|Parser Error": _STATES["42601"],
    "not authorized": _STATES["0A"],
    "not a database|not a valid DuckDB|Cannot launch in-memory": "the file is not a database of that kind",
    "locked|lock on file|handle conflict": "another program has the file open to write: close it there",
    "Conversion Error": _STATES["22"],
    "CSV": "it is not a well-formed CSV file with one header line",
    "arquet": "it is not a readable Parquet file",
    "No space left|failed to offload": "the disk for temporary files (TMPDIR) is full",
    "Out of Memory": "it needs more memory than `memory` allows; raise memory",
}


class Database:
    """An engine, reached through its own driver, that hands out Arrow. `dialect` is Ibis' name of it.

    Public methods raise errors in our own words.
    """

    dialect: str
    _connection: Any

    def sql(self, expression: Any) -> str:
        """Write an expression of Ibis in the engine's dialect."""
        return str(ibis.to_sql(expression, dialect=self.dialect, pretty=False))

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Answer a query, a batch of rows at a time."""
        with in_words(self.dialect):
            yield from self._reader(query)

    def table(self, query: Any) -> pa.Table:
        """Answer a query, SQL or an expression of Ibis, as a whole."""
        with in_words(self.dialect):
            return self._reader(query if isinstance(query, str) else self.sql(query)).read_all()

    def number(self, expression: Any) -> Any:
        """Answer an expression of Ibis that is one value."""
        return self.table(expression.name("v").as_table())["v"][0].as_py()

    def keep(self, name: str, query: str) -> None:
        """Keep a query's answer as a temporary table."""
        with in_words(self.dialect):
            self._keep(name, query)

    def put(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Make a temporary table of rows that are here, in place of one of that name."""
        with in_words(self.dialect):
            self._put(name, rows)

    def copied(self, name: str, query: str, memory: int) -> DuckDB:
        """Copy a query's answer into a new DuckDB, close this engine, and return that."""
        with in_words(self.dialect):
            here = DuckDB(memory)
            here._put(name, self._reader(query))
        self.close()
        return here

    def session(self) -> tuple[str, ...]:
        """Return the session's settings that decide what a query's answer is."""
        return ()

    def close(self) -> None:
        """Close the connection, which drops all temporary tables."""
        self._connection.close()

    def _reader(self, query: str) -> pa.RecordBatchReader:
        raise NotImplementedError

    def _keep(self, name: str, query: str) -> None:
        raise NotImplementedError

    def _put(self, name: str, rows: pa.RecordBatchReader) -> None:
        raise NotImplementedError


@contextmanager
def in_words(engine: str, doing: str = "the query failed") -> Iterator[None]:
    """Replace an engine's error by one in our own words: its text may hold secrets."""
    try:
        yield
    except (Unusable, ImportError):
        raise
    except Exception as error:
        state, said = getattr(error, "sqlstate", None) or "", f"{type(error).__name__}: {error}"
        words = [words for begins, words in _STATES.items() if state.startswith(begins)]
        if not state:
            words = [words for phrase, words in _PHRASES.items() if re.search(phrase, said)]
        words += ["it refuses; its message is not shown, because it may contain secrets. Try it by hand"]
        line = re.search(r"CSV Error on Line: (\d+)", said)
        state_said = f" (SQLSTATE {state})" if state else f" (line {line[1]} of a file)" if line else ""
        raise EngineFailed(f"{engine}: {doing}: {words[0]}{state_said}", state) from None


class DuckDB(Database):
    """DuckDB in this process: over files, over its own file, or over rows that another engine handed out.

    It puts what does not fit into `memory` into a folder of its own beside other temporary files.
    """

    dialect = "duckdb"

    def __init__(self, memory: int, file: str = "") -> None:
        import duckdb

        self._spilled = ExitStack()
        folder = self._spilled.enter_context(private_folder(temporary_folder(), _SPILL))
        settings: dict[str, Any] = {
            "memory_limit": f"{memory}B",
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # a table's name is none of this program's variables
        }
        self._connection = duckdb.connect(":memory:", config=settings)
        # Else a row group of a Parquet file is read as a whole, and must fit.
        self._connection.execute("LOAD parquet; SET disable_parquet_prefetching = true")
        self._connection.execute("SET enable_progress_bar = false")
        if file:  # not connected to: a file that is open twice in a process must be so with the same settings
            self._connection.execute(f"ATTACH {quoted(file)} AS asked (READ_ONLY)")
            self._connection.execute("USE asked")

    def _reader(self, query: str) -> pa.RecordBatchReader:
        # Of several statements DuckDB would execute one after the other; what is one here is one in `_keep`.
        if len(statements := self._connection.extract_statements(query)) != 1:
            raise ValueError("syntax error")
        return pa.RecordBatchReader.from_stream(self._connection.sql(statements[0]))

    def _keep(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def _put(self, name: str, rows: pa.RecordBatchReader) -> None:
        self._connection.register("arrived", rows)
        self._keep(name, "SELECT * FROM arrived")
        self._connection.unregister("arrived")

    def close(self) -> None:
        """Close it, and remove what it put on the disk."""
        super().close()
        self._spilled.close()


class _Adbc(Database):
    """PostgreSQL or SQLite, through ADBC."""

    _cursor: Any

    def _reader(self, query: str) -> pa.RecordBatchReader:
        self._cursor.execute(query)
        return self._cursor.fetch_record_batch()

    def _keep(self, name: str, query: str) -> None:
        self._cursor.execute(f"DROP TABLE IF EXISTS {name}")
        self._cursor.execute(f"CREATE TEMP TABLE {name} AS {query}")

    def _put(self, name: str, rows: pa.RecordBatchReader) -> None:
        self._cursor.execute(f"DROP TABLE IF EXISTS {name}")
        self._cursor.adbc_ingest(name, rows, mode="create", temporary=True)

    def close(self) -> None:
        """Close the cursor, then the connection."""
        self._cursor.close()
        super().close()


class _PostgreSQL(_Adbc):
    dialect = "postgres"

    def __init__(self, address: str) -> None:
        import adbc_driver_postgresql.dbapi as postgresql

        if "connect_timeout" not in address:
            address += f"{'&' if '?' in address else '?'}connect_timeout={_CONNECT_SECONDS}"
        self._connection = postgresql.connect(address)
        self._cursor = self._connection.cursor()

    def session(self) -> tuple[str, ...]:
        settings = ", ".join(f"current_setting('{name}')" for name in _SETTINGS)
        query = (
            f"SELECT current_user::text, array_to_string(current_schemas(true), ',') AS schemas, {settings}"
        )
        return tuple(column[0].as_py() for column in self.table(query).columns)

    def _keep(self, name: str, query: str) -> None:
        # The owner's query only runs where nothing but temporary tables can be written.
        self._connection.rollback()
        super()._keep(name, f"SELECT * FROM ({query}) AS kept LIMIT 0")
        self._connection.commit()
        self._cursor.execute("SET TRANSACTION READ ONLY")
        self._cursor.execute(f"INSERT INTO {name} {query}")
        self._connection.commit()
        self._cursor.execute(f"ANALYZE {name}")
        self._connection.commit()

    def _reader(self, query: str) -> pa.RecordBatchReader:
        self._connection.rollback()
        self._cursor.execute("SET TRANSACTION READ ONLY")
        return super()._reader(query)

    def _put(self, name: str, rows: pa.RecordBatchReader) -> None:
        self._connection.rollback()
        super()._put(name, rows)
        self._connection.commit()
        self._cursor.execute(f"ANALYZE {name}")
        self._connection.commit()


class _SQLite(_Adbc):
    dialect = "sqlite"

    def __init__(self, file: str) -> None:
        import adbc_driver_sqlite.dbapi as sqlite

        self._connection = sqlite.connect(f"file:{quote(file)}?mode=ro")
        # ADBC tells the type of a column from the first batch of rows.
        options = {"adbc.sqlite.query.batch_rows": str(_BATCH)}
        self._cursor = self._connection.cursor(adbc_stmt_kwargs=options)


def connect(asked: Query, memory: int) -> Database:
    """Connect to the engine that a plan's table names; `ImportError` if its driver is not installed.

    DuckDB may take so much `memory`, in bytes.
    """
    address = os.environ.get(asked.variable, "")
    kind, _, rest = address.partition(":")
    if asked.variable and not address:
        raise Unusable("there is no such environment variable here; set it where this role runs")
    kind = kind.replace("postgresql", "postgres")  # libpq knows both, Ibis this one
    if kind not in ("", "duckdb", "sqlite", "postgres"):
        raise Unusable("its address does not begin with postgresql://, sqlite: or duckdb:")
    if kind in ("sqlite", "duckdb") and not Path(rest).is_file():
        raise Unusable(f"there is no such file; the address is {kind}:FILE")
    with in_words(kind or "duckdb", "it cannot be reached"):
        if kind in ("", "duckdb"):
            return DuckDB(memory, rest)
        return _SQLite(rest) if kind == "sqlite" else _PostgreSQL(address)


def quoted(text: str, mark: str = "'") -> str:
    """Write text as SQL has it; with another mark, a name."""
    return mark + text.replace(mark, 2 * mark) + mark
