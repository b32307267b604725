"""A party that sends wrong messages: who notices, and what each party is told."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import pytest

from mpc_spearman.errors import AlignmentError, PeerDied, PeerFailed, ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from mpc_spearman.wire.channel import HEADER
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.faults import Role, on_frames, with_links
from support.in_memory import Ended, run_in_memory
from support.plans import plan
from support.references import normal_tables

TABLES = normal_tables()


def changing(role: Role, run: Run, frame: Any, *, kind: str, change: str, to: Collection[int]) -> Result:
    """Change a party's messages of a kind to some others, as they go on the wire."""

    def changed(number: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if header[3] != Kind[kind] or number not in to:
            return [(header, payload)]
        fields = struct.unpack("!2sBBIQQ", header)
        if change in _HEADERS:
            return [(_HEADERS[change](*fields), payload)]
        altered = _PAYLOADS[change](payload)
        return [(_header(*fields[:-1], len(altered)), altered)]

    return on_frames(role, run, frame, change=changed)


def _header(*parts: Any) -> bytes:
    return struct.pack("!2sBBIQQ", *parts)


_HEADERS: dict[str, Callable[..., bytes]] = {
    "unknown kind": lambda m, v, kind, d, n, length: _header(m, v, 99, d, n, length),
    "other kind": lambda m, v, kind, d, n, length: _header(m, v, 7, d, n, length),
    "version": lambda m, v, kind, d, n, length: _header(m, 2, kind, d, n, length),
    "number": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n + 1, length),
    "length": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n, 1 << 60),
    "depth": lambda m, v, kind, d, n, length: _header(m, v, kind, d + 7, n, length),
    "garbage": lambda *_: b"\xa5" * HEADER,
    "garbage long": lambda *_: b"\xa5" * 1000,
    "garbage short": lambda *_: b"\xa5" * 5,
}
#: What no codec would encode.
_PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda payload: payload[:-1],
    "long": lambda payload: payload + bytes(8),
    "empty": lambda payload: b"",
    "huge": lambda payload: bytes(1 << 22),
}


def run_with(party: str, kind: str, change: str, *, to: str) -> Ended:
    numbers = [plan().names.index(name) for name in to]
    return run_in_memory(plan(), TABLES, {party: partial(changing, kind=kind, change=change, to=numbers)})


#: What A changes, in messages of which kind, who receives it, and what the error says.
CHANGES = [
    ("long", "DESCRIPTION", "C", "DESCRIPTION message in phase describe: 8 bytes follow its last field"),
    ("short", "MASKED", "B", "field 'block' needs 160 bytes, 159 are left"),
    ("unknown kind", "HELLO", "BC", "a message of unknown kind 99 arrived"),
    ("unknown kind", "SHARE", "C", "a message of unknown kind 99 arrived"),
    ("other kind", "SHAPE", "B", "SHARE from A (source) to B (target) is not in the view table"),
    ("other kind", "SHAPE", "C", "sent SHARE while C (coordinator) waited for SHAPE in phase agree"),
    ("version", "ALIGNMENT", "B", "a frame of format version 2 arrived"),
    ("number", "MASKED", "B", "where number"),
    ("length", "SHARE", "C", "a SHARE message of 1152921504606846976 bytes was announced, more than"),
    ("garbage", "HELLO", "BC", "not a frame of this protocol"),
    ("garbage", "ALIGNMENT", "B", "the bytes that arrived are not a frame of this protocol"),
    ("garbage short", "SHARE", "C", "not a frame of this protocol"),
    ("garbage long", "ALIGNMENT", "B", "not a frame of this protocol"),
    ("short", "HELLO", "BC", "field 'nonce' needs 32 bytes, 31 are left"),
    ("long", "HELLO", "BC", "a HELLO message of 72 bytes was announced, more than"),
    ("empty", "HELLO", "BC", "field 'public_key' needs 32 bytes, 0 are left"),
    ("huge", "SHAPE", "BC", "a SHAPE message of 4194304 bytes was announced, more than"),
    ("empty", "SHARE", "C", "field 'share' needs 12 bytes, 0 are left"),
    ("huge", "COST", "C", "a COST message of 4194304 bytes was announced, more than"),
]


@pytest.mark.parametrize(
    ("change", "kind", "receivers", "text"), CHANGES, ids=["-".join(case[:3]) for case in CHANGES]
)
def test_every_change(change: str, kind: str, receivers: str, text: str) -> None:
    ended = run_with("A", kind, change, to=receivers)
    assert not ended.results
    violations = {name: error for name, error in ended.errors.items() if type(error) is ProtocolViolation}
    assert violations.keys() & {*receivers}
    for error in violations.values():
        assert text in str(error)
        assert "A (" in str(error)
    # A may learn of it, or only find its peer gone.
    for error in ended.errors.values():
        assert isinstance(error, (PeerFailed, PeerDied, ProtocolViolation)), ended.errors
        if isinstance(error, PeerFailed):
            assert error.about is not None
            assert error.about[:2] in {("ProtocolViolation", name) for name in receivers}


def test_a_farewell_that_is_too_long_keeps_nobody_waiting() -> None:
    ended = run_with("A", "FAREWELL", "long", to="BC")
    # Who had said farewell to all by then may be done.
    violated = [error for error in ended.errors.values() if type(error) is ProtocolViolation]
    assert violated
    assert "a FAREWELL message of 72 bytes was announced, more than" in str(violated[0])
    assert len(ended.errors) + len(ended.results) == 3


def test_a_digest_of_ids_that_is_ones_own_sent_back() -> None:
    class Echo(Links):
        """Send only what came, for who has no such ids."""

        def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
            if kind is Kind.ALIGNMENT:
                self.came = values = super().receive(peer, kind)
            return super().send(peer, kind, values, **more)

        def receive(self, peer: Party, kind: Kind, **more: Any) -> dict[str, Any]:
            return self.came if kind is Kind.ALIGNMENT else super().receive(peer, kind, **more)

    ended = run_in_memory(plan(), TABLES, {"B": partial(with_links, links=Echo)})
    assert not ended.results
    assert type(ended.errors["A"]) is AlignmentError
