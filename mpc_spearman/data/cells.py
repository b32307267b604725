"""Columns of text, from CSV and other files: from cells to 64-bit numbers, by our own rules.

White space (ASCII) around a cell does not count. Then a column is, in this order,

- whole numbers, where every cell is digits with or without a sign: int64;
- real numbers, where every cell is a decimal number, with or without an exponent: float64, correctly rounded;
- true and false, or yes and no, in any case: 1 and 0;
- ISO 8601 dates, or dates with times, all or none with a zone: counted from 1970.

All is done by Arrow's kernels on whole columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, get_args
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Array, Mask, Memory, Rows
from mpc_spearman.config.table_keys import Convert, Csv, TableKeys
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import DATE, NOTATIONS, TIME, ZONE, Notation, mask, matches
from mpc_spearman.data.refusals import Unusable, at_rows

_WHOLE = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
TRUTHS = (r"(?i)^(true|false)$", r"(?i)^(yes|no)$")
_AT_TIME, _IN_ZONE = TIME + "$", TIME + ZONE + "$"
_TIMES = {DATE: pa.date32(), _AT_TIME: pa.timestamp("us"), _IN_ZONE: pa.timestamp("us", "UTC")}
_KINDS = {
    "dates": DATE,
    "dates with times": _AT_TIME,
    "dates with times and zones": _IN_ZONE,
    "true or false": TRUTHS[0],
    "yes or no": TRUTHS[1],
}
_LIST = "; if such a cell stands for a missing value, list it under missing_values"

_DATES = "dates or times"
MOST_CATEGORIES = 12  # categories of a text column that may have an order
#: What to do about infinite values.
INFINITE = "; if they mean missing values, list inf or -inf under missing_values, else leave those rows out"
#: The same where no text could stand for them.
NO_INFINITE = "; make such cells null, or leave those rows out"


class Numbers(NamedTuple):
    """What a column of n cells holds."""

    values: Array  # int64, uint64 or float64, finite, or places in `categories`; anything where missing
    missing: Mask
    kind: str  # in words
    note: str = ""  # what the owner should know of how it was read
    type: pa.DataType | None = None  # that whole numbers stand for, if they are no numbers
    categories: tuple[str, ...] = ()  # of a column whose categories have no order


class Cells:
    """A column whose cells come block by block; text of a block that Arrow reads as numbers is not kept.

    Values that ``encode`` lists for the column are not missing.
    """

    def __init__(self, name: str, keys: TableKeys, codes: Codes, memory: Memory) -> None:
        self._order, self._how = keys.orders.get(name), keys.convert.get(name)
        self._counted = keys.combination(name) == "count"
        self._csv, self._notation, self._codes, self._memory = keys.csv, Notation(keys.csv), codes, memory
        plain = self._order is None and self._how is None and not self._counted
        self._at_once = plain and self._notation.is_arrows
        # Whether decimal marks, as far as seen, may separate thousands; whether cells have one, or none.
        self._may_group = self._order is None and keys.csv.thousands is None
        self._with_mark = self._without = False
        self._units, self._words, self._odd = set[str](), set[str](), [np.zeros(0, dtype=np.int64)]
        self._rows, self._missing = 0, [np.zeros(0, dtype=bool)]
        self._read: list[tuple[Rows | slice, Array]] = []
        self._text: list[tuple[Rows, pa.LargeStringArray]] = []

    def add(self, text: pa.LargeStringArray) -> None:
        """Take the next cells."""
        start, self._rows = self._rows, self._rows + len(text)
        rows: Rows | slice = slice(start, self._rows)
        values = _plain(text) if self._at_once else None
        if values is not None and not self._codes.near(values):
            self._look_for_thousands(text, values)
            self._read.append((rows, self._memory.keep(values)))
            self._missing.append(self._memory.keep(np.zeros(len(text), dtype=bool)))
            return
        text = pc.utf8_trim_whitespace(text)
        missing = self._codes.cells(text)
        if self._order is not None:
            missing &= positions(text, self._order)[1]
        if self._how is not None:
            text, fits, units = self._notation.converted(text, self._how)
            missing |= self._codes.cells(text)
            self._odd.append(np.flatnonzero(~fits & ~missing) + start)
            self._units |= units
        if missing.any():
            self._words.update(text.filter(pa.array(missing)).unique().to_pylist())
            kept = np.flatnonzero(~missing)
            rows, text = kept + start, text.take(pa.array(kept))
        self._missing.append(self._memory.keep(missing))
        if self._counted:  # whatever the cells are
            text = pa.repeat("1", len(text)).cast(pa.large_string())
        values = None
        if self._order is None and self._notation.is_arrows:
            values = _plain(text)
        elif self._order is None and self._notation.matches(text).all():
            values = _plain(self._notation.plain(text))
        self._look_for_thousands(text, values)
        if values is not None or len(text):
            those = self._memory.keep(np.arange(start, self._rows) if isinstance(rows, slice) else rows)
        if values is not None:
            self._read.append((those, self._memory.keep(values)))
        elif len(text):
            self._text.append((those, keep_text(text, self._memory)))

    def numbers(self) -> Numbers:
        """Return the column's numbers, when all cells are there."""
        odd = np.concatenate(self._odd)
        if len(odd):
            what = at_rows(odd, "value", f" that convert: {self._how} cannot read")
            raise Unusable(
                f"{what}; convert them in another way, or list what is missing under missing_values"
            )
        if len(self._units) > 1:
            raise Unusable(
                f"amounts in {len(self._units)} currencies: convert them to one, or exclude the column"
            )
        kind, its_type = "", None
        if self._text:
            its_type = self._kind_of_times()
            kind = self._slowly()
            self._text = []
        if self._may_group and self._with_mark and (self._without or self._notation.decimal == ","):
            point, other = ("comma", ".") if self._notation.decimal == "," else ("point", ",")
            how = f"csv.decimal: {other!r} and csv.thousands: {self._notation.decimal!r}"
            which = f"if it separates thousands, set {how}; if it is a decimal {point}, csv.thousands: none"
            raise Unusable(f"three digits follow each {point}: {which}")
        real = any(values.dtype == np.float64 for _, values in self._read)
        numbers = self._memory.zeros((self._rows,), np.float64 if real else np.int64)
        for rows, values in self._read:
            numbers[rows] = values
        missing, start = self._memory.zeros((self._rows,), np.bool_), 0
        for part in self._missing:
            missing[start : start + len(part)], start = part, start + len(part)
        kind = kind or ("real numbers" if real else "whole numbers")
        return Numbers(numbers, missing, kind, type=its_type if kind == _DATES else None)

    def _look_for_thousands(self, text: pa.LargeStringArray, values: Array | None) -> None:
        """Note whether decimal marks may separate thousands: each is followed by exactly three digits."""
        if not self._may_group or not len(text):
            return
        if values is not None and values.dtype != np.float64:  # without a mark
            self._may_group, self._without = bool(((values > -1000) & (values < 1000)).all()), True
            return
        for some in (text.slice(0, 50), text):  # mostly the first cells tell that they do not
            if not matches(some, self._notation.grouped).all():
                self._may_group = False
                return
        marked = mask(pc.match_substring(text, self._notation.decimal))
        self._with_mark |= bool(marked.any())
        self._without |= not marked.all()

    def _slowly(self) -> str:
        """Read the blocks in which a cell is not written as Arrow writes numbers; refuse unreadable cells.

        Return what the cells are, "" for numbers.
        """
        if self._order is not None:
            strange = list[Rows]()
            for rows, text in self._text:
                values, wrong = positions(text, self._order)
                strange += [rows[wrong]] if wrong.any() else []
                self._read.append((rows, self._memory.keep(values)))
            if strange:
                where = at_rows(np.concatenate(strange), "value", " that encode does not list")
                raise Unusable(f"{where}; list them there as well")
            return "categories"
        number = [self._notation.matches(text) for _, text in self._text]
        if all(some.all() for some in number):
            self._read_numbers()
            return ""
        if not self._read and not any(some.any() for some in number):
            if any(self._all(truth) for truth in TRUTHS):
                for rows, text in self._text:
                    truths = matches(text, r"(?i)^(true|yes)$").astype(np.int64)
                    self._read.append((rows, self._memory.keep(truths)))
                return "true or false"
            if kind := self._kind_of_times():
                self._read += [
                    (rows, self._memory.keep(_times(text, kind, rows))) for rows, text in self._text
                ]
                return _DATES
        rows = np.concatenate([rows for rows, _ in self._text])
        raise self._refusal(pa.concat_arrays([text for _, text in self._text]), rows, np.concatenate(number))

    def _all(self, pattern: str) -> bool:
        return all(matches(text, pattern).all() for _, text in self._text)

    def _read_numbers(self) -> None:
        """Read numbers that Arrow does not read at once: real ones if any is."""
        plain = [(rows, self._notation.plain(text)) for rows, text in self._text]
        real = any(values.dtype == np.float64 for _, values in self._read)
        real = real or not all(matches(text, _WHOLE).all() for _, text in plain)
        beyond = list[Rows]()
        for rows, text in plain:
            if real:
                values = np.asarray(text.cast(pa.float64()))
                wrong = np.isinf(values)
            else:
                values, wrong = _whole(text)
            beyond += [rows[wrong]] if wrong.any() else []
            self._read.append((rows, self._memory.keep(values)))
        if beyond:
            raise Unusable(at_rows(np.concatenate(beyond), "number", " beyond 64 bits"))

    def _kind_of_times(self) -> pa.DataType | None:
        """Return the type of ISO 8601 dates or times; None where not every cell is written like one."""
        kind = next((kind for pattern, kind in _TIMES.items() if self._all(pattern)), None)
        if kind is None or not any(matches(text, r"\.[0-9]{7}").any() for _, text in self._text):
            return kind
        return pa.timestamp("ns", kind.tz)

    def _converts(self, cells: pa.LargeStringArray, how: Convert) -> bool:
        """Return whether all cells can be converted in this way; a 13th month cannot."""
        text, fits, units = self._notation.converted(cells, how)
        if not fits.all() or len(units) > 1:
            return False
        kind = next((kind for pattern, kind in _TIMES.items() if matches(text, pattern).all()), None)
        try:
            return "first" not in how or (
                kind is not None and len(_times(text, kind, np.arange(len(text)))) > 0
            )
        except Unusable:
            return False

    def _refusal(self, text: pa.LargeStringArray, rows: Rows, number: Mask) -> Unusable:
        """Return which cells cannot be read, given what most cells are, and what to do."""
        infinite = matches(text, _INFINITE)
        wrong = ~number & ~infinite
        if not wrong.any():
            return Unusable(f"{at_rows(rows[infinite], 'infinite value')}{INFINITE}")
        if not self._read and not number.any():
            for kind, pattern in _KINDS.items():
                other = ~matches(text, pattern)
                if 2 * other.sum() < len(text):
                    most = f" among {len(text) - other.sum()} that are {kind}"
                    return Unusable(f"{at_rows(rows[other], 'other value', most)}{_LIST}")
        said = at_rows(rows[wrong], "non-numeric value")
        cells = text.filter(pa.array(wrong))
        readings = []
        for reading in (Csv(**keys) for keys in NOTATIONS):
            marks = {"thousands": reading.thousands, "decimal": reading.decimal}
            new = {key: mark for key, mark in marks.items() if mark not in (None, getattr(self._csv, key))}
            notation = Notation(reading)
            there = [notation.mark if key == "thousands" else re.escape(mark) for key, mark in new.items()]
            used = all(matches(cells, mark).any() for mark in there)
            if used and notation.matches(cells).all():
                readings.append(" and ".join(f"csv.{key} to {mark!r}" for key, mark in new.items()))
        if readings:
            return Unusable(f"{said}; if they are numbers, set {', or '.join(readings)}, as they are written")
        if number.any() or self._read:
            return Unusable(f"{said}{_LIST}")
        ways = [how for how in get_args(Convert) if self._converts(cells, how)]
        if ways:
            return Unusable(f"{said}; if they are {' or '.join(ways)}, say so under convert")
        few = cells.unique().slice(0, MOST_CATEGORIES + 1).to_pylist()
        few += [word for word in self._words if word.lower() == "none"]  # as in none, mild, severe
        fix = {"encode": sorted(few)} if 1 < len(few) <= MOST_CATEGORIES else {}
        what = "list its order under encode (flags if it has none), or leave it out (exclude)"
        return Unusable(f"{said}; {what}", fix)


