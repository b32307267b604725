"""Tables: which files and frames are refused, and what the error says."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.data import csv_text
from support.tables import GOOD, frame, read, refusal

# ---- what is refused: the file --------------------------------------------------------------------------


def test_places_that_hold_no_file(tmp_path):
    assert refusal(tmp_path / "clinic.csv") == "there is no such file"
    assert refusal(tmp_path / "no" / "clinic.parquet") == "there is no such file"
    os.mkfifo(tmp_path / "p.csv")
    assert refusal(tmp_path / "p.csv") == "it is not a regular file"
    (tmp_path / "t.csv").symlink_to(tmp_path / "t.csv")
    assert refusal(tmp_path / "t.csv") == "it cannot be read (Too many levels of symbolic links)"


def test_unknown_suffix(tmp_path):
    for name in ("t.xlsx", "t", "t.csv.zip"):
        (tmp_path / name).write_text(GOOD)
        text = refusal(tmp_path / name)
        assert repr(Path(name).suffix) in text
        assert ".csv, .tsv, .csv.gz, .tsv.gz, .parquet" in text


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_empty_file(csv, content):
    assert refusal(csv(content)) == "the file is empty: not even a header line"


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("b,2\nc,3\nd,4,5\n", "2 rows with too many or too few fields, the first in data row 2: 2 "),
        ("b,2,3,SECRET\nc,3,3\n", "1 row with too many or too few fields, the first in data row 2: 4 "),
        ("SECRET\n", "1 row with too many or too few fields, the first in data row 2: 1 "),
        ("   \n", "1 row with too many or too few fields, the first in data row 2: 1 "),
    ],
)
def test_wrong_number_of_fields(csv, bad, error):
    head = "id,x,y\na,1,1\n"
    assert refusal(csv(head + bad)) == error + "where the header has 3"
    assert refusal(csv(head + bad), features=["x"]) == error + "where the header has 3"


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ('b,"2,SECRET\nc,3,3\n', "a quote is not closed, in line 3 of the file"),
        ('b,"2"SECRET,3\n', "text after a closing quote, in line 3 of the file"),
        ('b,2,"3"" SECRET\n', "a quote is not closed, in line 3 of the file"),
        ('b,2 "SECRET",3\n', "a quote inside an unquoted cell, in line 3 of the file"),
        ('"x\ny",2,SECRET"\n', "a quote inside an unquoted cell, in line 4 of the file"),
    ],
)
def test_broken_quotes(csv, bad, error, blocks):
    for block in (csv_text.BLOCK, 64, 65, 66, 67, 68, 69, 70):  # so that quotes are where one ends
        blocks(block)
        assert refusal(csv("id,x,y\na,1,1\n" + bad)) == f"it is not a well-formed CSV file: {error}"


def test_lines_may_end_differently(csv):
    assert read(csv("id,x\na,1\n\r b,2\nc,3\n")).ids.to_pylist() == ["a", " b", "c"]
    assert read(csv('id,x\n"a\rb",1\r\nb,2\rc,3\n')).ids.to_pylist() == ["a\rb", "b", "c"]


def without_middle(whole: bytes) -> bytes:
    footer = whole.rindex(b"schema") - 20
    return b"PAR1" + b"\xff" * (footer - 4) + whole[footer:]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda _: GOOD.encode(), lambda whole: whole[: len(whole) // 2], without_middle]
)
def test_broken_parquet(parquet, damage):
    path = parquet({"id": ["SECRET1", "b", "c"], "x": [1.5, 2, 3]})
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(path).startswith("it is not a readable Parquet file (")


def test_parquet_text_that_is_not_utf8(parquet):
    raw = pa.array([b"a", b"SECRET\xff", b"c"]).view(pa.string())
    assert refusal(parquet({"id": raw, "x": [1, 2, 3]})) == "column 'id': ids that are not UTF-8"


# ---- what is refused: columns ---------------------------------------------------------------------------


def test_a_missing_header_line_is_not_quoted(csv):
    error = refusal(csv("SECRET007,0.5,3\nSECRET008,0.25,4\nSECRET009,0.75,5\n"))
    numbers = "2 of the 3 column names are numbers: is the header line missing?"
    assert error == f"id: there is no column 'id'; {numbers}"
    error = refusal(csv("SECRET007,5,5\nSECRET008,6,7\n"))
    assert error.endswith("column 3, with the name of column 2: is the header line missing?")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_another_separator_is_named(csv, mark):
    lines = f"id{mark}x\na{mark}1\nb{mark}2\nc{mark}3\n"
    hint = f"its cells seem to be separated by {mark!r}: set csv.delimiter to that"
    assert refusal(csv(lines)) == f"id: there is no column 'id'; {hint}"
    assert read(csv(lines), csv={"delimiter": mark}).column(0).tolist() == [1, 2, 3]


def test_columns_without_a_name_are_left_out_with_a_warning(csv, parquet):
    for source, which in (
        (csv('"",id,x,\n0,a,1,\n1,b,2,\n2,c,3,\n'), "column 1, 4"),
        (parquet({"id": [1, 2, 3], "x": [1, 2, 3], " ": [1, 2, 3]}), "column 3"),
        (frame([1, 2, 3], **{"": 1, "\t": 2}), "column 3, 4"),
    ):
        table = read(source)
        assert table.features == ("x",)
        assert f"left out: {which} without a name (row numbers?" in " ".join(table.cautions)
    assert "there is no column 'id'" in refusal(csv(",x\na,1\nb,2\nc,3\n"))


def test_duplicate_names(csv, parquet):
    twice = pa.Table.from_arrays([pa.array([1, 2, 3])] * 4, names=["id", "x", "y", "x"])
    data = frame([1, 2, 3], y=1, z=1).set_axis(["id", "x", "y", "x"], axis=1)
    for source in (csv("id,x,y,x\na,1,1,1\n"), parquet(twice), data):
        assert refusal(source, features=["y"]) == (
            "1 column with the name of an earlier column; the first is column 4, with the name of column 2: "
            "'x'"
        )


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"id": "ID"}, "id: there is no column 'ID'; did you mean 'id'?"),
        (
            {"id": "patient"},
            "id: there is no column 'patient'; it has 'id', 'blood_pressure', 'age'; set id to the column of "
            "row ids",
        ),
        (
            {"features": ["blod_pressure"]},
            "features: there is no column 'blod_pressure'; did you mean 'blood_pressure'?",
        ),
        ({"exclude": ["aeg"]}, "exclude: there is no column 'aeg'; did you mean 'age'?"),
        ({"encode": {"agee": ["low", "high"]}}, "encode: there is no column 'agee'; did you mean 'age'?"),
        ({"exclude": ["age", "blood_pressure"]}, "no feature column is left beside the id column 'id'"),
    ],
)
def test_columns_asked_for(csv, keys, error):
    data = pd.DataFrame({"id": ["a", "b", "c"], "blood_pressure": [1, 2, 3], "age": [3, 1, 2]})
    assert refusal(data, **keys) == error
    assert refusal(csv(data.to_csv(index=False)), **keys) == error


def test_excluding_the_id_changes_nothing(csv):
    assert read(csv(GOOD), exclude=["id"]).features == ("x", "y")


def test_long_names():
    good = "é" * 250
    assert read(frame([1, 2, 3], **{good: 1})).features == ("x", good)
    assert "column 3, 'ééé" in (text := refusal(frame([1, 2, 3], **{good + "e": 1})))
    assert "is 501 bytes of UTF-8, more than 500" in text
    assert len(text) < 200
    assert read(frame([1, 2, 3], **{good + "e": 1}), features=["x"]).m == 1


def test_names_and_ids_that_are_not_unicode():
    data = frame([1, 2, 3], y=1).set_axis(pd.Index(["id", "x", "\ud800"], dtype=object), axis=1)
    assert refusal(data) == "the name of column 3 is not valid Unicode"
    ids = pd.Series(["a", "SECRET\ud800", "c"], dtype=object)
    assert refusal(pd.DataFrame({"id": ids, "x": [1, 2, 3]})) == "column 'id': text that is not valid Unicode"
