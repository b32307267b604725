"""Tables that an engine holds and ranks: DuckDB, SQLite and a real PostgreSQL, compared with SciPy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from string import whitespace
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.data import expressions, warehouse
from mpc_spearman.data.aligned import write_unaligned
from mpc_spearman.data.databases import DuckDB
from mpc_spearman.data.notation import Notation
from mpc_spearman.data.ranking import place_ranks, rank_columns
from mpc_spearman.data.refusals import EngineFailed
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import TableError
from support.databases import ENGINES, Ask, average, command, made, refusal

# ---- ranks

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


#: DuckDB also ranks its own tables, and copies of those where no temporary table may be.
RANKING = ("parquet", "sqlite", "postgresql")


@pytest.mark.parametrize(
    ("engine", "small"), [*((engine, False) for engine in ENGINES), *((engine, True) for engine in RANKING)]
)
def test_ranks_are_scipys_for_every_kind_of_column(
    engine: str, small: bool, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:  # many buckets, and text that the engine reads
        monkeypatch.setattr(warehouse, "_PART", 50)
        monkeypatch.setattr(warehouse, "_MOST_WORDS", 400 if engine == "sqlite" else 20)
    frame = columns_of_every_kind()
    asked = made(engine, frame, tmp_path, server, monkeypatch)
    table = read_table("B", asked, KEYS)
    frame["grade"] = frame["grade"].map({"low": 0, " mid": 1, "High": 2})
    frame["text"] = frame["text"].astype(float)
    known = frame.sort_values("id").dropna().reset_index(drop=True)
    assert (table.ids.to_pylist(), table.features) == (known["id"].tolist(), tuple(frame.columns[1:]))
    assert any("'code': -999 (" in caution for caution in table.cautions)
    some = np.random.default_rng(4).permutation(len(known))[:77]
    for rows, part in ((slice(None), table), (some, table.take(some))):
        ranks = part.ranks()
        for place, name in enumerate(part.features):
            values = rankdata(known[name][rows])
            assert ranks.matrix[place].tolist() == (2 * values - (part.n + 1)).tolist(), name
            groups = rank_columns([values]).groups[0]
            assert ranks.groups[place].how_many == groups.how_many
            assert ranks.groups[place].skewness == pytest.approx(groups.skewness, rel=1e-9, abs=1e-9)
    table.close()


def test_a_file_of_duckdb_may_be_open_twice_but_not_to_write(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("dcba"), "x": [1, 2, 3, 4]})
    asked = made("duckdb", frame, tmp_path, server, monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"mpc_spearman-spill-{16 * '0'}").mkdir()
    tables = [read_table("B", asked, TableKeys()) for _ in range(2)]
    file = str(tmp_path / "t.duckdb")
    again = f"import duckdb; duckdb.connect({file!r}, read_only=True).sql('FROM t').show()"
    subprocess.run([sys.executable, "-c", again], check=True, capture_output=True)
    assert [average(table) for table in tables] == [[[4, 3, 2, 1]]] * 2
    assert len([*tmp_path.glob("mpc_spearman-spill-*")]) == 2
    for table in tables:
        table.close()
    assert not [*tmp_path.glob("mpc_spearman-spill-*")]
    with duckdb.connect(file):
        text = refusal(lambda: read_table("B", asked, TableKeys()))
    assert text.startswith("duckdb: it cannot be reached: another program has the file open to write")


def test_a_full_disk_is_not_called_too_little_memory() -> None:
    with closing(DuckDB(20_000_000)) as engine:
        engine._connection.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(EngineFailed, match=r"\(TMPDIR\) is full"):
            engine.keep("t", "SELECT random() FROM range(4000000)")


def test_foreign_files_in_the_spill_folder_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    os.mkfifo(tmp_path / f"mpc_spearman-spill-{16 * '0'}")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / f"mpc_spearman-spill-{16 * '1'}").symlink_to(tmp_path / "kept")
    DuckDB(100_000_000).close()
    assert sorted(path.name[-4:] for path in tmp_path.rglob("*")) == ["0000", "1111", "file", "kept"]


@pytest.mark.parametrize("ties", [1, 3, 40, 1000])
@pytest.mark.parametrize("gaps", [0, 1, 40, 300])
def test_ranks_placed_by_an_engines_counts_are_those_of_the_column(ties: int, gaps: int) -> None:
    draw = np.random.default_rng([ties, gaps])
    missing = np.sort(draw.permutation(300)[:gaps])
    values = draw.integers(0, 1000, 300) // ties
    known = np.setdiff1d(np.arange(300), missing)
    upto = (values[known] <= values[known][:, None]).sum(1)
    below = (values[known] < values[known][:, None]).sum(1)
    out = np.zeros(300, np.int32)
    blocks = [(known[i : i + 70], below[i : i + 70], upto[i : i + 70]) for i in range(0, len(known), 70)]
    groups = place_ranks(out, blocks, missing)
    expected = rank_columns([np.ma.masked_array(values, np.isin(np.arange(300), missing))])
    assert np.array_equal(out, expected.matrix[0])
    assert (groups.how_many, groups.gaps) == (expected.groups[0].how_many, gaps)
    assert groups.skewness == pytest.approx(expected.groups[0].skewness, rel=1e-9)


def test_text_with_many_different_cells_is_numbers_or_dates_or_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warehouse, "_MOST_WORDS", 3)

    def read(*cells: str, **keys: Any) -> list[float]:
        rows = ", ".join(f"('{i}', '{cell}')" for i, cell in enumerate(cells))
        csv = {"thousands": "none"} | keys.pop("csv", {})
        known = TableKeys.model_validate({"csv": csv, "missing": "middle", **keys})
        asked = Query(query=f"SELECT * FROM (VALUES {rows}) AS t (id, x)")
        return average(read_table("B", asked, known))[0]

    assert read(" 10", "9", "+8", "-9223372036854775808") == [4, 3, 2, 1]
    assert read("9007199254740993", "9007199254740992", "0", "1") == [4, 3, 1, 2]
    with_codes = read("1e3", "999.5", ".5", "5.", "NA", "-9", missing_values=["NA", "-9.0"])
    assert with_codes == [5, 4, 2, 3, 3.5, 3.5]
    assert read("1.234,5", "1.234,25", "7", "0,5", csv={"decimal": ",", "thousands": "."}) == [4, 3, 2, 1]
    assert read("2024-02-29", "1969-12-31", "2024-03-01", "0001-01-01") == [3, 2, 4, 1]
    assert read("2024-02-29 10:00", "2024-02-29T09:59:59.5", "1999-01-01 00:00", "") == [3.5, 2.5, 1.5, 2.5]
    for cells, said in {
        ("1", "2", "x", "4"): "1 non-numeric value, the first in data row 3",
        ("1", "2", "3", "9223372036854775808"): "beyond 64 bits",
        ("2023-02-29", "2024-01-01", "2024-01-02", "2024-01-03"): "a date that does not exist",
    }.items():
        with pytest.raises(TableError, match=said):
            read(*cells)
    with pytest.raises(TableError, match=r"csv\.thousands"):
        read("1.234", "2.345", "3", "4.567", csv={"thousands": None})


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_values_are_listed_counted_and_ranked_in_the_middle(
    engine: str, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame(
        {"id": list("fedcba"), "x": [1.0, -9, 3, 4, 5, 5], "t": ["1", "NA", "?", "4", "", "2"]}
    )
    asked = made(engine, frame, tmp_path, server, monkeypatch)

    def read(**keys: Any) -> Table:
        return read_table(
            "B", asked, TableKeys.model_validate({"missing_values": ["-9.0", "?", "na", "7"]} | keys)
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
    asked = made(engine, frame, tmp_path, server, monkeypatch)
    table = read_table("B", asked, TableKeys(exclude=["note"]))
    table.close()
    write_unaligned(tmp_path / "rest.csv", table.take(np.array([0, 2])))
    left = pd.read_csv(tmp_path / "rest.csv", dtype=str)
    assert left.fillna("").to_numpy().tolist() == [["b", "3", "y"], ["d", "1", "SECRET"]]


# ---- PostgreSQL's own types

X = "(VALUES ('a', {}), ('b', {}), ('c', {}), ('d', null)) AS t (id, x)"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1e60::numeric", "1e60::numeric + 1e-20", "'NaN'"], [1, 2]),
        (["'NaN'::float8", "-0.0", "0.0"], [1.5, 1.5]),
        (["9007199254740993::int8", "9007199254740992", "1"], [3, 2, 1]),
        (["'2024-02-29 00:00+02'::timestamptz", "'4713-01-01 BC'", "'2024-02-28 22:00+00'"], [2.5, 1, 2.5]),
        (["'5874897-12-31'::date", "'4713-01-01 BC'", "'2024-02-29'"], [3, 1, 2]),
        (["'23:00'::time", "'01:00'", "'02:00'"], [3, 1, 2]),
        (["'7'::varchar", "' 10'", "'9'"], [1, 3, 2]),
        (["true", "false", "true"], [2.5, 1, 2.5]),
        (["'infinity'::date", "'2024-02-29'", "'2024-02-28'"], "column 'x': 1 infinite value"),
        (["'-Infinity'::numeric", "1", "2"], "column 'x': 1 infinite value, the first in data row 1; if"),
        (["'infinity'::float4", "1", "2"], "column 'x': 1 infinite value"),
        (["'{1}'::int[]", "'{2}'", "'{3}'"], "column 'x': list, not numbers: cast it to float64"),
        (["'1.2.3.4'::inet"] * 3, "column 'x': inet, not numbers: cast it to float64"),
        (["'1 day'::interval", "'2 days'", "'3 days'"], "column 'x': month_day_nano_interval, not numbers"),
        (["gen_random_uuid()"] * 3, "column 'x': 3 non-numeric values among its 3 different cells; list"),
        (["'low'::varchar", "'1'", "'2'"], "column 'x': 1 non-numeric value among its 3 different cells;"),
    ],
)
def test_postgresqls_types_are_ranked_or_refused(ask: Ask, cells: list[str], expected: Any) -> None:
    query = f"SELECT * FROM {X.format(*cells)}"
    if isinstance(expected, str):
        assert refusal(lambda: ask(query, missing="drop_rows")).startswith(expected)
    else:
        found = average(ask(query, missing="middle"))[0]
        known = [value for value, cell in zip(found, cells, strict=False) if "NaN" not in cell]
        assert rankdata(known).tolist() == expected


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
        "column 'id': ids of type numeric with decimals: cast them to text or to int64"
    )


# ---- what is asked


def test_the_sql_for_engines_that_are_not_installed_is_unchanged() -> None:
    asked = ibis.table({"o0": "float64", "o1": "string", "c0": "string", "c1": "float64"}, name="asked")
    rows = ibis.table({"r": "int64", "c0": "string", "key": "float64"}, name="rows")
    buckets, before = expressions.bucketed(rows, rows.key, [0.5, 1.5]), {0: 0, 1: 5, 2: 9}
    missing, infinite = expressions.gaps(rows.key, [expressions.has(rows.key, "-9", Decimal(-9))], "trino")
    cells = expressions.written(rows.c0, Notation(Csv(decimal=",", thousands=".")), ["NA"])[1]
    asked_for = {
        "numbers": expressions.numbered(
            expressions.bucketed(asked, asked.o0, [0.5]), ["o0", "o1"], {0: 0, 1: 7}
        ),
        "buckets": buckets.group_by("b").aggregate(n=buckets.count()).order_by("b"),
        "ranks": expressions.ranks(buckets, before),
        "gaps": rows.filter(missing | infinite).select("r"),
        "text": rows.aggregate(**{kind: rows.count(where=some) for kind, some in cells.items()}),
    }
    made = [
        f"-- {dialect}: {name}\n{ibis.to_sql(query, dialect=dialect, pretty=False)}\n".replace(
            whitespace, "..."
        )
        for dialect in ("databricks", "trino", "bigquery", "snowflake")  # the first is Spark's
        for name, query in asked_for.items()
    ]
    assert "OVER (ORDER BY" not in (text := "\n".join(made))  # no window over all rows
    assert text == (Path(__file__).parent / "warehouse.sql").read_text()
