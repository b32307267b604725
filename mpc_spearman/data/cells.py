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

from mpc_spearman.data.words import Unusable, at_rows

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_TRUTH = r"(?i)^(true|false)$"
_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"

_INT64 = np.iinfo(np.int64).max

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


class Cells:
    """A column of cells that come a block at a time; of a block that Arrow reads as numbers no text is kept.

    Parameters
    ----------
    missing_values : sequence of str
        What means "missing" beside an empty cell; so do its lower, upper and capitalised forms.
    decimal : {'.', ','}
    order : sequence of str, optional
        The categories of a column of text, lowest first. What it lists is no missing value.
    """

    def __init__(self, missing_values: Sequence[str], decimal: str, order: Sequence[str] | None) -> None:
        known = {"", *(value.strip() for value in missing_values)}
        self._known = {way(value) for value in known for way in (str, str.lower, str.upper, str.capitalize)}
        self._decimal, self._order, self._rows = decimal, order, 0
        # Then what Arrow reads as numbers is neither missing nor has white space around it.
        self._at_once = order is None and decimal == "." and not any(map(looks_like_a_number, self._known))
        self._missing: list[Mask] = [np.zeros(0, dtype=bool)]
        self._read: list[tuple[Rows | slice, Array]] = []
        self._text: list[tuple[Rows, pa.LargeStringArray]] = []

    def add(self, text: pa.LargeStringArray) -> None:
        """Take the next cells."""
        start, self._rows = self._rows, self._rows + len(text)
        rows: Rows | slice = slice(start, self._rows)
        values = _plain(text) if self._at_once else None
        if values is not None:
            self._read.append((rows, values))
            self._missing.append(np.zeros(len(text), dtype=bool))
            return
        text = pc.ascii_trim_whitespace(text)
        missing = _mask(pc.is_in(text, value_set=pa.array(self._known, text.type)))
        if self._order is not None:
            missing &= positions(text, self._order)[1]
        if missing.any():
            kept = np.flatnonzero(~missing)
            rows, text = kept + start, text.take(pa.array(kept))
        self._missing.append(missing)
        if self._decimal == ",":
            # A point would separate thousands in such a file: it must not become a decimal point.
            text = pc.replace_substring(pc.replace_substring(text, ".", "x"), ",", ".")
        values = _plain(text) if self._order is None else None
        if values is not None:
            self._read.append((rows, values))
        elif len(text):
            self._text.append((np.arange(start, self._rows) if isinstance(rows, slice) else rows, text))

    def numbers(self) -> tuple[Array, Mask]:
        """Return the column's numbers, when all cells are there.

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
        if self._text:
            places = np.concatenate([places for places, _ in self._text])
            text = pa.concat_arrays([text for _, text in self._text])
            self._read.append((places, self._slowly(text, places)))
            self._text = []
        kinds = {values.dtype for _, values in self._read}
        if {np.dtype(np.int64), np.dtype(np.uint64)} == kinds:
            if any(values.dtype == np.int64 and (values < 0).any() for _, values in self._read):
                found = np.zeros(self._rows, dtype=bool)
                for rows, values in self._read:
                    found[rows] = values > _INT64
                raise Unusable(at_rows(np.flatnonzero(found), "number", " beyond 64 bits"))
            kinds = {np.dtype(np.uint64)}
        kind = np.dtype(np.float64) if len(kinds) > 1 else next(iter(kinds), np.dtype(np.int64))
        found = np.zeros(self._rows, dtype=kind)
        for rows, values in self._read:
            found[rows] = values
        return found, np.concatenate(self._missing)

    def _slowly(self, text: pa.LargeStringArray, rows: Rows) -> Array:
        """Read the cells of blocks in which one is not as Arrow writes numbers, and say which cannot be."""
        if self._order is not None:
            values, strange = positions(text, self._order)
            if strange.any():
                raise Unusable(
                    at_rows(rows[strange], "value", " that encode does not list")
                    + "; list them there as well"
                )
            return values
        number = _matches(text, _NUMBER)
        if number.all():
            text = pc.utf8_ltrim(text, "+")
            real = any(values.dtype == np.float64 for _, values in self._read)
            if real or not _matches(text, _WHOLE).all():
                values = np.asarray(text.cast(pa.float64()))
                beyond = np.isinf(values)
            else:
                values, beyond = _whole(text)
            if beyond.any():
                raise Unusable(at_rows(rows[beyond], "number", " beyond 64 bits"))
            return values
        if not self._read and not number.any():
            if _matches(text, _TRUTH).all():
                return _matches(text, r"(?i)^true$").astype(np.int64)
            if (times := _times(text, rows)) is not None:
                return times
        infinite = _matches(text, _INFINITE)
        wrong = ~number & ~infinite
        if not wrong.any():
            raise Unusable(at_rows(rows[infinite], "infinite value"))
        said = at_rows(rows[wrong], "non-numeric value")
        if self._decimal == "." and _matches(text.filter(pa.array(wrong)), _COMMA).all():
            raise Unusable(f"{said}; if its comma is a decimal point, set csv.decimal to ','")
        if wrong.all() and not self._read and not _matches(text, _TRUTH).any():
            raise Unusable(f"{said}; list its order under encode, or leave it out (exclude)")
        raise Unusable(f"{said}; if they stand for missing values, list them under missing_values")


def positions(text: pa.LargeStringArray, order: Sequence[str]) -> tuple[Array, Mask]:
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


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _matches(text: pa.LargeStringArray, pattern: str) -> Mask:
    return _mask(pc.match_substring_regex(text, pattern))


def _plain(text: pa.LargeStringArray) -> Array | None:
    """Read numbers written as Arrow writes them; None where one may not be."""
    if not len(text):
        return None
    ends = np.frombuffer(text.buffers()[1], np.int64)[[text.offset, text.offset + len(text)]]
    raw = memoryview(text.buffers()[2])[ends[0] : ends[1]].tobytes()
    # Whole numbers that int64 does not hold stay whole: only a point or an exponent makes reals of them.
    kind = pa.float64() if any(mark in raw for mark in (b".", b"e", b"E")) else pa.int64()
    if kind == pa.int64() and (b"x" in raw or b"X" in raw):  # 0x10 is a number to Arrow alone
        return None
    try:
        text.slice(0, 1).cast(kind)  # Arrow makes an error for each cell: a whole column of text takes long
        values = np.asarray(text.cast(kind))
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _whole(text: pa.LargeStringArray) -> tuple[Array, Mask]:
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

    def above(most: int) -> Mask:
        written = str(most)  # of one length, digits are in order as text
        beyond = _mask(pc.greater(digits, pa.scalar(written, digits.type)))
        return np.asarray((length > len(written)) | ((length == len(written)) & beyond))

    if not negative.any():
        return np.empty(0), above(2**64 - 1)
    return np.empty(0), np.where(negative, above(2**63), above(2**63 - 1))


def _times(text: pa.LargeStringArray, rows: Rows) -> Array | None:
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
        first = first_failing(text, lambda some: some.cast(kind))
        raise Unusable(at_rows(rows[[first]], "date or time", " that does not exist")) from None


def since(array: pa.Array) -> pa.Int64Array:
    """Turn dates, times or durations into whole numbers of their own unit."""
    narrow = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return (array.cast(pa.int32()) if narrow else array).cast(pa.int64())
