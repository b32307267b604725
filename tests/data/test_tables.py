"""Tables: what is read, what is refused, and what a refusal says."""

from __future__ import annotations

import csv as csv_module
import hashlib
import hmac
import importlib.util
import os
import re
import time
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from mpc_spearman.data.tables import Table, id_digest, read_table
from mpc_spearman.errors import TableError

DATA = Path(__file__).parents[2] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data"


def read(source: Any, **settings: Any) -> Table:
    return read_table("B", source, **{"id": "id", "features": None, "exclude": (), "rows": None, **settings})


def refusal(source: Any, **settings: Any) -> str:
    """The text of the TableError, after checking what every one must hold and must not."""
    with pytest.raises(TableError) as caught:
        read(source, **settings)
    text = str(caught.value)
    name = "the DataFrame" if isinstance(source, pd.DataFrame) else str(source)
    assert text.startswith(f"B: {name}: ")
    shown = "".join(traceback.format_exception(caught.type, caught.value, None)).replace(name, "")
    assert "SECRET" not in shown, "a cell or an id in the error or in its causes"
    return text.removeprefix(f"B: {name}: ")


@pytest.fixture
def csv(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "clinic.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def parquet(tmp_path: Path) -> Callable[[Any], Path]:
    def write(table: Any) -> Path:
        path = tmp_path / "clinic.parquet"
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path)
        return path

    return write


def frame(x: Any, **more: Any) -> pd.DataFrame:
    x = pd.Series(x)
    return pd.DataFrame({"id": [f"SECRET{i}" for i in range(len(x))], "x": x, **more})


GOOD = "id,x,y\na,1,0.5\nb,2,0.25\nc,3,-1e3\n"


# ---- what is read ---------------------------------------------------------------------------------------


def test_csv_columns_in_order_and_their_types(csv):
    table = read(csv("x,id,big,flag,f\n3,a,9223372036854775808,True,1\n1,b,1,False,2.5\n2,c,2,True,3\n"))
    assert (table.party, table.n, table.m) == ("B", 3, 4)
    assert table.ids == ("a", "b", "c")
    assert table.features == ("x", "big", "flag", "f")
    assert [c.dtype for c in table.columns] == [np.int64, np.uint64, np.int64, np.float64]
    assert [c.tolist() for c in table.columns] == [[3, 1, 2], [2**63, 1, 2], [1, 0, 1], [1.0, 2.5, 3.0]]
    assert repr(table) == "Table(party='B', n=3, m=4)"


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        "\ufeff" + GOOD,
        "\ufeff" + GOOD.replace("id,x,y", '"id","x","y"'),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        GOOD.removesuffix("\n"),
        GOOD + "\n\n",
        "\n" + GOOD.replace("\nb", "\n\nb"),
        GOOD.replace("0.25", '"0.25"').replace("\na", '\n"a"'),
    ],
    ids=[
        "plain",
        "bom",
        "bom-quoted",
        "crlf",
        "cr",
        "no-last-newline",
        "blank-end",
        "blank-inside",
        "quoted",
    ],
)
def test_csv_spellings_of_the_same_table(csv, content):
    table = read(csv(content))
    assert (table.ids, table.features) == (("a", "b", "c"), ("x", "y"))
    assert [c.tolist() for c in table.columns] == [[1, 2, 3], [0.5, 0.25, -1000.0]]


def test_csv_ids_stay_as_written(csv):
    ids = ["007", "7", "7.0", "NA", "nan", "null", " 7", "1e3", "True", 'a"b', "x\ny", "é,"]
    lines = [f'"{i.replace(chr(34), chr(34) * 2)}",{k}' for k, i in enumerate(ids)]
    table = read(csv("id,x\n" + "\n".join(lines)))
    assert table.ids == tuple(ids)
    assert table.columns[0].tolist() == list(range(len(ids)))


