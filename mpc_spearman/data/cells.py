"""The cells of a CSV column: from text to 64-bit numbers, by rules of our own.

White space (ASCII) around a cell does not count. Then a column is, in this order,

- whole numbers, where every cell is digits with or without a sign: int64, or uint64 where one is beyond it;
- real numbers, where every cell is a decimal number, with or without an exponent: float64, correctly rounded;
- true and false, in any case: 1 and 0;
- ISO 8601 dates, or dates with times, all with a zone or none: what they are since 1970.

All is done by Arrow's kernels on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.data.words import Unusable, at

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_TRUTH = r"(?i)^(true|false)$"
_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"

Array = npt.NDArray[Any]


def cell_numbers(
    text: pa.LargeStringArray, *, missing_values: Sequence[str], decimal: str, order: Sequence[str] | None
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Turn a column of cells into numbers.

    Parameters
    ----------
    text : LargeStringArray, length n
    missing_values : sequence of str
        What means "missing" beside an empty cell; so do its lower, upper and capitalised forms.
    decimal : {'.', ','}
    order : sequence of str, optional
        The categories of a column of text, lowest first. What it lists is no missing value.

    Returns
    -------
    values : ndarray of int64, uint64 or float64, shape (n,)
        Finite; anything where a value is missing.
    missing : ndarray of bool, shape (n,)

    Raises
    ------
    Unusable
        Naming how many cells cannot be read and the first row, and quoting none.
    """
    text = pc.ascii_trim_whitespace(text)
    if order is not None:
        values, strange = positions(text, order)
        missing = strange & _among(text, missing_values)
        if (strange & ~missing).any():
            raise Unusable(at(strange & ~missing, "value", " that encode does not list"))
        return values, missing
    missing = _among(text, missing_values)
    if not missing.any():
        return _numbers(text, np.arange(len(text)), decimal), missing
    rows = np.flatnonzero(~missing)
    kept = _numbers(text.take(pa.array(rows)), rows, decimal)
    values = np.zeros(len(text), dtype=kept.dtype)
    values[rows] = kept
    return values, missing


