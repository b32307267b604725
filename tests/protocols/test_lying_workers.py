"""Workers that send wrong messages, or join the wrong meeting or run: all stop."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Plan
from mpc_spearman.errors import PlanMismatch, ProtocolViolation
from mpc_spearman.results.result import Result
from mpc_spearman.wire.kinds import Kind
from support.faults import Passing, Run, through
from support.in_memory import Ended, run_in_memory
from support.plans import PROTOCOLS, plan
from support.recorder import record
from support.references import normal_tables

TABLES = normal_tables()
PLAN = plan(shards=3)
HEADER = struct.Struct("!2sBBIQQ")
Change = Callable[[int, bytes], tuple[int, bytes]]  # of a message's kind and payload


def altering(run: Run, *given: Any, way: str, kind: str, change: Change, **seams: Any) -> Result:
    """Change what a worker sends of a kind, to other parties (`way` is join) or to its own (gather)."""

    def altered(number: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        magic, version, is_of, depth, count, _ = HEADER.unpack(header)
        if is_of == Kind[kind]:
            is_of, payload = change(is_of, payload)
        return [(HEADER.pack(magic, version, is_of, depth, count, len(payload)), payload)]

    return run(*given, **{**seams, way: through(seams[way], lambda carrier: Passing(carrier, altered))})


def run_with(label: str, its: Plan = PLAN, **lie: Any) -> Ended:
    return run_in_memory(its, TABLES, {label: partial(altering, **lie)})


def check(ended: Ended, error: type, *found_by: str) -> None:
    """Nobody has a result, and who should find it says so itself."""
    assert found(ended, error, *found_by) == set(found_by), ended.errors


def found(ended: Ended, error: type, *by: str) -> set[str]:
    """Nobody has a result; return who of these found the error itself, and did not hear of it first."""
    assert not ended.results
    assert len(ended.errors) == 9
    return {label for label in by if type(ended.errors[label]) is error}


def said(payload: bytes, change: Callable[[str], str]) -> bytes:
    """Change the text of a message within a party."""
    (length,) = struct.unpack_from("!I", payload)
    text = change(payload[4 : 4 + length].decode()).encode()
    return struct.pack("!I", len(text)) + text + payload[4 + length :]


@pytest.mark.parametrize(
    ("kind", "change", "found_by"),
    [
        ("MASKED", lambda kind, payload: (Kind.TASK, payload), "B/1"),
        ("MASKED", lambda kind, payload: (Kind.PART, payload), "B/1"),
        ("MASKED", lambda kind, payload: (Kind.SHARE, payload), "B/1"),
        ("MASKED", lambda kind, payload: (kind, payload[:-1]), "B/1"),
        ("MASKED", lambda kind, payload: (kind, bytes(1 << 20)), "B/1"),
    ],
)
def test_a_worker_of_another_party(kind: str, change: Change, found_by: str) -> None:
    check(run_with("A/1", way="join", kind=kind, change=change), ProtocolViolation, found_by)


def test_a_worker_that_confirms_nothing() -> None:
    ended = run_with("A/1", way="join", kind="CONFIRM", change=lambda kind, payload: (Kind.COST, payload))
    # It goes to both, and who reads it first tells the other.
    assert found(ended, ProtocolViolation, "B/1", "C/1")


TEXTS = [
    *("", "{", "[" * 90_000, "[1]", "{}"),
    *('{"type": "|O", "shape": [1]}', '{"type": ["<i8"], "shape": 3}'),
    *(
        f'{{"type": "<i8", "shape": {shape}}}'
        for shape in ("[1]", '["1"]', "[-1]", "[4294967296, 4294967296]")
    ),
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize(
    ("liar", "kind", "found_by"), [("A/1", "PART", ["A"]), ("A", "TASK", ["A/1", "A/2"])]
)
def test_nonsense_from_ones_own_worker(liar: str, kind: str, found_by: list[str], text: str) -> None:
    def change(kind: int, payload: bytes) -> tuple[int, bytes]:
        return kind, payload if b'"run"' in payload[:20] else said(payload, lambda _: text)

    assert found(run_with(liar, way="gather", kind=kind, change=change), ProtocolViolation, *found_by)


@pytest.mark.parametrize(
    ("of", "other"),
    [
        ('"rows": \\d+', '"rows": "7"'),
        ('"rows": \\d+', '"rows": -7'),
        ('"operation": "', '"operation": "no '),
        ('"value": \\d+', '"value": null'),
        ('"n": \\d+', '"n": [1]'),
        ('"type": "<i', '"type": "<f'),
    ],
)
def test_a_task_that_is_none(of: str, other: str) -> None:
    def change(kind: int, payload: bytes) -> tuple[int, bytes]:
        return kind, said(payload, lambda text: re.sub(of, other, text))

    assert found(run_with("A", way="gather", kind="TASK", change=change), ProtocolViolation, "A/1", "A/2")


@pytest.mark.parametrize(
    ("liar", "kind", "found_by"), [("A/1", "PART", ["A"]), ("A", "TASK", ["A/1", "A/2"])]
)
def test_a_part_of_another_size_than_the_ids(liar: str, kind: str, found_by: list[str]) -> None:
    text = b'{"type": "|u1", "shape": [3]}'
    three = struct.pack(f"!I{len(text)}sI3x", len(text), text, 3)

    def change(kind: int, payload: bytes) -> tuple[int, bytes]:
        return kind, payload if b'"run"' in payload[:20] else three

    ended = run_with(liar, plan(shards=3, alignment="intersect"), way="gather", kind=kind, change=change)
    assert found(ended, ProtocolViolation, *found_by)


LONGER = ('"shape": \\[\\d+', '"shape": [99999')


@pytest.mark.parametrize(
    ("liar", "kind", "found_by", "settings", "change"),
    [
        ("A", "TASK", ["A/1", "A/2"], {"alignment": "intersect"}, LONGER),
        ("B/1", "PART", ["B"], PROTOCOLS["paillier"], LONGER),
        ("A/1", "PART", ["A"], {}, ('"type": "<i8"', '"type": "<f8"')),
    ],
)
def test_a_part_that_is_not_what_it_says(
    liar: str, kind: str, found_by: list[str], settings: dict[str, Any], change: tuple[str, str]
) -> None:
    def changed(kind: int, payload: bytes) -> tuple[int, bytes]:
        return kind, said(payload, lambda text: re.sub(*change, text))

    ended = run_with(liar, plan(shards=3, **settings), way="gather", kind=kind, change=changed)
    assert found(ended, ProtocolViolation, *found_by)


def test_workers_whose_first_ones_are_in_another_run() -> None:
    def other(kind: int, payload: bytes) -> tuple[int, bytes]:
        return kind, said(payload, lambda text: re.sub('"run": "..', '"run": "zz', text))

    ended = run_with("A", way="gather", kind="TASK", change=other)
    finders = ("A/1", "B/1", "C/1", "A/2", "B/2", "C/2")
    check(ended, PlanMismatch, *finders)
    # Who has read what differs says so; others may have heard of it by then.
    assert any("run: " in str(ended.errors[label]) for label in finders), ended.errors


def test_a_worker_in_the_meeting_of_another_shard() -> None:
    def mixed(run: Run, *given: Any, shard: int, **seams: Any) -> Result:
        return run(*given, shard=1, **seams)

    check(run_in_memory(PLAN, TABLES, {"A/2": mixed}), PlanMismatch, "A/2", "B/2", "C/2")


def test_a_workers_message_from_another_run_is_refused(tmp_path: Path) -> None:
    run_in_memory(PLAN, TABLES, {"A/1": partial(record, directory=str(tmp_path))}).result()

    def frames(number: int) -> Iterator[tuple[bytes, bytes]]:
        raw = (tmp_path / "A" / "1" / f"to-{number}.bin").read_bytes()
        while raw:
            end = HEADER.size + HEADER.unpack(raw[: HEADER.size])[-1]
            yield raw[: HEADER.size], raw[HEADER.size : end]
            raw = raw[end:]

    before = {number: frames(number) for number in range(2)}

    def again(run: Run, *given: Any, join: Any, **seams: Any) -> Result:
        def played(number: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
            return list(before[number])[:1] or [(header, payload)]

        return run(*given, join=through(join, lambda carrier: Passing(carrier, played)), **seams)

    check(run_in_memory(PLAN, TABLES, {"A/1": again}), PlanMismatch, "B/1", "C/1")