def test_csv_numbers_are_exact(csv):
    close = [1000.000041, 1000.000059, 0.1, 0.30000000000000004, -0.0, 5e-324, 1.7976931348623157e308]
    whole = [2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0, 1, 2]
    table = read(
        csv(
            "id,f,i\n"
            + "".join(f"r{k},{f!r},{i}\n" for k, (f, i) in enumerate(zip(close, whole, strict=True)))
        )
    )
    assert list(map(repr, table.columns[0].tolist())) == list(map(repr, close))
    assert table.columns[1].tolist() == whole


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(
                st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=6
            ),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=3,
        max_size=12,
        unique_by=lambda row: row[0],
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_csv_round_trip(tmp_path_factory, lines, newline):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    quoted = [f'"{i.replace(chr(34), chr(34) * 2)}",{whole},{real!r}' for i, whole, real in lines]
    path.write_bytes(newline.join(["id,whole,real", *quoted, ""]).encode())
    table = read(path)
    assert table.ids == tuple(line[0] for line in lines)
    assert table.columns[0].tolist() == [line[1] for line in lines]
    assert list(map(repr, table.columns[1].tolist())) == [repr(line[2]) for line in lines]


def test_csv_excluded_columns_may_hold_anything(csv):
    path = csv("id,note,x\n1,SECRET,1\n2,,2\n3,inf,3\n")
    for table in (read(path, exclude=["note"]), read(path, features=["x"])):
        assert table.features == ("x",)
    assert "'note'" in refusal(path)


def test_csv_cells_of_any_length(csv):
    limit = csv_module.field_size_limit()
    assert (
        read(csv("id,note,x\n" + "".join(f"{i},{'n' * 200_000},{i}\n" for i in range(3))), exclude=["note"]).n
        == 3
    )
    assert csv_module.field_size_limit() == limit


def test_features_in_the_order_asked_for(csv):
    table = read(csv(GOOD), features=["y", "x"])
    assert table.features == ("y", "x")
    assert table.columns[0].tolist() == [0.5, 0.25, -1000.0]


def test_rows_takes_the_first_and_checks_no_others(csv, parquet):
    lines = "id,x\n" + "".join(f"r{i},{i}\n" for i in range(5))
    long = pd.DataFrame({"id": list("abcda"), "x": [1, 2, 3, None, 5]})
    for source in (csv(lines + "r0,SECRET\nr6\n"), parquet(pa.Table.from_pandas(long)), long):
        assert read(source, rows=3).columns[0].tolist() in ([0, 1, 2], [1, 2, 3])
    assert read(csv(lines), rows=99).n == 5
    assert "3" in refusal(long, rows=2)


def test_parquet(parquet):
    table = read(
        parquet(
            {
                "id": pa.array([7, 8, 9]),
                "u": pa.array([2**64 - 1, 2**64 - 2, 0], pa.uint64()),
                "i": pa.array([2**53 + 1, 2**53, -5]),
                "small": pa.array([1, 2, 3], pa.int8()),
                "half": pa.array(np.array([1, 2.5, 3], np.float16)),
                "b": pa.array([True, False, True]),
                "note": pa.array(["SECRET", None, "x"]),
            }
        ),
        exclude=["note"],
    )
    assert table.ids == ("7", "8", "9")
    assert [c.dtype.name for c in table.columns] == ["uint64", "int64", "int64", "float64", "int64"]
    assert table.columns[0].tolist() == [2**64 - 1, 2**64 - 2, 0]
    assert table.columns[1].tolist() == [2**53 + 1, 2**53, -5]
    assert table.columns[3].tolist() == [1.0, 2.5, 3.0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_parquet_text_ids(parquet, kind):
    ids = ["007", "NA", "x"]
    assert read(parquet({"id": pa.array(ids, kind), "x": [1, 2, 3]})).ids == tuple(ids)


def test_parquet_from_pandas_with_an_index(parquet):
    data = frame([1, 2, 3]).iloc[[2, 0, 1]]
    assert "__index_level_0__" in pa.Table.from_pandas(data).column_names
    assert read(parquet(pa.Table.from_pandas(data))).features == ("x",)
    assert read(parquet(pa.Table.from_pandas(data.set_index("id")))).ids == ("SECRET2", "SECRET0", "SECRET1")


def test_parquet_reads_only_what_it_needs(parquet, monkeypatch):
    asked = []
    original = pq.ParquetFile.read
    monkeypatch.setattr(
        pq.ParquetFile, "read", lambda self, columns: asked.append(columns) or original(self, columns=columns)
    )
    read(parquet({"a": ["n"] * 3, "x.y": [1, 2, 3], "id": [1, 2, 3]}), exclude=["a"])
    assert asked == [["id", "x.y"]]


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint64",
        "int64",
        ">i8",
        "float16",
        "float32",
        ">f8",
        "boolean",
        "Int64",
        "UInt64",
        "Float32",
        "Float64",
        "Sparse[int64]",
        "int64[pyarrow]",
        "uint64[pyarrow]",
        "double[pyarrow]",
        "float[pyarrow]",
        "bool[pyarrow]",
    ],
)
def test_frame_numeric_types(dtype):
    table = read(frame([1, 0, 1]).astype({"x": dtype}))
    assert table.columns[0].tolist() == [1, 0, 1]
    assert table.columns[0].dtype in (np.int64, np.uint64, np.float64)
    assert table.columns[0].dtype.isnative


