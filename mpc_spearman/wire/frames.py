"""The frame: the format of every message on a link.

========  =====  ==============================================================
offset    bytes  meaning
========  =====  ==============================================================
0         2      ``MS``
2         1      format version, 1
3         1      kind (:class:`mpc_spearman.wire.kinds.Kind`)
4         4      depth: length of the longest chain of messages this one depends on
8         8      number: 0, 1, 2, … per direction
16        8      length of the payload
24        …      the payload
========  =====  ==============================================================

Frames travel inside TLS of the two parties. All integers are big-endian. A frame costs ``HEADER + length``
bytes, and that is what the meter counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.wire.kinds import Kind

_FORMAT = struct.Struct("!2sBBIQQ")
_MAGIC = b"MS"
_VERSION = 1

#: Bytes of a header.
HEADER = _FORMAT.size


@dataclass(frozen=True)
class Header:
    """A frame's header."""

    kind: Kind
    depth: int
    number: int
    length: int

    def pack(self) -> bytes:
        """Return the 24 bytes."""
        return _FORMAT.pack(_MAGIC, _VERSION, self.kind, self.depth, self.number, self.length)

    @classmethod
    def unpack(cls, raw: bytes, number: int) -> Header:
        """Read a header, which must have this number; `ProtocolViolation` if it is invalid.

        The caller must check its length before allocating anything.
        """
        magic, version, kind_number, depth, received_number, length = _FORMAT.unpack(raw)
        if magic != _MAGIC:
            raise ProtocolViolation("the bytes that arrived are not a frame of this protocol")
        if version != _VERSION:
            raise ProtocolViolation(
                f"a frame of format version {version} arrived; this party uses version {_VERSION}"
            )
        try:
            kind = Kind(kind_number)
        except ValueError:
            raise ProtocolViolation(f"a message of unknown kind {kind_number} arrived") from None
        if received_number != number:
            raise ProtocolViolation(f"message number {received_number} arrived where number {number} was due")
        return cls(kind, depth, number, length)


@dataclass(frozen=True)
class Frame:
    """A received frame."""

    header: Header
    payload: memoryview

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return HEADER + len(self.payload)