def positions(text: pa.LargeStringArray, order: Sequence[str]) -> tuple[Array, Mask]:
    """Return each cell's place in a list, shape (n,), and which cells it does not list."""
    listed = pa.array([normalize("NFC", one.strip()) for one in order], text.type)
    places = pc.index_in(pc.utf8_normalize(text, "NFC"), value_set=listed)
    return places.fill_null(0).to_numpy().astype(np.int64), mask(places.is_null())


def keep_text(text: pa.LargeStringArray, memory: Memory) -> pa.LargeStringArray:
    """Return text that can be kept for long: itself, or a copy in a file."""
    if not len(text) or memory.take(text.nbytes):
        return text
    ends, cells = buffers_of(text)
    return large_text(memory.keep(ends), memory.keep(cells))


def buffers_of(text: pa.LargeStringArray) -> tuple[Rows, npt.NDArray[np.uint8]]:
    """Return where each cell ends in the bytes of all, after a first 0, and these bytes; no cell is null."""
    ends = np.frombuffer(text.buffers()[1], np.int64)[text.offset : text.offset + len(text) + 1]
    cells = np.frombuffer(text.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    return ends - ends[0], cells


def large_text(ends: Array, cells: Array) -> pa.LargeStringArray:
    """Make text of its cells' bytes, one after the other, and where each ends, after a first 0."""
    return pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(cells))