@pytest.mark.parametrize("dtype", ["uint64", "UInt64", "uint64[pyarrow]"])
def test_frame_keeps_every_bit(dtype):
    values = [2**64 - 1, 2**64 - 2, 2**53 + 1]
    assert read(frame(pd.Series(values, dtype=dtype))).columns[0].tolist() == values


def test_frame_float32_is_widened_exactly():
    values = np.array([0.1, 0.2, 0.3], np.float32)
    assert read(frame(values)).columns[0].tolist() == [float(v) for v in values]


@pytest.mark.parametrize(
    "ids",
    [
        [7, 8, 9],
        np.array([7, 8, 9], np.uint8),
        pd.array([7, 8, 9], "Int64"),
        pd.array([7, 8, 9], "int64[pyarrow]"),
        pd.Categorical(["7", "8", "9"]),
        pd.array(["7", "8", "9"], "string"),
        pd.array(["7", "8", "9"], "string[pyarrow]"),
        np.array(["7", "8", "9"], dtype=object),
        [7, "8", np.int64(9)],
    ],
)
def test_frame_ids_become_text(ids):
    assert read(pd.DataFrame({"id": ids, "x": [1, 2, 3]})).ids == ("7", "8", "9")


def test_frame_index_is_ignored():
    assert read(frame([1, 2, 3]).set_axis([5, 5, None])).columns[0].tolist() == [1, 2, 3]


def test_columns_are_contiguous_and_the_frame_unchanged():
    data = frame([1.0, 2, 3], y=[3.0, 2, 1], z=[0.5, 1, 2])
    before = data.copy(deep=True)
    assert all(c.flags.c_contiguous for c in read(data.iloc[:, [0, 2, 1, 3]]).columns)
    pd.testing.assert_frame_equal(data, before)


def test_wide_tables_are_fast():
    n, m = 200_000, 50
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(n, m)), columns=[f"f{i}" for i in range(m)])
    data.insert(0, "id", [f"r{i}" for i in range(n)])
    start = time.perf_counter()
    table = read(data)
    seconds = time.perf_counter() - start
    assert (table.n, table.m) == (n, m)
    assert seconds < 2, f"{seconds:.2f} s"  # 0.2 s on an idle core


# ---- what is refused: the file --------------------------------------------------------------------------


def test_missing_file(tmp_path):
    assert refusal(tmp_path / "clinic.csv") == "there is no such file"
    assert refusal(tmp_path / "no" / "clinic.parquet") == "there is no such file"


