"""A column of an Arrow type: its 64-bit numbers, or why it has none.

Every type with an order that 64 bits can hold is read, without a step through another type: integers and
booleans, floating point (widened to float64), decimals, dates, times, durations, dictionaries of these; and
text, as :mod:`mpc_spearman.data.cells` reads it. Nothing is rounded: decimals are counted in their last place
or, if 64 bits do not hold that, become their places among the column's distinct values.

A column comes in blocks, so that only its numbers need room for all rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Array, Mask, Memory
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.categories import CategoryCells
from mpc_spearman.data.cells import INFINITE, NO_INFINITE, Cells, Numbers, since
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import mask
from mpc_spearman.data.refusals import Unusable, at_rows

_OTHER_ORDER = "its categories look like numbers, but in another order than the numbers': the {}' is used"
#: A block's numbers, which of them stand for no value, and what they are in words.
_Part = tuple[Array, Mask, str]


class _ReadAgain(Exception):
    """A later block does not fit how the earlier ones were read: read the column in another way."""


def cells_of(name: str, keys: TableKeys, codes: Codes, memory: Memory) -> Cells | CategoryCells:
    """Return the reader for a column of text, or for one whose categories become flags."""
    return CategoryCells(codes, memory) if name in keys.nominal else Cells(name, keys, codes, memory)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnReader:
    """Turns the blocks of a column of n cells into numbers."""

    name: str
    blocks: Callable[[], Iterable[pa.Array]]  # each time from the beginning
    keys: TableKeys
    codes: Codes
    memory: Memory
    n: int

    def numbers(self) -> Numbers:
        """Return the column's numbers; `Unusable` says why it has none."""
        first, blocks = _first_block(map(storage, self.blocks()))
        if not getattr(first.type, "ordered", False) or self.name in self.keys.encode:
            return self._read_decoded(blocks)
        categories = storage(first.dictionary)
        note = _OTHER_ORDER if _order_is_not_numeric(categories) else ""
        if not is_text(categories.type) or self.counted:
            return self._read_decoded(blocks)._replace(note=note.format("numbers"))
        if self.name in self.keys.convert:
            raise Unusable("convert is for text, and its categories have an order; take it out of convert")
        try:
            numbers = self._joined(blocks, self._places(categories))
            return numbers._replace(note=note.format("categories"))
        except _ReadAgain:  # Arrow does not order categories that two blocks list differently, nor do we
            return self._read_decoded(map(storage, self.blocks()))

    @property
    def counted(self) -> bool:
        """Whether values are only counted, so that any cell with a value can be read."""
        return self.keys.combination(self.name) == "count"

    def _read_decoded(self, blocks: Iterator[pa.Array]) -> Numbers:
        """Return the numbers of blocks; a dictionary's are read as its values."""
        first, blocks = _first_block(map(_dictionary_values, blocks))
        if is_text(first.type) or self.name in self.keys.nominal:
            cells = cells_of(self.name, self.keys, self.codes, self.memory)
            for block in blocks:
                cells.add(block.fill_null("") if is_text(block.type) else block)
            return cells.numbers()
        try:
            return self._joined(blocks, self._values)
        except _ReadAgain:  # decimals of more than 64 bits
            whole = pa.concat_arrays([_dictionary_values(storage(block)) for block in self.blocks()])
            places = pc.rank(whole, tiebreaker="dense").to_numpy().astype(np.int64)
            return Numbers(places, mask(whole.is_null()) | self.codes.typed(whole), "decimals")

    def _joined(self, blocks: Iterable[pa.Array], read: Callable[[pa.Array], _Part]) -> Numbers:
        """Join the numbers of all blocks; a block without any value may be of any type."""
        values, missing = np.zeros(0, np.int64), self.memory.zeros((self.n,), np.bool_)
        kind, unit, start, infinite = "nothing", None, 0, list[Array]()
        for block in blocks:
            rows, start = slice(start, start + len(block)), start + len(block)
            missing[rows] = mask(block.is_null())
            if missing[rows].all():
                continue
            part, without_value, kind = read(block)
            missing[rows] |= without_value
            if kind == "real numbers":
                missing[rows] |= np.isnan(part)
                infinite.append(rows.start + np.flatnonzero(np.isinf(part) & ~missing[rows]))
            if kind == "dates or times":  # DuckDB writes infinity as the largest number, also to Parquet
                largest = np.iinfo(np.int32 if pa.types.is_date32(block.type) else np.int64).max
                infinite.append(rows.start + np.flatnonzero((np.abs(part) == largest) & ~missing[rows]))
            unit = block.type if kind in ("decimals", "dates or times") else None
            if not len(values):
                values = self.memory.zeros((self.n,), part.dtype.type)
            values[rows] = np.where(missing[rows], 0, part)
        if any(map(len, infinite)):
            advice = INFINITE if kind == "real numbers" else NO_INFINITE
            raise Unusable(f"{at_rows(np.concatenate(infinite), 'infinite value')}{advice}")
        return Numbers(values if len(values) else np.zeros(self.n, np.int64), missing, kind, type=unit)

    def _places(self, categories: pa.Array) -> Callable[[pa.Array], _Part]:
        """Return a function that reads a block of a dictionary as places among its categories."""
        text = pc.ascii_trim_whitespace(categories.fill_null(""))
        no_value = mask(categories.is_null()) | self.codes.cells(text, default=False)

        def read(block: pa.Array) -> _Part:
            if not storage(block.dictionary).equals(categories):
                raise _ReadAgain
            places = block.indices.fill_null(0).to_numpy().astype(np.int64)
            return places, no_value[places], "categories"

        return read

    def _values(self, block: pa.Array) -> _Part:
        """Read a block of a type that is not text."""
        kind, in_words = block.type, "whole numbers"
        no_value = self.codes.typed(block)
        if self.counted and not pa.types.is_floating(kind):
            return np.ones(len(block), np.int64), no_value, in_words
        for key, names in (("encode", self.keys.orders), ("convert", self.keys.convert)):
            if self.name in names:
                advice = f"and this is {type_name(kind)}; take it out of {key}"
                raise Unusable(f"{key} is for columns of text, {advice}")
        if pa.types.is_floating(kind):
            values = block.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            return values, no_value, "real numbers"
        if pa.types.is_decimal(kind):
            return _unscaled(block), no_value, "decimals"
        if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            block, in_words = since(block), "dates or times"
        elif pa.types.is_boolean(kind):
            block, in_words = block.cast(pa.int8()), "true or false"
        if not pa.types.is_integer(block.type):
            raise Unusable(f"{type_name(kind)}, not numbers: cast it to float64, or leave it out (exclude)")
        dtype = np.uint64 if pa.types.is_unsigned_integer(block.type) else np.int64
        return block.fill_null(0).to_numpy().astype(dtype, copy=False), no_value, in_words


