"""Every type of column: how it is read, compared with Python's own numbers."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from mpc_spearman.data import csv_text
from support.tables import read, refusal


def typed(values: Any, kind: pa.DataType | None = None) -> pa.Table:
    column = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)
    return pa.table({"id": [f"SECRET{i}" for i in range(len(column))], "x": column})


def values_of(values: Any, kind: pa.DataType | None = None, **settings: Any) -> np.ndarray:
    table = typed(values, kind)
    column = read(table, **settings).column(0)
    # In chunks, in an IPC slice and with rows in front a column is the same.
    halves = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert read(halves, **settings).column(0).tolist() == column.tolist()
    return column


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_are_themselves(bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    signed = values_of([high, low, 0], getattr(pa, f"int{bits}")())
    assert (signed.tolist(), signed.dtype) == ([high, low, 0], np.int64)
    unsigned = values_of([2**bits - 1, 0, 1], getattr(pa, f"uint{bits}")())
    assert (unsigned.tolist(), unsigned.dtype) == ([2**bits - 1, 0, 1], np.uint64)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floating_point_is_widened_exactly(kind: Any) -> None:
    values = np.array([0.1, -0.0, np.finfo(kind).max, np.finfo(kind).tiny], dtype=kind)
    column = values_of(pa.array(values))
    assert column.dtype == np.float64
    assert list(map(repr, column.tolist())) == [repr(float(value)) for value in values]


#: Kinds of decimals, and how many digits each holds.
DECIMALS = [("decimal32", 9), ("decimal64", 18), ("decimal128", 38), ("decimal256", 76)]


@settings(max_examples=60)
@given(
    st.sampled_from([kind for kind in DECIMALS if hasattr(pa, kind[0])]).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            st.lists(
                st.one_of(
                    st.integers(-(10 ** kind[1]) + 1, 10 ** kind[1] - 1),
                    st.integers(-3, 3),
                    st.sampled_from([2**63, 2**64, -(2**63), 2**126 - 1, 2**126, -(2**64) - 1]).filter(
                        lambda value: abs(value) < 10 ** kind[1]
                    ),
                    st.none(),
                ),
                min_size=4,
                max_size=30,
            ),
            st.integers(0, 9),
        )
    )
)
def test_decimals_rank_as_their_exact_values(drawn: Any) -> None:
    (name, digits), values, scale = drawn
    if sum(value is not None for value in values) < 3:
        return
    # From integers of exactly these digits, not through a context that rounds.
    exact = [None if value is None else Decimal(f"{value}E-{scale}") for value in values]
    present = [value for value in values if value is not None]
    column = values_of(exact, getattr(pa, name)(digits, scale), missing="drop_rows")
    order = sorted(set(present))
    assert rankdata(column).tolist() == rankdata([order.index(value) for value in present]).tolist()


def test_dictionaries_are_read_as_their_values() -> None:
    for values in ([7, 2**62, 7, -1], [0.5, 1.5, 0.5, -1.0], [True, False, True, True]):
        assert values_of(pa.array(values).dictionary_encode()).tolist() == [float(v) for v in values]
    days = pa.array([5, 3, 5], pa.date32()).dictionary_encode()
    assert values_of(days).tolist() == [5, 3, 5]


def test_a_categorical_of_text_in_order_has_that_order() -> None:
    grades = pd.Categorical(["mid", "low", None, "high"], categories=["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"id": list("abcd"), "x": grades})
    assert refusal(frame).startswith("column 'x': 1 missing value, the first in data row 3")
    assert read(frame, missing="drop_rows").column(0).tolist() == [1, 0, 2]
    reversed_order = read(frame, missing="drop_rows", encode={"x": ["high", "mid", "low"]})
    assert reversed_order.column(0).tolist() == [1, 2, 0]


def test_an_order_that_two_chunks_do_not_share_is_none() -> None:
    orders = (["low", "high"], ["high", "low"])
    column = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0, 1]), order, ordered=True) for order in orders]
    )
    assert "list its order under encode" in refusal(typed(column))
    assert read(typed(column), encode={"x": ["low", "high"]}).column(0).tolist() == [0, 1, 1, 0]


DAY, NOON = date(2024, 2, 29), datetime(2024, 2, 29, 12)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([DAY, DAY - timedelta(1), date(1, 1, 1)], [pa.date32(), pa.date64()]),
        (
            [NOON, NOON - timedelta(seconds=1), datetime(1969, 1, 1)],
            [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")],
        ),
        ([timedelta(1), timedelta(-1), timedelta(0)], [pa.duration("s"), pa.duration("ns")]),
        ([time(23), time(1), time(0)], [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]),
    ],
    ids=["dates", "timestamps", "durations", "times"],
)
def test_dates_times_and_durations_are_ordered(values: list[Any], kinds: list[pa.DataType]) -> None:
    for kind in kinds:
        column = values_of([*values, values[0]], kind)
        assert column.dtype == np.int64
        places = [sorted(values).index(value) for value in [*values, values[0]]]
        assert rankdata(column).tolist() == rankdata(places).tolist()
        text = refusal(typed([values[0], None, *values], kind))
        assert text.startswith("column 'x': 1 missing value, the first in data row 2")


def test_text_with_an_order_is_its_place_in_it(csv: Any, parquet: Any) -> None:
    cells = ["mid", " low", "high", "mid "]
    table = {"id": list("abcd"), "x": cells}
    for source in (
        csv("id,x\n" + "".join(f"{i},{cell}\n" for i, cell in zip("abcd", cells, strict=True))),
        parquet(table),
        parquet({"id": list("abcd"), "x": pa.array(cells).dictionary_encode()}),
        pd.DataFrame(table),
        pa.table({"id": list("abcd"), "x": pa.array(cells, pa.large_string())}),
    ):
        read_table = read(source, encode={"x": ["low", "mid", "high"]})
        assert read_table.column(0).tolist() == [1, 0, 2, 1]
        assert refusal(source, encode={"x": ["low", "high"]}) == (
            "column 'x': 2 values that encode does not list, the first in data row 1; list them there as well"
        )


def test_a_listed_category_is_not_missing(csv: Any) -> None:
    lines = "id,x\na,none\nb,low\nc,NA\nd,high\ne,\n"
    table = read(csv(lines), encode={"x": ["none", "low", "high"]}, missing="drop_rows")
    assert (table.ids.to_pylist(), table.column(0).tolist()) == (["a", "b", "d"], [0, 1, 2])


def test_an_extension_is_read_as_its_storage_type() -> None:
    periods = pd.DataFrame({"id": list("abc"), "x": pd.Series(pd.period_range("2020", periods=3, freq="D"))})
    assert (np.diff(read(periods).column(0)) == 1).all()


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [
        ([[1], [2], [3]], pa.list_(pa.int64()), "list"),
        ([{"SECRET": 1}] * 3, None, "struct"),
        ([b"SECRET"] * 3, pa.binary(), "binary"),
        ([b"SEC"] * 3, pa.binary(3), "fixed_size_binary"),
        ([(1, 2, 3)] * 3, pa.month_day_nano_interval(), "month_day_nano_interval"),
    ],
)
def test_types_without_an_order_are_refused(values: list[Any], kind: Any, name: str) -> None:
    text = refusal(typed(values, kind))
    assert text == f"column 'x': {name}, not numbers: cast it to float64, or leave it out (exclude)"


# ---- CSV


NANO = "1970-01-01T00:00:00.000000001"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["+7", " 8 ", "-0", "007"], [7, 8, 0, 7]),
        ([f"+{2**53 + 1}", str(2**53), "1"], [2**53 + 1, 2**53, 1]),
        (["1.", ".5", "+1e2", "1E-2"], [1.0, 0.5, 100.0, 0.01]),
        (["123456789012345678901", "4.5", "-1"], [123456789012345678901.0, 4.5, -1.0]),
        (["1e-400", "0.5", "-1e-400"], [0.0, 0.5, -0.0]),
        (["9" * 300, "0.5", "1" + "0" * 200], [float("9" * 300), 0.5, 1e200]),
        (["0.1" + "0" * 2000 + "1", "0.1", "0.2"], [0.1, 0.1, 0.2]),
        (["TRUE", "false", "True"], [1, 0, 1]),
        (["1", "++2", "3"], "1 non-numeric"),
        (["2024-02-29", "1969-12-31", "0001-01-01"], [19782, -1, -719162]),
        (["1970-01-01T00:00", "1970-01-01 00:01:00", "1969-12-31T23:59:59.5"], [0, 60_000_000, -500_000]),
        (["1970-01-01T00:00Z", "1970-01-01T02:00+02:00", "1970-01-01 00:00:01-0100"], [0, 0, 3_601_000_000]),
        ([NANO, "1970-01-01", "1970-01-02"], "1 other value among 2 that are dates"),
        ([NANO, "1970-01-01T00:00", "1970-01-01T00:01"], [1, 0, 60 * 10**9]),
    ],
)
def test_cells_become_numbers(csv: Any, values: list[str], expected: Any) -> None:
    if isinstance(expected, str):
        assert expected in refusal(csv("id,x\n" + "".join(f"r{i},{v}\n" for i, v in enumerate(values))))
    else:
        lines = "".join(f"r{i};{value}\n" for i, value in enumerate(values))
        column = read(csv("id;x\n" + lines), csv={"delimiter": ";"}).column(0).tolist()
        assert list(map(repr, column)) == list(map(repr, expected))


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 + 1).map(str),
    st.integers(-99, 99).map("{:+d}".format),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=25).map("{:f}".format),
    st.sampled_from(["1e308", "-1E-320", ".5", "5.", "  7", "NA", ""]),
)


@settings(max_examples=80)
@given(values=st.lists(NUMBERS, min_size=4, max_size=40), block=st.sampled_from([40, 64, 128, 1 << 20]))
def test_cells_equal_pythons_numbers_in_blocks_of_any_size(
    values: list[str], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cells") / "t.csv"
    path.write_text("id,x\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    present = [value.strip() for value in values if value not in ("NA", "")]
    whole = all(value.lstrip("+-").isdigit() for value in present)
    before, csv_text.BLOCK = csv_text.BLOCK, max(block, 8 + max(len(value) for value in values) + 2)
    try:
        if len(present) < 3:
            text = refusal(path, missing="drop_rows")
            assert "left, without" in text or "are missing" in text
        elif whole and max(map(int, present)) >= 2**63:
            beyond = [i for i, value in enumerate(values) if value not in ("NA", "") and int(value) >= 2**63]
            text = refusal(path, missing="drop_rows")
            assert f"numbers beyond 64 bits, the first in data row {beyond[0] + 1}" in text
        else:
            column = read(path, missing="drop_rows").column(0)
            assert column.tolist() == [int(value) if whole else float(value) for value in present]
            assert column.dtype == (np.int64 if whole else np.float64)
    finally:
        csv_text.BLOCK = before