def test_directory_and_pipe(tmp_path):
    (tmp_path / "d.csv").mkdir()
    assert refusal(tmp_path / "d.csv") == "it is a directory"
    os.mkfifo(tmp_path / "p.csv")
    assert refusal(tmp_path / "p.csv") == "it is not a regular file"


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")]
)
def test_unreadable_file(csv, monkeypatch, error):
    path = csv(GOOD)

    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(path) == f"it cannot be read ({error.strerror})"


def test_unknown_suffix(tmp_path):
    for name in ("t.xlsx", "t", "t.csv.gz"):
        (tmp_path / name).write_text(GOOD)
        text = refusal(tmp_path / name)
        assert repr(Path(name).suffix) in text
        assert ".csv, .parquet, .pq" in text
    (tmp_path / "T.CSV").write_text(GOOD)
    assert read(tmp_path / "T.CSV").n == 3


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_empty_file(csv, content):
    assert refusal(csv(content)) == "the file is empty: not even a header line"


@pytest.mark.parametrize(
    "content", [GOOD.encode("utf-16"), "id,x\nSECRET\xe9,1\n".encode("latin-1"), b"id,n\xe4me\n1,2\n"]
)
def test_not_utf8(csv, content):
    assert "not UTF-8" in refusal(csv(content))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("b,2\nc,3\nd,4,5\n", "2 rows with too many or too few fields, the first in data row 2: 2 "),
        ("b,2,3,SECRET\nc,3,3\n", "1 row with too many or too few fields, the first in data row 2: 4 "),
        ("SECRET\n", "1 row with too many or too few fields, the first in data row 2: 1 "),
        ("   \n", "1 row with too many or too few fields, the first in data row 2: 1 "),
    ],
)
def test_wrong_number_of_fields(csv, bad, said):
    head = "id,x,y\na,1,1\n"
    assert refusal(csv(head + bad)) == said + "where the header has 3"
    assert refusal(csv(head + bad), features=["x"]) == said + "where the header has 3"


@pytest.mark.parametrize("bad", ['b,"2,SECRET\nc,3,3\n', 'b,"2"SECRET,3\n'])
def test_broken_quotes(csv, bad):
    text = refusal(csv("id,x,y\na,1,1\n" + bad))
    assert text.startswith("it is not a well-formed CSV file: ")
    assert text.endswith("in or after data row 2")


def test_mixed_line_ends(csv):
    assert "mixed line ends" in refusal(csv("id,x\na,1\n\r b,2\nc,3\n"))
    assert "mixed line ends" in refusal(csv("id,x\r\na,1\r\n\r b,2\r\nc,3\r\n"))
    assert read(csv('id,x\n"a\rb",1\r\nb,2\rc,3\n')).ids == ("a\rb", "b", "c")


def test_csv_readers_that_disagree_are_refused(csv, monkeypatch):
    original = pd.read_csv
    path = csv(GOOD)
    monkeypatch.setattr(pd, "read_csv", lambda *args, **kwargs: original(*args, **kwargs).iloc[::-1])
    assert "two CSV readers see different rows" in refusal(path)


def test_pandas_own_errors_are_not_passed_on(csv, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise pd.errors.ParserError("SECRET")

    path = csv(GOOD)
    monkeypatch.setattr(pd, "read_csv", refuse)
    assert refusal(path) == "pandas cannot read it as CSV (ParserError)"


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "middle"])
def test_broken_parquet(parquet, damage):
    path = parquet({"id": ["SECRET1", "b", "c"], "x": [1.5, 2, 3]})
    whole = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "text": GOOD.encode(),
            "cut": whole[: len(whole) // 2],
            "middle": b"PAR1"
            + b"\xff" * (whole.rindex(b"schema") - 20 - 4)
            + whole[whole.rindex(b"schema") - 20 :],
        }[damage]
    )
    assert refusal(path).startswith("it is not a readable Parquet file (")


def test_parquet_text_that_is_not_utf8(parquet):
    raw = pa.array([b"a", b"SECRET\xff", b"c"]).view(pa.string())
    assert refusal(parquet({"id": raw, "x": [1, 2, 3]})) == "column 'id': ids that are not UTF-8"


