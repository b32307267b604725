"""Databases that answer a party's query, called engines: DuckDB, PostgreSQL, SQLite and Spark.

An engine only runs the owner's query; its answer arrives as Arrow, a batch of rows at a time, and is read by
the rules for all tables. A database's address is read only from an environment variable, as it may contain a
password.

Nothing is written. The owner's query runs as a subquery, where SQL's grammar allows only a SELECT, in a
read-only transaction (PostgreSQL) or on a file opened for reading. This does not limit functions that the
query calls, so the database's user should have no other right.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.config import Query
from mpc_spearman.data.engine_errors import CONNECT_SECONDS, restated_errors
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.files import private_folder, temporary_folder

_SQLITE_CELLS = 1 << 20  # that are Python's at a time
_SPILL = "mpc_spearman-spill-"
_SPARK_PORT, _SPARK_RETRIES = 15002, 5
# Settings of PostgreSQL that decide what a query's answer is.
_SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle", "role", "row_security", "bytea_output")
_SPARK_SETTINGS = ("ansi.enabled", "caseSensitive", "legacy.timeParserPolicy", "session.timeZone")
Kind = Literal["", "numbers", "categories", "foreign"]


class AnswerColumn(NamedTuple):
    """A column of a query's answer: the SQL that asks for it, and the type of its cells."""

    name: str
    cells: str  # the SQL for them
    #: "numbers" and "categories" arrive as text; "foreign" ones too, and are neither features nor ids.
    kind: Kind = ""
    type_name: str = ""
    categories: Sequence[str] = ()  # in their order


