"""A party whose messages are not what they should be: who finds out, and what each is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from mpc_spearman.errors import PeerDied, PeerFailed, ProtocolViolation
from support import faults
from support.in_memory import Ended, run_in_memory
from support.plans import plan
from support.references import normal_tables

TABLES = normal_tables()


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
    ended = run_with("A", faults.on_payload, kind="DESCRIPTION", change="long", to="C")
    text = "invalid DESCRIPTION message in phase describe: 8 bytes follow its last field"
    check_violated(ended, "A", {"C": text})
    assert type(ended.errors["B"]) is PeerFailed
    assert ended.errors["B"].about == ("ProtocolViolation", "C", "describe")


def test_truncated() -> None:
    ended = run_with("B", faults.on_payload, kind="MASKED", change="short", to="A")
    check_violated(ended, "B", {"A": "field 'block' needs 240 bytes, 239 are left"})
    assert ended.errors["C"].about == ("ProtocolViolation", "A", "share")


#: What A changes, in messages of which kind, who receives it, and what is said.
CHANGES = [
    (faults.on_header, "unknown kind", "HELLO", "BC", "a message of unknown kind 99 arrived"),
    (faults.on_header, "unknown kind", "SHARE", "C", "a message of unknown kind 99 arrived"),
    (
        faults.on_header,
        "other kind",
        "SHAPE",
        "B",
        "SHARE from A (source) to B (target) is not in the view table",
    ),
    (
        *(faults.on_header, "other kind", "SHAPE", "C"),
        "sent SHARE while C (coordinator) waited for SHAPE in phase agree",
    ),
    (faults.on_header, "version", "ALIGNMENT", "B", "a frame of format version 2 arrived"),
    (faults.on_header, "number", "MASKED", "B", "where number"),
    (
        faults.on_header,
        "length",
        "SHARE",
        "C",
        "a SHARE message of 1152921504606846976 bytes was announced, more than",
    ),
    (faults.on_header, "garbage", "HELLO", "BC", "not a frame of this protocol"),
    (faults.on_header, "garbage", "ALIGNMENT", "B", "what arrived is not a frame of this protocol"),
    (faults.on_header, "garbage short", "SHARE", "C", "not a frame of this protocol"),
    (faults.on_header, "garbage long", "ALIGNMENT", "B", "not a frame of this protocol"),
    (faults.on_payload, "short", "HELLO", "BC", "field 'nonce' needs 32 bytes, 31 are left"),
    (faults.on_payload, "long", "HELLO", "BC", "8 bytes follow its last field"),
    (faults.on_payload, "empty", "HELLO", "BC", "field 'version' needs 4 bytes, 0 are left"),
    (faults.on_payload, "huge", "SHAPE", "BC", "a SHAPE message of 4194304 bytes was announced, more than"),
    (faults.on_payload, "empty", "SHARE", "C", "field 'share' needs 12 bytes, 0 are left"),
    (faults.on_payload, "long", "COST", "C", "bytes was announced, more than"),
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
    ended = run_with("A", faults.on_payload, kind="FAREWELL", change="long", to="BC")
    # Who had said farewell to all by then may be done.
    violated = [error for error in ended.errors.values() if type(error) is ProtocolViolation]
    assert violated
    assert "a FAREWELL message of 72 bytes was announced, more than" in str(violated[0])
    assert len(ended.errors) + len(ended.results) == 3