# ---- what is refused: columns ---------------------------------------------------------------------------


def test_a_missing_header_line_is_not_quoted(csv):
    said = refusal(csv("SECRET007,0.5,3\nSECRET008,0.25,4\nSECRET009,0.75,5\n"))
    assert (
        said
        == "id: there is no column 'id'; 2 of the 3 column names are numbers: is the header line missing?"
    )
    said = refusal(csv("SECRET007,5,5\nSECRET008,6,7\n"))
    assert said.endswith("the first at column 3, as column 2: is the header line missing?")


@pytest.mark.parametrize(("mark", "kind"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_separator_is_named(csv, mark, kind):
    said = refusal(csv(f"id{mark}x\na{mark}1\nb{mark}2\n"))
    assert said == f"id: there is no column 'id'; it is separated by {kind}: save it with commas"


def test_empty_names(csv, parquet):
    said = "1 column with an empty name, the first at column 1"
    assert said in refusal(csv(",id,x\n0,a,1\n1,b,2\n2,c,3\n"), features=["x"])
    assert "column 3" in refusal(parquet({"id": [1, 2, 3], "x": [1, 2, 3], " ": [1, 2, 3]}))
    assert "2 columns with an empty name" in refusal(frame([1, 2, 3], **{"": 1, "\t": 2}))


def test_duplicate_names(csv, parquet):
    said = "1 column with the name of an earlier one, the first at column 4, as column 2: 'x'"
    assert refusal(csv("id,x,y,x\na,1,1,1\n")) == said
    assert refusal(csv("id,x,y,x\na,1,1,1\n"), features=["y"]) == said
    twice = pa.Table.from_arrays([pa.array([1, 2, 3])] * 4, names=["id", "x", "y", "x"])
    assert refusal(parquet(twice)) == said
    assert refusal(frame([1, 2, 3], y=1, z=1).set_axis(["id", "x", "y", "x"], axis=1)) == said


def test_labels_must_be_text():
    data = pd.DataFrame({"id": ["a", "b", "c"], 0: [1, 2, 3], ("x", "y"): [1, 2, 3]})
    assert refusal(data) == "2 column labels not text, the first at column 2: name the columns with strings"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"id": "ID"}, "id: there is no column 'ID'; did you mean 'id'?"),
        ({"id": "patient"}, "id: there is no column 'patient'; it has 'id', 'blood_pressure', 'age'"),
        (
            {"features": ["blod_pressure"]},
            "features: there is no column 'blod_pressure'; did you mean 'blood_pressure'?",
        ),
        ({"exclude": ["aeg"]}, "exclude: there is no column 'aeg'; did you mean 'age'?"),
        ({"features": ["age", "id"]}, "features: 'id' is the id column"),
        ({"features": ["age", "age"]}, "features lists 'age' twice"),
        ({"features": ["age"], "exclude": ["age"]}, "features and exclude both list 'age'"),
        ({"features": []}, "no feature column is left beside the id column 'id'"),
        ({"exclude": ["age", "blood_pressure"]}, "no feature column is left beside the id column 'id'"),
    ],
)
def test_columns_asked_for(csv, asked, said):
    data = pd.DataFrame({"id": ["a", "b", "c"], "blood_pressure": [1, 2, 3], "age": [3, 1, 2]})
    assert refusal(data, **asked) == said
    assert refusal(csv(data.to_csv(index=False)), **asked) == said


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
    assert refusal(pd.DataFrame({"id": ids, "x": [1, 2, 3]})) == "column 'id': ids that are not valid Unicode"


# ---- what is refused: rows and cells --------------------------------------------------------------------


def test_too_few_rows(csv, parquet):
    assert refusal(csv("id,x\n")) == "it has no rows"
    assert (
        refusal(parquet({"id": pa.array([], pa.string()), "x": pa.array([], pa.int64())})) == "it has no rows"
    )
    assert refusal(frame([])) == "it has no rows"
    assert refusal(csv("id,x\na,1\nb,2\n")) == "2 rows, and a rank correlation takes at least 3"
    assert refusal(frame([1])) == "1 row, and a rank correlation takes at least 3"
    assert read(frame([1, 2, 3])).n == 3


