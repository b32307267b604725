"""A column of an Arrow type: its 64-bit numbers, or the reason why it holds none.

Every type with an order that 64 bits can hold is read, without a step through another type: integers and
booleans, floating point (widened to float64), decimals, dates, times, durations, dictionaries of these, and
text whose categories have an order. Nothing is rounded: a decimal becomes its unscaled integer, or where that
takes more than 64 bits its place among the column's distinct values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.data.cells import positions, since
from mpc_spearman.data.words import Unusable, at

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def numbers(column: pa.ChunkedArray, order: Sequence[str] | None) -> tuple[Array, Mask]:
    """Turn a column into numbers.

    Parameters
    ----------
    column : ChunkedArray, length n
    order : sequence of str, optional
        The categories of a column of text, lowest first.

    Returns
    -------
    values : ndarray of int64, uint64 or float64, shape (n,)
        Finite; anything where a value is missing.
    missing : ndarray of bool, shape (n,)

    Raises
    ------
    Unusable
        Saying what the column holds and what to do.
    """
    array = whole(column)
    if pa.types.is_dictionary(array.type):
        return _from_dictionary(array, column, order)
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if missing.all():
        return np.zeros(len(array), dtype=np.int64), missing
    if is_text(array.type):
        return _from_text(array, missing, order)
    if order is not None:
        raise Unusable(
            f"encode gives its categories, and it is {named(array.type)}, not text; take it out of encode"
        )
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        missing = np.isnan(values)
        if np.isinf(values).any():
            raise Unusable(at(np.isinf(values), "infinite value"))
        return (np.where(missing, 0.0, values) if missing.any() else values), missing
    if pa.types.is_decimal(array.type):
        return _from_decimal(array, missing), missing
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        array = since(array)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if not pa.types.is_integer(array.type):
        raise Unusable(f"{named(array.type)}, not numbers: cast it to float64, or leave it out (exclude)")
    kind = np.uint64 if pa.types.is_unsigned_integer(array.type) else np.int64
    return array.fill_null(0).to_numpy().astype(kind, copy=False), missing


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, text with 64-bit offsets, an extension as what it is stored as."""
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
    """Name a type, without what it may list or hold."""
    return re.split(r"[<(\[]", str(kind))[0]


def _from_dictionary(
    array: pa.DictionaryArray, column: pa.ChunkedArray, order: Sequence[str] | None
) -> tuple[Array, Mask]:
    # Arrow does not order what two chunks list differently, so neither do we.
    alike = all(chunk.dictionary.equals(column.chunk(0).dictionary) for chunk in column.chunks)
    if order is not None or not (array.type.ordered and alike and is_text(array.type.value_type)):
        values = whole(pa.chunked_array([array.dictionary]))
        return numbers(pa.chunked_array([values.take(array.indices)]), order)
    codes = array.indices.fill_null(0).to_numpy().astype(np.int64)
    absent = array.indices.is_null().to_numpy(zero_copy_only=False)
    nothing = array.dictionary.is_null().to_numpy(zero_copy_only=False)
    return codes, absent | (nothing[codes] if len(nothing) else True)


def _from_text(array: pa.LargeStringArray, missing: Mask, order: Sequence[str] | None) -> tuple[Array, Mask]:
    if order is None:
        raise Unusable(
            "text, not numbers: cast it to float64, list the order of its categories under encode, or leave "
            "it out (exclude)"
        )
    values, strange = positions(pc.ascii_trim_whitespace(array), order)
    if (strange & ~missing).any():
        raise Unusable(
            at(strange & ~missing, "value", " that encode does not list") + "; list them there as well"
        )
    return values, missing


def _from_decimal(array: pa.Array, missing: Mask) -> Array:
    """Return unscaled integers, or where one takes more than 64 bits, places among the distinct values."""
    size, buffer = array.type.bit_width // 8, array.buffers()[1]
    if size <= 8:
        values = np.frombuffer(buffer, f"<i{size}")[array.offset : array.offset + len(array)]
        return np.where(missing, 0, values).astype(np.int64)
    words = np.frombuffer(buffer, "<u8").reshape(-1, size // 8)[array.offset : array.offset + len(array)]
    words = np.where(missing[:, None], np.uint64(0), words)
    low, signed = words[:, 0], words.view("<i8")
    if (signed[:, 1:] == (signed[:, 0] >> 63)[:, None]).all():
        return signed[:, 0].astype(np.int64)
    if not words[:, 1:].any():
        return low.astype(np.uint64)
    by_value = np.lexsort([*words.T[:-1], signed[:, -1]])
    ordered = words[by_value]
    places = np.zeros(len(words), dtype=np.int64)
    places[by_value[1:]] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1))
    return places
