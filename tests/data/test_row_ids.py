"""Ids: their text, how they are normalised and joined, and the error if they are not unique."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.arrays import Memory
from mpc_spearman.data import ids as row_ids
from support.tables import id_array, read, refusal

EMPTY = "1 empty id, the first in data row {}; fill them in or remove the rows"


def ids_of(values: Any, **settings: Any) -> list[str]:
    columns = values if isinstance(values, dict) else {"id": values}
    size = len(next(iter(columns.values())))
    table = pa.table({**columns, "x": pa.array(range(size), pa.int64())})
    ids = read(table, **settings).ids.to_pylist()
    assert read(table.to_pandas(), **settings).ids.to_pylist() == ids
    return ids


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["007", " 7", "é"], ["007", " 7", "é"]),
        ([-1, 2**63 - 1, 0], ["-1", str(2**63 - 1), "0"]),
        (pa.array([2**64 - 1, 1, 2], pa.uint64()), [str(2**64 - 1), "1", "2"]),
        ([Decimal(10**30), Decimal(-1), Decimal(2)], [str(10**30), "-1", "2"]),
        ([datetime.date(1990, 1, 31), datetime.date(5, 1, 1), None], None),
        ([datetime.date(1990, 1, 31), datetime.date(905, 1, 1), datetime.date(2100, 1, 1)],
         ["1990-01-31", "0905-01-01", "2100-01-01"]),
        (pa.array(["b", "a", "c"]).dictionary_encode(), ["b", "a", "c"]),
        (pa.array([8, 7, 9]).dictionary_encode(), ["8", "7", "9"]),
        (pa.array(["a", "b", "c"], pa.large_string()), ["a", "b", "c"]),
        *((pd.array([7, 8, 9], kind), ["7", "8", "9"]) for kind in ("uint8", "Int64", "int64[pyarrow]")),
    ],
)  # fmt: skip
def test_ids_become_text(values: Any, expected: list[str] | None) -> None:
    if expected is None:
        table = pa.table({"id": values, "x": [1, 2, 3]})
        assert refusal(table) == f"column 'id': {EMPTY.format(3)}"
    else:
        assert ids_of(values) == expected


def test_days_of_pandas_are_dates() -> None:
    days = pd.DataFrame({"id": pd.to_datetime(["1990-01-31", "2024-02-29", "1969-12-31"]), "x": [1, 2, 3]})
    assert read(days).ids.to_pylist() == ["1990-01-31", "2024-02-29", "1969-12-31"]
    days.loc[1, "id"] += pd.Timedelta(hours=1)
    assert "ids of type timestamp" in refusal(days)


# ---- normalise

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


@given(st.lists(TEXT, min_size=1, max_size=20))
def test_steps_are_done_in_their_order(texts: list[str]) -> None:
    column = pa.chunked_array([pa.array(texts, pa.string())])
    digits = row_ids.id_text(column.chunks, ["nfkc", "digits"], Memory()).to_pylist()
    kept = [unicodedata.normalize("NFKC", text) for text in texts]
    assert digits == ["".join(c for c in text if c in "0123456789") for text in kept]
    stripped = row_ids.id_text(column.chunks, ["strip"], Memory()).to_pylist()
    shown = [re.sub(row_ids.NO_WIDTH, "", text) for text in texts]
    assert all(a in b for a, b in zip(stripped, shown, strict=True))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], [" A１-0x", "straße\t", "①é"]),
        (["strip"], ["A１-0x", "straße", "①é"]),
        (["casefold"], [" a１-0x", "strasse\t", "①é"]),
        (["nfkc"], [" A1-0x", "straße\t", "1é"]),
        (["nfkc", "strip", "casefold"], ["a1-0x", "strasse", "1é"]),
    ],
)
def test_what_each_step_does(steps: list[str], expected: list[str]) -> None:
    ids = [" A１-0x", "straße\t", "①e\u0301" if "nfkc" in steps else "①é"]
    assert ids_of(ids, normalise=steps) == expected


def test_ids_that_become_empty_or_equal_are_refused(csv: Any) -> None:
    lines = "id,x\n123-45,1\nSECRET,2\n123 45,3\n7,4\n9,5\n"
    assert refusal(csv(lines), normalise=["digits"]) == f"column 'id': {EMPTY.format(2)}"
    lines = lines.replace("SECRET", "8")
    assert refusal(csv(lines), normalise=["digits"]) == (
        "column 'id': 1 duplicate id (after digits), the first in data row 3, which repeats data row 1"
        "; duplicates: drop leaves out all rows with such ids, under alignment: intersect; duplicates: "
        "{COLUMN: sum} makes one row of them"
    )
    table = read(csv(lines), normalise=["digits"], duplicates="drop")
    assert table.ids.to_pylist() == ["8", "7", "9"]


# ---- several columns


def test_ids_of_several_columns_are_joined_with_their_lengths(csv: Any) -> None:
    lines = "name,day,x\nAnna,1990-01-31,1\nÉva,1990-01-31,2\nAnna,1990-02-01,3\n"
    expected = ["4:Anna10:1990-01-31", "4:Éva10:1990-01-31", "4:Anna10:1990-02-01"]
    assert read(csv(lines), id=["name", "day"]).ids.to_pylist() == expected
    days = pa.array([datetime.date(1990, 1, 31)] * 2 + [datetime.date(1990, 2, 1)])
    assert ids_of({"name": ["Anna", "Éva", "Anna"], "day": days}, id=["name", "day"]) == expected
    assert read(csv(lines), id=["name", "day"]).features == ("x",)
    assert ids_of({"a": ["p", "q", "r"]}, id=["a"]) == ["p", "q", "r"]


@given(st.lists(st.tuples(*[st.text(st.sampled_from("1:a"), min_size=1, max_size=4)] * 2), min_size=1))
def test_joined_ids_are_equal_only_where_all_columns_are(rows: list[tuple[str, str]]) -> None:
    first, second = (id_array(list(column)) for column in zip(*rows, strict=True))
    assert len(set(row_ids.join(["a", "b"], [first, second], Memory()).to_pylist())) == len(set(rows))


def test_errors_name_all_of_several_id_columns(csv: Any) -> None:
    lines = "a,b,x\n1,SECRET,1\n1,,2\n1,SECRET,3\n"
    assert refusal(csv(lines), id=["a", "b"]) == f"column 'b': {EMPTY.format(2)}"
    assert refusal(csv(lines.replace(",,", ",q,")), id=["a", "b"]) == (
        "columns 'a', 'b': 1 duplicate id, the first in data row 3, which repeats data row 1"
        "; duplicates: drop leaves out all rows with such ids, under alignment: intersect; duplicates: "
        "{COLUMN: sum} makes one row of them"
    )
    assert refusal(csv(lines), id=["a", "c"]).startswith("id: there is no column 'c'")


# ---- duplicates


def test_all_rows_of_a_repeated_id_are_dropped(csv: Any, parquet: Any) -> None:
    names = ["a", "b", "a", "c", "d", "b", "b", "e"]
    lines = "id,x\n" + "".join(f"{name},{row}\n" for row, name in enumerate(names))
    for source in (csv(lines), parquet({"id": names, "x": list(range(8))})):
        table = read(source, duplicates="drop")
        assert (table.ids.to_pylist(), table.column(0).tolist()) == (["c", "d", "e"], [3, 4, 7])
        assert table.cautions == ("left out: 5 rows, of all 2 ids that have several (duplicates: drop)",)
        some = table.take(np.array([2, 0]))
        assert (some.ids.to_pylist(), some.column(0).tolist()) == (["e", "c"], [7, 3])


def test_a_dropped_row_may_have_missing_cells(csv: Any) -> None:
    lines = "id,x\na,1\nb,2\na,\nc,3\nd,4\n"
    assert read(csv(lines), duplicates="drop").column(0).tolist() == [2, 3, 4]


def test_too_few_remaining_rows_are_refused(csv: Any) -> None:
    lines = "id,x\na,1\nb,2\na,3\nc,\nd,4\n"
    assert refusal(csv(lines), duplicates="drop", missing="drop_rows") == (
        "2 rows left, without 1 incomplete and 2 with a duplicate id; a rank correlation needs at least 3"
    )


@given(st.lists(st.text("01é\n", min_size=1, max_size=2), min_size=1), st.integers(0, 3))
def test_which_rows_are_repeated(ids: list[str], start: int) -> None:
    all_copies, later = row_ids.repeated(id_array(ids)[start:], Memory())
    ids = ids[start:]
    counts = Counter(ids)
    assert all_copies.tolist() == [counts[one] > 1 for one in ids]
    assert later.tolist() == [one in ids[:row] for row, one in enumerate(ids)]
