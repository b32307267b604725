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
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Array, Mask, Memory
from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.data.categories import CategoryCells
from mpc_spearman.data.cells import INFINITE, NO_INFINITE, Cells, Numbers, since
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import Notation, mask
from mpc_spearman.data.refusals import Unusable, at_rows

#: Reads a column block by block, each time from the beginning.
Blocks = Callable[[], Iterable[pa.Array]]
_AGAINST = "its categories look like numbers, but in another order than the numbers'"


class _Otherwise(Exception):
    """A later block of a column shows that it has to be read in another way."""


class ColumnReader:
    """Turns the columns of a table of n rows into numbers."""

    def __init__(self, keys: TableKeys, codes: Codes, memory: Memory, n: int) -> None:
        self._keys, self._codes, self._memory, self._n = keys, codes, memory, n

    def numbers(self, name: str, blocks: Blocks) -> Numbers:
        """Turn a column into numbers; `Unusable` says why it has none."""
        if name in self._keys.nominal:
            categories = CategoryCells(self._codes, self._memory)
            for block in map(storage, blocks()):
                categories.add(_decoded(block))
            return categories.numbers()
        stored = (storage(block) for block in blocks())
        first = next(stored, pa.array([], pa.null()))
        if not pa.types.is_dictionary(first.type):
            return self._typed(name, chain([first], stored), lambda: map(storage, blocks()))
        ordered = first.type.ordered and name not in self._keys.orders
        against = ordered and _against(storage(first.dictionary))
        if ordered and is_text(first.type.value_type) and self._keys.combination(name) != "count":
            if name in self._keys.convert:
                raise Unusable(
                    "convert is for text, and its categories have an order; take it out of convert"
                )
            try:
                read = self._all(chain([first], stored), self._places(storage(first.dictionary)))
                return read._replace(note=f"{_AGAINST}: the categories' is used" if against else "")
            except _Otherwise:  # Arrow does not order categories that two blocks list differently, nor do we
                against = False

        def decoded() -> Iterator[pa.Array]:
            yield from (_decoded(block) for block in map(storage, blocks()))

        read = self._typed(name, decoded(), decoded)
        return read._replace(note=f"{_AGAINST}: the numbers' is used") if against else read

    def _typed(
        self, name: str, stored: Iterator[pa.Array], again: Callable[[], Iterator[pa.Array]]
    ) -> Numbers:
        first = next(stored, pa.array([], pa.null()))
        stored = chain([first], stored)
        if is_text(first.type):
            cells = Cells(name, self._keys, self._codes, self._memory)
            for block in stored:
                cells.add(block.fill_null(""))
            return cells.numbers()

        def read(block: pa.Array) -> tuple[Array, Mask, str]:
            if self._keys.combination(name) == "count" and not pa.types.is_floating(block.type):
                return np.ones(len(block), np.int64), self._codes.typed(block), "whole numbers"
            for key, names in (("encode", self._keys.orders), ("convert", self._keys.convert)):
                if name in names:
                    what = named(block.type)
                    raise Unusable(f"{key} is for columns of text, and this is {what}; take it out of {key}")
            part, none, kind = _values(block)
            return part, none | self._codes.typed(block), kind

        try:
            return self._all(stored, read)
        except _Otherwise:  # decimals of more than 64 bits
            whole = pa.concat_arrays([*again()])
            places = pc.rank(whole, tiebreaker="dense").to_numpy().astype(np.int64)
            missing = mask(whole.is_null()) | self._codes.typed(whole)
            return Numbers(places, missing, "decimals")

    def _all(
        self, blocks: Iterable[pa.Array], read: Callable[[pa.Array], tuple[Array, Mask, str]]
    ) -> Numbers:
        """Put the numbers of all blocks together; those without any value may be of any type."""
        values, kind, start, infinite = np.empty(0, np.int64), "nothing", 0, list[Array]()
        missing, its_type = self._memory.zeros((self._n,), np.bool_), None
        for block in blocks:
            rows, start = slice(start, start + len(block)), start + len(block)
            gaps = mask(block.is_null())
            if gaps.all():
                missing[rows] = True
                continue
            part, without, kind = read(block)
            its_type = block.type
            gaps = gaps | without
            if part.dtype.kind == "f":
                gaps |= np.isnan(part)
                beyond = np.flatnonzero(np.isinf(part) & ~gaps)
                infinite += [beyond + rows.start] if len(beyond) else []
            if kind == "dates or times":  # DuckDB writes infinity as the largest number, also to Parquet
                largest = np.iinfo(np.int32 if pa.types.is_date32(block.type) else np.int64).max
                beyond = np.flatnonzero((np.abs(part) == largest) & ~gaps)
                infinite += [beyond + rows.start] if len(beyond) else []
            if len(part) == self._n:
                values, missing = np.where(gaps, 0, part) if gaps.any() else part, gaps
                break
            if not len(values):
                values = self._memory.zeros((self._n,), part.dtype.type)
            values[rows], missing[rows] = np.where(gaps, 0, part), gaps
        if infinite:
            how = INFINITE if kind == "real numbers" else NO_INFINITE
            raise Unusable(f"{at_rows(np.concatenate(infinite), 'infinite value')}{how}")
        values = values if len(values) else np.zeros(self._n, np.int64)
        return Numbers(
            values, missing, kind, type=its_type if kind in ("decimals", "dates or times") else None
        )

    def _places(self, categories: pa.Array) -> Callable[[pa.Array], tuple[Array, Mask, str]]:
        text = pc.ascii_trim_whitespace(categories.fill_null(""))
        nothing = mask(categories.is_null()) | self._codes.cells(text, default=False)

        def read(block: pa.Array) -> tuple[Array, Mask, str]:
            if not storage(block.dictionary).equals(categories):
                raise _Otherwise
            places = block.indices.fill_null(0).to_numpy().astype(np.int64)
            return places, nothing[places] if len(nothing) else np.ones(len(places), bool), "categories"

        return read


