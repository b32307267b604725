"""Tables: which rows and cells are refused, and that none is quoted."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman.data.cells import INFINITE
from support.tables import frame, read, refusal

# ---- what is refused: rows and cells --------------------------------------------------------------------


GAPS = (
    "; missing: middle puts such cells in the middle of the ranks; "
    "missing: drop_rows leaves such rows out, under alignment: intersect"
)
ODD = "; if such a cell stands for a missing value, list it under missing_values"
ENCODE = "; list its order under encode (flags if it has none), or leave it out (exclude)"
DAY = "2024-02-28T"
OBJECTS = "Python objects of several kinds (dtype object)"
COMMA = "; if they are numbers, set csv.decimal to ',', as they are written"


def test_too_few_rows(csv, parquet):
    assert refusal(csv("id,x\n")) == "0 rows; a rank correlation needs at least 3"
    empty = {"id": pa.array([], pa.string()), "x": pa.array([], pa.int64())}
    assert refusal(parquet(empty)) == "0 rows; a rank correlation needs at least 3"
    assert refusal(frame([])) == "0 rows; a rank correlation needs at least 3"
    assert refusal(csv("id,x\na,1\nb,2\n")) == "2 rows; a rank correlation needs at least 3"
    assert refusal(frame([1])) == "1 row; a rank correlation needs at least 3"
    assert read(frame([1, 2, 3])).n == 3


def test_duplicate_ids(csv, parquet):
    ids = ["a", "SECRET", "c", "SECRET", "c"]
    frame = pd.DataFrame({"id": ids, "x": [1] * 5})
    for source in (csv(frame.to_csv(index=False)), parquet(pa.Table.from_pandas(frame)), frame):
        assert refusal(source) == (
            "column 'id': 2 duplicate ids, the first in data row 4, which repeats data row 2; duplicates: "
            "drop leaves out all rows with such ids, under alignment: intersect; duplicates: {COLUMN: sum} "
            "makes one row of them"
        )


def test_empty_ids(csv, parquet):
    for source in (
        csv('id,x\na,1\n,2\nc,3\n"",4\n'),
        parquet({"id": ["a", None, "c", ""], "x": [1] * 4}),
        parquet({"id": [1, None, 3, None], "x": [1] * 4}),
        pd.DataFrame({"id": ["a", None, "c", np.nan], "x": 1}),
        pd.DataFrame({"id": pd.array([1, None, 3, None], "Int64"), "x": 1}),
    ):
        error = "column 'id': 2 empty ids, the first in data row 2; fill them in or remove the rows"
        assert refusal(source) == error


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([1.0, 2.0, 3.0], "double"),
        ([True, False, True], "bool"),
        (pd.date_range("2020", periods=3, freq="h"), "timestamp"),
        (pd.date_range("2020", periods=3, tz="UTC"), "timestamp"),
        ([b"a", b"b", b"c"], "binary"),
        (pd.Categorical([1.5, 2.5, 3.5]), "double"),
        ([Decimal("1.5"), Decimal(2), Decimal(3)], "decimal128"),
    ],
)
def test_ids_that_are_not_ids(ids, kind):
    error = f"column 'id': ids of type {kind}, neither text, whole numbers nor dates: cast them to text"
    assert refusal(pd.DataFrame({"id": ids, "x": [1, 2, 3]})).startswith(error)


def test_a_notation_is_suggested_with_both_its_marks(csv):
    table = csv("id;x\na;1,234.5\nb;2,000.25\nc;7,111.75\n")
    error = refusal(table, csv={"delimiter": ";", "decimal": ","})
    assert "if they are numbers, set csv.thousands to ',' and csv.decimal to '.', as" in error


def test_ids_of_several_python_types():
    text = refusal(pd.DataFrame({"id": [7, "SECRET", "8"], "x": 1}))
    assert text.startswith(f"column 'id': {OBJECTS}: convert")
    assert text.endswith("or astype(str)")


def test_a_nan_inside_an_arrow_column():
    arrow = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1.0, float("nan"), 2.0])))
    assert refusal(frame(arrow)) == f"column 'x': 1 missing value, the first in data row 2{GAPS}"


def test_wholly_missing(csv, parquet):
    for source in (
        csv("id,x\na,\nb,NA\nc,\n"),
        parquet({"id": ["a", "b", "c"], "x": pa.nulls(3)}),
        parquet({"id": ["a", "b", "c"], "x": pa.nulls(3, pa.int64())}),
        *map(frame, ([None] * 3, [np.nan] * 3, pd.array([None] * 3, "Int64"), pd.array([pd.NaT] * 3))),
    ):
        assert refusal(source) == "column 'x': all 3 values are missing"


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "double[pyarrow]"])
def test_infinite_values(csv, dtype):
    data = frame([1.0, 2, np.inf, -np.inf]).astype({"x": dtype})
    for source in (data, csv(data.to_csv(index=False))):
        assert refusal(source) == f"column 'x': 2 infinite values, the first in data row 3{INFINITE}"


@pytest.mark.parametrize(
    ("cells", "problem", "row", "hint"),
    [
        (["1", "SECRET", "3", "4 SECRET"], "2 non-numeric values", 2, ODD),
        (["1", "", "SECRET"], "1 non-numeric value", 3, ODD),
        (["1", "1_000", "0x10"], "2 non-numeric values", 2, ODD),
        (["0x1", "0x2", "0X3"], "3 non-numeric values", 1, ENCODE),
        (["1", "2020-01-01", "3"], "1 non-numeric value", 2, ODD),
        (["1", "1+2j", "3"], "1 non-numeric value", 2, ODD),
        (["1", "True", "3"], "1 non-numeric value", 2, ODD),
        (["yes", "True", "no"], "1 other value among 2 that are yes or no", 2, ODD),
        (["True", "yes", "false"], "1 other value among 2 that are true or false", 2, ODD),
        (["2024-02-28", "NaT", "2024-02-29"], "1 other value among 2 that are dates", 2, ODD),
        (["1", "\u0662", "--3", "+-1", "1e", "."], "5 non-numeric values", 2, ODD),
        (["low", "", "high"], "2 non-numeric values", 1, ENCODE),
        (['"1,5"', "2", "3"], "1 non-numeric value", 1, COMMA),
        (['"1,5"', "2", "SECRET"], "2 non-numeric values", 1, ODD),
        (["1", str(2**64), "3"], "numbers beyond 64 bits", 2, ""),
        (["1", "9" * 5000, "3"], "numbers beyond 64 bits", 2, ""),
        (["1", str(2**63), str(2**63 - 1)], "numbers beyond 64 bits", 2, ""),
        ([str(-(2**63) - 1), "2", "3"], "numbers beyond 64 bits", 1, ""),
        ([f"+{2**63 - 1}", "", "3"], "1 missing value", 2, GAPS),
        (["1", "  ", " NA"], "2 missing values", 2, GAPS),
        (["1.5", "1e400", "-1e999", "inf"], "1 infinite value", 4, INFINITE),
        (["1.5", "1e400", "-1e999", "2"], "numbers beyond 64 bits", 2, ""),
        (
            ["2024-02-28", "2023-02-29", "2024-13-01"],
            "dates or times that do not exist",
            2,
            ODD,
        ),
        (
            [f"{DAY}10:00", f"{DAY}25:00", f"{DAY}11:00"],
            "dates or times that do not exist",
            2,
            ODD,
        ),
        (
            [f"{DAY}10:00:00.000000001", "1600-01-01T10:00", f"{DAY}11:00"],
            "times before 1678 or after 2261, which nanoseconds do not reach",
            2,
            ODD,
        ),
        (
            [f"{DAY}10:00", f"{DAY}12:00Z", f"{DAY}11:00"],
            "1 other value among 2 that are dates with times",
            2,
            ODD,
        ),
    ],
)
def test_csv_cells_that_are_not_numbers(csv, cells, problem, row, hint):
    lines = "".join(f"r{i},{cell},7\n" for i, cell in enumerate(cells))
    assert refusal(csv("id,x,y\n" + lines)) == f"column 'x': {problem}, the first in data row {row}{hint}"


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (["p", "q", "p"], f"3 non-numeric values, the first in data row 1{ENCODE}"),
        *(
            (cells, OBJECTS)
            for cells in ([1, "SECRET", 3], [True, False, 1], [1, 2, 2**64], [2**53 + 1, 0.5, 1])
        ),
        ([1j, 2, 3], "complex128, which Arrow does not have: cast it to float64"),
        (np.ones(3, np.longdouble), f"{np.dtype(np.longdouble)}, which Arrow does not have: cast it"),
        (pd.Series(["\ud800", "2", "3"], dtype=object), "text that is not valid Unicode"),
    ],
)
def test_frame_columns_that_are_not_numbers(values, error):
    if isinstance(values, list) and len({type(value) for value in values}) > 1 and 1j not in values:
        values = pd.Series(values, dtype=object)
    assert refusal(frame(values)).startswith(f"column 'x': {error}")
