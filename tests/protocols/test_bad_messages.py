"""A party whose messages are not what they should be: who finds out, and what each is told."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import pytest

from mpc_spearman.errors import PeerDied, PeerFailed, ProtocolViolation
from mpc_spearman.results.result import Result
from mpc_spearman.wire.frames import HEADER
from mpc_spearman.wire.kinds import Kind
from support.faults import Passing, Run, through
from support.in_memory import Ended, run_in_memory
from support.plans import plan
from support.references import normal_tables

TABLES = normal_tables()


def on_header(
    run: Run, *given: Any, kind: str, change: str, to: Collection[int], join: Any, **seams: Any
) -> Result:
    """Change the headers of a party's messages of a kind to some others, as they go on the wire."""

    def changed(number: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if header[3] == Kind[kind] and number in to:
            header = _HEADERS[change](*struct.unpack("!2sBBIQQ", header))
        return [(header, payload)]

    return run(*given, join=through(join, lambda transport: Passing(transport, changed)), **seams)


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


def on_payload(
    run: Run, *given: Any, kind: str, change: str, to: Collection[int], join: Any, **seams: Any
) -> Result:
    """Change what a party's messages of a kind say to what no codec would encode."""

    def changed(number: int, raw: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if raw[3] != Kind[kind] or number not in to:
            return [(raw, payload)]
        said = _PAYLOADS[change](payload)
        return [(_header(*struct.unpack("!2sBBIQQ", raw)[:-1], len(said)), said)]

    return run(*given, join=through(join, lambda transport: Passing(transport, changed)), **seams)


_PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda payload: payload[:-1],
    "long": lambda payload: payload + bytes(8),
    "empty": lambda payload: b"",
    "huge": lambda payload: bytes(1 << 22),
}


def run_with(party: str, fault: Callable[..., Any], *, to: str, **arguments: Any) -> Ended:
    numbers = [plan().names.index(name) for name in to]
    return run_in_memory(plan(), TABLES, {party: partial(fault, to=numbers, **arguments)})


def check_violated(ended: Ended, sender: str, receivers: Mapping[str, str]) -> None:
    """All ended, and every receiver of the bad message says so itself, naming its sender."""
    assert not ended.results
    for receiver, text in receivers.items():
        assert type(ended.errors[receiver]) is ProtocolViolation, ended.errors
        assert text in str(ended.errors[receiver])
        assert f"{sender} (" in str(ended.errors[receiver])
    # Who sent it may hear of it, or only find its peer gone.
    allowed = (PeerFailed, PeerDied, ProtocolViolation)
    assert all(isinstance(error, allowed) for error in ended.errors.values()), ended.errors


def test_wrong_shape() -> None:
    ended = run_with("A", on_payload, kind="DESCRIPTION", change="long", to="C")
    text = "invalid DESCRIPTION message in phase describe: 8 bytes follow its last field"
    check_violated(ended, "A", {"C": text})
    assert type(ended.errors["B"]) is PeerFailed
    assert ended.errors["B"].about == ("ProtocolViolation", "C", "describe")


def test_truncated() -> None:
    ended = run_with("B", on_payload, kind="MASKED", change="short", to="A")
    check_violated(ended, "B", {"A": "field 'block' needs 240 bytes, 239 are left"})
    assert ended.errors["C"].about == ("ProtocolViolation", "A", "share")


#: What A changes, in messages of which kind, who receives it, and what is said.
CHANGES = [
    (on_header, "unknown kind", "HELLO", "BC", "a message of unknown kind 99 arrived"),
    (on_header, "unknown kind", "SHARE", "C", "a message of unknown kind 99 arrived"),
    (
        on_header,
        "other kind",
        "SHAPE",
        "B",
        "SHARE from A (source) to B (target) is not in the view table",
    ),
    (
        *(on_header, "other kind", "SHAPE", "C"),
        "sent SHARE while C (coordinator) waited for SHAPE in phase agree",
    ),
    (on_header, "version", "ALIGNMENT", "B", "a frame of format version 2 arrived"),
    (on_header, "number", "MASKED", "B", "where number"),
    (
        on_header,
        "length",
        "SHARE",
        "C",
        "a SHARE message of 1152921504606846976 bytes was announced, more than",
    ),
    (on_header, "garbage", "HELLO", "BC", "not a frame of this protocol"),
    (on_header, "garbage", "ALIGNMENT", "B", "what arrived is not a frame of this protocol"),
    (on_header, "garbage short", "SHARE", "C", "not a frame of this protocol"),
    (on_header, "garbage long", "ALIGNMENT", "B", "not a frame of this protocol"),
    (on_payload, "short", "HELLO", "BC", "field 'nonce' needs 32 bytes, 31 are left"),
    (on_payload, "long", "HELLO", "BC", "8 bytes follow its last field"),
    (on_payload, "empty", "HELLO", "BC", "field 'version' needs 4 bytes, 0 are left"),
    (on_payload, "huge", "SHAPE", "BC", "a SHAPE message of 4194304 bytes was announced, more than"),
    (on_payload, "empty", "SHARE", "C", "field 'share' needs 12 bytes, 0 are left"),
    (on_payload, "long", "COST", "C", "bytes was announced, more than"),
]


@pytest.mark.parametrize(
    ("fault", "change", "kind", "receivers", "text"),
    CHANGES,
    ids=[f"{change}-{kind}-{receivers}" for _, change, kind, receivers, _ in CHANGES],
)
def test_every_change(fault: Callable[..., Any], change: str, kind: str, receivers: str, text: str) -> None:
    ended = run_with("A", fault, kind=kind, change=change, to=receivers)
    seen = {name: text for name in receivers if type(ended.errors.get(name)) is ProtocolViolation}
    assert seen
    check_violated(ended, "A", seen)


def test_a_farewell_that_is_too_long_keeps_nobody_waiting() -> None:
    ended = run_with("A", on_payload, kind="FAREWELL", change="long", to="BC")
    # Who had said farewell to all by then may be done.
    violated = [error for error in ended.errors.values() if type(error) is ProtocolViolation]
    assert violated
    assert "a FAREWELL message of 72 bytes was announced, more than" in str(violated[0])
    assert len(ended.errors) + len(ended.results) == 3
