"""Arbitrary bytes arrive at the codec or on a link.

The outcome is one of our own errors or nothing, in bounded memory, and never an endless wait.
"""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import MpcSpearmanError, ProtocolViolation
from mpc_spearman.levels.view import VIEW
from mpc_spearman.wire.channel import HEADER, MAX_QUEUED, Channel, Header
from mpc_spearman.wire.kinds import Field, Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD, decode, encode, largest
from mpc_spearman.wire.meter import Meter
from support.memory_network import HELLO, PLAN, SHAPE, A, C, Network
from support.messages import PLANS, assert_equal, messages, sent_of

#: Changes to a string of bytes: what is done, where, and bytes for it.
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "replace", "repeat", "length"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=30),
    ),
    max_size=4,
)


def mutated(data: bytes, mutations: list[tuple[str, float, bytes]]) -> bytes:
    for change, where, new in mutations:
        i = int(where * len(data))
        tail = data[i + len(new) :]
        data = {
            "flip": data[:i] + bytes(a ^ b for a, b in zip(data[i:], new, strict=False)) + tail,
            "cut": data[:i] + tail,
            "insert": data[:i] + new + data[i:],
            "replace": data[:i] + new + tail,
            "repeat": data[:i] + data[max(0, i - 8 * len(new)) :],
            "length": data[:i] + (new + bytes(8))[:8] + data[i + 8 :],
        }[change]
    return data


# ---- the codec


@cache
def forms(row: Row) -> list[tuple[Field, ...]]:
    """Return the fields that a message can have under any plan."""
    return sorted(set().union(*(sent_of(row, plan) for plan in PLANS)), key=repr)


@pytest.mark.parametrize("row", VIEW.rows, ids=lambda row: f"{row.kind.name}-{row.senders[0].value}")
@settings(max_examples=30)
@given(data=st.data())
def test_messages_are_decoded_and_other_bytes_refused_in_little_memory(row: Row, data: st.DataObject) -> None:
    fields, dimensions, values = data.draw(messages(data.draw(st.sampled_from(forms(row)))))
    whole = encode(fields, dimensions, values)
    assert len(whole) <= largest(fields, dimensions)
    assert_equal(decode(fields, dimensions, memoryview(whole)), values)
    payload = mutated(whole, data.draw(MUTATIONS))
    tracemalloc.start()
    try:
        with suppress(ProtocolViolation):
            assert encode(fields, dimensions, decode(fields, dimensions, memoryview(payload))) == payload
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# ---- a link


class Tape:
    """A transport with a fixed string of bytes to receive; `largest` is the most that was asked for."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset, self.largest = data, 0, 0

    def send(self, rank: int, header: bytes, payload: bytes) -> None:
        raise AssertionError

    def receive(self, rank: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        self.largest = max(self.largest, size)
        if self._offset + size > len(self._data):
            raise ConnectionResetError("closed by the peer")
        self._offset += size
        on_arrival()
        return memoryview(self._data)[self._offset - size : self._offset]

    def set_send_timeout(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


def stream() -> bytes:
    """Return valid frames of several kinds from A to C."""
    parts = []
    sent: list[tuple[Kind, dict[str, Any]]] = [
        (Kind.HELLO, HELLO),
        (Kind.KEEPALIVE, {}),
        (Kind.SHAPE, SHAPE),
        (Kind.SHAPE, SHAPE),
        (Kind.KEEPALIVE, {}),
        (Kind.FAREWELL, {"signature": bytes(64)}),
    ]
    for number, (kind, values) in enumerate(sent):
        fields = VIEW.fields(PLAN, kind, A.role, C.role)
        assert fields is not None
        payload = encode(fields, {}, values)
        parts += [Header(kind, number, number, len(payload)).pack(), payload]
    return b"".join(parts)


@pytest.fixture(scope="module")
def link() -> Iterator[Channel]:
    """A link of C with A, for what it allows and how it reads an abort."""
    network = Network()
    yield network.links[C]._channels[A]
    network.close()


@pytest.mark.parametrize("examples", [200, pytest.param(2000, marks=pytest.mark.long)], ids=["quick", "long"])
def test_any_stream_ends_a_link_with_our_own_error(link: Channel, examples: int) -> None:
    right = stream()
    failures: set[str] = set()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(MUTATIONS)
    def check(mutations: list[tuple[str, float, bytes]]) -> None:
        tape = Tape(mutated(right, mutations))
        channel = Channel(
            A, tape, Meter(), threading.Condition(), 5.0, limit=link._limit, read_abort=link._read_abort
        )
        channel._run(channel._receive_frames)
        failures.add(type(channel.failure).__name__)
        assert channel.failure is None or isinstance(channel.failure, MpcSpearmanError)
        assert channel.failure is not None or channel._received_farewell
        assert tape.largest <= MAX_PAYLOAD
        assert len(channel._inbox) <= MAX_QUEUED
        for header, payload in channel._inbox:
            fields = VIEW.fields(PLAN, header.kind, A.role, C.role)
            assert fields is not None
            if header.kind not in (Kind.HELLO, Kind.SHAPE, Kind.FAREWELL):
                return  # a receiver waits for one kind, and reads no other
            try:
                decode(fields, {}, payload)
            except ProtocolViolation:
                return

    check()
    # What else turns up depends on what is drawn.
    assert "ProtocolViolation" in failures


@settings(max_examples=300)
@given(st.binary(min_size=HEADER, max_size=HEADER), st.integers(0, 2**64 - 1))
def test_any_header_is_read_exactly_or_refused(raw: bytes, number: int) -> None:
    due = b"MS\x01\x03" + raw[4:8] + number.to_bytes(8, "big") + raw[16:]
    for candidate in (raw, b"MS\x01" + raw[3:], due):
        with suppress(ProtocolViolation):
            assert Header.unpack(candidate, number).pack() == candidate