def test_duplicate_ids(csv, parquet):
    said = "column 'id': 2 duplicate ids, the first in data row 4, which repeats data row 2"
    ids = ["a", "SECRET", "c", "SECRET", "c"]
    assert refusal(csv("id,x\n" + "".join(f"{i},1\n" for i in ids))) == said
    assert refusal(parquet({"id": ids, "x": [1] * 5})) == said
    assert refusal(pd.DataFrame({"id": ids, "x": [1] * 5})) == said
    assert "1 duplicate id, the first in data row 2" in refusal(pd.DataFrame({"id": [7, "7", "8"], "x": 1}))


def test_empty_ids(csv, parquet):
    said = "column 'id': 2 empty ids, the first in data row 2"
    assert refusal(csv('id,x\na,1\n,2\nc,3\n"",4\n')) == said
    assert refusal(parquet({"id": ["a", None, "c", ""], "x": [1] * 4})) == said
    assert refusal(parquet({"id": [1, None, 3, None], "x": [1] * 4})) == said
    assert refusal(pd.DataFrame({"id": ["a", None, "c", np.nan], "x": 1})) == said
    assert refusal(pd.DataFrame({"id": pd.array([1, None, 3, None], "Int64"), "x": 1})) == said


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([1.0, 2.0, 3.0], "float64"),
        ([True, False, True], "bool"),
        (pd.date_range("2020", periods=3), "datetime64"),
        ([b"a", b"b", b"c"], "object"),
        (["a", "b", 0.5], "object"),
        (pd.Categorical([1.5, 2.5, 3.5]), "category"),
    ],
)
def test_ids_that_are_not_ids(ids, dtype):
    text = refusal(pd.DataFrame({"id": ids, "x": [1, 2, 3]}))
    assert f"neither text nor whole numbers (dtype {dtype}), the first in data row" in text


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "Int64", "Float64", "double[pyarrow]"])
def test_missing_values(csv, parquet, kind):
    data = frame([1, None, 3, None], y=[1.5, 2, None, 4], z=[1, 2, 3, 4])
    source: Any = data
    if kind == "csv":
        source = csv(data.to_csv(index=False))
    elif kind == "parquet":
        source = parquet(pa.Table.from_pandas(data))
    elif kind == "Int64":
        source = data.astype({"x": kind})
    elif kind != "frame":
        source = data.astype({"x": kind, "y": kind})
    assert refusal(source) == (
        "2 bad columns\n  column 'x': 2 missing values, the first in data row 2"
        "\n  column 'y': 1 missing value, the first in data row 3"
    )
    assert read(source, features=["z"]).n == 4


def test_csv_missing_markers(csv):
    assert (
        refusal(csv("id,x\na,1\nNA,NA\nc,nan\nd,\n"))
        == "column 'x': 3 missing values, the first in data row 2"
    )
    assert (
        refusal(csv("id,x\na,True\nb,\nc,false\n")) == "column 'x': 1 missing value, the first in data row 2"
    )


def test_a_nan_inside_an_arrow_column():
    arrow = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1.0, float("nan"), 2.0])))
    assert refusal(frame(arrow)) == "column 'x': 1 missing value, the first in data row 2"