def _first_failing(array: pa.Array, use: Callable[[pa.Array], Any]) -> int:
    """Return the first row of an array that Arrow cannot convert; there must be one."""
    low, high = 0, len(array)  # the rows before `low` can be used, those before `high` cannot
    while high - low > 1:
        middle = (low + high) // 2
        try:
            use(array.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _plain(text: pa.LargeStringArray) -> Array | None:
    """Read numbers written as Arrow writes them; None if one may be written differently."""
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
    """Read whole numbers; mark those that do not fit int64, if any."""
    try:
        return text.cast(pa.int64()).to_numpy(), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        pass
    digits = [(written[:1] == "-", written.lstrip("-0")) for written in text.to_pylist()]
    fits = [len(its) < 20 and int(its or 0) < 2**63 + negative for negative, its in digits]
    return np.empty(0), ~np.array(fits)


def _times(text: pa.LargeStringArray, kind: pa.DataType, rows: Rows) -> Array:
    """Read ISO 8601 dates or times, in these rows, as whole numbers."""
    try:
        return np.asarray(since(text.cast(kind)))
    except pa.ArrowInvalid:
        first = _first_failing(text, lambda some: some.cast(kind))
    why = " that does not exist"
    if getattr(kind, "unit", "") == "ns":
        with suppress(pa.ArrowInvalid):
            pc.utf8_slice_codeunits(text.slice(first, 1), 0, 19).cast(pa.timestamp("us"))
            why = " before 1678 or after 2261, which nanoseconds do not reach"
    raise Unusable(f"{at_rows(rows[[first]], 'date or time', why)}{_LIST}")


def since(array: pa.Array) -> pa.Int64Array:
    """Turn dates, times or durations into whole numbers of their own unit."""
    narrow = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return (array.cast(pa.int32()) if narrow else array).cast(pa.int64())
