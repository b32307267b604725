"""Tables: what is read, to the bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import GOOD, columns, frame, read, refusal

# ---- what is read ---------------------------------------------------------------------------------------


def test_csv_columns_in_order_and_their_types(csv):
    table = read(csv("x,id,big,flag,f\n3,a,9223372036854775807,True,1\n1,b,1,False,2.5\n2,c,2,True,3\n"))
    assert (table.party, table.n, table.m) == ("B", 3, 4)
    assert table.ids.to_pylist() == ["a", "b", "c"]
    assert table.features == ("x", "big", "flag", "f")
    assert [c.dtype for c in columns(table)] == [np.int64, np.int64, np.int64, np.float64]
    assert [c.tolist() for c in columns(table)] == [[3, 1, 2], [2**63 - 1, 1, 2], [1, 0, 1], [1.0, 2.5, 3.0]]
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
)
def test_csv_spellings_of_the_same_table(csv, content):
    table = read(csv(content))
    assert (table.ids.to_pylist(), table.features) == (["a", "b", "c"], ("x", "y"))
    assert [c.tolist() for c in columns(table)] == [[1, 2, 3], [0.5, 0.25, -1000.0]]


def test_csv_ids_stay_as_written(csv):
    ids = ["007", "7", "7.0", "NA", "nan", "null", " 7", "1e3", "True", 'a"b', "x\ny", "é,"]
    lines = [f'"{i.replace(chr(34), chr(34) * 2)}",{k}' for k, i in enumerate(ids)]
    table = read(csv("id,x\n" + "\n".join(lines)))
    assert table.ids.to_pylist() == ids
    assert table.column(0).tolist() == list(range(len(ids)))


@settings(max_examples=50)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=6),
        min_size=3,
        max_size=12,
        unique=True,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_ids_in_quotes_are_read_as_they_were_written(tmp_path_factory, ids, newline):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    quoted = [f'"{text.replace(chr(34), chr(34) * 2)}",1' for text in ids]
    path.write_bytes(newline.join(["id,x", *quoted, ""]).encode())
    assert read(path).ids.to_pylist() == ids


def test_csv_excluded_columns_may_hold_anything(csv):
    path = csv("id,note,x\n1,SECRET,1\n2,,2\n3,inf,3\n")
    for table in (read(path, exclude=["note"]), read(path, features=["x"])):
        assert table.features == ("x",)
    assert "'note'" in refusal(path)


def test_rows_takes_the_first_and_checks_no_others(csv, parquet):
    lines = "id,x\n" + "".join(f"r{i},{i}\n" for i in range(5))
    long = pd.DataFrame({"id": list("abcda"), "x": [1, 2, 3, None, 5]})
    for source in (csv(lines + "r0,SECRET\nr6\n"), parquet(pa.Table.from_pandas(long)), long):
        assert read(source, rows=3).column(0).tolist() in ([0, 1, 2], [1, 2, 3])
    assert read(csv(lines), rows=99).n == 5
    assert "3" in refusal(long, rows=2)


def test_rows_of_a_table(csv):
    table = read(csv("id,x\na,1\nb,2\nc,3\nd,4\n"))
    some = table.take(np.array([3, 0, 2]))
    assert (some.n, some.ids.to_pylist(), some.column(0).tolist()) == (3, ["d", "a", "c"], [4, 1, 3])
    again = some.take(np.array([2, 1]))
    assert (again.n, again.ids.to_pylist(), again.column(0).tolist()) == (2, ["c", "a"], [3, 1])
    assert table.n == 4


def test_parquet_reads_only_what_it_needs(parquet):
    path = parquet({"a": ["n"] * 3, "x.y": [1, 2, 3], "id": [1, 2, 3]})
    chunk = pq.read_metadata(path).row_group(0).column(0)
    raw, start = bytearray(path.read_bytes()), chunk.dictionary_page_offset
    raw[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(raw)
    assert read(path, exclude=["a"]).features == ("x.y",)
    assert refusal(path).startswith("column 'a': ")


@pytest.mark.parametrize(
    "dtype",
    [
        *["bool", "int8", "uint64", "int64", ">i8", "float16", "float32", ">f8", "boolean", "Int64"],
        *["UInt64", "Float32", "Float64", "Sparse[int64]", "uint64[pyarrow]", "float[pyarrow]"],
    ],
)
def test_frame_numeric_types(dtype):
    table = read(frame([1, 0, 1]).astype({"x": dtype}))
    assert table.column(0).tolist() == [1, 0, 1]
    assert table.column(0).dtype in (np.int64, np.uint64, np.float64)
    assert table.column(0).dtype.isnative
    if dtype.lower().startswith("uint64"):
        values = [2**64 - 1, 2**64 - 2, 2**53 + 1]
        assert read(frame(pd.Series(values, dtype=dtype))).column(0).tolist() == values


def test_frame_index_is_ignored():
    assert read(frame([1, 2, 3]).set_axis([5, 5, None])).column(0).tolist() == [1, 2, 3]


def test_columns_are_contiguous_and_the_frame_unchanged():
    data = frame([1.0, 2, 3], y=[3.0, 2, 1], z=[0.5, 1, 2])
    before = data.copy(deep=True)
    assert all(c.flags.c_contiguous for c in columns(read(data.iloc[:, [0, 2, 1, 3]])))
    pd.testing.assert_frame_equal(data, before)