def test_wholly_missing(csv, parquet):
    said = "column 'x': all 3 values are missing"
    assert refusal(csv("id,x\na,\nb,NA\nc,\n")) == said
    assert refusal(parquet({"id": ["a", "b", "c"], "x": pa.nulls(3)})) == said
    assert refusal(parquet({"id": ["a", "b", "c"], "x": pa.nulls(3, pa.int64())})) == said
    for nothing in ([None] * 3, [np.nan] * 3, pd.array([None] * 3, "Int64"), pd.array([pd.NaT] * 3)):
        assert refusal(frame(nothing)) == said


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "double[pyarrow]"])
def test_infinite_values(csv, dtype):
    data = frame([1.0, 2, np.inf, -np.inf]).astype({"x": dtype})
    said = "column 'x': 2 infinite values, the first in data row 3"
    assert refusal(data) == said
    assert refusal(csv(data.to_csv(index=False))) == said


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1", "SECRET", "3", "4 SECRET"], "2 non-numeric values, the first in data row 2"),
        (["1", "", "SECRET"], "1 non-numeric value, the first in data row 3"),
        (["1", "1_000", "0x10"], "2 non-numeric values, the first in data row 2"),
        (["1", "2020-01-01", "3"], "1 non-numeric value, the first in data row 2"),
        (["1", "1+2j", "3"], "1 non-numeric value, the first in data row 2"),
        (["1", "True", "3"], "1 non-numeric value, the first in data row 2"),
        (['"1,5"', "2", "3"], "1 non-numeric value, the first in data row 1"),
        (["1", str(2**64), "3"], "1 number beyond 64 bits, the first in data row 2"),
        (["1", "9" * 5000, "3"], "1 number beyond 64 bits, the first in data row 2"),
        (["-1", str(2**63), str(2**63 - 1)], "1 number beyond 64 bits, the first in data row 2"),
        ([str(-(2**63) - 1), "2", "3"], "1 number beyond 64 bits, the first in data row 1"),
        ([str(2**63), "", "3"], "1 missing value, the first in data row 2"),
        (["1", "  ", " NA"], "2 missing values, the first in data row 2"),
    ],
)
def test_csv_cells_that_are_not_numbers(csv, cells, said):
    lines = "".join(f"r{i},{cell},7\n" for i, cell in enumerate(cells))
    assert refusal(csv("id,x,y\n" + lines)) == f"column 'x': {said}"


def test_csv_number_beyond_float64(csv):
    text = refusal(csv("id,x\na,1.5\nb,1e400\nc,2\n"))  # pandas before 3.1 makes it infinite
    assert text.startswith("column 'x': 1 ")
    assert text.endswith("the first in data row 2")


@pytest.mark.parametrize(
    ("values", "count", "first", "dtype"),
    [
        (["1", "2", "3"], 3, 1, "str|object|string"),
        ([1, "SECRET", 3], 1, 2, "object"),
        ([None, Decimal("1.5"), Decimal(2)], 2, 2, "object"),
        (pd.date_range("2020", periods=3), 3, 1, "datetime64"),
        (pd.to_timedelta([1, 2, 3]), 3, 1, "timedelta64"),
        ([1j, 2, 3], 3, 1, "complex128"),
        (np.array([1, 2, 3], np.longdouble), 3, 1, str(np.dtype(np.longdouble))),
        (pd.Categorical([1, 2, 3]), 3, 1, "category"),
        (pd.Categorical([True, False, True]), 3, 1, "category"),
        (pd.arrays.ArrowExtensionArray(pa.array([Decimal("1.5"), None, None])), 1, 1, "decimal128"),
        (pd.arrays.ArrowExtensionArray(pa.array([[1], None, [3]])), 2, 1, "list"),
        (pd.arrays.ArrowExtensionArray(pa.array([{"SECRET": 1}] * 3)), 3, 1, "struct"),
    ],
)
def test_frame_columns_that_are_not_numbers(values, count, first, dtype):
    text = refusal(frame(values))
    noun = "value" if count == 1 else "values"
    assert text.startswith(f"column 'x': {count} non-numeric {noun} (dtype ")
    assert re.search(rf"\(dtype ({dtype})\d*\), the first in data row {first}$", text)


@pytest.mark.parametrize("values", [[1, 2, 2**64], [1, 2, 3], [True, False, 1]])
def test_frame_of_objects(values):
    text = refusal(frame(pd.Series(values, dtype=object)))
    assert text.startswith("column 'x': Python objects (dtype object), not 64-bit numbers: convert it")


