"""Queries that DuckDB, SQLite and a real PostgreSQL answer: ranks compared with SciPy, and types."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data import answer, databases
from mpc_spearman.data.aligned import write_unaligned
from mpc_spearman.data.databases import connect
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import TableError
from support.databases import (
    ENGINES,
    Ask,
    average,
    check_cells,
    check_ranks,
    columns_of_every_kind,
    command,
    made,
    refusal,
)

# ---- ranks


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("small", [False, True], ids=["", "small"])
def test_ranks_are_scipys_for_every_kind_of_column(
    engine: str, small: bool, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:  # many blocks, in files
        monkeypatch.setattr(answer, "_BLOCK", 50)
        monkeypatch.setattr(databases, "_SQLITE_CELLS", 700)
        monkeypatch.setattr("mpc_spearman.arrays.Memory.take", lambda memory, size: False)
    frame = columns_of_every_kind()
    check_ranks(made(engine, frame, tmp_path, server, monkeypatch), frame)


def test_a_file_of_duckdb_may_be_open_twice_but_not_to_write(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("dcba"), "x": [1, 2, 3, 4]})
    query = made("duckdb", frame, tmp_path, server, monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"mpc_spearman-spill-{16 * '0'}").mkdir()
    tables = [read_table("B", query, TableKeys()) for _ in range(2)]
    file = str(tmp_path / "t.duckdb")
    again = f"import duckdb; duckdb.connect({file!r}, read_only=True).sql('FROM t').show()"
    subprocess.run([sys.executable, "-c", again], check=True, capture_output=True)
    assert [average(table) for table in tables] == [[[4, 3, 2, 1]]] * 2
    assert not [*tmp_path.glob("mpc_spearman-spill-*")]
    with duckdb.connect(file):
        text = refusal(lambda: read_table("B", query, TableKeys()))
    assert text.startswith("duckdb: it cannot be reached: another program has the file open to write")


def test_a_full_disk_is_not_called_too_little_memory() -> None:
    full = pytest.raises(Unusable, match=r"\(TMPDIR\) is full")
    with full, connect(Query(query="SELECT 1"), 20_000_000) as engine:
        engine._connection.execute("SET max_temp_directory_size = '1MB'")  # type: ignore[attr-defined]
        [*engine.batches("SELECT random() AS x FROM range(4000000) ORDER BY x")]


def test_foreign_files_in_the_spill_folder_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    os.mkfifo(tmp_path / f"mpc_spearman-spill-{16 * '0'}")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / f"mpc_spearman-spill-{16 * '1'}").symlink_to(tmp_path / "kept")
    with connect(Query(query="SELECT 1"), 100_000_000):
        pass
    assert sorted(path.name[-4:] for path in tmp_path.rglob("*")) == ["0000", "1111", "file", "kept"]


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_values_are_listed_counted_and_ranked_in_the_middle(
    engine: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame(
        {"id": list("fedcba"), "x": [1.0, -9, 3, 4, 5, 5], "t": ["1", "NA", "?", "4", "", "2"]}
    )
    query = made(engine, frame, tmp_path, server, monkeypatch)

    def read(**keys: Any) -> Table:
        return read_table(
            "B", query, TableKeys.model_validate({"missing_values": ["-9.0", "?", "na", "7"]} | keys)
        )

    with pytest.raises(TableError, match="column 'x': 1 missing value, the first in data row 5"):
        read()
    kept = read(missing="drop_rows", features=["x"])
    assert average(kept) == [[4.5, 4.5, 3, 2, 1]]
    assert any("lists values that no cell has: '?', 'na', '7'" in caution for caution in kept.cautions)
    filled = read(missing="middle", missing_flags=True)
    assert filled.features == ("x", "t", "x is missing", "t is missing")
    x, t, _, flags = average(filled)
    assert (x, t, flags) == ([5, 5, 3.5, 2.5, 3.5, 1.5], [3.5, 3.5, 4.5, 3.5, 3.5, 2.5], [2, 5, 2, 5, 5, 2])


def test_rows_are_the_first_by_order_by_and_then_by_id(ask: Ask) -> None:
    rows = "(VALUES ('a', 2, 5), ('b', 1, 6), ('c', 2, 7), ('d', 3, 8)) AS t (id, day, x)"
    assert ask(f"SELECT * FROM {rows}", order_by=["day"]).ids.to_pylist() == ["b", "a", "c", "d"]
    table = ask(f"WITH w AS (SELECT * FROM {rows}) SELECT * FROM w;", rows=3, order_by=["day"])
    assert (table.ids.to_pylist(), table.features) == (["b", "a", "c"], ("day", "x"))
    with pytest.raises(TableError, match=r"table\.order_by: there is no column 'when'"):
        ask(f"SELECT * FROM {rows}", order_by=["when"])


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_rows_that_are_not_common_are_written_with_all_columns(
    engine: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("dcba"), "x": [1, 2, 3, 4], "note": ["SECRET", None, "y", "z"]})
    query = made(engine, frame, tmp_path, server, monkeypatch)
    table = read_table("B", query, TableKeys(exclude=["note"]), whole=True)
    write_unaligned(tmp_path / "rest.csv", table.take(np.array([0, 2])))
    left = pd.read_csv(tmp_path / "rest.csv", dtype=str)
    assert left.fillna("").to_numpy().tolist() == [["b", "3", "y"], ["d", "1", "SECRET"]]


# ---- PostgreSQL's own types

X = "(VALUES ('a', {}), ('b', {}), ('c', {}), ('d', null)) AS t (id, x)"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1e40::numeric", "1e40::numeric + 1e-20", "'NaN'"], [1, 2]),
        (
            ["1e60::numeric", "1e60::numeric + 1e-20", "2"],
            "column 'x': numbers of more than 75 digits: round",
        ),
        (["'-9'::char(4)", "'10'", "'7'"], [1, 3, 2]),
        (["'-9.00'::money", "10.5::numeric::money", "7::money"], [1, 3, 2]),
        (["4294967295::oid", "7", "1"], [3, 2, 1]),
        (["'NaN'::float8", "-0.0", "0.0"], [1.5, 1.5]),
        (["9007199254740993::int8", "9007199254740992", "1"], [3, 2, 1]),
        (["'2024-02-29 00:00+02'::timestamptz", "'4713-01-01 BC'", "'2024-02-28 22:00+00'"], [2.5, 1, 2.5]),
        (["'5874897-12-31'::date", "'4713-01-01 BC'", "'2024-02-29'"], [3, 1, 2]),
        (["'23:00'::time", "'01:00'", "'02:00'"], [3, 1, 2]),
        (["'7'::varchar", "' 10'", "'9'"], [1, 3, 2]),
        (["true", "false", "true"], [2.5, 1, 2.5]),
        (["'infinity'::date", "'2024-02-29'", "'2024-02-28'"], "column 'x': 1 infinite value"),
        (["'-Infinity'::numeric", "1", "2"], "column 'x': 1 infinite value, the first in data row 1; make"),
        (["'infinity'::float4", "1", "2"], "column 'x': 1 infinite value"),
        (["'{1}'::int[]", "'{2}'", "'{3}'"], "column 'x': integer[], not numbers: cast it to float64"),
        (["'1.2.3.4'::inet"] * 3, "column 'x': inet, not numbers: cast it to float64"),
        (["'1 day'::interval", "'2 days'", "'3 days'"], "column 'x': interval, not numbers"),
        (["gen_random_uuid()"] * 3, "column 'x': 3 non-numeric values, the first in data row 1; list"),
        (["'low'::varchar", "'1'", "'2'"], "column 'x': 1 non-numeric value, the first in data row 1;"),
    ],
)
def test_postgresqls_types_are_ranked_or_refused(ask: Ask, cells: list[str], expected: Any) -> None:
    check_cells(ask, f"SELECT * FROM {X.format(*cells)}", cells, expected)


def test_ids_of_postgresql_are_text_whole_numbers_and_dates(ask: Ask, server: str) -> None:
    command(server, "DROP TYPE IF EXISTS mood", "CREATE TYPE mood AS ENUM ('sad', 'ok', 'fine')")
    for cells, expected in {
        "'0b9e6a8e-1c7d-4f00-8000-00000000abc' || g::text)::uuid": "0b9e6a8e-1c7d-4f00-8000-00000000abc1",
        "g)::numeric": "1",
        "'2024-01-0' || g::text)::date": "2024-01-01",
        "array['fine', 'ok', 'sad'])[g]::mood": "fine",
    }.items():
        table = ask(f"SELECT ({cells} AS id, g AS x FROM generate_series(1, 3) g", order_by=["x"])
        assert table.ids.to_pylist()[0] == expected
    query = "SELECT (g / 2.0)::numeric AS id, g AS x FROM generate_series(1, 3) g"
    assert refusal(lambda: ask(query)) == (
        "column 'id': ids of type decimal128, neither text, whole numbers nor dates: "
        "cast them to text or to int64"
    )


def test_enumerations_of_postgresql_have_their_order(ask: Ask, server: str) -> None:
    command(
        server,
        *("DROP TYPE IF EXISTS severity CASCADE", "CREATE TYPE severity AS ENUM ('mild', 'none', 'severe')"),
        *("ALTER TYPE severity ADD VALUE 'low' BEFORE 'none'", "CREATE DOMAIN state AS severity"),
    )
    rows = "(VALUES ('a', 'none'), ('b', 'severe'), ('c', 'mild'), ('d', 'low')) AS t (id, x)"
    for kind in ("severity", "state"):
        query = f"SELECT id, x::{kind} AS x FROM {rows}"
        assert average(ask(query, missing_values=["NA"])) == [[3, 4, 1, 2]]
        assert average(ask(query, encode={"x": ["none", "low", "mild", "severe"]})) == [[1, 4, 3, 2]]


def test_no_session_stays_open_while_a_party_waits_for_others(ask: Ask, server: str) -> None:
    table = ask("SELECT * FROM visits")
    others = "SELECT count(*) AS n FROM pg_stat_activity WHERE backend_type = 'client backend'"
    sessions = ask(f"SELECT g::text AS id, n FROM generate_series(1, 3) g, ({others}) AS others", id="id")
    assert sessions.column(0).tolist() == [1, 1, 1]
    assert average(table) == [[*range(1, 10)]]


def test_a_connection_is_closed_where_it_cannot_be_used(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from adbc_driver_postgresql import dbapi

    closed = []
    connection = type("Connection", (), {"close": lambda self: closed.append(self)})
    monkeypatch.setattr(dbapi, "connect", lambda address: connection())
    assert refusal(lambda: ask("SELECT 1 AS id")).startswith("postgres: it cannot be reached: it refuses")
    assert len(closed) == 1


# ---- DuckDB's, and missing values in all


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([f"'{2**127}'::uhugeint", "7", f"'{2**127 + 1}'"], [2, 1, 3]),
        ([f"'{-(2**127)}'::hugeint", "7", "8"], [1, 2, 3]),
        (["123456789012345678901234567890123456789::bignum", "-1", "7"], [3, 1, 2]),
        ([f"'{word}'::enum('none', 'mild', 'bad')" for word in ("mild", "bad", "none")], [2, 3, 1]),
        (["'infinity'::timestamp", "'2024-01-01'", "'2024-01-02'"], "column 'x': 1 infinite value"),
        (["'2024-01-01'::date", "'-infinity'", "'infinity'"], "column 'x': 2 infinite values, the first in"),
        (["'2024-01-01'::timestamptz", "'infinity'", "'2024-01-02'"], "column 'x': 1 infinite value"),
        (["'101'::bit", "'1'", "'0'"], "column 'x': bit, not numbers: cast it to float64"),
        (["interval 1 day", "interval 1 hour", "null"], "column 'x': month_day_nano_interval, not numbers"),
        (["'a'::blob", "'b'", "null"], "column 'x': binary, not numbers"),
    ],
)
def test_duckdbs_types_are_ranked_or_refused(cells: list[str], expected: Any) -> None:
    def ask(query: str, **keys: Any) -> Table:
        return read_table("B", Query(query=query), TableKeys.model_validate(keys))

    check_cells(ask, f"SELECT * FROM {X.format(*cells)} WHERE id < 'd'", cells, expected)


def test_ids_of_128_bits_and_of_types_that_are_no_ids() -> None:
    rows = "FROM range(3) AS t (i)"
    for kind in ("hugeint", "uhugeint", "bignum"):
        query = f"SELECT (170141183460469231731687303715884105720 + i)::{kind} AS id, i AS x {rows}"
        ids = read_table("B", Query(query=query), TableKeys()).ids.to_pylist()
        assert ids == [f"17014118346046923173168730371588410572{i}" for i in range(3)]
    for cells, kind in (("i::varchar::blob", "binary"), ("[i]", "list"), ("(i % 2)::varchar::bit", "bit")):
        query = f"SELECT {cells} AS id, i AS x {rows}"
        with pytest.raises(TableError, match=f"column 'id': ids of type {kind}, neither text, whole numbers"):
            read_table("B", Query(query=query), TableKeys())


@pytest.mark.parametrize("engine", ["duckdb", "postgresql"])
def test_listed_days_are_missing_in_every_type_of_time(
    engine: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = ", ".join(f"x::{kind} AS {kind}" for kind in ("timestamptz", "timestamp", "date"))
    query = f"SELECT id, {cells} FROM (VALUES ('a', '1900-01-01 00:00:00+00'), ('b', '2020-01-02'), "
    query += "('c', '2020-01-01'), ('d', '2020-01-03')) AS t (id, x)"
    monkeypatch.setenv("TZ", "UTC")
    for listed in ("1900-01-01", "1900-01-01 00:00:00+00:00", "1900-01-01T00:00Z"):
        keys = {"missing": "middle", "missing_values": [listed]}
        if engine == "duckdb":
            table = read_table("B", Query(query=query), TableKeys.model_validate(keys))
        else:
            table = ask(query, **keys)
        assert average(table) == [[2.5, 2.5, 1.5, 3.5]] * 3


def test_rows_of_a_query_with_one_id_become_one() -> None:
    rows = "(VALUES ('a', 1), ('b', 5), ('a', 3), ('c', 2)) AS t (id, x)"
    keys = TableKeys.model_validate({"duplicates": {"x": "sum"}})
    table = read_table("B", Query(query=f"SELECT * FROM {rows}"), keys)
    assert (table.ids.to_pylist(), average(table)) == (["a", "b", "c"], [[2, 3, 1]])


def test_listed_numbers_are_missing_in_every_type_of_number(ask: Ask) -> None:
    kinds = ("money", "numeric", "numeric(9, 2)", "float4", "int2", "oid", "text", "char(9)")
    cells = ", ".join(f"x::{kind} AS c{i}" for i, kind in enumerate(kinds))
    query = f"SELECT id, {cells} FROM (VALUES ('a', '9'), ('b', '3'), ('c', '1'), ('d', '2')) AS t (id, x)"
    ranks = average(ask(query, missing="middle", missing_values=["9.0"]))
    assert dict(zip(kinds, ranks, strict=True)) == {kind: [2.5, 3.5, 1.5, 2.5] for kind in kinds}
