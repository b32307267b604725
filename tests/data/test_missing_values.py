"""Missing values: which cells count as missing, and how they are ranked or left out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, skew

from mpc_spearman.config import yaml_text
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
        table = read(source, missing="drop_rows")
        assert table.ids.to_pylist() == ["a", "d", "e"]
        assert [column.tolist() for column in columns(table)] == [[1, 4, 5], [0.5, 3.5, 4.5], [5, 2, 1]]
        assert table.cautions == (
            "left out: 2 of 5 rows (40.0 %) with a missing value, in 'x' 20.0 %, 'y' 20.0 %; only 1 if you "
            "exclude 'x'; missing: middle keeps them",
        )
        assert read(source, missing="drop_rows", features=["z"]).n == 5
        assert "2 bad columns" in refusal(source)


def test_other_problems_stay_errors(csv: Any) -> None:
    lines = "id,x,y,z\na,,inf,\nb,2,2,\nc,SECRET,3,\nd,4,4,\n"
    text = refusal(csv(lines), missing="drop_rows")
    assert text.splitlines()[1:] == [
        "  column 'x': 1 non-numeric value, the first in data row 3"
        "; if such a cell stands for a missing value, list it under missing_values",
        "  column 'y': 1 infinite value, the first in data row 1; if they mean missing values, list inf or "
        "-inf under missing_values, else leave those rows out",
        "  column 'z': all 4 values are missing",
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


def test_a_caution_names_columns_to_leave_out_to_keep_most_rows() -> None:
    rng = np.random.default_rng(1)
    table = frame(rng.normal(size=1000), **{f"c{i}": rng.normal(size=1000) for i in range(12)})
    for i in range(12):
        table.loc[rng.choice(1000, 20, replace=False), f"c{i}"] = np.nan
    (caution,) = read(table, missing="drop_rows").cautions
    incomplete = 1000 - len(table.dropna())
    assert f"left out: {incomplete} of 1,000 rows ({incomplete / 10:.1f} %)" in caution
    assert "'c0' 2.0 %" in caution
    assert "and 2 more" in caution
    table.loc[:299, "c3"] = np.nan
    table.loc[200:399, "c7"] = np.nan
    (caution,) = read(table, missing="drop_rows").cautions
    assert "in 'c3' 3" in caution
    incomplete, fewer = (1000 - len(table.drop(columns=out).dropna()) for out in (["c3"], ["c3", "c7"]))
    assert f"; only {incomplete} if you exclude 'c3', {fewer} if also 'c7'" in caution


# ---- the middle, and flags


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=3, max_size=12))
def test_a_missing_cell_is_in_the_middle_of_the_others_ranks(cells: list[int | None]) -> None:
    values = pd.Series(cells, dtype="float64")
    if values.isna().all():
        return
    table = read(frame(values), missing="middle", missing_flags=True)
    ranks, present = table.ranks(), int(values.notna().sum())
    assert ranks.matrix[0].tolist() == (2 * values.rank() - present - 1).fillna(0).tolist()
    assert ranks.tie_terms[0] == total(len(cells)) - int(np.square(ranks.matrix[0], dtype=np.int64).sum())
    assert ranks.skewness[0] == pytest.approx(skew(ranks.matrix[0]) if ranks.matrix[0].any() else 0)
    assert ranks.gaps[0] == (len(cells) - present) / len(cells)
    assert ranks.two_values[0] == (values.nunique() == 2 and present == len(cells))
    assert ranks.constant[0] == (values.nunique() == 1)
    assert table.n == len(cells)
    assert any("weakens correlations" in caution for caution in table.cautions) == values.isna().any()
    if values.isna().any():
        assert table.features == ("x", "x is missing")
        assert table.column(1).tolist() == values.isna().astype(int).tolist()
    else:
        assert table.features == ("x",)


def test_cells_are_ranked_among_those_that_the_rows_used_have() -> None:
    table = read(frame([1, None, 100, 101, 102], y=[1, 2, 3, 4, 5]), missing="middle")
    assert table.take(np.array([0, 1, 2])).ranks().matrix[0].tolist() == [-1, 0, 1]
    assert table.ranks().matrix[0].tolist() == [-3, 0, -1, 1, 3]
    nothing = read(frame([1, None, None], y=[1, 2, 3]), missing="middle").take(np.array([1, 2])).ranks()
    assert (nothing.constant, nothing.gaps.tolist()) == ((True, False), [1, 0])
    assert nothing.matrix.tolist() == [[0, 0], [-1, 1]]


def test_flags_may_be_excluded_and_are_no_other_column() -> None:
    table = frame([1, None, 3, 4], y=[None, 2, 3, 1], z=[1, 2, 3, 4])
    keys = {"missing": "middle", "missing_flags": True}
    assert read(table, **keys, exclude=["x is missing"]).features == ("x", "y", "z", "y is missing")
    taken = table.assign(**{"x is missing": 1})
    assert "two columns would have the name 'x is missing'; exclude or rename one" in refusal(taken, **keys)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([-999, -999, 1, 2, 3], "-999 (2 cells)"),
        ([999.0, 999.0, 1.5, 2, 3], "999 (2 cells)"),
        ([-999, 1, 2, 3, 4], ""),  # there once
        ([-999, -999, -998, 1, 500], "-999 (2 cells) and -998 (1 cell)"),
        ([98, 98, 99, 99, 1, 2, 5], "98 (2 cells) and 99 (2 cells)"),  # each hides the other
        ([97, 98, 99, 99, 1, 2, 5], "97 (1 cell) and 98 (1 cell) and 99 (2 cells)"),
        ([-1, -1, 50, 60, 70], "-1 (2 cells)"),
        ([-1, -1, 4, 5, 6, 7, 8, 9, 9], "-1 (2 cells)"),
        ([-1, -1, 0, 1, 1], ""),  # a sign
        ([-1, -1, -2, -3, -40, 5, 6], ""),
        ([99, 99, 1, 2, 70], ""),  # not apart from the others
        ([9, 9, 1, 5, 3], ""),
        ([0, 0, 0, 170, 180, 190, 175], "0 (3 cells)"),
        ([0, 0, 0, 1, 2, 190, 175], ""),
        ([-999.5, -999.5, 1, 2, 3], ""),
        ([-999, -999, -999], ""),  # nothing beside it
        (
            pd.to_datetime(["1900-01-01"] * 2 + ["2020-01-05", "2021-01-01", "2022-01-01"]),
            "1900-01-01 (2 cells)",
        ),
        (
            pd.to_datetime(
                ["2999-12-31 23:59"] * 2 + ["2020-01-05 00:00", "2021-01-01 00:00", "2022-01-01 00:00"]
            ),
            "2999-12-31 23:59:00 (2",
        ),
        (
            [Decimal("-9.00"), Decimal("-9.00"), Decimal("1.25"), Decimal("7.50"), Decimal(8)],
            "-9.00 (2 cells)",
        ),
    ],
)
def test_what_looks_like_a_code_is_ranked_with_a_warning(values: list[Any], code: str) -> None:
    source = frame(values, y=range(1, len(values) + 1))
    table = read(source)
    assert len(table.cautions) == bool(code)
    assert code in "".join(table.cautions)
    places = np.unique(values, return_inverse=True)[1]
    assert rankdata(table.column(0)).tolist() == rankdata(places).tolist()
    if code:
        listed = {"x": [value.split(" (")[0] for value in code.split(" and ")], "y": ["77"]}
        table = read(source, missing_values=listed, missing="middle")
        assert not any("a code" in caution for caution in table.cautions)
        assert any("lists values that no cell has: '77'" in caution for caution in table.cautions)
        assert table.column(1).tolist() == [*range(1, len(values) + 1)]


def test_missing_values_of_single_columns_are_numbers_and_days_as_they_are(csv: Any) -> None:
    plan = "missing_values: {x: [-1, 1900-01-01, n.a.], y: 9.5}\nmissing: middle\n"
    keys, _ = yaml_text.parse(plan)
    file = csv("id,x,y,z\na,-1,1,-1\nb,1900-01-01,9.50,9.5\nc,N.A.,3,0\nd,NA,4,1\ne,7,5,2\nf,8,2,3\n")
    table = read(file, **keys)
    masks = [np.ma.getmaskarray(column).tolist() for column in columns(table)]
    assert masks == [[True] * 4 + [False] * 2, [False, True] + [False] * 4, [False] * 6]
    assert refusal(file, missing_values={"w": [1]}).startswith("missing_values: there is no column 'w'")
