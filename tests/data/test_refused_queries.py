"""What a database, or DuckDB over files, refuses, and what its errors never quote."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.data.databases import connect
from mpc_spearman.data.refusals import EngineFailed
from mpc_spearman.data.tables import read_table
from mpc_spearman.errors import SetupError, TableError
from support.databases import ADDRESS, PASSWORD, READ, Ask, average, command, into_sqlite, made, refusal


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("WITH w AS (DELETE FROM visits RETURNING g) SELECT * FROM w", "it does more than a single SELECT"),
        ("SELECT id, g FROM visits FOR UPDATE", "it writes, but may only read (SQLSTATE 25006)"),
        ("SELECT id, nextval('visited') AS g FROM visits", "it writes, but may only read"),
        ("SELECT set_config('transaction_read_only', 'off', false) AS id, 1 AS x", "it refuses; its"),
        ("SELECT id, g INTO more FROM visits", "it is not SQL, or not one SELECT"),
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
        ("ATTACH 'more.db' AS more", "it is not SQL, or not one SELECT"),
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
    asked = Query.model_construct(
        query=query, path=None, connection=f"env:{ADDRESS}", order_by=(), memory="1GB"
    )
    text = refusal(lambda: read_table("B", asked, TableKeys()))
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


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgresql"])
def test_not_even_a_statement_that_writes_changes_an_owners_table(
    engine: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("abc"), "x": [1, 2, 3]})
    with closing(connect(made(engine, frame, tmp_path, server, monkeypatch))) as reached:
        with pytest.raises(EngineFailed):
            reached.table("DELETE FROM t")
        assert reached.table("SELECT * FROM t").num_rows == 3


def test_a_column_of_sqlite_is_what_all_its_cells_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT, mixed, text, none, bytes)")
        rows = [(f"{i:02}", i if i < 5 else i + 0.5, i if i else "0.5", None, b"x") for i in range(9)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    monkeypatch.setenv(ADDRESS, f"sqlite:{tmp_path / 't.db'}")
    asked = Query(query="SELECT * FROM t", connection=f"env:{ADDRESS}")
    table = read_table("B", asked, TableKeys(features=["mixed", "text"]))
    assert table.ids.to_pylist() == [f"{i:02}" for i in range(9)]
    assert average(table) == [[1, 2, 3, 4, 5, 6, 7, 8, 9]] * 2
    text = refusal(lambda: read_table("B", asked, TableKeys(features=["none", "bytes"])))
    assert text.split("\n  ") == [
        "2 bad columns",
        "column 'none': all 9 values are missing",
        "column 'bytes': binary, not numbers: cast it to float64, or leave it out (exclude)",
    ]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("t.parquet", "SECRET", "it is not a readable Parquet file"),
        ("t.csv", 'id,x\na,1\nb,"SECRET\n', "it is not a well-formed CSV file: a quote is not closed"),
        ("t.csv", "id,x\na,1\nb\nc,3\n", "it is not a well-formed CSV file with one header line, or not as"),
        ("t.csv", "", "the file is empty"),
        ("t.csv", "id,x,x\na,1,2\n", "1 column with the name of an earlier column; the first is column 3"),
        ("t.csv", "id;x\na;1\n", "id: there is no column 'id'; its cells seem to be separated by ';'"),
        ("t.csv", "id,x\na,gro\udcdf\n", "it is not UTF-8 text, in line 2 of the file: set csv.encoding"),
    ],
)
def test_files_that_duckdb_cannot_read_are_refused(name: str, content: str, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, errors="surrogateescape")
    with pytest.raises(TableError) as caught:
        read_table("B", Query(path=tmp_path / name), TableKeys())
    text = str(caught.value).removeprefix(f"B: {tmp_path / name}: ")
    assert text.removeprefix("duckdb: the query failed: ").startswith(why)
    assert "SECRET" not in text


def test_part_files_with_columns_in_another_order_are_refused(tmp_path: Path) -> None:
    for name, head in (("a.csv", "id,x,y"), ("b.csv", "id,y,x")):
        (tmp_path / name).write_text(f"{head}\n{name},1,2\n")
    with pytest.raises(TableError, match=r"a\.csv and b\.csv do not have the same columns"):
        read_table("B", Query(path=tmp_path), TableKeys())


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_nothing_of_a_csv_file_is_guessed(end: str, tmp_path: Path) -> None:
    """Not what is a comment, which line is the header, nor that names which differ in case are the same."""
    lines = ["sep=;", "id;x;X", "#1;note;1", "#2;3;2", "#3;2;3"]
    (tmp_path / "t.csv").write_bytes(end.join(lines).encode())
    keys = TableKeys(encode={"x": ["2", "3", "note"]}) if end != "\r" else TableKeys(csv=Csv(delimiter=";"))
    if end == "\r":  # Excel's line is not known by this end
        (tmp_path / "t.csv").write_bytes(end.join(["id;x;X", "#1;4;1", "#2;3;2", "#3;2;3"]).encode())
    table = read_table("B", Query(path=tmp_path / "t.csv"), keys)
    assert table.features == ("x", "X")
    assert average(table) == [[3, 2, 1], [1, 2, 3]]


# ---- addresses

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
def test_a_database_that_cannot_be_reached_or_read_is_refused_without_a_word_of_its_address(
    ask: Ask, server: str, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], why: str
) -> None:
    monkeypatch.setenv(ADDRESS, server.replace(*change))
    assert refusal(lambda: ask("SELECT * FROM visits")).startswith(why)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "there is no such environment variable here; set it where this role runs"),
        ("mysql://owner:hunter@h/d", "its address does not begin with postgresql://, sqlite: or duckdb:"),
        ("host=h password=hunter", "its address does not begin with postgresql://, sqlite: or duckdb:"),
        ("postgresql://owner:hunter@127.0.0.1:1/d", f"{UNREACHED}nothing listens there"),
        ("postgresql://owner:hunter@nosuch.invalid/d", f"{UNREACHED}there is no such host"),
        ("sqlite:/tmp/SECRET.db", "there is no such file; the address is sqlite:FILE"),
        (f"sqlite:{__file__}", "sqlite: the query failed: the file is not a database of that kind"),
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


def test_without_the_drivers_the_error_says_what_installs_them(tmp_path: Path) -> None:
    code = "import sys; sys.modules['duckdb'] = None\n" + READ.format(path=tmp_path / "t.csv", memory="1GB")
    (tmp_path / "t.csv").write_text("id,x\n")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert SetupError.__name__ in ended.stderr
    assert "duckdb, which is not installed. Run: pip install 'ibis-framework>=" in ended.stderr


# ---- other engines, and tables larger than memory
