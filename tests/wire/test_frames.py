"""Frames: what crosses a wire, and what is refused there."""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.wire.channel import HEADER, Header
from mpc_spearman.wire.kinds import Kind
from support.memory_network import SHAPE, A, B, C, Make

# ---- headers


def test_the_header_on_the_wire_is_the_documented_one() -> None:
    raw = Header(Kind.MASKED, 0x01020304, 5, 6).pack()
    assert raw == b"MS" + bytes([1, 6]) + bytes([1, 2, 3, 4]) + bytes(7) + b"\5" + bytes(7) + b"\6"
    assert len(raw) == HEADER


# ---- what crosses


def test_a_message_crosses_and_is_counted_alike_at_both_ends(make: Make) -> None:
    network = make()
    digest = bytes(range(32))
    network.links[A].send(B, Kind.ALIGNMENT, {"digest": digest})
    assert network.links[B].receive(A, Kind.ALIGNMENT) == {"digest": digest}
    size = HEADER + 32
    assert len(network.wire(A, B).log) == size
    sent, received = network.meters[A].costs["align"], network.meters[B].costs["align"]
    assert (sent.messages, sent.bytes_sent, sent.bytes_received) == (1, size, 0)
    assert (received.messages, received.bytes_sent, received.bytes_received) == (0, 0, size)


# ---- what does not


def test_a_message_of_an_unexpected_kind_is_refused(make: Make) -> None:
    network = make()
    network.links[A].send(C, Kind.SHAPE, SHAPE)
    problem = r"A \(source\) sent SHAPE while C \(coordinator\) waited for FAREWELL in phase connect"
    with pytest.raises(ProtocolViolation, match=problem):
        network.links[C].receive(A, Kind.FAREWELL)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"\xa5" * HEADER, "the bytes that arrived are not a frame of this protocol"),
        (Header(Kind.SHAPE, 0, 0, 9).pack()[:3] + b"\xff" + bytes(20), "unknown kind 255"),
        (Header(Kind.SHAPE, 0, 1, 9).pack(), "number 1 arrived where number 0 was due"),
        (
            Header(Kind.MASKED, 0, 0, 9).pack(),
            "MASKED from A (source) to C (coordinator) is not in the view table",
        ),
        (
            Header(Kind.RESULT, 0, 0, 9).pack(),
            "RESULT from A (source) to C (coordinator) is not in the view table",
        ),
        (
            Header(Kind.SHAPE, 0, 0, 2**63).pack(),
            "a SHAPE message of 9223372036854775808 bytes was announced",
        ),
        (Header(Kind.SHAPE, 0, 0, 33).pack(), "a SHAPE message of 33 bytes was announced"),
        (Header(Kind.KEEPALIVE, 0, 0, 1).pack(), "a KEEPALIVE message of 1 bytes was announced"),
        (Header(Kind.SHARE, 0, 0, 2**26 + 17).pack(), "a SHARE message of 67108881 bytes was announced"),
    ],
)
def test_a_bad_header_is_refused_before_the_payload_is_read(make: Make, header: bytes, problem: str) -> None:
    network = make()
    network.wire(A, C).send(header)
    # Also while C waits for another peer.
    with pytest.raises(ProtocolViolation) as raised:
        network.links[C].receive(B, Kind.SHAPE)
    text = str(raised.value)
    assert text.startswith("on the link with A (source): ")
    assert problem in text
    assert text.endswith("[C (coordinator), waiting for SHAPE from B (target) in phase connect]")
    assert network.wire(A, C).largest_request == HEADER


def test_a_message_that_the_table_does_not_list_is_not_sent(make: Make) -> None:
    network = make()
    with pytest.raises(ProtocolViolation, match="is not in the view table"):
        network.links[A].send(
            C, Kind.MASKED, {"block": np.zeros((1, 1), dtype=np.int64)}, sizes={"m_source": 1, "rows": 1}
        )
    assert network.wire(A, C).log == b""
