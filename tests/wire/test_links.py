"""Links: who is blamed for what, how long anything is waited for, and what is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mpc_spearman.errors import (
    ERRORS,
    AlignmentError,
    BoundError,
    DisclosureError,
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    OutputError,
    PeerDied,
    PeerFailed,
    PeerTimeout,
    PlanMismatch,
    PolicyError,
    ProtocolViolation,
    TableError,
)
from mpc_spearman.parties import Party
from mpc_spearman.wire import channel as channel_module
from mpc_spearman.wire.channel import MAX_QUEUED
from mpc_spearman.wire.disclosure import fields
from mpc_spearman.wire.frames import HEADER, Header
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import encode
from support.memory_network import DIGEST, HELLO, PLAN, SHAPE, A, B, C, Network
from support.processes import EVER, eventually

Make = Callable[..., Network]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Network] = []

    def network(**settings: Any) -> Network:
        made.append(Network(**settings))
        return made[-1]

    yield network
    for each in made:
        each.close()


# ---- keep-alives and silence


def test_keep_alives_are_heard_for_as_long_as_a_party_computes_and_metered_apart(make: Make) -> None:
    network = make(timeout=1.0)
    meter = network.meters[A]
    eventually(lambda: meter.costs["keep-alive"].messages >= 2 * 12)  # 3 time-outs, to two peers
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


def test_a_silent_peer_is_named_with_who_waited_for_whom_and_in_which_phase(make: Make) -> None:
    network = make(timeout=1.5, silent=(A,))
    begin = time.monotonic()
    with network.meters[C].phase("agree"), pytest.raises(PeerTimeout) as raised:
        network.links[C].receive(A, Kind.SHAPE)
    assert time.monotonic() - begin > 1.2
    assert str(raised.value) == (
        "A (source) sent nothing for 1.5 s, not even a keep-alive "
        "[C (coordinator), waiting for SHAPE from A (source) in phase agree]"
    )
    assert raised.value.about == ("PeerTimeout", "A", "agree")


def test_a_silent_peer_ends_also_the_wait_for_another_and_a_computation(make: Make) -> None:
    network = make(timeout=1.5, silent=(A,))
    with pytest.raises(
        PeerTimeout, match=r"^A \(source\) sent nothing .* waiting for SHAPE from B \(target\)"
    ):
        network.links[C].receive(B, Kind.SHAPE)
    eventually(lambda: network.links[B]._channels[A].failure is not None)
    with (
        network.meters[B].phase("rank"),
        pytest.raises(PeerTimeout, match=r"B \(target\), computing in phase"),
    ):
        network.links[B].check()


def test_waiting_is_charged_as_waiting(make: Make) -> None:
    network = make()
    timer = threading.Timer(0.3, network.links[A].send, (C, Kind.SHAPE, SHAPE))
    with network.meters[C].phase("agree"):
        timer.start()
        network.links[C].receive(A, Kind.SHAPE)
        time.sleep(0.1)
    cost = network.meters[C].costs["agree"]
    assert cost.wait_seconds > 0.2
    assert cost.seconds > 0.09


# ---- peers that are gone or stop


def test_a_closed_connection_is_a_dead_peer(make: Make) -> None:
    network = make()
    threading.Timer(0.2, network.cut, (A,)).start()
    with network.meters[C].phase("describe"), pytest.raises(PeerDied) as raised:
        network.links[C].receive(A, Kind.SHAPE)
    assert str(raised.value) == (
        "the connection to A (source) is gone (closed by the peer) "
        "[C (coordinator), waiting for SHAPE from A (source) in phase describe]"
    )
    assert raised.value.about == ("PeerDied", "A", "describe")


def test_what_came_before_the_end_is_still_read(make: Make) -> None:
    network = make()
    network.links[A].send(C, Kind.SHAPE, SHAPE)
    eventually(lambda: len(network.links[C]._channels[A]._inbox) == 1)
    network.cut(A)
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    assert network.links[C].receive(A, Kind.SHAPE)["n"] == [9]
    with pytest.raises(PeerDied):
        network.links[C].receive(A, Kind.SHAPE)


OWN = [TableError, DisclosureError, PolicyError, BoundError, OutputError, ProtocolViolation, NetworkError]
SHARED = [HandshakeError, PlanMismatch, AlignmentError]


@pytest.mark.parametrize(
    ("error", "heard", "name"),
    [
        *((cls("column 'salary'"), PeerFailed, cls.__name__) for cls in OWN),
        *((cls("column 'salary'"), cls, cls.__name__) for cls in SHARED),
        (ZeroDivisionError("column 'salary'"), PeerFailed, "MpcSpearmanError"),
        (KeyboardInterrupt("column 'salary'"), PeerFailed, "MpcSpearmanError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_peers_hear_the_class_and_the_phase_of_an_error_and_nothing_of_its_text(
    make: Make, error: BaseException, heard: type[MpcSpearmanError], name: str
) -> None:
    network = make()
    with pytest.raises(type(error)), network.meters[A].phase("load"):
        raise error
    network.links[A].abort(error)
    for peer in (B, C):
        with pytest.raises(heard) as raised:
            network.links[peer].receive(A, Kind.SHAPE)
        assert type(raised.value) is heard
        assert raised.value.about == (name, "A", "load")
        assert f"party A stopped in phase load: {ERRORS[name].public} ({name}) [" in str(raised.value)
    assert b"salary" not in network.wire(A, B).log + network.wire(A, C).log


@pytest.mark.parametrize(
    ("error", "heard", "text"),
    [
        (TableError("x"), PeerFailed, "party A stopped in phase load: its table was refused (TableError)"),
        (AlignmentError("x"), AlignmentError, "party A stopped in phase load: the parties' rows are not"),
        (
            PeerDied("x", ("PeerDied", "A", "load")),
            PeerDied,
            "B (target) reports a lost connection with party A (Pe",
        ),
        (
            PeerTimeout("x", ("PeerTimeout", "A", "load")),
            PeerTimeout,
            "reports a lost connection with party A (P",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_that_is_passed_on_still_names_the_party_it_began_at(
    make: Make, error: MpcSpearmanError, heard: type[MpcSpearmanError], text: str
) -> None:
    network = make()
    name = type(error).__name__
    if error.about is None:
        # A can tell B only; B tells C.
        network.meters[A].current = "load"
        network.wire(A, C).mute = True
        network.links[A].abort(error)
        with pytest.raises(heard) as raised:
            network.links[B].receive(A, Kind.SHAPE)
        error = raised.value
    network.meters[B].current = "rank"
    network.links[B].abort(error)
    with pytest.raises(heard) as told:
        network.links[C].receive(B, Kind.SHAPE)
    assert text in str(told.value)
    assert told.value.about == (name, "A", "load")


def test_a_party_that_others_have_lost_is_not_told_that_it_is_lost(make: Make) -> None:
    network = make()
    network.links[A].abort(PeerTimeout("x", ("PeerTimeout", "B", "load")))
    with pytest.raises(PeerTimeout, match=r"a lost connection with party B \(PeerTimeout\)"):
        network.links[C].receive(A, Kind.SHAPE)
    with pytest.raises(PeerTimeout) as raised:
        network.links[B].receive(A, Kind.SHAPE)
    assert "A (source) reports a lost connection with this party (PeerTimeout): it is still there" in str(
        raised.value
    )
    assert "party B" not in str(raised.value)
    assert raised.value.about == ("PeerTimeout", "B", "load")


@pytest.mark.parametrize("first", [A, B])
def test_why_a_party_stopped_is_shown_before_that_it_is_gone(first: Party, make: Make) -> None:
    """Whichever of the two is known first."""
    network = make()
    links = network.links[C]
    steps = {A: lambda: network.links[A].abort(TableError("x")), B: lambda: network.cut(B)}
    for peer in (first, *({A, B} - {first})):
        steps[peer]()
        eventually(lambda peer=peer: links._channels[peer].failure is not None)
    with pytest.raises(PeerFailed, match="party A stopped"):
        links.check()


@pytest.mark.parametrize(
    "values", [("Oops", "A", "load"), ("TableError", "D", "load"), ("TableError", "A", "lunch")]
)
def test_an_abort_that_makes_no_sense(make: Make, values: tuple[str, str, str]) -> None:
    network = make()
    abort = fields(PLAN, Kind.ABORT, A.role, C.role)
    assert abort is not None
    payload = encode(abort, {}, dict(zip(("error", "party", "phase"), values, strict=True)))
    network.wire(A, C).send(Header(Kind.ABORT, 0, 0, len(payload)).pack() + payload)
    with pytest.raises(ProtocolViolation, match=r"A \(source\) stopped with a message that makes no sense"):
        network.links[C].receive(A, Kind.SHAPE)


def test_an_abort_is_not_held_up_by_a_peer_that_is_gone(make: Make) -> None:
    network = make(last_words=EVER)
    network.cut(B)
    eventually(lambda: network.links[A]._channels[B].failure is not None)
    network.links[A].abort(TableError("x"))
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    assert isinstance(network.links[C]._channels[A].failure, PeerFailed)


def test_last_words_that_nobody_listens_to_are_given_up(make: Make) -> None:
    network = make(capacity=0, last_words=0.3)
    begin = time.monotonic()
    network.links[A].abort(TableError("x"))
    assert time.monotonic() - begin > 0.25


def test_how_parties_differ_is_still_heard_where_another_has_stopped_because_of_it(make: Make) -> None:
    network = make(last_words=EVER)
    network.links[A].abort(PlanMismatch("x"))
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    threading.Timer(0.3, network.links[B].send, (C, Kind.HELLO, HELLO)).start()
    assert network.links[C].receive(B, Kind.HELLO)["plan"] == "{}"
    with pytest.raises(PlanMismatch):
        network.links[C].receive(A, Kind.HELLO)


def test_it_is_waited_for_no_longer_than_for_last_words(make: Make) -> None:
    network = make(last_words=0.4)
    network.links[A].abort(PlanMismatch("x"))
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    begin = time.monotonic()
    with pytest.raises(PlanMismatch, match=r"party A stopped .* waiting for HELLO from B \(target\)"):
        network.links[C].receive(B, Kind.HELLO)
    assert time.monotonic() - begin > 0.35


def test_any_other_failure_ends_a_wait_for_another_peer_at_once(make: Make) -> None:
    network = make(last_words=EVER)
    network.links[A].abort(TableError("x"))
    with pytest.raises(PeerFailed):
        network.links[C].receive(B, Kind.HELLO)


# ---- floods


def test_a_flood_of_frames_stays_bounded_and_a_full_queue_is_no_time_out(make: Make) -> None:
    network = make(timeout=1.5, capacity=100)
    sent = 0

    def flood() -> None:
        nonlocal sent
        for _ in range(MAX_QUEUED * 3):
            network.links[A].send(C, Kind.SHAPE, SHAPE)
            sent += 1

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    inbox = network.links[C]._channels[A]._inbox
    eventually(lambda: len(inbox) == MAX_QUEUED)
    time.sleep(3 * 1.5)
    assert len(inbox) == MAX_QUEUED
    assert sent < MAX_QUEUED + 10  # the sender is held up as well
    network.links[C].check()  # no time-out, although nothing more was taken off the wire
    for _ in range(MAX_QUEUED * 3):
        network.links[C].receive(A, Kind.SHAPE)
    thread.join(EVER)
    assert sent == MAX_QUEUED * 3


def test_frames_that_wait_take_no_more_than_the_longest_frame_may(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_PAYLOAD", 100)
    network = make()
    for _ in range(8):
        network.links[A].send(C, Kind.SHAPE, SHAPE)
    inbox = network.links[C]._channels[A]._inbox
    eventually(lambda: len(inbox) == 2)
    time.sleep(0.3)
    assert len(inbox) == 2  # of 56 bytes each
    for _ in range(8):
        network.links[C].receive(A, Kind.SHAPE)


def test_a_send_that_waits_ends_when_the_peer_dies(make: Make) -> None:
    network = make(capacity=1)
    caught: list[MpcSpearmanError] = []

    def flood() -> None:
        try:
            while True:
                network.links[A].send(C, Kind.SHAPE, SHAPE)
        except MpcSpearmanError as error:
            caught.append(error)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    eventually(lambda: network.links[A]._channels[C].backlog() > 2)
    network.cut(C)
    thread.join(EVER)
    assert isinstance(caught[0], PeerDied)
    assert "A (source), sending to C (coordinator) in phase connect" in str(caught[0])


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


def test_farewell_ends_all_threads_and_what_closes_later_is_no_failure(make: Make) -> None:
    before = set(threading.enumerate())
    network = make()
    all_close(network)
    eventually(lambda: set(threading.enumerate()) <= before)
    network.cut(A)
    for links in network.links.values():
        links.check()
    for meter in network.meters.values():
        assert meter.costs["account"].bytes_sent == 2 * (HEADER + 16)
        assert sum(cost.bytes_sent for cost in meter.costs.values()) == 2 * (HEADER + 16)


def test_who_has_said_farewell_may_be_silent_and_gone_while_others_still_work(make: Make) -> None:
    network = make(timeout=1.0)
    network.links[A].send(C, Kind.FAREWELL, {})
    eventually(lambda: len(network.links[C]._channels[A]._inbox) == 1)
    network.wire(C, A).close()
    time.sleep(2.5)
    network.links[B].send(C, Kind.FAREWELL, {})
    network.links[C].check()
    network.links[C].close()


def test_nobody_leaves_before_all_have_said_farewell(make: Make) -> None:
    network = make()
    leaving = threading.Thread(target=network.links[A].close, daemon=True)
    leaving.start()
    network.links[B].send(A, Kind.FAREWELL, {})
    leaving.join(0.5)
    assert leaving.is_alive()
    network.links[C].send(A, Kind.FAREWELL, {})
    leaving.join(EVER)
    assert not leaving.is_alive()


def test_all_that_parties_say_they_sent_is_what_others_say_they_received(make: Make) -> None:
    network = make(timeout=2.0)
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
    assert crossed == sum(cost.bytes_sent for each in costs for cost in each.values())
