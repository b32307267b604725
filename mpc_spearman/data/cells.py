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
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, get_args
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Array, Mask, Memory, Rows
from mpc_spearman.config.table_keys import Convert, Csv, TableKeys
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import KINDS, NOTATIONS, Notation, mask, matches
from mpc_spearman.data.refusals import Unusable, at_rows

_WHOLE = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_LIST = "; if such a cell stands for a missing value, list it under missing_values"
_ENCODE = "; list its order under encode (flags if it has none), or leave it out (exclude)"
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
    #: Values that may be codes for missing ones, and how many cells have each.
    codes: Sequence[tuple[str, int]] = ()


class Categories(Unusable):
    """A column's cells are words, neither numbers nor dates."""


class Cells:
    """Reads a column of text block by block; text that Arrow reads as numbers is not kept.

    Values that ``encode`` lists for the column are not missing.
    """

    def __init__(self, name: str, keys: TableKeys, codes: Codes, memory: Memory) -> None:
        self._name, self._keys, self._codes, self._memory = name, keys, codes, memory
        self._order, self._convert = keys.orders.get(name), keys.convert.get(name)
        self._counted, self._notation = keys.combination(name) == "count", Notation(keys.csv)
        unchanged = self._order is None and self._convert is None and not self._counted
        self._at_once = unchanged and self._notation.is_arrows
        # Whether decimal marks, so far, may separate thousands; whether cells have one, or none.
        self._may_group = self._order is None and keys.csv.thousands is None
        self._with_mark = self._without_mark = False
        self._currencies, self._unreadable = set[str](), [np.zeros(0, dtype=np.int64)]
        self._n, self._missing = 0, [np.zeros(0, dtype=bool)]
        self._numbers: list[tuple[Rows | slice, Array]] = []
        self._text: list[tuple[Rows, pa.LargeStringArray]] = []

    def add(self, text: pa.LargeStringArray) -> None:
        """Add the next cells."""
        start, self._n = self._n, self._n + len(text)
        values = _read_as_arrow(text) if self._at_once else None
        if values is not None and not self._codes.near(values):
            self._look_for_thousands(text, values)
            self._numbers.append((slice(start, self._n), self._memory.keep(values)))
            self._missing.append(self._memory.keep(np.zeros(len(text), dtype=bool)))
            return
        text = pc.utf8_trim_whitespace(text)
        missing = self._codes.cells(text)
        if self._order is not None:
            listed_places, unreadable = _places_in_order(text, self._order)
            missing &= unreadable
            self._unreadable.append(start + np.flatnonzero(unreadable & ~missing))
        elif self._convert is not None:
            text, converted, currencies = self._notation.converted(text, self._convert)
            missing |= self._codes.cells(text)
            self._unreadable.append(start + np.flatnonzero(~converted & ~missing))
            self._currencies |= currencies
        self._missing.append(self._memory.keep(missing))
        places = np.flatnonzero(~missing)
        if not len(places):
            return
        if len(places) < len(text):
            text = text.take(pa.array(places))
        if self._counted:  # whatever the cells are
            values = np.ones(len(places), dtype=np.int64)
        elif self._order is not None:
            values = listed_places[places]
        elif self._notation.is_arrows:
            values = _read_as_arrow(text)
        elif self._notation.matches(text).all():
            values = _read_as_arrow(self._notation.plain(text))
        self._look_for_thousands(text, values)
        rows = self._memory.keep(places + start)
        if values is None:
            self._text.append((rows, keep_text(text, self._memory)))
        else:
            self._numbers.append((rows, self._memory.keep(values)))

    def numbers(self, *, advise: bool = True) -> Numbers:
        """Return the column's numbers, once all cells have been added; `Unusable` says what the owner can do.

        Without `advise` nothing is looked for that could be done about cells of no kind.
        """
        unreadable = np.concatenate(self._unreadable)
        if len(unreadable) and self._order is not None:
            which = at_rows(unreadable, "value", " that encode does not list")
            raise Unusable(f"{which}; list them there as well")
        if len(unreadable):
            which = at_rows(unreadable, "value", f" that convert: {self._convert} cannot read")
            raise Unusable(
                f"{which}; convert them in another way, or list what is missing under missing_values"
            )
        if len(self._currencies) > 1:
            count = len(self._currencies)
            raise Unusable(f"amounts in {count} currencies: convert them to one, or exclude the column")
        kind, times = "" if self._order is None else "categories", None
        if self._text:
            kind, times = self._read_text(advise=advise)
            self._text = []
        if self._may_group and self._with_mark and (self._without_mark or self._notation.decimal == ","):
            point, other_mark = ("comma", ".") if self._notation.decimal == "," else ("point", ",")
            how = f"csv.decimal: {other_mark!r} and csv.thousands: {self._notation.decimal!r}"
            which = f"if it separates thousands, set {how}; if it is a decimal {point}, csv.thousands: none"
            raise Unusable(f"three digits follow each {point}: {which}")
        real = any(values.dtype == np.float64 for _, values in self._numbers)
        numbers = self._memory.zeros((self._n,), np.float64 if real else np.int64)
        for rows, values in self._numbers:
            numbers[rows] = values
        missing, start = self._memory.zeros((self._n,), np.bool_), 0
        for part in self._missing:
            missing[start : start + len(part)], start = part, start + len(part)
        return Numbers(numbers, missing, kind or ("real numbers" if real else "whole numbers"), type=times)

    def _look_for_thousands(self, text: pa.LargeStringArray, values: Array | None) -> None:
        """Note whether decimal marks may separate thousands: each is followed by exactly three digits."""
        if not self._may_group:
            return
        if values is not None and values.dtype != np.float64:  # without a mark
            self._may_group, self._without_mark = bool(((values > -1000) & (values < 1000)).all()), True
            return
        for cells in (text.slice(0, 50), text):  # mostly the first cells show that they do not
            if not matches(cells, self._notation.grouped).all():
                self._may_group = False
                return
        marked = mask(pc.match_substring(text, self._notation.decimal))
        self._with_mark |= bool(marked.any())
        self._without_mark |= not marked.all()

    def _read_text(self, *, advise: bool) -> tuple[str, pa.DataType | None]:
        """Read the blocks in which a cell is not written as Arrow writes numbers.

        Return what the cells are, "" for numbers, and the type of dates and times.
        """
        if self._all_match(f"^{self._notation.number}$"):
            text_of = [(rows, self._notation.plain(text)) for rows, text in self._text]
            real = any(values.dtype == np.float64 for _, values in self._numbers)
            real = real or not all(matches(text, _WHOLE).all() for _, text in text_of)
            kind = pa.float64() if real else pa.int64()
            for rows, text in text_of:
                self._numbers.append((rows, self._memory.keep(_cast(text, kind, rows))))
            return "", None
        for pattern, kind in {} if self._numbers else KINDS.values():
            if not self._all_match(pattern):
                continue
            if kind is not None and any(matches(text, r"\.[0-9]{7}").any() for _, text in self._text):
                kind = pa.timestamp("ns", kind.tz)
            for rows, text in self._text:
                truths = matches(text, "(?i)^(true|yes)$").astype(np.int64)
                values = truths if kind is None else _cast(text, kind, rows)
                self._numbers.append((rows, self._memory.keep(values)))
            return "true or false" if kind is None else "dates or times", kind
        raise self._refusal() if advise else Unusable("cells of no kind")

    def _all_match(self, pattern: str) -> bool:
        return all(matches(text, pattern).all() for _, text in self._text)

    def _refusal(self) -> Unusable:
        """Return an error that says which cells differ in kind from most cells, and what to do."""
        rows = np.concatenate([rows for rows, _ in self._text])
        text = pa.concat_arrays([text for _, text in self._text])
        number, infinite = self._notation.matches(text), matches(text, _INFINITE)
        wrong = ~number & ~infinite
        if not wrong.any():
            return Unusable(f"{at_rows(rows[infinite], 'infinite value')}{INFINITE}")
        has_numbers = bool(self._numbers) or number.any()
        for kind, (pattern, _) in {} if has_numbers else KINDS.items():
            of_kind = matches(text, pattern)
            if 2 * of_kind.sum() > len(text):
                most = f" among {of_kind.sum()} that are {kind}"
                return Unusable(f"{at_rows(rows[~of_kind], 'other value', most)}{_LIST}")
        which, cells = at_rows(rows[wrong], "non-numeric value"), text.filter(pa.array(wrong)).unique()
        notations = list[str]()
        for csv in (Csv(**keys) for keys in NOTATIONS):
            notation = Notation(csv)
            marks = {"thousands": notation.mark, "decimal": re.escape(csv.decimal)}
            new = [key for key in marks if getattr(csv, key) not in (None, getattr(self._keys.csv, key))]
            if notation.matches(cells).all() and all(matches(cells, marks[key]).any() for key in new):
                notations.append(" and ".join(f"csv.{key} to {getattr(csv, key)!r}" for key in new))
        if notations:
            how = ", or ".join(notations)
            return Unusable(f"{which}; if they are numbers, set {how}, as they are written")
        if has_numbers:
            return Unusable(f"{which}{_LIST}")
        converts = {
            how: self._keys.model_copy(update={"convert": {self._name: how}}) for how in get_args(Convert)
        }
        if ways := [how for how, keys in converts.items() if can_read(self._name, cells, keys)]:
            return Unusable(f"{which}; if they are {' or '.join(ways)}, say so under convert")
        return Categories(f"{which}{_ENCODE}")


