"""One column of a table: its numbers, or the reason why it holds none. No text made here quotes a cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

#: What means "missing" in a feature's CSV cell (pandas' own list, fixed here so that its versions agree).
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
# What a number looks like in a CSV cell: used only to explain a column that pandas could not read as numbers.
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_TRUTH = re.compile("true|false", re.IGNORECASE)
_TARGETS = {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64}

# Explains a column that holds no numbers.
WhyNot = Callable[["pd.Series[Any]"], str]


def numbers(column: pd.Series[Any], why_not: WhyNot) -> tuple[npt.NDArray[Any], str]:
    """Turn a feature into int64, uint64 or float64, or say what is wrong with it ("" if nothing)."""
    nothing, plain = np.empty(0), isinstance(column.dtype, np.dtype)
    target = _TARGETS.get(column.dtype.kind)
    if target is None or column.dtype == np.longdouble:
        return nothing, why_not(column)
    if not plain and (gaps := gaps_in(column)).any():
        return nothing, _missing(gaps)
    array = column.to_numpy(dtype=target)
    if target is np.float64 and not np.isfinite(array).all():
        return nothing, _missing(np.isnan(array)) or at(np.isinf(array), "infinite value")
    return np.ascontiguousarray(array), ""


def why_not_numbers(column: pd.Series[Any]) -> str:
    """Explain a column of a DataFrame or Parquet file that is not of a type of numbers up to 64 bits."""
    gaps = gaps_in(column)
    wrong = ~gaps
    if column.dtype == object:
        wrong &= [not isinstance(value, (int, float, np.number, np.bool_)) for value in column.tolist()]
    return (
        at(wrong, "non-numeric value", f" (dtype {dtype_name(column)})")
        or _missing(gaps)
        or "Python objects (dtype object), not 64-bit numbers: convert it, as with pandas.to_numeric"
    )


def why_not_cells(column: pd.Series[Any]) -> str:
    """Explain a column of a CSV file that pandas could not read as numbers."""
    cells = [
        "" if gap else str(cell).strip() for cell, gap in zip(column.tolist(), gaps_in(column), strict=True)
    ]
    cells = ["" if cell in MISSING else cell for cell in cells]  # blanks, and what pandas leaves beside text
    gaps = np.array([not cell for cell in cells])
    if all(not cell or _TRUTH.fullmatch(cell) for cell in cells):
        return _missing(gaps)  # true and false alone would have been read
    return (
        at([bool(cell) and not _NUMBER.fullmatch(cell) for cell in cells], "non-numeric value")
        or _missing(gaps)
        or at(_beyond(cells), "number", " beyond 64 bits")
        or "it cannot be read as 64-bit numbers"
    )


def looks_like_a_number(cell: str) -> bool:
    """Tell whether a cell reads as a number."""
    return bool(_NUMBER.fullmatch(cell.strip()))


def _beyond(cells: list[str]) -> list[bool]:
    """Mark what int64 (or, where none is negative, uint64; where one has a point, float64) does not hold."""
    if not all(_WHOLE.fullmatch(cell) for cell in cells):
        return [abs(float(cell)) == float("inf") for cell in cells]
    whole = [Decimal(cell) for cell in cells]
    low, high = (-(2**63), 2**63) if min(whole) < 0 else (0, 2**64)
    return [not low <= value < high for value in whole]


# ---- words ----------------------------------------------------------------------------------------------


def gaps_in(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Mark the missing cells."""
    return np.asarray(column.isna(), dtype=bool)


def dtype_name(column: object) -> str:
    """Name a column's type, without what it may list."""
    # Not str(dtype), which would print an enumeration's values or a struct's fields.
    return re.split(r"[<(\[]", str(getattr(column, "dtype", "object")))[0]


def _missing(gaps: npt.NDArray[np.bool_]) -> str:
    return f"all {len(gaps)} values are missing" if gaps.all() else at(gaps, "missing value")


def at(wrong: npt.NDArray[np.bool_] | list[bool], what: str, more: str = "") -> str:
    """Say how many rows `wrong` marks and which is the first; "" if none."""
    rows = np.flatnonzero(wrong)
    return f"{count_of(len(rows), what)}{more}, the first in data row {rows[0] + 1}" if len(rows) else ""


def count_of(count: int, noun: str) -> str:
    """Say how many of a thing there are."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def show(name: str) -> str:
    """Quote a column's name, cut to 60 characters."""
    return repr(name if len(name) <= 60 else name[:57] + "...")  # repr escapes what does not print


def listed(names: Sequence[str]) -> str:
    """List column names, the first ten of many."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(show, names[:10])) + more