def _values(array: pa.Array) -> tuple[Array, Mask, str]:
    """Return a block's numbers, which of them stand for no value, and what they are."""
    none, kind = np.zeros(len(array), bool), "whole numbers"
    if pa.types.is_floating(array.type):
        return array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False), none, "real numbers"
    if pa.types.is_decimal(array.type):
        return _unscaled(array), none, "decimals"
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        array, kind = since(array), "dates or times"
    elif pa.types.is_boolean(array.type):
        array, kind = array.cast(pa.int8()), "true or false"
    if not pa.types.is_integer(array.type):
        raise Unusable(f"{named(array.type)}, not numbers: cast it to float64, or leave it out (exclude)")
    dtype = np.uint64 if pa.types.is_unsigned_integer(array.type) else np.int64
    return array.fill_null(0).to_numpy().astype(dtype, copy=False), none, kind


def _unscaled(array: pa.Array) -> Array:
    """Return decimals as integers of their last place; `_Otherwise` if one is beyond 64 bits."""
    wide = array.type.bit_width > 128
    array = array if wide else array.cast(pa.decimal128(array.type.precision, array.type.scale))
    words = array.type.bit_width // 64
    raw = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, words)
    raw = raw[array.offset : array.offset + len(array)]
    low = np.where(mask(array.is_null()), 0, raw[:, 0])
    if any((np.where(mask(array.is_null()), 0, raw[:, i]) != low >> 63).any() for i in range(1, words)):
        raise _Otherwise
    return low


def storage(array: pa.Array) -> pa.Array:
    """Return a block as it is stored: an extension as its storage type, text with 64-bit offsets."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.cast(pa.large_string()) if is_text(array.type) else array


def _decoded(array: pa.Array) -> pa.Array:
    """Return a block of a dictionary as its values; another as it is."""
    if not pa.types.is_dictionary(array.type):
        return array
    return storage(storage(array.dictionary).take(array.indices))


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's for text."""
    return str(kind) in ("string", "large_string", "string_view")


def named(kind: pa.DataType) -> str:
    """Return a type's name without parameters; a type that Arrow lacks has its maker's name."""
    name = getattr(kind, "type_name", None) or getattr(kind, "extension_name", None)
    return str(name or re.split(r"[<(\[]", str(kind))[0])


def _against(categories: pa.Array) -> bool:
    """Return whether categories are numbers whose declared order differs from their numeric order."""
    if is_text(categories.type):
        notation = Notation(Csv())
        categories = pc.ascii_trim_whitespace(categories.drop_null())
        if not notation.matches(categories).all():
            return False
        categories = notation.plain(categories)
    try:
        values = np.asarray(categories.drop_null().cast(pa.float64()))
    except pa.ArrowException:
        return False
    return bool((np.diff(values) < 0).any())
