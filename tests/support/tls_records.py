"""TLS 1.3 read from a recording, record by record (RFC 8446, 5), by whoever has a connection's secrets.

Only AES-256-GCM with SHA-384, OpenSSL's first choice. The secrets are those of a key log (SSLKEYLOGFILE).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, CHANGE_CIPHER, ALERT, DATA = 22, 20, 21, 23
_HEADER = struct.Struct("!BHH")


@dataclass(frozen=True)
class Record:
    """One record as it was on the wire: its outer type, and all of its bytes."""

    kind: int
    header: bytes
    payload: bytes


def records(stream: bytes) -> list[Record]:
    """Cut one direction of a connection into records; it must consist of them, to the last byte."""
    found, start = [], 0
    while start < len(stream):
        header = stream[start : start + _HEADER.size]
        kind, version, length = _HEADER.unpack(header)
        payload = stream[start + _HEADER.size : start + _HEADER.size + length]
        assert kind in (HANDSHAKE, CHANGE_CIPHER, ALERT, DATA), (start, header)
        assert version in (0x0301, 0x0303), (start, header)
        assert len(payload) == length, (start, header)
        found.append(Record(kind, header, payload))
        start += _HEADER.size + length
    return found


class _Keys:
    def __init__(self, secret: bytes) -> None:
        self._cipher, self._iv = AESGCM(_expand(secret, b"key", 32)), _expand(secret, b"iv", 12)
        self._number = 0

    def open(self, record: Record) -> bytes:
        nonce = bytes(a ^ b for a, b in zip(self._iv, self._number.to_bytes(12, "big"), strict=True))
        inside = self._cipher.decrypt(nonce, record.payload, record.header)
        self._number += 1
        return inside


def _expand(secret: bytes, label: bytes, length: int) -> bytes:
    name = b"tls13 " + label
    info = struct.pack("!HB", length, len(name)) + name + b"\0"
    return HKDFExpand(SHA384(), length, info).derive(secret)


def opened(stream: bytes, secrets: Iterable[bytes]) -> bytes:
    """Decrypt the data in one direction; `secrets` are of that direction, the handshake's first.

    Raises
    ------
    InvalidTag
        They are not this connection's.
    """
    left = list(map(_Keys, secrets))
    return b"".join(_data(records(stream), left))


def _data(all_records: Iterable[Record], left: list[_Keys]) -> Iterator[bytes]:
    for record in all_records:
        if record.kind != DATA:
            continue
        while True:
            try:
                inside = left[0].open(record)
                break
            except InvalidTag:
                if len(left) == 1:
                    raise
                del left[0]  # the handshake is over in this direction
        inside = inside.rstrip(b"\0")
        if inside[-1] == DATA:
            yield inside[:-1]


def logged(text: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Read a key log: for each connection's client random the secrets of the client, and of the server.

    Returns
    -------
    dict
        Client random, in hexadecimal, to [(of the handshake), (of the data)] of client and of server.
    """
    found: dict[str, dict[str, bytes]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        label, random, secret = line.split()
        found.setdefault(random, {})[label] = bytes.fromhex(secret)
    return {
        random: [
            (each[f"{end}_HANDSHAKE_TRAFFIC_SECRET"], each[f"{end}_TRAFFIC_SECRET_0"])
            for end in ("CLIENT", "SERVER")
        ]
        for random, each in found.items()
        if "SERVER_TRAFFIC_SECRET_0" in each
    }


def client_random(stream: bytes) -> str:
    """Return what identifies a connection in a key log, from the bytes of its client."""
    return records(stream)[0].payload[6:38].hex()
