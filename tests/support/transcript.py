"""A recorded run read again, from the wire's bytes and the X25519 secrets, by an implementation of its own.

Nothing here comes from the package: HKDF is written with ``hmac``, the streams with AES on counter blocks,
and the frame and payload formats are stated once more. What recorder.py wrote is the only input.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpc_spearman.version import __version__

#: Kinds of messages by number, and the parties of a run of one source by number; more sources follow.
KINDS = (
    *("KEEPALIVE", "ABORT", "HELLO", "SHAPE", "ALIGNMENT", "DESCRIPTION", "MASKED", "SHARE"),
    *("RESULT", "COST", "FAREWELL", "PUBLIC_KEY", "CIPHERTEXT", "EVALUATED", "COLUMNS"),
    *("PADDED", "REPLICA", "ORDER", "MATCHING_KEY", "OFFER", "PSEUDONYMS", "COMMON", "CONFIRM"),
    *("RECORD", "NOISE", "PROOF_SHARES", "PROOF_COINS", "PROOF_HASH", "PROOF_END", "MEETING"),
)
PARTIES = ("C", "B", "A")


@dataclass(frozen=True)
class Message:
    """One frame as it travelled, and what was in it."""

    sender: str
    receiver: str
    kind: str
    depth: int
    size: int
    payload: bytes


def joined(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(struct.pack("!Q", len(part)) + part for part in parts)).digest()


def hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256 and without a salt, 32 bytes out."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def subkey(
    secret: bytes,
    purpose: str,
    session: str,
    *,
    run: bytes,
    plan: bytes,
    ends: Sequence[tuple[int, str, bytes]],
) -> bytes:
    """The key of one purpose and session; `ends` are number, name and public key of both parties."""
    parts = [
        part for number, name, key in sorted(ends) for part in (str(number).encode(), name.encode(), key)
    ]
    context = joined(b"mpc_spearman/1", run, plan, *parts)
    return hkdf(secret, joined(context, purpose.encode(), session.encode()))


@dataclass
class Keystream:
    """AES-256 on the counters 0, 1, 2, …, read as little-endian 64-bit integers."""

    key: bytes
    position: int = 0

    def ring(self, *shape: int) -> np.ndarray:
        size = 8 * int(np.prod(shape))
        first, last = self.position // 16, -(-(self.position + size) // 16)
        counters = b"".join(number.to_bytes(16, "big") for number in range(first, last))
        encryptor = Cipher(algorithms.AES(self.key), modes.ECB()).encryptor()
        stream = encryptor.update(counters)[self.position - 16 * first :][:size]
        self.position += size
        return np.frombuffer(stream, "<i8").reshape(shape)

    def permutation(self, n: int) -> np.ndarray:
        keys = self.ring(n).tolist()
        return np.array(sorted(range(n), key=keys.__getitem__))


@dataclass
class Transcript:
    directory: Path
    parties: Sequence[str]
    plan: str  # its shared part, as canonical JSON
    messages: list[Message] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path, parties: Sequence[str], plan: str) -> Transcript:
        transcript = cls(directory, parties, plan)
        for receiver in parties:
            for sender in parties:
                if sender != receiver:
                    transcript.messages += transcript._link(sender, receiver)
        return transcript

    def received(self, receiver: str, sender: str) -> list[Message]:
        """What one party sent another, in order, keep-alives left out: how many there are is chance."""
        return [
            message
            for message in self.messages
            if (message.receiver, message.sender) == (receiver, sender) and message.kind != "KEEPALIVE"
        ]

    def payloads(self, receiver: str, sender: str, kind: str) -> list[bytes]:
        return [message.payload for message in self.received(receiver, sender) if message.kind == kind]

    def raw(self, receiver: str, sender: str, *, at: str) -> bytes:
        """The bytes of one direction of one link, as either end saw them."""
        end, other, direction = (receiver, sender, "from") if at == receiver else (sender, receiver, "to")
        return (self.directory / end / f"{direction}-{self.parties.index(other)}.bin").read_bytes()

    def keys(self, party: str) -> dict[tuple[str, str, str], bytes]:
        """The keys a party recorded: (peer, purpose, session); without purpose the X25519 secret."""
        lines = self._lines(party, "keys")
        named = [(self.parties[line["number"]], line["purpose"], line["session"]) for line in lines]
        assert len(set(named)) == len(named), "a party asked for a key twice"
        return {name: bytes.fromhex(line["key"]) for name, line in zip(named, lines, strict=True)}

    def read_by(self, party: str) -> list[tuple[str, str, dict[str, Any]]]:
        """What a party itself made of the messages it read: sender, kind, values in plain form."""
        lines = self._lines(party, "read")
        return [(self.parties[line["number"]], line["kind"], line["values"]) for line in lines]

    def tensors(self, party: str, kind: str) -> list[np.ndarray]:
        """CrypTen tensors of a party in order: ``share``, or what it gave to ``reveal``, ``opening``."""
        return [np.load(path) for path in sorted((self.directory / party).glob(f"{kind}-*.npy"))]

    def secret(self, pair: Sequence[str]) -> bytes:
        """The X25519 secret of a pair such as ``AB``, which both ends must have recorded alike."""
        first, second = pair
        secret, secret_of_second = self.keys(first)[second, "", ""], self.keys(second)[first, "", ""]
        assert secret == secret_of_second
        return secret

    def subkey(self, pair: Sequence[str], purpose: str, session: str = "A") -> bytes:
        """A key derived again from the secret, the plan, and what was said in the HELLOs."""
        hellos = self._hellos
        return subkey(
            self.secret(pair),
            purpose,
            session,
            run=joined(*(hellos[party]["nonce"] for party in self.parties)),
            plan=joined(__version__.encode(), self.plan.encode()),
            ends=[(self.parties.index(name), name, hellos[name]["public_key"]) for name in pair],
        )

    def stream(self, pair: Sequence[str], purpose: str, session: str = "A") -> Keystream:
        return Keystream(self.subkey(pair, purpose, session))

    def _lines(self, party: str, name: str) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in (self.directory / party / f"{name}.jsonl").read_text().splitlines()
        ]

    @cached_property
    def _hellos(self) -> dict[str, Mapping[str, object]]:
        layout = HELLO.split()[1:]
        coordinator, *data_parties = self.parties
        return {
            sender: parse(layout, frame[2], {})
            for sender, receiver in (
                (coordinator, data_parties[0]),
                *((party, coordinator) for party in data_parties),
            )
            for frame in frames(self.raw(receiver, sender, at=receiver))
            if frame[0] == "HELLO"
        }

    def _link(self, sender: str, receiver: str) -> list[Message]:
        return [
            Message(sender, receiver, kind, depth, 24 + len(payload), payload)
            for kind, depth, payload in frames(self.raw(receiver, sender, at=receiver))
        ]


def frames(raw: bytes) -> list[tuple[str, int, bytes]]:
    """Kind, depth and payload of each frame."""
    parts, offset = list[tuple[str, int, bytes]](), 0
    while offset < len(raw):
        magic, version, kind, depth, number, length = struct.unpack_from("!2sBBIQQ", raw, offset)
        assert (magic, version, number) == (b"MS", 1, len(parts))
        end = offset + 24 + length
        assert end <= len(raw), "the wire ends within a frame"
        parts.append((KINDS[kind], depth, raw[offset + 24 : end]))
        offset = end
    return parts


def elements(raw: bytes, width: int) -> np.ndarray:
    """Ring elements of so many bytes each: int64, with their sign."""
    cells = (raw[start : start + width] for start in range(0, len(raw), width))
    return np.array([int.from_bytes(cell, "little", signed=True) for cell in cells], dtype=np.int64)


HELLO = "HELLO public_key:bytes*32 nonce:bytes*32"
CONFIRM = "CONFIRM mac:bytes*32"


def parse(layout: Sequence[str], payload: bytes, sizes: Mapping[str, int]) -> dict[str, object]:
    """Return a payload's values by fields ``name:type`` or ``name:type*cells*cells``; no byte may remain.

    Cells are numbers or names from `sizes`, which also says how many bytes an element of the ``ring`` has.
    """
    values: dict[str, object] = {}
    offset = 0
    for entry in layout:
        name, kind = entry.split(":")
        kind, *factors = kind.split("*")
        cells = [int(factor) if factor.isdecimal() else sizes[factor] for factor in factors] or [1]
        count = int(np.prod(cells))
        if kind in ("text", "texts"):
            texts = []
            for _ in range(count):
                (length,) = struct.unpack_from("!I", payload, offset)
                texts.append(payload[offset + 4 : offset + 4 + length].decode())
                offset += 4 + length
            values[name] = texts if kind == "texts" else texts[0]
            continue
        widths = {
            "int64": 8,
            "int128": 16,
            "float64": 8,
            "bytes": 1,
            "flags": 1,
            "ring": sizes.get("ring", 0),
        }
        width = widths[kind]
        raw = payload[offset : offset + count * width]
        assert len(raw) == count * width, f"{name} is cut short"
        offset += len(raw)
        if kind == "ring":
            values[name] = elements(raw, width).reshape(cells)
        elif kind == "int128":
            cut = [raw[start : start + width] for start in range(0, len(raw), width)]
            values[name] = [int.from_bytes(cell, "little", signed=True) for cell in cut]
        elif kind in ("int64", "float64"):
            values[name] = np.frombuffer(raw, "<i8" if kind == "int64" else "<f8").reshape(cells)
        else:
            values[name] = raw
    assert offset == len(payload), f"{len(payload) - offset} bytes that no field accounts for"
    return values
