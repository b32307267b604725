"""People's own files: every spelling of the same values gives the same numbers, or an error."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpc_spearman.config import Query
from mpc_spearman.data.aligned import write_unaligned
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.survey import survey
from mpc_spearman.errors import OutputError
from support.tables import columns, read, refusal

LEVELS = ["none", "mild", "moderate", "severe"]
PLACES = [3, 0, 1, 2, 0, 1]
PAIN = pd.DataFrame(
    {"id": list("abcdef"), "x": pd.Categorical([LEVELS[p] for p in PLACES], LEVELS, ordered=True)}
)
ENCODE = {"x": LEVELS}


def two_orders(path: Path) -> None:
    table = pa.Table.from_pandas(PAIN)
    with pq.ParquetWriter(path, table.schema) as writer:
        for rows, levels in ((slice(0, 3), LEVELS), (slice(3, None), LEVELS[::-1])):
            part = PAIN[rows].assign(x=PAIN.x[rows].cat.reorder_categories(levels))
            writer.write_table(pa.Table.from_pandas(part, schema=table.schema, preserve_index=False))


def other_writer(path: Path) -> None:
    PAIN.to_parquet(path)
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-abc-other"))


@pytest.mark.parametrize(
    ("name", "write", "keeps"),
    [
        ("t.parquet", lambda path: PAIN.to_parquet(path, row_group_size=2), True),
        ("t.parquet", lambda path: PAIN.to_parquet(path, use_dictionary=["id"]), False),
        ("t.parquet", lambda path: PAIN.to_parquet(path, use_dictionary=False, row_group_size=2), False),
        ("t.parquet", two_orders, False),
        ("t.parquet", other_writer, False),
        ("t.feather", lambda path: PAIN.to_feather(path), True),
        ("t.csv", lambda path: PAIN.to_csv(path, index=False), False),
    ],
)
def test_only_formats_that_keep_it_give_an_order_of_categories(
    name: str, write: Any, keeps: bool, tmp_path: Path
) -> None:
    write(tmp_path / name)
    if keeps:
        assert read(tmp_path / name).column(0).tolist() == PLACES
    else:
        assert "under encode" in refusal(tmp_path / name, missing_values=[])
        assert survey(tmp_path / name).columns[0].categories == tuple(sorted(LEVELS))
    assert read(tmp_path / name, encode=ENCODE).column(0).tolist() == PLACES


def test_the_owner_is_told_of_numeric_categories_in_another_order() -> None:
    values = pd.Categorical([2, 10, 1], [10, 2, 1], ordered=True)
    table = read(pd.DataFrame({"id": list("abc"), "x": values}))
    assert table.column(0).tolist() == [2, 10, 1]
    other_order = "column 'x': its categories look like numbers, but in another order than the numbers'"
    assert table.cautions == (f"{other_order}: the numbers' is used",)
    agreeing = values.reorder_categories([1, 2, 10])
    assert read(pd.DataFrame({"id": list("abc"), "x": agreeing})).cautions == ()
    text = pd.Categorical(["2", "10", "1"], ["10", "2", "1"], ordered=True)
    table = read(pd.DataFrame({"id": list("abc"), "x": text}))
    assert table.column(0).tolist() == [1, 0, 2]
    assert table.cautions == (f"{other_order}: the categories' is used",)


@pytest.mark.parametrize(
    ("cells", "listed"),
    [
        (["1.0", "-9.0", "2.0"], "-9"),
        (["1", "-9", "2"], "-9.0"),
        (["1", "-9.00", "2"], "-9"),
        (["1", "-9e0", "2"], "-9"),
        (["1", "+0099", "2"], "99"),
        (["true", "-9.0", "false"], "-9"),
        (["2024-01-01", "99.0", "2024-01-02"], "99"),
        (["1", "N.A.", "2"], "n.a."),
        (["1", "inf", "2"], "inf"),
        (pd.array([1, 99.9, 2], "Float32"), "99.9"),
        (np.array([1.5, -9, 2], np.float16), "-9"),
        (pd.Categorical([1, -9, 2]), "-9.0"),
        (pd.Categorical(["lo", "-9", "hi"], ["-9", "lo", "hi"], ordered=True), "-9"),
    ],
)
def test_a_listed_code_is_found_however_it_is_written(cells: Any, listed: str, csv: Any) -> None:
    frame = pd.DataFrame(
        {"id": list("abcdefghi"), "x": pd.Series([*cells] * 3, dtype=pd.Series(cells).dtype)}
    )
    sources = [frame, csv(frame.to_csv(index=False))] if isinstance(cells, list) else [frame]
    for source in sources:
        table = read(source, missing_values=[listed], missing="drop_rows")
        assert table.ids.to_pylist() == list("acdfgi")
        assert not any("missing_values" in caution for caution in table.cautions)


def test_unlisted_codes_stay_and_a_code_in_no_cell_is_reported(csv: Any) -> None:
    big = 2**53
    table = read(
        csv(f"id,x\na,{big}\nb,{big + 1}\nc,3\nd,4\n"),
        missing_values=[str(big + 1), "?"],
        missing="drop_rows",
    )
    assert table.column(0).tolist() == [big, 3, 4]
    assert any("'?'" in caution and str(big) not in caution for caution in table.cautions)


@pytest.mark.parametrize(
    ("cells", "csv_keys", "expected"),
    [
        (["10,154", "999", "1,234,567"], {"thousands": ","}, [10154, 999, 1234567]),
        (["10,154.5", "999", "-1,234"], {"thousands": ","}, [10154.5, 999, -1234]),
        (["10.154", "999", "1.234.567,5"], {"decimal": ",", "thousands": "."}, [10154, 999, 1234567.5]),
        (["10 154", "999", "1\u00a0234"], {"thousands": " "}, [10154, 999, 1234]),
        (["10'154", "999", "1\u2019234"], {"thousands": "'"}, [10154, 999, 1234]),
        (["10,154", "999", "1,5"], {"thousands": ","}, "csv.decimal to ','"),
        (["10,154", "999", "1,234"], {}, "csv.decimal to ',', or csv.thousands to ','"),
        (["1,234,567", "999", "1,234"], {}, "set csv.thousands to ','"),
        (["10,154", "1,999", "1,234"], {"decimal": ","}, "three digits follow each comma"),
        (["10,154", "999", "1,234"], {"decimal": ",", "thousands": "none"}, [10.154, 999, 1.234]),
        (["0,154", "999", "1,234"], {"decimal": ","}, [0.154, 999, 1.234]),
        (["10.154", "999", "1.234"], {}, "three digits follow each point"),
        (["10.154", "999", "1.234"], {"thousands": "none"}, [10.154, 999, 1.234]),
        (["10.154", "1.999", "1.234"], {}, [10.154, 1.999, 1.234]),  # ranked alike, whatever they are
        (["10.154", "", "1.23"], {}, [10.154, 1.23]),
    ],
)
def test_ambiguous_numbers_are_refused_until_the_plan_names_the_mark(
    cells: list[str], csv_keys: dict[str, str], expected: Any, csv: Any
) -> None:
    frame = pd.DataFrame({"id": list("abc") + list("def"), "x": cells * 2})
    for source in (csv(frame.to_csv(index=False, sep=";")), frame):
        keys = {"csv": {"delimiter": ";", **csv_keys}, "missing": "drop_rows"}
        if isinstance(expected, str):
            assert expected in refusal(source, **keys)
        else:
            assert read(source, **keys).column(0).tolist() == expected * 2


TEXTS = {
    "day": ["2024-02-29", "1969-12-31", "2024-03-01"],
    "time": ["2024-02-29T10:00", "1969-12-31 23:59:59.5", "2024-03-01 00:00:01"],
    "whole": ["7", "10", "9"],
    "real": ["0.5", " 1e3", "-2"],
    "flag": ["true", "False", "true"],
    "answer": ["Yes", "no", "yes"],
    "gap": ["1", "NA", "3"],
}


def test_text_is_read_by_the_same_rules_from_every_format(
    csv: Any, parquet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": list("abcdef"), **{name: cells * 2 for name, cells in TEXTS.items()}})
    with sqlite3.connect(tmp_path / "t.db") as connection:
        frame.to_sql("t", connection, index=False)
    monkeypatch.setenv("DATABASE", f"sqlite:{tmp_path / 't.db'}")
    table = pa.Table.from_pandas(frame)
    sources = [csv(frame.to_csv(index=False)), parquet(table), table, frame.astype("category")]
    expected = [column.tolist() for column in columns(read(frame, missing="drop_rows"))]
    assert [expected[place] for place in (0, 2, 3)] == [[19782, 19783] * 2, [7, 9] * 2, [0.5, -2.0] * 2]
    for source in sources:
        assert [column.tolist() for column in columns(read(source, missing="drop_rows"))] == expected
    query = Query(query="SELECT * FROM t", connection="env:DATABASE")
    matrix = read(query, missing="drop_rows").ranks().matrix
    assert np.array_equal(matrix, rank_columns([np.array(column) for column in expected]).matrix)


@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.int64())]
)
def test_rows_that_are_not_common_are_written_whole_or_refused(kind: pa.DataType, tmp_path: Path) -> None:
    source = pa.table({"id": ["a", "b", "c", "d"], "x": [1, 2, 3, None], "rest": pa.nulls(4, kind)})
    table = read(source, exclude=["rest"], missing="drop_rows")
    write_unaligned(tmp_path / "r.parquet", table)
    if pa.types.is_list(kind):
        with pytest.raises(OutputError, match="CSV cannot hold a column"):
            write_unaligned(tmp_path / "r.csv", table)
        assert not (tmp_path / "r.csv").exists()
    else:
        write_unaligned(tmp_path / "r.csv", table)


NFC, NFD = "größe", "gro\u0308ße"


def test_accents_match_between_plans_and_tables_in_any_normal_form(csv: Any, parquet: Any) -> None:
    frame = pd.DataFrame({"id": list("abcd"), NFD: ["a\u0308", "b", "b", "nu\u0308"]})
    for source in (csv(frame.to_csv(index=False)), parquet(pa.Table.from_pandas(frame)), frame):
        keys: dict[str, Any] = {"missing_values": ["n\u00fc"], "missing": "drop_rows"}
        for name in (NFC, NFD):
            table = read(source, features=[name], encode={name: ["b", "\u00e4"]}, **keys)
            assert (table.features, table.column(0).tolist()) == ((NFC,), [1, 0, 0])


def test_ids_in_an_unnamed_index_are_used_and_no_feature_is_lost(parquet: Any) -> None:
    frame = pd.DataFrame({"v": [1, 2, 3], "__index_level_9__": [3, 2, 1]}, index=["a", "b", "c"])
    path = parquet(pa.Table.from_pandas(frame))
    assert "set id to '__index_level_0__'" in refusal(path)
    table = read(path, id="__index_level_0__")
    assert (table.ids.to_pylist(), table.features) == (["a", "b", "c"], ("v", "__index_level_9__"))
    assert read(path, id="v").features == ("__index_level_9__",)
    named = parquet(pa.Table.from_pandas(frame.rename_axis("id")))
    assert read(named).ids.to_pylist() == ["a", "b", "c"]


def test_a_field_and_a_column_named_like_its_path_are_distinct(parquet: Any) -> None:
    table = pa.table({"a": [{"b": 9}] * 3, "a.b": [1, 3, 2], "id": ["x", "y", "z"]})
    assert read(parquet(table), exclude=["a"]).column(0).tolist() == [1, 3, 2]


def test_text_is_not_rewritten_where_numbers_have_a_decimal_comma(csv: Any) -> None:
    order = ["0,5 mg", "1.5 mg", "ca. 5 mg"]
    path = csv("id;dose;v\n" + "".join(f"r{i};{dose};{i},25\n" for i, dose in enumerate(order * 2)))
    keys = {"csv": {"delimiter": ";", "decimal": ","}, "encode": {"dose": order}}
    assert [column.tolist() for column in columns(read(path, **keys))] == [
        [0, 1, 2] * 2,
        [i + 0.25 for i in range(6)],
    ]


def test_keys_for_text_are_refused_for_numbers() -> None:
    for keys in ({"encode": {"x": ["1", "2"]}}, {"convert": {"x": "percent"}}):
        (key,) = keys
        text = refusal(pd.DataFrame({"id": list("abc"), "x": [1, 2, 3]}), **keys)
        assert text == f"column 'x': {key} is for columns of text, and this is int64; take it out of {key}"


@pytest.mark.parametrize(
    ("how", "cells", "expected"),
    [
        ("percent", ["23.4%", "5 %", "-0.1%"], [23.4, 5.0, -0.1]),
        ("percent", ["23.4%", "0.234", "5%"], "1 value that convert: percent cannot read"),
        ("currency", ["EUR 421.67", "EUR 5", "-1 EUR"], [421.67, 5.0, -1.0]),
        ("currency", ["EUR 5", "USD 5", "EUR 7"], "amounts in 2 currencies"),
        ("day_first", ["04.03.1997", "3/4/1997", "29-02-2000 12:30"], None),
        ("day_first", ["04.03.1997", "13.04.1997", "1.1.1970"], [9924, 9964, 0]),
        ("month_first", ["04/03/1997", "3/14/1997", "1/1/1970"], [9954, 9934, 0]),
        ("month_first", ["04/03/1997", "13/4/1997", "1/1/1970"], "dates or times that do not exist"),
    ],
)
def test_cells_are_converted_as_the_plan_says(how: Any, cells: list[str], expected: Any, csv: Any) -> None:
    path = csv(pd.DataFrame({"id": list("abc"), "x": cells}).to_csv(index=False))
    if isinstance(expected, list):
        assert read(path, convert={"x": how}).column(0).tolist() == expected
        assert f"if they are {how}" in refusal(path)
    else:
        assert (expected or "other value among 2 that are dates") in refusal(path, convert={"x": how})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("first", ["sep=;\r\n", '"sep=;"\n', "sep=;\n"])
def test_the_first_line_of_excel_names_the_separator(first: str, encoding: str, csv: Any) -> None:
    path = csv(f"{first}id;x\na;1\nb;2\nc;3\n".encode(encoding))
    assert read(path, csv={"encoding": encoding}).column(0).tolist() == [1, 2, 3]
    assert "in line 4 of" in refusal(csv(first + 'id;x\na;1\n"b;2\nc;3\n'))
