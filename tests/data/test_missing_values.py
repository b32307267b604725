"""Missing values: what is one, what becomes of it, and what only looks like a code for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from mpc_spearman.data.gaps import looks_like_a_code
from support.tables import columns, frame, read, refusal

GAPS = {"x": [1, None, 3, 4, 5], "y": [0.5, 1.5, None, 3.5, 4.5], "z": [5, 4, 3, 2, 1]}
NAMES = list("abcde")


def sources(csv: Any, parquet: Any) -> list[Any]:
    table = pa.table({"id": NAMES, **GAPS})
    frame = table.to_pandas()
    return [csv(frame.to_csv(index=False)), parquet(table), table, frame, frame.convert_dtypes()]


def test_incomplete_rows_are_left_out(csv: Any, parquet: Any) -> None:
    for source in sources(csv, parquet):
        found = read(source, missing="drop_rows")
        assert found.ids.to_pylist() == ["a", "d", "e"]
        assert [column.tolist() for column in columns(found)] == [[1, 4, 5], [0.5, 3.5, 4.5], [5, 2, 1]]
        assert found.cautions == (
            "left out: 2 of 5 rows (40.0 %) with a missing value, in 'x' 20.0 %, 'y' 20.0 %; only 1 if you "
            "exclude 'x'; missing: middle keeps them",
        )
        assert read(source, missing="drop_rows", features=["z"]).n == 5
        assert "2 bad columns" in refusal(source)


def test_columns_are_left_out_above_a_share(csv: Any, parquet: Any) -> None:
    for source in sources(csv, parquet):
        found = read(source, missing={"drop_columns": 0.1})
        assert (found.features, found.n) == (("z",), 5)
        assert found.column(0).tolist() == [5, 4, 3, 2, 1]
        assert found.cautions == ("left out for their missing values: 'x', 'y'",)
        assert "column 'x': 1 missing value" in refusal(source, missing={"drop_columns": 0.2})
        assert refusal(source, missing={"drop_columns": 0}, features=["x", "y"]) == (
            "missing.drop_columns leaves out every feature"
        )


def test_first_columns_then_rows(csv: Any) -> None:
    lines = "id,x,y,z\na,,1,1\nb,,2,2\nc,,,3\nd,4,4,4\ne,5,5,5\n"
    found = read(csv(lines), missing={"drop_columns": 0.5, "drop_rows": True})
    assert (found.features, found.ids.to_pylist()) == (("y", "z"), ["a", "b", "d", "e"])
    assert [column.tolist() for column in columns(found)] == [[1, 2, 4, 5], [1, 2, 4, 5]]
    assert read(csv(lines), missing={"drop_columns": 0.7, "drop_rows": True}, features=["z"]).n == 5


def test_a_column_without_any_value_is_an_error_also_where_rows_go(csv: Any) -> None:
    lines = "id,x,y\na,,1\nb,,2\nc,,3\n"
    assert "all 3 values are missing" in refusal(csv(lines), missing="drop_rows")
    assert read(csv(lines), missing={"drop_columns": 0.9}).features == ("y",)


def test_other_problems_stay_errors(csv: Any) -> None:
    lines = "id,x,y\na,,inf\nb,2,2\nc,SECRET,3\nd,4,4\n"
    text = refusal(csv(lines), missing="drop_rows")
    assert text.splitlines()[1:] == [
        "  column 'x': 1 non-numeric value, the first in data row 3"
        "; if they stand for missing values, list them under missing_values",
        "  column 'y': 1 infinite value, the first in data row 1; if they stand for missing values, list inf "
        "or -inf under missing_values, else leave those rows out",
    ]


def test_what_is_missing_in_csv_can_be_set(csv: Any) -> None:
    lines = "id,x\na,1\nb,{}\nc,3\nd,4\n"
    for cell in ("", "NA", "na", "N/A", "n/a", "NaN", "nan", "NAN", "NULL", "null", "None", "none", "  NA  "):
        assert "1 missing value, the first in data row 2" in refusal(csv(lines.format(cell)))
    for cell in ("-", "?", "#N/A", ".", "missing"):
        assert "1 non-numeric value, the first in data row 2" in refusal(csv(lines.format(cell)))
        assert "1 missing value" in refusal(csv(lines.format(cell)), missing_values=[cell])
    assert "1 non-numeric value" in refusal(csv(lines.format("NA")), missing_values=["-"])
    assert "1 missing value" in refusal(csv(lines.format("")), missing_values=[])


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(*[st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([0.5, -1.5]))] * 3),
        min_size=4,
        max_size=20,
    )
)
def test_what_is_left_are_the_complete_rows_of_pandas(
    rows: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = pd.DataFrame(rows, columns=list("xyz"), dtype=float).assign(
        id=[f"p{i}" for i in range(len(rows))]
    )
    path = tmp_path_factory.mktemp("gaps") / "t.csv"
    table.to_csv(path, index=False)
    complete = table.dropna()
    if len(complete) < 3:
        assert refusal(path, missing="drop_rows")
        return
    for source in (path, table):
        found = read(source, missing="drop_rows")
        assert found.ids.to_pylist() == complete["id"].tolist()
        for name, column in zip("xyz", columns(found), strict=True):
            assert column.tolist() == complete[name].tolist()


def test_it_is_said_which_columns_to_leave_out_to_keep_most_rows() -> None:
    rng = np.random.default_rng(1)
    table = frame(rng.normal(size=1000), **{f"c{i}": rng.normal(size=1000) for i in range(12)})
    for i in range(12):
        table.loc[rng.choice(1000, 20, replace=False), f"c{i}"] = np.nan
    (said,) = read(table, missing="drop_rows").cautions
    kept = len(table.dropna())
    assert f"left out: {1000 - kept} of 1,000 rows ({(1000 - kept) / 10:.1f} %)" in said
    assert "'c0' 2.0 %" in said
    assert "and 2 more" in said
    table.loc[:299, "c3"] = np.nan
    table.loc[200:399, "c7"] = np.nan
    (said,) = read(table, missing="drop_rows").cautions
    assert "in 'c3' 3" in said
    lost = [1000 - len(table.drop(columns=out).dropna()) for out in (["c3"], ["c3", "c7"])]
    assert f"; only {lost[0]} if you exclude 'c3', {lost[1]} if also 'c7'" in said


# ---- the middle, and flags


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.integers(-4, 4)), min_size=3, max_size=12))
def test_a_missing_cell_is_ranked_as_the_median(cells: list[int | None]) -> None:
    values = pd.Series(cells, dtype="float64")
    if values.isna().all():
        return
    found = read(frame(values), missing="middle", missing_flags=True)
    assert rankdata(found.column(0)).tolist() == values.fillna(values.median()).rank().tolist()
    assert found.n == len(cells)
    if values.isna().any():
        assert found.features == ("x", "x is missing")
        assert found.column(1).tolist() == values.isna().astype(int).tolist()
        assert "weakens correlations" in found.cautions[0]
    else:
        assert (found.features, found.cautions) == (("x",), ())


def test_the_median_is_of_the_rows_that_are_used() -> None:
    found = read(frame([1, None, 100, 101, 102], y=[1, 2, 3, 4, 5]), missing="middle")
    assert rankdata(found.take(np.array([0, 1, 2])).column(0)).tolist() == [1, 2, 3]
    assert rankdata(found.column(0)).tolist() == [1, 3, 2, 4, 5]


def test_flags_of_columns_that_are_dropped_or_excluded() -> None:
    table = frame([1, None, 3, 4], y=[None, None, None, 1], z=[1, 2, 3, 4])
    keys = {"missing": {"drop_columns": 0.5, "middle": True}, "missing_flags": True}
    assert read(table, **keys).features == ("x", "z", "x is missing", "y is missing")
    assert read(table, **keys, exclude=["x is missing"]).features == ("x", "z", "y is missing")
    taken = table.assign(**{"x is missing": 1})
    assert "there is a column 'x is missing' already" in refusal(taken, **keys)


# ---- codes


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([-999, -999, 1, 2, 3], True),
        ([999.0, 999.0, 1.5, 2, 3], True),
        ([-99, 20, 30, -99, 25], True),
        ([-999, 1, 2, 3, 4], False),  # there once
        ([-999, -999, -998, 1, 500], False),  # not apart from the others
        ([99, 99, 1, 2, 70], False),
        ([-1, -1, 50, 60, 70], False),
        ([9, 9, 1, 2, 3], False),
        ([-999.5, -999.5, 1, 2, 3], False),
        ([-999, -999, -999], False),  # nothing beside it
        ([], False),
    ],
)
def test_what_looks_like_a_code(values: list[float], code: bool) -> None:
    assert looks_like_a_code(np.array(values)) == code
    if values and min(values) >= 0:
        assert looks_like_a_code(np.array(values).astype(np.uint64)) == code


def test_a_code_earns_a_warning_that_quotes_no_cell() -> None:
    found = read(frame([-9999, 3, 4, -9999, 5], y=[1, 2, 3, 4, 5]))
    (said,) = found.cautions
    assert "the lowest or highest value of 'x' may be a code for a missing value" in said
    assert "9999" not in said
    assert found.column(0).tolist() == [-9999, 3, 4, -9999, 5]