class Database(ABC):
    """An engine, reached through its own driver."""

    mark = '"'  # around names

    @abstractmethod
    def columns(self, query: str) -> list[AnswerColumn]:
        """Return the columns of a query's answer, without running the query."""

    @abstractmethod
    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Run a query; yield its answer, a batch of rows at a time."""

    def settings(self) -> tuple[str, ...]:
        """Return the session's settings that decide what a query's answer is."""
        return ()


# Types that Arrow lacks, or that DuckDB hands to it wrongly: uhugeint beyond 127 bits with another sign.
_DUCKDB_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("hugeint", "uhugeint", "bignum"), "numbers"),
    "enum": "categories",
    **dict.fromkeys(("bit", "time with time zone"), "foreign"),
}


class _DuckDB(Database):
    """DuckDB in this process, over files or over its own file.

    It puts what does not fit into `memory` into a folder of its own beside other temporary files.
    """

    def __init__(self, opened: ExitStack, file: str, memory: int) -> None:
        import duckdb

        folder = opened.enter_context(private_folder(temporary_folder(), _SPILL))
        settings: dict[str, Any] = {
            "memory_limit": f"{memory}B",
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # a table's name is none of this program's variables
        }
        self._connection = opened.enter_context(closing(duckdb.connect(":memory:", config=settings)))
        # Else a row group of a Parquet file is read as a whole, and must fit.
        self._connection.execute("LOAD parquet; SET disable_parquet_prefetching = true")
        self._connection.execute("SET enable_progress_bar = false")
        if file:  # not connected to: a file that is open twice in a process must be so with the same settings
            self._connection.execute(f"ATTACH {quoted(file)} AS asked (READ_ONLY)")
            self._connection.execute("USE asked")

    def columns(self, query: str) -> list[AnswerColumn]:
        answer, columns = self._answer(query), list[AnswerColumn]()
        for name, of_duckdb in zip(answer.columns, answer.types, strict=True):
            kind, cells = _DUCKDB_KINDS.get(of_duckdb.id, ""), quoted(name, self.mark)
            cells = f"CAST({cells} AS VARCHAR)" if kind else cells
            categories = of_duckdb.children[0][1] if kind == "categories" else ()
            columns.append(AnswerColumn(name, cells, kind, of_duckdb.id, categories))
        return columns

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        yield from pa.RecordBatchReader.from_stream(self._answer(query))

    def _answer(self, query: str) -> Any:
        # Of several statements DuckDB would execute one after the other.
        if len(statements := self._connection.extract_statements(query)) != 1:
            raise ValueError("syntax error")
        return self._connection.sql(statements[0])


# Types of PostgreSQL that ADBC hands to Arrow as they are.
_POSTGRESQL_AS_ARROW = (
    *("bool", "int2", "int4", "int8", "float4", "float8"),
    *("date", "time", "timestamp", "timestamptz"),
)


class _PostgreSQL(Database):
    """PostgreSQL, through ADBC, in one read-only transaction."""

    def __init__(self, opened: ExitStack, address: str) -> None:
        import adbc_driver_postgresql.dbapi as postgresql

        if "connect_timeout" not in address:
            address += f"{'&' if '?' in address else '?'}connect_timeout={CONNECT_SECONDS}"
        connection = opened.enter_context(closing(postgresql.connect(address)))
        self._cursor = opened.enter_context(closing(connection.cursor()))
        self._cursor.execute("SET TRANSACTION READ ONLY")

    def settings(self) -> tuple[str, ...]:
        settings = ", ".join(f"current_setting('{name}')" for name in _SETTINGS)
        query = f"SELECT current_user::text, array_to_string(current_schemas(true), ','), {settings}"
        (row,) = self._rows(query)
        return tuple(row)

    def columns(self, query: str) -> list[AnswerColumn]:
        self._cursor.execute(f"{query} LIMIT 0")
        names = self._cursor.fetch_record_batch().schema.names
        columns = list[AnswerColumn]()
        for name, row in zip(names, self._rows(_types_of(query, len(names))), strict=True):
            type_name, category, shown, labels = row
            cells = quoted(name, self.mark)
            kind: Kind = ""
            text = f"CAST({cells} AS text)"  # of char(n), without the blanks that fill it up
            if type_name in ("numeric", "money"):
                kind, text = "numbers", f"CAST(CAST({cells} AS numeric) AS text)"
            elif category == "E":
                kind = "categories"
            elif type_name == "oid":
                text = f"CAST({cells} AS int8)"
            elif type_name in _POSTGRESQL_AS_ARROW:
                text = cells
            elif category != "S" and type_name != "uuid":  # citext is one of the S
                kind = "foreign"
            columns.append(AnswerColumn(name, text, kind, shown, labels))
        return columns

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        self._cursor.execute(query)
        for batch in self._cursor.fetch_record_batch():
            yield pa.RecordBatch.from_arrays([*map(_with_infinity, batch.columns)], batch.schema.names)

    def _rows(self, query: str) -> list[list[Any]]:
        self._cursor.execute(query)
        return [list(row.values()) for row in self._cursor.fetch_arrow_table().to_pylist()]


def _types_of(query: str, count: int) -> str:
    """Ask PostgreSQL for the types of a query's columns, of a domain for its base type, and enums' labels."""
    names = [f"c{i}" for i in range(count)]
    oids = ", ".join(f"pg_typeof({name})::oid" for name in names)
    return f"""
        WITH RECURSIVE of_column (place, oid) AS (
            SELECT t.place, t.oid
            FROM (SELECT 1) AS one
            LEFT JOIN (SELECT * FROM ({query}) AS answer LIMIT 0) AS nothing ({", ".join(names)}) ON true
            CROSS JOIN unnest(ARRAY[{oids}]) WITH ORDINALITY AS t (oid, place)
            UNION ALL
            SELECT place, typbasetype FROM of_column JOIN pg_type USING (oid) WHERE typtype = 'd')
        SELECT typname::text, typcategory::text, format_type(t.oid, NULL),
            ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
        FROM of_column JOIN pg_type AS t USING (oid) WHERE typtype <> 'd' ORDER BY place"""


def _with_infinity(block: pa.Array) -> pa.Array:
    """Return dates and times with the largest number for infinity.

    ADBC counts from 1970 and PostgreSQL from 2000, so that what it has there wraps around.
    """
    days, times = pa.types.is_date32(block.type), pa.types.is_timestamp(block.type)
    if not days and not times:
        return block
    numbers = block.cast(pa.int32() if days else pa.int64())
    wrapped = pc.less(numbers, -(1 << 30) if days else -(1 << 62))  # long before 4713 BC, the first
    if not pc.any(wrapped).as_py():
        return block
    largest = np.iinfo(np.int32 if days else np.int64).max
    return pc.if_else(wrapped, pa.scalar(largest, numbers.type), numbers).cast(block.type)


class _SQLite(Database):
    """SQLite, on a file opened for reading, whose cells have types, not its columns."""

    def __init__(self, opened: ExitStack, file: str) -> None:
        address = f"file:{quote(file)}?mode=ro"
        self._connection = opened.enter_context(closing(sqlite3.connect(address, uri=True)))
        self._connection.execute("PRAGMA schema_version")  # which reads the file

    def columns(self, query: str) -> list[AnswerColumn]:
        names = [name for name, *_ in self._connection.execute(f"{query} LIMIT 0").description]
        return [AnswerColumn(name, quoted(name, self.mark)) for name in names]

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        cursor = self._connection.execute(query)
        names = [name for name, *_ in cursor.description]
        while rows := cursor.fetchmany(_SQLITE_CELLS // len(names) + 1):
            yield pa.RecordBatch.from_arrays([*map(_typed, zip(*rows, strict=True))], names)


def _typed(cells: Sequence[Any]) -> pa.Array:
    """Return cells of SQLite as integers, floating point, text or bytes: the first that holds all of them."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # of several types, or beyond what floating point holds
        text = [cell if isinstance(cell, (str, bytes, type(None))) else repr(cell) for cell in cells]
        return pa.array(text, pa.binary() if any(isinstance(cell, bytes) for cell in cells) else pa.string())


