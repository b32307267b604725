"""The codec: a message's fields to bytes and back, strictly, with no pickle.

A payload is its fields one after another, in the order of the view table, nothing between or after:

========== =====================================================================
text       4-byte big-endian length, UTF-8 bytes
blob       4-byte big-endian length, bytes
texts      as many ``text`` as the shape has cells
bytes      exactly as many bytes as the shape says
int64      little-endian two's complement, row by row
int128     the same in 16 bytes, of a list of integers
ring       the lowest ``ring_bytes`` bytes of an int64, row by row: the integer modulo
           2^(8·``ring_bytes``), read as the one nearest to 0
float64    little-endian IEEE 754, row by row
flags      one byte each, 0 or 1
========== =====================================================================

Every length is known from the view table and the sizes that the parties agreed on, or has an upper bound, and
is checked before anything is allocated for it. Invalid bytes raise :class:`ProtocolViolation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.wire.integers import bytes_to_ring, words_to_bytes
from mpc_spearman.wire.kinds import Field

#: Longest text: the plan's canonical JSON is the only long one.
MAX_TEXT = 1 << 20
#: Longest blob: a public key.
MAX_BLOB = 1 << 23
#: Longest name of a feature or party, in bytes: one of ``texts``.
MAX_NAME = 1 << 10
#: Longest payload of a frame, in bytes. Block sizes are chosen well below it.
MAX_PAYLOAD = 1 << 26

_LONGEST = {"text": MAX_TEXT, "blob": MAX_BLOB, "texts": MAX_NAME}
#: Most bytes of one cell of a field's shape.
_CELL = {kind: 4 + longest for kind, longest in _LONGEST.items()}
_CELL |= {"bytes": 1, "int64": 8, "int128": 16, "ring": 8, "float64": 8, "flags": 1}
_DTYPES: dict[str, np.dtype[Any]] = {
    "int64": np.dtype("<i8"),
    "ring": np.dtype("<i8"),
    "float64": np.dtype("<f8"),
    "flags": np.dtype(np.uint8),
}


def encode(fields: Sequence[Field], dimensions: Mapping[str, int], values: Mapping[str, Any]) -> bytes:
    """Return the payload for field values, exactly one per field.

    `dimensions` has the values of the symbols in the fields' shapes. `BoundError` if the payload is longer
    than a frame can carry.
    """
    if set(values) != {field.name for field in fields}:
        raise TypeError(f"fields {sorted(values)} given, {[field.name for field in fields]} expected")
    payload = b"".join(
        part
        for field in fields
        for part in _pack(field, _shape(field, dimensions), _width(field, dimensions), values[field.name])
    )
    if len(payload) > MAX_PAYLOAD:
        raise BoundError(f"a message of {len(payload)} bytes does not fit a frame of {MAX_PAYLOAD} bytes")
    return payload


def decode(fields: Sequence[Field], dimensions: Mapping[str, int], payload: memoryview) -> dict[str, Any]:
    """Return the field values in a payload; arrays are views of it where alignment allows.

    `ProtocolViolation` if it is shorter or longer than its fields, or a value is outside its type.
    """
    values: dict[str, Any] = {}
    offset = 0
    for field in fields:
        shape, width = _shape(field, dimensions), _width(field, dimensions)
        values[field.name], offset = _unpack(field, shape, width, payload, offset)
    if offset != len(payload):
        raise ProtocolViolation(f"{len(payload) - offset} bytes follow its last field")
    return values


def largest(fields: Sequence[Field], dimensions: Mapping[str, int]) -> int:
    """Return the longest payload of these fields, in bytes; ``MAX_PAYLOAD`` while a dimension is unknown."""
    try:
        size = sum(math.prod(_shape(field, dimensions)) * _CELL[field.type] for field in fields)
    except KeyError:
        return MAX_PAYLOAD
    return min(size, MAX_PAYLOAD)


def _shape(field: Field, dimensions: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else dimensions[size] for size in field.shape)


def _width(field: Field, dimensions: Mapping[str, int]) -> int:
    """Return the bytes of one cell of an array."""
    return dimensions["ring_bytes"] if field.type == "ring" else _CELL[field.type]


def _pack(field: Field, shape: tuple[int, ...], width: int, value: Any) -> list[bytes]:
    if field.type in ("text", "blob"):
        return _pack_part(field, value)
    if field.type in ("texts", "bytes", "int128"):
        if len(value) != math.prod(shape):
            raise TypeError(f"{field.name}: {len(value)} given, {math.prod(shape)} expected")
        if field.type == "texts":
            return [part for text in value for part in _pack_part(field, text)]
        if field.type == "bytes":
            return [bytes(value)]
        return [int(number).to_bytes(width, "little", signed=True) for number in value]
    dtype = _DTYPES[field.type]
    array = np.asarray(value)
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "safe"):
        raise TypeError(f"{field.name}: {array.dtype}{array.shape} given, {dtype}{shape} expected")
    if field.type == "ring":
        return [words_to_bytes(array, width)]
    return [np.ascontiguousarray(array, dtype=dtype).tobytes()]


def _pack_part(field: Field, value: str | bytes) -> list[bytes]:
    """Return the length and bytes of a text or blob; `BoundError` if it is too long."""
    raw = value.encode() if isinstance(value, str) else bytes(value)
    if len(raw) > _LONGEST[field.type]:
        raise BoundError(f"{field.name}: {len(raw)} bytes are longer than {_LONGEST[field.type]}")
    return [len(raw).to_bytes(4, "big"), raw]


def _unpack(
    field: Field, shape: tuple[int, ...], width: int, payload: memoryview, offset: int
) -> tuple[Any, int]:
    if field.type in ("text", "blob"):
        return _unpack_part(field, payload, offset)
    if field.type == "texts":
        texts = []
        for _ in range(math.prod(shape)):
            text, offset = _unpack_part(field, payload, offset)
            texts.append(text)
        return texts, offset
    size = math.prod(shape) * width
    return _array(field, shape, width, _take(field, payload, offset, size)), offset + size


def _unpack_part(field: Field, payload: memoryview, offset: int) -> tuple[str | bytes, int]:
    length = int.from_bytes(_take(field, payload, offset, 4), "big")
    if length > _LONGEST[field.type]:
        raise ProtocolViolation(f"field {field.name!r} announces {length} bytes")
    raw, after = _take(field, payload, offset + 4, length), offset + 4 + length
    if field.type == "blob":
        return bytes(raw), after
    try:
        return str(raw, "utf-8"), after
    except UnicodeDecodeError:
        raise ProtocolViolation(f"field {field.name!r} is not UTF-8") from None


def _array(field: Field, shape: tuple[int, ...], width: int, raw: memoryview) -> Any:
    if field.type == "bytes":
        return bytes(raw)
    if field.type == "int128":
        cells = (raw[start : start + width] for start in range(0, len(raw), width))
        return [int.from_bytes(cell, "little", signed=True) for cell in cells]
    if field.type == "ring":
        return bytes_to_ring(raw, width).reshape(shape)
    array = np.frombuffer(raw, dtype=_DTYPES[field.type]).reshape(shape)
    if field.type != "flags":
        return array
    if array.size and array.max() > 1:
        raise ProtocolViolation(f"field {field.name!r} holds a flag that is neither 0 nor 1")
    return array.astype(bool)


def _take(field: Field, payload: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(payload):
        raise ProtocolViolation(
            f"field {field.name!r} needs {size} bytes, {max(0, len(payload) - offset)} are left"
        )
    return payload[offset : offset + size]
