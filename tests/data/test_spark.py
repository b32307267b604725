"""Queries that a real Spark answers, through Spark Connect: ranks compared with SciPy, types and errors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.databases import connect
from mpc_spearman.data.tables import read_table
from mpc_spearman.errors import TableError
from support.databases import ADDRESS, Ask, average, check_cells, check_ranks, columns_of_every_kind, refusal
from support.spark import spark

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module", params=[True, False], ids=["ansi", "not ansi"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, spark(Path(folder), ansi=request.param) as address:
        yield address


def test_ranks_of_spark_are_scipys_for_every_kind_of_column(ask: Ask, tmp_path: Path) -> None:
    frame = columns_of_every_kind()
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    check_ranks(
        Query(query=f"SELECT * FROM parquet.`{tmp_path}/t.parquet`", connection=f"env:{ADDRESS}"), frame
    )


def test_a_folder_that_spark_writes_is_read_in_its_order(ask: Ask, tmp_path: Path) -> None:
    rows = (
        "SELECT id, hash(id) % 100 AS x, date_add(date'9990-01-01', int(id % 4000)) AS day FROM range(9000)"
    )
    with connect(Query(query="SELECT 1", connection=f"env:{ADDRESS}"), 0) as database:
        session = database._session  # type: ignore[attr-defined]
        session.sql(rows).orderBy("id").repartition(1).write.parquet(str(tmp_path / "one"))
        session.sql(rows).repartition(7).orderBy("id").write.parquet(str(tmp_path / "several"))
    asked = ask(rows, order_by="id")
    for folder in ("one", "several"):
        table = read_table("B", tmp_path / folder, TableKeys())
        assert table.ids.to_pylist() == [str(i) for i in range(9000)] == asked.ids.to_pylist()
        assert (table.ranks().matrix == asked.ranks().matrix).all()


def test_an_answer_makes_this_process_import_nothing(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's client would for the class that a Parquet file's metadata gives a column."""
    (tmp_path / "made_up_class.py").write_text("import pathlib\n\npathlib.Path(__file__ + '.ran').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    made_up = {"type": "udt", "pyClass": "made_up_class.X", "serializedClass": "", "sqlType": "double"}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "string"), ("x", made_up))
    ]
    rows = pa.table({"id": ["a", "b", "c", "d"], "x": [1.0, 2.0, 3.0, 4.0]})
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields})}
    pq.write_table(rows.replace_schema_metadata(metadata), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="a column of a user-defined type: leave it out of the query"):
        ask(f"SELECT * FROM parquet.`{tmp_path}/t.parquet`")
    assert not (tmp_path / "made_up_class.py.ran").exists()


X = "VALUES ('a', {}), ('b', {}), ('c', {}), ('d', null) AS t (id, x)"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([f"cast('{x}' as decimal(38, 10))" for x in (10**20, "1e20", 10**20 + 1)], [1.5, 1.5, 3]),
        ([f"{10**20}.{x:010}BD" for x in (1, 0, 2)], [2, 1, 3]),
        (
            [f"timestamp'{x}'" for x in ("2024-02-29 00:00:00+02:00", "1000-01-01", "2024-02-28 22:00:00Z")],
            [2.5, 1, 2.5],
        ),
        ([f"timestamp_ntz'2024-03-{x}'" for x in ("10 02:30:00", "10 02:29:00", "11")], [2, 1, 3]),
        (["date'9999-12-31'", "date'0001-01-01'", "date'2024-02-29'"], [3, 1, 2]),
        (["interval '1' day", "interval '25' hour", "interval '-1' second"], [2, 3, 1]),
        (["cast('NaN' as double)", "-0.0D", "0.0D"], [1.5, 1.5]),
        (["' 10'", "'9'", "'+8'"], [3, 2, 1]),
        (["'9223372036854775808'", "'9'", "'8'"], "column 'x': numbers beyond 64 bits"),
        (["'2023-02-29'", "'2024-01-01'", "'2024-01-02'"], "column 'x': dates or times that do not exist"),
        (["double('infinity')", "1", "2"], "column 'x': 1 infinite value, the first in data row 1; if they"),
        (["interval '1' year", "interval '1' month", "null"], "column 'x': interval"),
        (["array(1)", "array(2)", "null"], "column 'x': list, not numbers"),
        (["parse_json('1')", "null", "null"], "column 'x': struct, not numbers"),
        (["x'01'", "x'02'", "null"], "column 'x': binary, not numbers"),
    ],
)
def test_sparks_types_are_ranked_or_refused(ask: Ask, cells: list[str], expected: Any) -> None:
    check_cells(ask, f"SELECT * FROM {X.format(*cells)}", cells, expected)


def test_blanks_that_fill_char_are_no_part_of_an_id(ask: Ask) -> None:
    with connect(Query(query="SELECT 1", connection=f"env:{ADDRESS}"), 0) as database:
        session = database._session  # type: ignore[attr-defined]
        session.sql("CREATE TABLE IF NOT EXISTS claims (id CHAR(4), x CHAR(3)) USING parquet")
        session.sql("INSERT OVERWRITE claims VALUES ('a', '10'), ('bb', '9'), ('c', '8')")
    table = ask("SELECT * FROM claims")
    assert (table.ids.to_pylist(), average(table)) == (["a", "bb", "c"], [[3, 2, 1]])


def test_rows_of_spark_are_the_first_by_order_by(ask: Ask) -> None:
    rows = "VALUES ('a', 2, 5), ('b', 1, 6), ('c', 2, 7), ('d', null, 8) AS t (id, day, x)"
    keys = {"rows": 3, "order_by": ["day"], "missing": "middle"}
    assert ask(f"SELECT * FROM {rows}", **keys).ids.to_pylist() == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM nosuch", "it names a table that does not exist (SQLSTATE 42P01)"),
        ("SELECT nosuch FROM range(3)", "it names a column that does not exist (SQLSTATE 42703)"),
        (
            "WITH w AS (SELECT 1) INSERT INTO t SELECT * FROM w",
            "it is not SQL, or not one SELECT; names such as order need double quotes",
        ),
        ("SELECT id, raise_error('SECRET') AS x FROM range(3)", "it refuses; its message is not shown"),
    ],
)
def test_errors_of_spark_say_why_and_show_nothing(
    ask: Ask, query: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert refusal(lambda: ask(query)).startswith(f"spark: the query failed: {why}")
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sc://127.0.0.1:1", "nothing listens there"),
        ("sc://nosuch.invalid/;token=hunter", "there is no such host"),
    ],
)
def test_a_spark_that_cannot_be_reached_is_refused_at_once(
    ask: Ask, address: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(TableError, match="spark: it cannot be reached: ") as caught:
        ask("SELECT 1 AS id")
    assert str(caught.value).endswith(why)
