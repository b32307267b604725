"""Links: who is blamed for what, how long each wait may last, and what is counted."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mpc_spearman.errors import MpcSpearmanError, PeerDied, PeerTimeout
from mpc_spearman.parties import Party
from mpc_spearman.wire.channel import HEADER, MAX_QUEUED, Header
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.messages import MAX_PAYLOAD
from support.memory_network import DIGEST, SHAPE, A, B, C, Make, Network
from support.processes import EVER, eventually

# ---- keep-alives and silence


def silence_a(network: Network, member: Party) -> None:
    """Make a party's link with A silent for longer than any time-out; links check this once a second."""
    network.links[member]._channels[A]._last_arrival = float("-inf")


def test_a_computing_party_sends_keep_alives_that_are_metered_apart(make: Make) -> None:
    network = make(keepalive=0.1)
    meter = network.meters[A]
    eventually(lambda: meter.costs["keep-alive"].messages >= 2 * 8)  # to two peers
    for links in network.links.values():
        links.check()
    for wire in (network.wire(A, B), network.wire(A, C)):
        log = bytes(wire.log)
        frames = [Header.unpack(log[i : i + HEADER], i // HEADER) for i in range(0, len(log), HEADER)]
        assert {(frame.kind, frame.length) for frame in frames} == {(Kind.KEEPALIVE, 0)}
    counted = {phase for phase, cost in meter.costs.items() if cost.bytes_sent or cost.bytes_received}
    assert counted == {"keep-alive"}
    assert meter.depth == 0
    # A message among them has the number that is due.
    network.links[A].send(C, Kind.SHAPE, SHAPE)
    assert network.links[C].receive(A, Kind.SHAPE)["n"] == [9]


def test_a_silent_peer_is_named_with_the_waiting_party_and_phase(make: Make) -> None:
    network = make(silent=(A,))
    silence_a(network, C)
    with network.meters[C].phase("agree"), pytest.raises(PeerTimeout) as raised:
        network.links[C].receive(A, Kind.SHAPE)
    assert str(raised.value) == (
        "A (source) sent nothing for 60 s, not even a keep-alive "
        "[C (coordinator), waiting for SHAPE from A (source) in phase agree]"
    )
    assert raised.value.about == ("PeerTimeout", "A", "agree")


def test_a_silent_peer_ends_waits_for_others_and_computations(make: Make) -> None:
    network = make(silent=(A,))
    silence_a(network, C)
    silence_a(network, B)
    with pytest.raises(
        PeerTimeout, match=r"^A \(source\) sent nothing .* waiting for SHAPE from B \(target\)"
    ):
        network.links[C].receive(B, Kind.SHAPE)
    eventually(lambda: network.links[B]._channels[A].silence > 1.5)
    with (
        network.meters[B].phase("rank"),
        pytest.raises(PeerTimeout, match=r"B \(target\), computing in phase"),
    ):
        network.links[B].check()


# ---- floods


def test_a_flood_of_frames_is_bounded_and_causes_no_time_out(make: Make) -> None:
    network = make(capacity=100)
    sent = 0

    def flood() -> None:
        nonlocal sent
        for _ in range(MAX_QUEUED * 3):
            network.links[A].send(C, Kind.SHAPE, SHAPE)
            sent += 1

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    channel = network.links[C]._channels[A]
    eventually(lambda: channel._queue_full)
    silence_a(network, C)
    time.sleep(1.5)
    assert len(channel._inbox) == MAX_QUEUED
    assert sent < MAX_QUEUED + 10  # the sender is held up as well
    network.links[C].check()  # no time-out, although nothing more was taken off the wire
    channel._note_arrival()
    for _ in range(MAX_QUEUED * 3):
        network.links[C].receive(A, Kind.SHAPE)
    thread.join(EVER)
    assert sent == MAX_QUEUED * 3


def test_waiting_frames_take_no_more_memory_than_the_longest_frame(make: Make) -> None:
    channel = make().links[C]._channels[A]
    half = Header(Kind.SHARE, 0, 0, MAX_PAYLOAD // 2), memoryview(b"")
    for has_space in (True, True, False):
        assert channel._queue_has_space() is has_space
        channel._inbox.append(half)


def flood(links: Links) -> None:
    while True:
        links.send(C, Kind.SHAPE, SHAPE)


def test_a_send_that_waits_ends_when_the_peer_dies(make: Make) -> None:
    network = make(capacity=1)
    caught: list[MpcSpearmanError] = []

    def send() -> None:
        try:
            flood(network.links[A])
        except MpcSpearmanError as error:
            caught.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    eventually(lambda: network.links[A]._channels[C].backlog() > 2)
    network.cut(C)
    thread.join(EVER)
    assert isinstance(caught[0], PeerDied)
    assert "A (source), sending to C (coordinator) in phase connect" in str(caught[0])


def test_a_peer_that_sends_only_keep_alives_times_out(make: Make) -> None:
    network = make(capacity=1)
    links = network.links[A]
    links._longest = 0.5
    with network.meters[A].phase("agree"), pytest.raises(PeerTimeout, match="signs of life") as waiting:
        links.receive(C, Kind.FAREWELL)
    assert waiting.value.about == ("PeerTimeout", "C", "agree")
    with pytest.raises(PeerTimeout, match="has not taken SHAPE"):
        flood(links)


# ---- rounds


def pass_on(network: Network, sender: Party, receiver: Party, **more: Any) -> None:
    network.links[sender].send(receiver, Kind.SHAPE, SHAPE, **more)
    network.links[receiver].receive(sender, Kind.SHAPE)


def rounds(network: Network, member: Party) -> dict[str, int]:
    return {phase: cost.rounds for phase, cost in network.meters[member].costs.items() if cost.rounds}


def test_a_round_is_one_hop_in_the_longest_chain(make: Make) -> None:
    network = make()
    # Both data parties send to each other and to C at once: one round, however many messages.
    hops = ((A, B), (B, A), (A, C), (B, C))
    for sender, receiver in hops:
        network.links[sender].send(receiver, Kind.SHAPE, SHAPE)
    for sender, receiver in hops:
        network.links[receiver].receive(sender, Kind.SHAPE)
    assert [rounds(network, member) for member in (C, B, A)] == [{"connect": 1}] * 3
    # A answers B, B tells C: two more at C, charged to the phase C is in.
    pass_on(network, A, B)
    assert network.meters[B].depth == 2
    with network.meters[C].phase("agree"):
        pass_on(network, B, C)
        assert network.meters[C].depth == 3
        # What is no longer than the longest chain so far adds nothing.
        pass_on(network, A, C)
    assert rounds(network, C) == {"connect": 1, "agree": 2}
    assert rounds(network, A) == {"connect": 1}


def test_a_message_may_depend_on_less_than_all_that_was_received(make: Make) -> None:
    network = make()
    pass_on(network, A, B)
    pass_on(network, B, C, depth=0)
    assert network.meters[C].depth == 1
    pass_on(network, B, C)
    assert network.meters[C].depth == 2


# ---- the end


def all_close(network: Network) -> None:
    ends = [threading.Thread(target=links.close) for links in network.links.values()]
    for end in ends:
        end.start()
    for end in ends:
        end.join(EVER)
        assert not end.is_alive()


def test_a_connection_that_closes_after_the_farewells_is_no_failure(make: Make) -> None:
    before = set(threading.enumerate())
    network = make()
    all_close(network)
    eventually(lambda: set(threading.enumerate()) <= before)
    network.cut(A)
    for links in network.links.values():
        links.check()
    for meter in network.meters.values():
        assert meter.costs["account"].bytes_sent == 2 * (HEADER + 64)
        assert {phase for phase, cost in meter.costs.items() if cost.bytes_sent} <= {"account", "keep-alive"}


def test_a_peer_may_leave_after_its_farewell_while_others_work(make: Make) -> None:
    network = make(keepalive=0.1)
    network.links[A].send(C, Kind.FAREWELL, {"signature": bytes(64)})
    channel = network.links[C]._channels[A]
    eventually(lambda: len(channel._inbox) == 1)
    network.wire(C, A).end(closed=True)
    silence_a(network, C)
    eventually(lambda: not any(thread.is_alive() for thread in channel._threads))
    time.sleep(1.5)
    network.links[B].send(C, Kind.FAREWELL, {"signature": bytes(64)})
    network.links[C].check()
    network.links[C].close()


def test_nobody_leaves_before_all_have_sent_a_farewell(make: Make) -> None:
    network = make()
    leaving = threading.Thread(target=network.links[A].close, daemon=True)
    leaving.start()
    network.links[B].send(A, Kind.FAREWELL, {"signature": bytes(64)})
    leaving.join(0.5)
    assert leaving.is_alive()
    network.links[C].send(A, Kind.FAREWELL, {"signature": bytes(64)})
    leaving.join(EVER)
    assert not leaving.is_alive()


def test_a_peer_without_a_farewell_does_not_delay_others_for_ever(make: Make) -> None:
    network = make()
    network.links[A]._farewell_timeout = 0.5
    network.links[B].send(A, Kind.FAREWELL, {"signature": b"b" * 64})
    eventually(lambda: len(network.links[A]._channels[B]._inbox) == 1)
    start = time.monotonic()
    assert network.links[A].close(b"a" * 64) == {"A": b"a" * 64, "B": b"b" * 64, "C": bytes(64)}
    assert time.monotonic() - start < EVER / 2
    assert network.links[A]._transport.hurried == 0.5  # type: ignore[attr-defined]
    eventually(lambda: network.links[C]._channels[A]._received_farewell)
    network.cut(A)
    network.links[C].check()  # it has had A's farewell


def test_a_peer_that_is_silent_before_its_farewell_is_lost(make: Make) -> None:
    network = make(silent=(A,))
    network.links[B].send(C, Kind.FAREWELL, {"signature": bytes(64)})
    threading.Timer(0.3, silence_a, (network, C)).start()
    with pytest.raises(PeerTimeout) as raised:
        network.links[C].close()
    assert raised.value.about == ("PeerTimeout", "A", "connect")


def test_parties_received_what_others_say_they_sent(make: Make) -> None:
    network = make(keepalive=0.1)
    for _ in range(5):
        pass_on(network, A, B)
        pass_on(network, B, C)
    network.links[A].send(B, Kind.ALIGNMENT, DIGEST)
    network.links[B].receive(A, Kind.ALIGNMENT)
    eventually(lambda: all(meter.costs["keep-alive"].messages > 3 for meter in network.meters.values()))
    all_close(network)
    costs = [meter.costs for meter in network.meters.values()]
    for phase in costs[0]:
        sent = sum(cost[phase].bytes_sent for cost in costs)
        assert sent == sum(cost[phase].bytes_received for cost in costs), phase
    crossed = sum(len(wire.log) for wire in network.wires.values())
    assert crossed == sum(cost.bytes_sent for phases in costs for cost in phases.values())
