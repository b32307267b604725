"""A column of an Arrow type: its 64-bit numbers, or why it has none.

Every type with an order that 64 bits can hold is read, without a step through another type: integers and
booleans, floating point (widened to float64), decimals, dates, times, durations, dictionaries of these; and
text, as :mod:`mpc_spearman.data.cells` reads it. Nothing is rounded: a decimal becomes its place among the
column's distinct values.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.data.cells import INFINITE, Cells, Numbers, since
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import Notation, mask
from mpc_spearman.data.refusals import Unusable, at

_AGAINST = "its categories look like numbers, but in another order than the numbers'"


def numbers(column: pa.ChunkedArray, name: str, keys: TableKeys, codes: Codes) -> Numbers:
    """Turn a column into numbers."""
    array = whole(column)
    if pa.types.is_dictionary(array.type):
        return _from_dictionary(array, column, name, keys, codes)
    missing = mask(array.is_null())
    if missing.all():
        return Numbers(np.zeros(len(array), dtype=np.int64), missing, "nothing")
    if is_text(array.type):
        cells = Cells(name, keys, codes)
        cells.add(array.fill_null(""))
        return cells.numbers()
    for key, names in (("encode", keys.encode), ("convert", keys.convert)):
        if name in names:
            what = named(array.type)
            raise Unusable(f"{key} is for columns of text, and this is {what}; take it out of {key}")
    missing |= codes.typed(array)
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        missing |= np.isnan(values)
        infinite = np.isinf(values) & ~missing
        if infinite.any():
            raise Unusable(f"{at(infinite, 'infinite value')}{INFINITE}")
        return Numbers(np.where(missing, 0.0, values) if missing.any() else values, missing, "real numbers")
    if pa.types.is_decimal(array.type):
        wide = pa.decimal256 if array.type.bit_width > 128 else pa.decimal128
        places = pc.rank(array.cast(wide(array.type.precision, array.type.scale)), tiebreaker="dense")
        return Numbers(places.to_numpy().astype(np.int64), missing, "decimals")
    kind = "whole numbers"
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        array, kind = since(array), "dates or times"
    elif pa.types.is_boolean(array.type):
        array, kind = array.cast(pa.int8()), "true or false"
    if not pa.types.is_integer(array.type):
        raise Unusable(f"{named(array.type)}, not numbers: cast it to float64, or leave it out (exclude)")
    dtype = np.uint64 if pa.types.is_unsigned_integer(array.type) else np.int64
    return Numbers(array.fill_null(0).to_numpy().astype(dtype, copy=False), missing, kind)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array: text with 64-bit offsets, an extension as its storage type."""
    if isinstance(column.type, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        column = pa.chunked_array(storage, column.type.storage_type)
    if is_text(column.type):
        column = column.cast(pa.large_string())
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's for text."""
    return str(kind) in ("string", "large_string", "string_view")


def named(kind: pa.DataType) -> str:
    """Name a type, without its parameters; one that Arrow lacks as its maker does."""
    own = getattr(kind, "type_name", None) or getattr(kind, "extension_name", None)
    return str(own or re.split(r"[<(\[]", str(kind))[0])


def _from_dictionary(
    array: pa.DictionaryArray, column: pa.ChunkedArray, name: str, keys: TableKeys, codes: Codes
) -> Numbers:
    # Arrow does not order categories that two chunks list differently, so neither do we.
    alike = all(chunk.dictionary.equals(column.chunk(0).dictionary) for chunk in column.chunks)
    values = whole(pa.chunked_array([array.dictionary]))
    ordered = array.type.ordered and alike and name not in keys.encode
    against = ordered and _against(values)
    if not (ordered and is_text(values.type)):
        found = numbers(pa.chunked_array([values.take(array.indices)]), name, keys, codes)
        return found._replace(note=f"{_AGAINST}: the numbers' is used") if against else found
    if name in keys.convert:
        raise Unusable("convert is for text, and its categories have an order; take it out of convert")
    places = array.indices.fill_null(0).to_numpy().astype(np.int64)
    missing = mask(array.indices.is_null())
    text = pc.ascii_trim_whitespace(values.fill_null(""))
    nothing = mask(values.is_null()) | codes.cells(text, default=False)
    missing = missing | (nothing[places] if len(nothing) else True)
    return Numbers(places, missing, "categories", f"{_AGAINST}: the categories' is used" if against else "")


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
