"""What the coordinator's host forwards between a source and a target: nobody else can read or change it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from mpc_spearman.errors import ERRORS
from support.members import Members
from support.processes import eventually

A, B = 2, 1


# ---- TLS 1.3 read from a recording (RFC 8446, 5), by whoever has a connection's secrets, of a key log. Only
# AES-256-GCM with SHA-384, OpenSSL's first choice.

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
    result, start = [], 0
    while start < len(stream):
        header = stream[start : start + _HEADER.size]
        kind, version, length = _HEADER.unpack(header)
        payload = stream[start + _HEADER.size : start + _HEADER.size + length]
        assert kind in (HANDSHAKE, CHANGE_CIPHER, ALERT, DATA), (start, header)
        assert version in (0x0301, 0x0303), (start, header)
        assert len(payload) == length, (start, header)
        result.append(Record(kind, header, payload))
        start += _HEADER.size + length
    return result


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
    """Decrypt the data in one direction; `secrets` are of that direction, the handshake's first."""
    keys = list(map(_Keys, secrets))
    return b"".join(_data(records(stream), keys))


def _data(all_records: Iterable[Record], keys: list[_Keys]) -> Iterator[bytes]:
    for record in all_records:
        if record.kind != DATA:
            continue
        while True:
            try:
                inside = keys[0].open(record)
                break
            except InvalidTag:
                if len(keys) == 1:
                    raise
                del keys[0]  # the handshake is over in this direction
        inside = inside.rstrip(b"\0")
        if inside[-1] == DATA:
            yield inside[:-1]


def logged(text: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Read a key log: by client random, (of the handshake, of the data) of the client, and of the server."""
    result: dict[str, dict[str, bytes]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        label, random, secret = line.split()
        result.setdefault(random, {})[label] = bytes.fromhex(secret)
    return {
        random: [
            (labelled[f"{end}_HANDSHAKE_TRAFFIC_SECRET"], labelled[f"{end}_TRAFFIC_SECRET_0"])
            for end in ("CLIENT", "SERVER")
        ]
        for random, labelled in result.items()
        if "SERVER_TRAFFIC_SECRET_0" in labelled
    }


def client_random(stream: bytes) -> str:
    """Return what identifies a connection in a key log, from the bytes of its client."""
    return records(stream)[0].payload[6:38].hex()


# ---- recorded runs


def in_memory(process: int, secrets: list[bytes]) -> list[bool]:
    """Which of these are anywhere in a process's memory."""
    result = [False] * len(secrets)
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if span is None:
                continue
            start, end = (int(part, 16) for part in span.groups())
            memory.seek(start)
            held = b""
            with suppress(OSError):  # given back to the system meanwhile
                held = memory.read(end - start)
            result = [before or secret in held for before, secret in zip(result, secrets, strict=True)]
    return result


def test_c_forwards_tls_under_keys_that_it_does_not_have(tmp_path: Path) -> None:
    """Record by record; and by searching all of C's memory, where the secrets of its own connections are."""
    recorded, keys, go = tmp_path / "recorded", tmp_path / "keys", tmp_path / "go"
    recorded.mkdir()
    with Members(tmp_path) as run:
        run.start("C", ("recorded", {"folder": str(recorded), "phase": "publish", "until": str(go)}))
        run.start("B")
        run.start("A", ("logging_keys", {"file": str(keys)}))
        run.wait_for("C.fault")
        process = int((recorded / "process").read_text())
        secrets = logged(keys.read_text())
        of_data = {random: [end[1] for end in ends] for random, ends in secrets.items()}
        streams = {path.name: path.read_bytes() for path in recorded.glob("?-?-*")}
        sent, answered = (
            [stream for name, stream in streams.items() if name.startswith(f"{caller}-")] for caller in (A, B)
        )
        inner = {client_random(stream) for stream in sent}
        result = iter(in_memory(process, [secret for pair in of_data.values() for secret in pair]))
        held = {random: [next(result) for _ in pair] for random, pair in of_data.items()}
        go.touch()
        endings = run.wait("ABC")
    assert {ending.error for ending in endings.values()} == {"done"}
    assert len(inner) == len(sent) == len(answered) == 2
    assert inner < set(secrets)
    assert [held[random] for random in inner] == [[False, False]] * 2
    # A's own two connections with C; there is also that of the meeting, and the outer ones of these two.
    assert sum(held[random] == [True, True] for random in set(held) - inner) >= 2
    inner_secrets, outer = (
        [secrets[random] for random in inner],
        [secrets[random] for random in set(secrets) - inner],
    )
    total = 0
    for streams_of, end in ((sent, 0), (answered, 1)):
        for stream in streams_of:
            kinds = [record.kind for record in records(stream)]
            assert kinds[0] == HANDSHAKE
            assert kinds.count(HANDSHAKE) == 1
            assert set(kinds) <= {HANDSHAKE, CHANGE_CIPHER, DATA}
            assert ALERT not in kinds
            data = [clear for pair in inner_secrets if (clear := attempt(stream, pair[end])) is not None]
            assert len(data) == 1
            assert not [pair for pair in outer if attempt(stream, pair[end]) is not None]
            total += len(data[0])
    assert total > 2 * 20_190 * 4  # the masked ranks of both pass here


def attempt(stream: bytes, secrets: tuple[bytes, bytes]) -> bytes | None:
    try:
        return opened(stream, secrets)
    except InvalidTag:
        return None


def test_a_coordinator_in_the_place_of_a_and_b_ends_the_run(tmp_path: Path) -> None:
    """It knows both parties' public keys, and has its own private one."""
    with Members(tmp_path) as run:
        run.plan["network"]["join_timeout"] = 10.0
        run.start("C", ("impersonating", {}))
        for name in "BA":
            run.start(name)
        endings = run.wait("ABC")
        eventually(lambda: run.processes() == [])
    # Who finds it first ends; the other one may wait for that party until the time to join is over.
    assert {ending.error for ending in endings.values()} == {"UnknownKey", "PartyMissing"}
    for ending in endings.values():
        names_the_key = "does not have the key of this plan" in " ".join(ending.printed.split())
        assert names_the_key == (ending.error == "UnknownKey")
        assert ending.code == ERRORS[ending.error].exit_code
        assert ending.files == []
