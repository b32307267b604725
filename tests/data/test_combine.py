"""Rows with one id that become one row (``duplicates: {visits: sum, ...}``), against pandas and fractions."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.arrays import Memory
from mpc_spearman.config import load_plan
from mpc_spearman.data import ids as row_ids
from mpc_spearman.data.combine import IdRows
from mpc_spearman.protocols.load import own_tables
from support.plans import mapping
from support.tables import id_array, read, refusal

CLAIMS = """\
id,visits,cost,age,born,claim,grade,late
b,1,0.1,40,1970-01-01,x1,low,yes
a,2,0.25,50,1960-01-01,x2,mid,no
b,4,0.2,41,1970-01-01,,high,no
c,3,0.3,60,1950-01-01,x4,mid,no
a,,-9,50,1960-01-01,x5,low,yes
d,NA,,70,1940-01-01,,low,
"""
HOW = {"visits": "sum", "cost": "sum", "age": "max", "claim": "count", "grade": "min", "late": "mean"}
TIMES = "its cells are dates or times, for which duplicates can be max, min or count, not {}"
KEYS: dict[str, Any] = {
    "duplicates": HOW,
    "encode": {"grade": ["low", "mid", "high"]},
    "missing": "middle",
    "missing_values": {"cost": [-9]},
}


def test_each_column_is_combined_as_it_says(csv: Any, parquet: Any) -> None:
    typed = pa.Table.from_pandas(pd.read_csv(csv(CLAIMS), parse_dates=["born"]), preserve_index=False)
    for source in (csv(CLAIMS), parquet(typed)):
        table = read(source, **KEYS)
        assert table.ids.to_pylist() == ["b", "a", "c", "d"]
        columns = dict(zip(table.features, map(table.column, range(table.m)), strict=True))
        assert columns["visits"].tolist() == [5, 2, 3, None]  # an id with missing cells alone is missing
        # 0.1 + 0.2 ties with 0.3, which it does not in floating point
        assert table.ranks().matrix[table.features.index("cost")].tolist() == [1, -2, 1, 0]
        assert columns["age"].tolist() == [41, 50, 60, 70]
        assert columns["claim"].tolist() == [1, 2, 1, 0]
        assert columns["grade"].tolist() == [0, 0, 1, 0]
        assert columns["late"].tolist() == [0.5, 0.5, 0, None]
        assert np.argsort(columns["born"]).tolist() == [3, 2, 1, 0]
        assert "6 rows became 4, one for each id (duplicates)" in table.cautions
        some = table.take(np.array([2, 0]))
        assert (some.ids.to_pylist(), some.column(2).tolist()) == (["c", "b"], [60, 41])


def test_columns_that_are_not_listed_must_be_equal_within_an_id(csv: Any) -> None:
    text = refusal(csv(CLAIMS), **{**KEYS, "duplicates": {"visits": "sum", "claim": "count"}}).split("\n  ")
    assert [line.split("; ")[0] for line in text] == [
        "4 bad columns",
        "column 'cost': 1 id whose rows have different values, the first in data row 1",
        "column 'age': 1 id whose rows have different values, the first in data row 1",
        "column 'grade': 2 ids whose rows have different values, the first in data row 1",
        "column 'late': 2 ids whose rows have different values, the first in data row 1",
    ]
    how = "say under duplicates how they become one (sum, mean, max, min or count)"
    assert text[1].endswith(f"; {how}, or leave it out (exclude)")
    copies = "id,x,y\na,1,2\nb,2,3\na,1,2\nc,3,5\nc,,5\n"
    table = read(csv(copies), duplicates={}, missing="drop_rows")  # rows that are copies
    assert (table.ids.to_pylist(), table.column(0).tolist()) == (["a", "b", "c"], [1, 2, 3])


@pytest.mark.parametrize(
    ("cells", "how", "text"),
    [
        (["2020-01-01", "2021-01-01"], "sum", TIMES.format("sum")),
        (["2020-01-01", "2021-01-01"], "mean", TIMES.format("mean")),
        ([str(2**62), str(2**62)], "sum", "sums beyond 64 bits; use mean, or leave it out (exclude)"),
        (["1.1e308", "1.1e308"], "sum", "sums beyond the range of floating point"),
    ],
)
def test_sums_that_are_not_defined_are_refused(csv: Any, cells: list[str], how: str, text: str) -> None:
    lines = "id,x\n" + "".join(f"a,{cell}\n{row},{cell}\n" for row, cell in enumerate(cells))
    assert refusal(csv(lines), duplicates={"x": how}) == f"column 'x': {text}"


def test_categories_without_an_order_are_equal_or_counted(csv: Any) -> None:
    """Their flags are made of one row for each id."""
    rows = [f"p{i // 2},{'north' if i // 2 % 2 else 'south'}" for i in range(140)]
    table = read(csv("id,region\n" + "\n".join(rows) + "\n"), duplicates={}, encode={"region": "flags"})
    assert (table.n, table.features) == (70, ("region=south",))
    assert table.column(0).tolist() == [1 - i % 2 for i in range(70)]
    mixed = csv("id,region\n" + "\n".join([*rows, "p0,north"]) + "\n")
    flags = {"encode": {"region": "flags"}}
    assert refusal(mixed, duplicates={}, **flags).startswith(
        "column 'region': 1 id whose rows have different"
    )
    text = (
        "column 'region': its cells are categories without an order, for which duplicates can be count alone"
    )
    assert refusal(mixed, duplicates={"region": "max"}, **flags) == f"{text}, not max"


def test_keys_name_columns_of_the_table(csv: Any) -> None:
    assert refusal(csv(CLAIMS), duplicates={"visit": "sum"}) == (
        "duplicates: there is no column 'visit'; did you mean 'visits'?"
    )


def test_data_rows_of_errors_are_those_of_the_file(csv: Any) -> None:
    lines = "id,x\na,1\na,2\nb,3\nb,4\nc,\nd,5\n"
    assert refusal(csv(lines), duplicates={"x": "sum"}).startswith(
        "column 'x': 1 missing value, the first in data row 5; "
    )


def test_the_first_rows_of_a_run_are_counted_after_rows_became_one(csv: Any) -> None:
    lines = "id,x\na,1\na,2\nb,3\nb,4\nc,5\nd,6\na,7\n"
    plan = {**mapping(alignment="intersect"), "rows": 3}
    plan["parties"]["target"] |= {"table": str(csv(lines)), "duplicates": {"x": "sum"}}
    table = own_tables(load_plan(plan), "B").of_run
    assert (table.ids.to_pylist(), table.column(0).tolist()) == (["a", "b", "c"], [10, 7, 5])


NUMBERS = st.one_of(
    st.lists(st.integers(-(2**50), 2**50)),
    st.lists(st.decimals(-(10**6), 10**6, places=3).map(float)),
    st.lists(st.floats(-1e300, 1e300)),
)


@given(NUMBERS.filter(lambda cells: len(cells) > 2), st.randoms(use_true_random=False))
def test_sums_are_exact_and_means_are_rounded_once(cells: list[float], draw: Any) -> None:
    ids = ["first", "second", "third"] + [draw.choice(["first", "second", "third", "é"]) for _ in cells[3:]]
    table = pa.table({"id": ids, "x": pa.array(cells)})
    sums, counts = defaultdict[str, Fraction](Fraction), defaultdict[str, int](int)
    decimal = all(float(f"{cell:.15g}") == cell and abs(cell) < 10**10 for cell in cells)
    for name, cell in zip(ids, cells, strict=True):
        # a decimal number in floating point stands for the decimal, any other number for itself
        sums[name] += Fraction(f"{cell:.15g}") if decimal else Fraction(cell)
        counts[name] += 1
    combined = read(table, duplicates={"x": "sum"})
    exact = [sums[name] for name in combined.ids.to_pylist()]
    if not decimal:
        exact = [Fraction(float(number)) for number in exact]  # rounded once
    order = [[a < b for a in exact] for b in exact]
    column = combined.column(0)
    assert [[bool(a < b) for a in column] for b in column] == order
    means = read(table, duplicates={"x": "mean"}).column(0)
    if all(isinstance(cell, int) for cell in cells):
        assert means.tolist() == [float(sums[name] / counts[name]) for name in combined.ids.to_pylist()]


@given(st.lists(st.text("01é\n", min_size=1, max_size=2), min_size=1), st.integers(0, 3))
def test_rows_are_numbered_by_their_ids(ids: list[str], start: int) -> None:
    rows = IdRows.of(row_ids.first_copies(id_array(ids)[start:], Memory()))
    ids = ids[start:]
    unique = list(dict.fromkeys(ids))
    assert rows.of_row.tolist() == [unique.index(name) for name in ids]
    assert rows.first_rows.tolist() == [ids.index(name) for name in unique]


def test_many_rows_in_blocks_and_files_equal_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpc_spearman.data.combine._BLOCK", 1000)
    monkeypatch.setattr(row_ids, "_AT_ONCE", 1000)
    rng = np.random.default_rng(3)
    people = rng.integers(0, 3000, 10_000)
    frame = pd.DataFrame(
        {"id": [f"p{one}" for one in people], "n": rng.integers(-5, 99, 10_000), "x": rng.normal(size=10_000)}
    ).assign(low=lambda its: its["x"], most=lambda its: its["n"])
    frame.loc[::7, "x"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    how = {"n": "sum", "x": "mean", "low": "min", "most": "max"}
    table = read(tmp_path / "t.parquet", duplicates=how, missing="middle", memory="1MB")
    want = frame.groupby("id", sort=False).agg(how)
    assert table.ids.to_pylist() == want.index.tolist()
    for index, name in enumerate(table.features):
        column = np.ma.filled(table.column(index).astype(float), np.nan)
        np.testing.assert_allclose(column, want[name], rtol=1e-12, atol=1e-12)


def test_cells_of_a_column_with_an_order_are_counted() -> None:
    claims = pa.table({"id": list("aabbcd"), "grade": ["low", "mid", "", "mid", None, "low"]})
    table = read(claims, duplicates={"grade": "count"}, encode={"grade": ["low", "mid"]}, missing="middle")
    assert table.column(0).tolist() == [2, 1, 0, 1]