def can_read(name: str, text: pa.LargeStringArray, keys: TableKeys) -> bool:
    """Return whether a column with these cells can be read under some keys."""
    cells = Cells(name, keys, Codes(keys, name), Memory())
    try:
        cells.add(text)
        cells.numbers(advise=False)
    except Unusable:
        return False
    return True


def _places_in_order(text: pa.LargeStringArray, order: Sequence[str]) -> tuple[Array, Mask]:
    """Return each cell's place in a list, shape (n,), and which cells it does not list."""
    listed = pa.array([normalize("NFC", category.strip()) for category in order], text.type)
    places = pc.index_in(pc.utf8_normalize(text, "NFC"), value_set=listed)
    return places.fill_null(0).to_numpy().astype(np.int64), mask(places.is_null())


def keep_text(text: pa.LargeStringArray, memory: Memory) -> pa.LargeStringArray:
    """Return the text itself if memory has room for it, or a copy in a file."""
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


def _read_as_arrow(text: pa.LargeStringArray) -> Array | None:
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


def _cast(text: pa.LargeStringArray, kind: pa.DataType, rows: Rows) -> Array:
    """Read numbers or ISO 8601 times, in these rows, as 64-bit numbers; refuse the first that has none."""

    def fails(count: int) -> bool:
        try:
            values = text.slice(0, count).cast(kind)
        except pa.ArrowInvalid:
            return True
        return bool(pa.types.is_floating(kind) and pc.any(pc.is_inf(values)).as_py())

    is_time = pa.types.is_temporal(kind)
    if fails(len(text)):
        first = bisect_left(range(1, len(text) + 1), True, key=fails)
        which = _unlike_times(text.slice(first, 1), kind) if is_time else "numbers beyond 64 bits"
        raise Unusable(f"{which}, the first in data row {rows[first] + 1}{_LIST if is_time else ''}")
    values = text.cast(kind)
    return np.asarray(since(values) if is_time else values)


def _unlike_times(cell: pa.LargeStringArray, kind: pa.DataType) -> str:
    """Return what a cell holds in place of a date or time of this kind."""
    if getattr(kind, "unit", "") == "ns":
        with suppress(pa.ArrowInvalid):
            pc.utf8_slice_codeunits(cell, 0, 19).cast(pa.timestamp("us"))
            return "times before 1678 or after 2261, which nanoseconds do not reach"
    return "dates or times that do not exist"


def since(array: pa.Array) -> pa.Int64Array:
    """Turn dates, times or durations into whole numbers of their own unit."""
    narrow = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return (array.cast(pa.int32()) if narrow else array).cast(pa.int64())
