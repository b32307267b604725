"""The codec: it reads what it wrote, and nothing else."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest

from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role
from mpc_spearman.wire.kinds import Field, Kind
from mpc_spearman.wire.messages import MAX_BLOB, MAX_NAME, MAX_PAYLOAD, MAX_TEXT, decode, encode, largest
from support.messages import PLANS, sent_of


def test_every_field_of_the_view_table_is_sent_under_some_plan() -> None:
    for row in VIEW.rows:
        sent = {field for plan in PLANS for fields in sent_of(row, plan) for field in fields}
        assert sent == set(row.fields), row.kind


def test_no_message_has_two_fields_of_one_name() -> None:
    for row in VIEW.rows:
        for plan in PLANS:
            for fields in sent_of(row, plan):
                assert len({field.name for field in fields}) == len(fields), (row.kind, plan)


# ---- what cannot be read


def text(raw: bytes) -> memoryview:
    return memoryview(len(raw).to_bytes(4, "big") + raw)


@pytest.mark.parametrize("raw", [b"\xff", b"caf\xe9", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"])
@pytest.mark.parametrize("field", [Field("t", "text"), Field("t", "texts", (1,))])
def test_text_that_is_not_utf_8_is_refused(field: Field, raw: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="field 't' is not UTF-8"):
        decode([field], {}, text(raw))


@pytest.mark.parametrize("flag", [2, 128, 255])
def test_a_flag_other_than_0_and_1_is_refused(flag: int) -> None:
    with pytest.raises(ProtocolViolation, match="neither 0 nor 1"):
        decode([Field("f", "flags", (3,))], {}, memoryview(bytes([0, flag, 1])))


@pytest.mark.parametrize(
    ("field", "length", "problem"),
    [
        (Field("t", "text"), MAX_TEXT + 1, "announces 1048577 bytes"),
        (Field("t", "text"), 2**32 - 1, "announces 4294967295 bytes"),
        (Field("t", "text"), MAX_TEXT, "needs 1048576 bytes, 3 are left"),
        (Field("t", "texts", (2,)), MAX_NAME + 1, "announces 1025 bytes"),
        (Field("t", "texts", (2,)), MAX_NAME, "needs 1024 bytes, 3 are left"),
        (Field("t", "blob"), MAX_BLOB + 1, "announces 8388609 bytes"),
    ],
)
def test_a_huge_announced_length_takes_no_memory(field: Field, length: int, problem: str) -> None:
    payload = memoryview(struct.pack("!I3s", length, b"abc"))
    assert allocated(field, {}, payload, problem) < 1_000_000


@pytest.mark.parametrize("kind", ["texts", "bytes", "int64", "float64", "flags"])
def test_a_huge_agreed_size_takes_no_memory(kind: Any) -> None:
    field = Field("t", kind, ("m_source", "m_target"))
    dimensions = {"m_source": 2**40, "m_target": 2**40}
    assert allocated(field, dimensions, memoryview(bytes(3)), "are left") < 1_000_000
    assert largest([field], dimensions) == MAX_PAYLOAD


def allocated(field: Field, dimensions: dict[str, int], payload: memoryview, problem: str) -> int:
    """Return how many bytes are allocated at most while a payload is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation, match=problem):
            decode([field], dimensions, payload)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_arrays_are_not_copied_and_cannot_be_written_to() -> None:
    payload = encode([Field("a", "int64", (3,))], {}, {"a": np.arange(3)})
    (array,) = decode([Field("a", "int64", (3,))], {}, memoryview(payload)).values()
    assert not array.flags.owndata
    assert not array.flags.writeable


# ---- what cannot be written


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("x", "text"), "é" * (MAX_TEXT // 2 + 1)),
        (Field("x", "texts", (1,)), ["é" * (MAX_NAME // 2 + 1)]),
        (Field("x", "blob"), bytes(MAX_BLOB + 1)),
        (Field("x", "bytes", (MAX_PAYLOAD + 1,)), bytes(MAX_PAYLOAD + 1)),
    ],
)
def test_messages_too_long_to_be_accepted_are_not_sent(field: Field, value: Any) -> None:
    with pytest.raises(BoundError, match=r"longer than|does not fit"):
        encode([field], {}, {"x": value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("x", "text"), "é" * (MAX_TEXT // 2)),
        (Field("x", "texts", (1,)), ["é" * (MAX_NAME // 2)]),
        (Field("x", "blob"), bytes(MAX_BLOB)),
    ],
)
def test_the_longest_that_is_sent_is_accepted(field: Field, value: Any) -> None:
    payload = encode([field], {}, {"x": value})
    assert len(payload) == largest([field], {})
    assert decode([field], {}, memoryview(payload)) == {"x": value}


def test_unknown_dimensions_allow_no_more_than_a_frame() -> None:
    assert largest([Field("x", "int64", ("n",))], {}) == MAX_PAYLOAD
    assert largest([Field("x", "int64", ("n",))], {"n": 7}) == 56
    assert largest([], {}) == 0


def test_sources_exchange_only_messages_that_all_exchange() -> None:
    common = {Kind.KEEPALIVE, Kind.ABORT, Kind.HELLO, Kind.CONFIRM, Kind.SHAPE, Kind.COLUMNS, Kind.FAREWELL}
    for plan in PLANS:
        allowed = {k for k in Kind if VIEW.fields(plan, k, Role.SOURCE, Role.SOURCE) is not None}
        assert allowed == common


def test_no_plan_lets_sources_and_coordinator_exchange_blocks_of_ranks() -> None:
    for plan in PLANS:
        for kind in (Kind.MASKED, Kind.ALIGNMENT):
            assert VIEW.fields(plan, kind, Role.SOURCE, Role.COORDINATOR) is None
            assert VIEW.fields(plan, kind, Role.COORDINATOR, Role.SOURCE) is None