def positions(text: pa.LargeStringArray, order: Sequence[str]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return each cell's place in a list, shape (n,), and which cells it does not list."""
    places = pc.index_in(text, value_set=pa.array([one.strip() for one in order], text.type))
    return places.fill_null(0).to_numpy().astype(np.int64), _mask(places.is_null())


def looks_like_a_number(cell: str) -> bool:
    """Tell whether a cell reads as a number."""
    return bool(pc.match_substring_regex(pa.scalar(cell.strip()), _NUMBER).as_py())


def first_failing(array: pa.Array, use: Callable[[pa.Array], Any]) -> int:
    """Return the first row of an array that Arrow cannot use so, knowing that there is one."""
    low, high = 0, len(array)  # the rows before `low` can be used, those before `high` cannot
    while high - low > 1:
        middle = (low + high) // 2
        try:
            use(array.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _among(text: pa.LargeStringArray, missing_values: Sequence[str]) -> npt.NDArray[np.bool_]:
    known = {"", *(value.strip() for value in missing_values)}
    spelled = {way(value) for value in known for way in (str, str.lower, str.upper, str.capitalize)}
    return _mask(pc.is_in(text, value_set=pa.array(spelled, text.type)))


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _matches(text: pa.LargeStringArray, pattern: str) -> npt.NDArray[np.bool_]:
    return _mask(pc.match_substring_regex(text, pattern))


def _numbers(text: pa.LargeStringArray, rows: npt.NDArray[np.int64], decimal: str) -> Array:
    """Read cells of which none is missing; `rows` are their places in the table."""

    def where(wrong: npt.NDArray[np.bool_], what: str, more: str = "") -> str:
        marks = np.zeros(int(rows[-1]) + 1, dtype=bool)
        marks[rows[wrong]] = True
        return at(marks, what, more)

    written = text
    if decimal == ",":
        # A point would separate thousands in such a file: it must not become a decimal point.
        text = pc.replace_substring(pc.replace_substring(text, ".", "x"), ",", ".")
    values = _plain(text)
    if values is not None:
        return values
    number = _matches(text, _NUMBER)
    if number.all():
        text = pc.utf8_ltrim(text, "+")
        if not _matches(text, _WHOLE).all():
            values = np.asarray(text.cast(pa.float64()))
            beyond = np.isinf(values)
        else:
            values, beyond = _whole(text)
        if beyond.any():
            raise Unusable(where(beyond, "number", " beyond 64 bits"))
        return values
    if (truth := _matches(text, _TRUTH)).all():
        return _matches(text, r"(?i)^true$").astype(np.int64)
    if not number.any() and (times := _times(written, where)) is not None:
        return times
    infinite = _matches(text, _INFINITE)
    wrong = ~number & ~infinite
    if not wrong.any():
        raise Unusable(where(infinite, "infinite value"))
    said = where(wrong, "non-numeric value")
    if decimal == "." and _matches(written.filter(pa.array(wrong)), _COMMA).all():
        raise Unusable(f"{said}; if its comma is a decimal point, set csv.decimal to ','")
    if wrong.all() and not truth.any():
        raise Unusable(f"{said}; list its order under encode, or leave it out (exclude)")
    raise Unusable(said)


def _plain(text: pa.LargeStringArray) -> Array | None:
    """Read numbers written as Arrow writes them; None where one may not be."""
    raw = memoryview(text.buffers()[2]).tobytes() if text.buffers()[2] else b""
    try:
        whole = np.asarray(text.cast(pa.int64()))
        return None if b"x" in raw or b"X" in raw else whole  # 0x10 is a number to Arrow alone
    except pa.ArrowInvalid:
        pass
    try:
        real = np.asarray(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    # Whole numbers that int64 does not hold stay whole: only a point or an exponent makes reals of them.
    return real if np.isfinite(real).all() and any(mark in raw for mark in (b".", b"e", b"E")) else None


def _whole(text: pa.LargeStringArray) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Read whole numbers; also mark those that neither int64 nor, where none is negative, uint64 holds."""
    fits = np.zeros(len(text), dtype=bool)
    for kind in (pa.int64(), pa.uint64()):
        try:
            return text.cast(kind).to_numpy(), fits
        except pa.ArrowInvalid:
            pass
    negative = _mask(pc.starts_with(text, "-"))
    digits = pc.utf8_ltrim(text, "-0")
    length = pc.utf8_length(digits).to_numpy()

    def above(most: int) -> npt.NDArray[np.bool_]:
        written = str(most)  # of one length, digits are in order as text
        beyond = _mask(pc.greater(digits, pa.scalar(written, digits.type)))
        return np.asarray((length > len(written)) | ((length == len(written)) & beyond))

    if not negative.any():
        return np.empty(0), above(2**64 - 1)
    return np.empty(0), np.where(negative, above(2**63), above(2**63 - 1))


def _times(text: pa.LargeStringArray, where: Callable[..., str]) -> Array | None:
    """Read ISO 8601 dates or times; None where not every cell is written like one."""
    if _matches(text, _DATE).all():
        kind = pa.date32()
    elif _matches(text, _TIME + "$").all():
        kind = pa.timestamp("ns")
    elif _matches(text, _TIME + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$").all():
        kind = pa.timestamp("ns", "UTC")
    else:
        return None
    if kind != pa.date32() and not _matches(text, r"\.[0-9]{7}").any():
        kind = pa.timestamp("us", kind.tz)  # nanoseconds reach from 1677 to 2262 only
    try:
        return np.asarray(since(text.cast(kind)))
    except pa.ArrowInvalid:
        wrong = np.zeros(len(text), dtype=bool)
        wrong[first_failing(text, lambda some: some.cast(kind))] = True
        raise Unusable(where(wrong, "date or time", " that does not exist")) from None


def since(array: pa.Array) -> pa.Int64Array:
    """Turn dates, times or durations into whole numbers of their own unit."""
    narrow = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return (array.cast(pa.int32()) if narrow else array).cast(pa.int64())