def _first_block(blocks: Iterator[pa.Array]) -> tuple[pa.Array, Iterator[pa.Array]]:
    """Return the first block, or an empty one if there is none; and all blocks, the first included."""
    first = next(blocks, pa.array([], pa.null()))
    return first, chain([first], blocks)


def _unscaled(array: pa.Array) -> Array:
    """Return decimals as integers of their last place; `_ReadAgain` if one is beyond 64 bits."""
    wide = array.type.bit_width > 128
    array = array if wide else array.cast(pa.decimal128(array.type.precision, array.type.scale))
    words = array.type.bit_width // 64
    raw = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, words)
    raw = raw[array.offset : array.offset + len(array)]
    low = np.where(mask(array.is_null()), 0, raw[:, 0])
    if any((np.where(mask(array.is_null()), 0, raw[:, i]) != low >> 63).any() for i in range(1, words)):
        raise _ReadAgain
    return low


def storage(array: pa.Array) -> pa.Array:
    """Return a block as it is stored: an extension as its storage type, text with 64-bit offsets."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.cast(pa.large_string()) if is_text(array.type) else array


def _dictionary_values(array: pa.Array) -> pa.Array:
    """Return the values of a block of a dictionary; return any other block unchanged."""
    if not pa.types.is_dictionary(array.type):
        return array
    return storage(storage(array.dictionary).take(array.indices))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's types for text."""
    return str(kind) in ("string", "large_string", "string_view")


def type_name(kind: pa.DataType) -> str:
    """Return a type's name without parameters, or an extension type's own name."""
    name = getattr(kind, "type_name", None) or getattr(kind, "extension_name", None)
    return str(name or re.split(r"[<(\[]", str(kind))[0])


def _order_is_not_numeric(categories: pa.Array) -> bool:
    """Return whether categories are numbers whose declared order differs from their numeric order."""
    try:
        values = np.asarray(categories.drop_null().cast(pa.float64()))
    except pa.ArrowException:
        return False
    return bool((np.diff(values) < 0).any())