class _Spark(Database):
    """Spark, through Spark Connect."""

    mark = "`"

    def __init__(self, opened: ExitStack, address: str) -> None:
        with warnings.catch_warnings():  # of a release of pandas, which is not used here
            warnings.simplefilter("ignore")
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it would print the query
        parts = urlsplit(address)
        # Which fails at once and says why; the client would try for ten minutes.
        socket.create_connection((parts.hostname, parts.port or _SPARK_PORT), CONNECT_SECONDS).close()
        opened.enter_context(_no_code_of_answers())
        self._session = SparkSession.builder.remote(address).create()
        opened.callback(self._session.stop)
        self._session.client.set_retry_policies([DefaultPolicy(max_retries=_SPARK_RETRIES)])

    def settings(self) -> tuple[str, ...]:
        current = self._session.sql("SELECT current_user(), current_catalog(), current_schema()").first()
        return (*current, *(self._session.conf.get(f"spark.sql.{name}") for name in _SPARK_SETTINGS))

    def columns(self, query: str) -> list[AnswerColumn]:
        columns = list[AnswerColumn]()
        for field in self._session.sql(query).schema.fields:
            cells, type_name = quoted(field.name, self.mark), field.dataType.simpleString()
            if str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).startswith("char"):
                cells = f"rtrim({cells})"  # without the blanks that fill it up
            foreign = type_name.startswith(("interval year", "interval month", "time("))  # no type of Arrow
            cells = f"CAST({cells} AS STRING)" if foreign else cells
            columns.append(AnswerColumn(field.name, cells, "foreign" if foreign else "", type_name))
        return columns

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.connect import proto

        # A DataFrame hands out Arrow as a whole only, so this asks the client that it uses itself.
        plan = proto.Plan(root=proto.Relation(sql=proto.SQL(query=query)))
        for answer in self._session.client.to_table_as_iterator(plan, {}):
            if isinstance(answer, pa.Table):  # the first is the schema
                yield from answer.to_batches()


@contextmanager
def _no_code_of_answers() -> Iterator[None]:
    """Keep Spark's client from importing or unpickling what an answer names.

    It would for a column of a user-defined type, which the metadata of any Parquet file can declare, and for
    accumulators of a server.
    """
    from pyspark.serializers import CloudPickleSerializer
    from pyspark.sql.types import UserDefinedType

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("user-defined type")

    methods = [(UserDefinedType, "fromJson"), (CloudPickleSerializer, "loads")]
    originals = [vars(owner)[name] for owner, name in methods]
    for owner, name in methods:
        setattr(owner, name, staticmethod(refuse))
    try:
        yield
    finally:
        for (owner, name), original in zip(methods, originals, strict=True):
            setattr(owner, name, original)


@contextmanager
def connect(query: Query, memory: int) -> Iterator[Database]:
    """Connect to the engine that a plan's table names; errors of the engine become `Unusable`.

    DuckDB may take so much `memory`, in bytes. `ImportError` if the engine's driver is not installed.
    """
    address = os.environ.get(query.variable, "")
    kind, _, place = address.partition(":")
    if query.variable and not address:
        raise Unusable("there is no such environment variable here; set it where this role runs")
    if kind not in ("", "duckdb", "sqlite", "postgres", "postgresql", "sc"):
        raise Unusable("its address does not begin with postgresql://, sqlite:, duckdb: or sc:// (Spark)")
    if kind in ("sqlite", "duckdb") and not Path(place).is_file():
        raise Unusable(f"there is no such file; the address is {kind}:FILE")
    name = {"": "duckdb", "sc": "spark"}.get(kind, kind.removesuffix("ql"))
    with ExitStack() as opened:
        database: Database
        with restated_errors(name, "it cannot be reached"):
            if name == "duckdb":
                database = _DuckDB(opened, place, memory)
            elif name == "sqlite":
                database = _SQLite(opened, place)
            else:
                database = (_Spark if name == "spark" else _PostgreSQL)(opened, address)
        with restated_errors(name, "the query failed"):
            yield database


def quoted(text: str, mark: str = "'") -> str:
    """Quote text for SQL; with another mark, a name."""
    return mark + text.replace(mark, 2 * mark) + mark
