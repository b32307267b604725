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
    left = _Left(payload)
    values = {
        field.name: _read(field, _shape(field, dimensions), _width(field, dimensions), left)
        for field in fields
    }
    if left.data:
        raise ProtocolViolation(f"{len(left.data)} bytes follow its last field")
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


class _Left:
    """The bytes of a payload that have not been read."""

    def __init__(self, payload: memoryview) -> None:
        self.data = payload

    def take(self, field: Field, size: int) -> memoryview:
        if size > len(self.data):
            raise ProtocolViolation(f"field {field.name!r} needs {size} bytes, {len(self.data)} are left")
        taken, self.data = self.data[:size], self.data[size:]
        return taken


def _read(field: Field, shape: tuple[int, ...], width: int, left: _Left) -> Any:
    if field.type in ("text", "blob"):
        return _read_part(field, left)
    cells = math.prod(shape)
    if field.type == "texts":
        return [_read_part(field, left) for _ in range(cells)]
    raw = left.take(field, cells * width)
    if field.type == "bytes":
        return bytes(raw)
    if field.type == "int128":
        numbers = (raw[start : start + width] for start in range(0, len(raw), width))
        return [int.from_bytes(number, "little", signed=True) for number in numbers]
    if field.type == "ring":
        return bytes_to_ring(raw, width).reshape(shape)
    array = np.frombuffer(raw, dtype=_DTYPES[field.type]).reshape(shape)
    if field.type != "flags":
        return array
    if array.size and array.max() > 1:
        raise ProtocolViolation(f"field {field.name!r} holds a flag that is neither 0 nor 1")
    return array.astype(bool)


def _read_part(field: Field, left: _Left) -> str | bytes:
    """Return a text or blob, after its length."""
    length = int.from_bytes(left.take(field, 4), "big")
    if length > _LONGEST[field.type]:
        raise ProtocolViolation(f"field {field.name!r} announces {length} bytes")
    raw = left.take(field, length)
    if field.type == "blob":
        return bytes(raw)
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        raise ProtocolViolation(f"field {field.name!r} is not UTF-8") from None
