"""Missing values: what is one, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, skew

from mpc_spearman.data.gaps import code_among
from mpc_spearman.data.ranks import total
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


def test_a_column_without_any_value_is_an_error_also_where_rows_go(csv: Any) -> None:
    lines = "id,x,y\na,,1\nb,,2\nc,,3\n"
    assert "all 3 values are missing" in refusal(csv(lines), missing="drop_rows")


def test_other_problems_stay_errors(csv: Any) -> None:
    lines = "id,x,y\na,,inf\nb,2,2\nc,SECRET,3\nd,4,4\n"
    text = refusal(csv(lines), missing="drop_rows")
    assert text.splitlines()[1:] == [
        "  column 'x': 1 non-numeric value, the first in data row 3"
        "; if such a cell stands for a missing value, list it under missing_values",
        "  column 'y': 1 infinite value, the first in data row 1; if they mean missing values, list inf or "
        "-inf under missing_values, else leave those rows out",
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
def test_a_missing_cell_is_in_the_middle_of_the_others_ranks(cells: list[int | None]) -> None:
    values = pd.Series(cells, dtype="float64")
    if values.isna().all():
        return
    found = read(frame(values), missing="middle", missing_flags=True)
    ranks, present = found.ranks(), int(values.notna().sum())
    assert ranks.matrix[0].tolist() == (2 * values.rank() - present - 1).fillna(0).tolist()
    assert ranks.tie_terms[0] == total(len(cells)) - int(np.square(ranks.matrix[0], dtype=np.int64).sum())
    assert ranks.skewness[0] == pytest.approx(skew(ranks.matrix[0]) if ranks.matrix[0].any() else 0)
    assert ranks.gaps[0] == (len(cells) - present) / len(cells)
    assert ranks.two_values[0] == (values.nunique() == 2 and present == len(cells))
    assert ranks.constant[0] == (values.nunique() == 1)
    assert found.n == len(cells)
    if values.isna().any():
        assert found.features == ("x", "x is missing")
        assert found.column(1).tolist() == values.isna().astype(int).tolist()
        assert "weakens correlations" in found.cautions[0]
    else:
        assert (found.features, found.cautions) == (("x",), ())


def test_cells_are_ranked_among_those_that_the_rows_used_have() -> None:
    found = read(frame([1, None, 100, 101, 102], y=[1, 2, 3, 4, 5]), missing="middle")
    assert found.take(np.array([0, 1, 2])).ranks().matrix[0].tolist() == [-1, 0, 1]
    assert found.ranks().matrix[0].tolist() == [-3, 0, -1, 1, 3]
    nothing = read(frame([1, None, None], y=[1, 2, 3]), missing="middle").take(np.array([1, 2])).ranks()
    assert (nothing.constant, nothing.gaps.tolist()) == ((True, False), [1, 0])
    assert nothing.matrix.tolist() == [[0, 0], [-1, 1]]


def test_flags_may_be_excluded_and_are_no_other_column() -> None:
    table = frame([1, None, 3, 4], y=[None, 2, 3, 1], z=[1, 2, 3, 4])
    keys = {"missing": "middle", "missing_flags": True}
    assert read(table, **keys, exclude=["x is missing"]).features == ("x", "y", "z", "y is missing")
    taken = table.assign(**{"x is missing": 1})
    assert "there is a column 'x is missing' already" in refusal(taken, **keys)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([-999, -999, 1, 2, 3], "lowest"),
        ([999.0, 999.0, 1.5, 2, 3], "highest"),
        ([-999, 1, 2, 3, 4], ""),  # there once
        ([-999, -999, -998, 1, 500], ""),  # not apart from the others
        ([99, 99, 1, 2, 70], ""),
        ([-1, -1, 50, 60, 70], ""),
        ([9, 9, 1, 2, 3], ""),
        ([-999.5, -999.5, 1, 2, 3], ""),
        ([-999, -999, -999], ""),  # nothing beside it
    ],
)
def test_what_looks_like_a_code_is_ranked_with_a_warning(values: list[float], code: str) -> None:
    found = read(frame(values, y=range(len(values))))
    assert found.cautions == ((f"column 'x': {said}",) if (said := code_among(np.array(values))) else ())
    assert said[4 : 4 + len(code)] == code
    assert bool(said) == bool(code)
    assert rankdata(found.column(0)).tolist() == rankdata(values).tolist()