def test_many_bad_columns_are_named_at_once():
    text = refusal(frame([1, 2, 3], a=["SECRET", 1, 2], b=[np.inf, 1, 2], c=[None, 1, 2]))
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "3 bad columns",
        "  column 'a'",
        "  column 'b'",
        "  column 'c'",
    ]


# ---- ids ------------------------------------------------------------------------------------------------


def test_id_digest_is_the_documented_hmac():
    ids = ["007", "é", "x" * 300]
    message = len(ids).to_bytes(8, "big")
    for text in ids:
        message += len(text.encode()).to_bytes(8, "big") + text.encode()
    assert id_digest(ids, b"key") == hmac.new(b"key", message, hashlib.sha256).digest()


def test_id_digest_tells_apart():
    lists = [
        ["a", "b"],
        ["b", "a"],
        ["ab"],
        ["a"],
        ["a", "b", ""],
        ["7"],
        ["007"],
        [],
        ["ab", "c"],
        ["a", "bc"],
    ]
    assert len({id_digest(ids, b"k") for ids in lists}) == len(lists)
    assert id_digest(["a"], b"k") != id_digest(["a"], b"l")
    assert id_digest(("a", "b"), b"k") == id_digest(["a", "b"], b"k")


# ---- the demo's tables ----------------------------------------------------------------------------------


def test_demo_tables_and_what_they_show():
    a = read(DATA / "insurer.csv")
    b = read(DATA / "clinic.csv")
    assert a.ids == b.ids
    assert (a.n, a.ids[0], a.ids[-1]) == (20_190, "p00001", "p20190")
    assert a.features == ("lncoins", "idp", "lpi", "fmde")
    assert b.features == ("mdvis", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    n = a.n
    true = (
        spearmanr(np.column_stack(a.columns), np.column_stack(b.columns)).statistic[: a.m, a.m :].mean(axis=0)
    )
    twice_a, twice_b = ([(2 * rankdata(c)).astype(np.int64) for c in t.columns] for t in (a, b))
    paper = [
        np.mean([1 - 6 * int(((x - y) ** 2).sum()) / (4 * n * (n * n - 1)) for x in twice_a]) for y in twice_b
    ]
    by_truth = [b.features[i] for i in np.argsort(-true)]
    by_paper = [b.features[i] for i in np.argsort(-np.array(paper))]
    assert by_truth == ["disea", "hlthg", "hlthf", "hlthp", "physlm", "mdvis"]
    assert by_paper == ["hlthp", "hlthf", "physlm", "hlthg", "disea", "mdvis"]
    assert true[5] == pytest.approx(-0.023467130030038294, abs=1e-12)
    assert paper[5] == pytest.approx(0.5594056384229827, abs=1e-12)
    assert true[2] == pytest.approx(0.016582513047726927, abs=1e-12)
    said = (DATA / "README.md").read_text()
    for strength, highlighted in zip(true, by_truth[0] == np.array(b.features), strict=True):
        if highlighted:
            assert f"**{strength:.6f}**" in said
    assert f"**{paper[5]:.6f}**" in said


def test_demo_tables_can_be_rebuilt(tmp_path):
    pytest.importorskip("statsmodels", reason="statsmodels, which ships the data, is not installed")
    spec = importlib.util.spec_from_file_location("make_demo_tables", DATA / "make_demo_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write(tmp_path)
    for name in ("insurer.csv", "clinic.csv"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


@pytest.mark.parametrize("name", ["breast", "student", "motor"])
def test_shared_tables(name):
    if not SHARED.is_dir():
        pytest.skip("the shared tables are not on this machine")
    id = "idx" if name == "motor" else "id"
    for side in ("guest", "host"):
        path = SHARED / f"{name}_hetero_{side}.csv"
        expected = pd.read_csv(path, dtype={id: str})
        table = read(path, id=id)
        assert table.ids == tuple(expected[id])
        for feature, column in zip(table.features, table.columns, strict=True):
            assert column.tolist() == expected[feature].tolist()
