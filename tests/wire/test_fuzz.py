"""Anything at all arrives: at the codec, on a link, at a listening port, in the store where parties meet.

What comes of it is one of our own errors or nothing, in bounded memory, and never a wait without end.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import HandshakeError, MpcSpearmanError, NetworkError, PeerDied, ProtocolViolation
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire import handshake, rendezvous
from mpc_spearman.wire.certificates import make_certificates
from mpc_spearman.wire.channel import CLEAR, MAX_QUEUED, Channel
from mpc_spearman.wire.disclosure import VIEW, fields
from mpc_spearman.wire.frames import HEADER, Header
from mpc_spearman.wire.keys import Box
from mpc_spearman.wire.kinds import Kind, Row
from mpc_spearman.wire.messages import MAX_PAYLOAD, decode, encode
from mpc_spearman.wire.meter import Meter
from mpc_spearman.wire.sockets import Sockets
from mpc_spearman.wire.tcp_store import TcpStore
from mpc_spearman.wire.tls import Credentials
from support.memory_network import HELLO, PLAN, SHAPE, A, B, C, Network
from wire.test_messages import PLANS, _sent, messages

PARTIES = (C, B, A)
#: Changes to a string of bytes: what is done, where, and bytes for it.
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "replace", "repeat", "length"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=30),
    ),
    max_size=4,
)
quick_and_long = pytest.mark.parametrize(
    "examples", [200, pytest.param(2000, marks=pytest.mark.long)], ids=["quick", "long"]
)


def mutated(data: bytes, mutations: list[tuple[str, float, bytes]]) -> bytes:
    for what, where, given_bytes in mutations:
        i = int(where * len(data))
        rest = data[i + len(given_bytes) :]
        data = {
            "flip": data[:i] + bytes(a ^ b for a, b in zip(data[i:], given_bytes, strict=False)) + rest,
            "cut": data[:i] + rest,
            "insert": data[:i] + given_bytes + data[i:],
            "replace": data[:i] + given_bytes + rest,
            "repeat": data[:i] + data[max(0, i - 8 * len(given_bytes)) :],
            "length": data[:i] + (given_bytes + bytes(8))[:8] + data[i + 8 :],
        }[what]
    return data


# ---- the codec


@pytest.mark.parametrize("row", VIEW, ids=lambda row: f"{row.kind.name}-{row.senders[0].value}")
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_no_message_is_refused_without_much_memory(row: Row, data: st.DataObject) -> None:
    forms = sorted(set().union(*(_sent(row, plan) for plan in PLANS)), key=repr)
    its, dimensions, values = data.draw(messages(data.draw(st.sampled_from(forms))))
    payload = mutated(encode(its, dimensions, values), data.draw(MUTATIONS))
    tracemalloc.start()
    try:
        with suppress(ProtocolViolation):
            assert encode(its, dimensions, decode(its, dimensions, memoryview(payload))) == payload
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# ---- a link


class Tape:
    """A transport that has one string of bytes to receive, and says how much it was asked for at once."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self.largest = data, 0, 0

    def send(self, rank: int, header: bytes, payload: bytes) -> None:
        raise AssertionError

    def receive(self, rank: int, size: int, heard: Callable[[], None]) -> memoryview:
        self.largest = max(self.largest, size)
        if self._at + size > len(self._data):
            raise ConnectionResetError("closed by the peer")
        self._at += size
        heard()
        return memoryview(self._data)[self._at - size : self._at]

    def close(self) -> None:
        pass


KEY = bytes(range(32))


def stream() -> bytes:
    """What A sends C, as far as it goes here: a message of many kinds, the right way."""
    box, parts = Box(KEY), []
    sent: list[tuple[Kind, dict[str, Any]]] = [
        (Kind.HELLO, HELLO),
        (Kind.KEEPALIVE, {}),
        (Kind.SHAPE, SHAPE),
        (Kind.SHAPE, SHAPE),
        (Kind.KEEPALIVE, {}),
        (Kind.FAREWELL, {}),
    ]
    for number, (kind, values) in enumerate(sent):
        its = fields(PLAN, kind, A.role, C.role)
        assert its is not None
        payload = encode(its, {}, values)
        header = Header(kind, number, number, len(payload) + (0 if kind in CLEAR else Box.OVERHEAD)).pack()
        parts += [header, payload if kind in CLEAR else box.seal(number, header, payload)]
    return b"".join(parts)


@pytest.fixture(scope="module")
def link() -> Iterator[Channel]:
    """A link of C with A, for what it allows and how it reads an abort."""
    network = Network()
    yield network.links[C]._channels[A]
    network.close()


@quick_and_long
def test_any_stream_ends_a_link_with_our_own_error(link: Channel, examples: int) -> None:
    right = stream()
    seen: set[str] = set()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MUTATIONS)
    def check(mutations: list[tuple[str, float, bytes]]) -> None:
        tape = Tape(mutated(right, mutations))
        channel = Channel(
            A, tape, Meter(), threading.Condition(), 5.0, limit=link._limit, read_abort=link._read_abort
        )
        channel._run(channel._receive_frames)
        seen.add(type(channel.failure).__name__)
        assert channel.failure is None or isinstance(channel.failure, MpcSpearmanError)
        assert channel.failure is not None or channel._over
        assert tape.largest <= MAX_PAYLOAD + Box.OVERHEAD
        assert len(channel._inbox) <= MAX_QUEUED
        box = Box(KEY)
        for frame in channel._inbox:
            its = fields(PLAN, frame.header.kind, A.role, C.role)
            assert its is not None
            try:
                payload = frame.payload
                if frame.header.kind not in CLEAR:
                    payload = box.open(frame.header.number, frame.header.pack(), payload)
                decode(its, {}, payload)
            except ProtocolViolation:
                return

    check()
    # What else turns up depends on what is drawn.
    assert "ProtocolViolation" in seen


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=HEADER, max_size=HEADER), st.integers(0, 2**64 - 1))
def test_a_header_of_any_length_and_number(raw: bytes, number: int) -> None:
    due = b"MS\x01\x03" + raw[4:8] + number.to_bytes(8, "big") + raw[16:]
    for candidate in (raw, b"MS\x01" + raw[3:], due):
        with suppress(ProtocolViolation):
            assert Header.unpack(candidate, number).pack() == candidate


# ---- the door


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder, ["A", "B", "C"])
    return folder


def credentials(folder: Path | None, party: str) -> Credentials | None:
    if folder is None:
        return None
    return Credentials(folder / "ca.pem", folder / f"{party}.pem", folder / f"{party}.key")


class Meeting:
    """Three parties in threads of this process that meet through a file."""

    def __init__(self, place: Path, folder: Path | None, timeout: float = 30.0) -> None:
        self._place, self._folder, self._timeout = place, folder, timeout
        self.ports = {}
        for member in PARTIES:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.ports[member] = free.getsockname()[1]
        self.met: dict[Party, Sockets | BaseException] = {}
        self._threads: dict[Party, threading.Thread] = {}

    def come(self, member: Party) -> None:
        self._threads[member] = threading.Thread(target=self._meet, args=(member,))
        self._threads[member].start()

    def wait(self) -> dict[Party, Sockets | BaseException]:
        for thread in self._threads.values():
            thread.join(60.0)
            assert not thread.is_alive()
        return self.met

    def close(self) -> None:
        for thread in self._threads.values():
            thread.join(60.0)
        for sockets in self.met.values():
            if isinstance(sockets, Sockets):
                sockets.close()

    def _meet(self, me: Party) -> None:
        try:
            self.met[me] = rendezvous.meet(
                rendezvous.FolderStore(self._place),
                Roster(PARTIES, me),
                rendezvous.Terms(len(PARTIES), "" if self._folder is None else "mutual"),
                ("127.0.0.1", self.ports[me]),
                credentials(self._folder, me.name),
                fault=None,
                last=False,
                join_timeout=30.0,
                timeout=self._timeout,
                say=lambda text: None,
            )
        except BaseException as error:
            self.met[me] = error


@pytest.fixture
def meet(tmp_path: Path) -> Iterator[Callable[..., Meeting]]:
    made: list[Meeting] = []

    def begin(folder: Path | None, **settings: Any) -> Meeting:
        made.append(Meeting(tmp_path / f"meeting-point-{len(made)}", folder, **settings))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def assert_connected(met: dict[Party, Sockets | BaseException]) -> None:
    for me in PARTIES:
        for peer in PARTIES:
            if me is not peer:
                sender, receiver = met[me], met[peer]
                assert isinstance(sender, Sockets), sender
                assert isinstance(receiver, Sockets), receiver
                sender.send(peer.number, b"from", me.name.encode())
                assert bytes(receiver.receive(me.number, 5, lambda: None)) == b"from" + me.name.encode()


def knock(port: int, said: bytes) -> socket.socket:
    end = time.monotonic() + 20
    while True:
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=20)
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
    with suppress(OSError):
        stranger.sendall(said)
    return stranger


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("strangers", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_at_the_door_do_not_disturb_a_meeting(
    meet: Callable[..., Meeting], certificates: Path, secured: bool, strangers: int
) -> None:
    run = meet(certificates if secured else None)
    run.come(C)
    run.come(B)
    greeting = handshake._FORMAT.pack(b"MPCSPEAR", 1, 0, 2, bytes(16))
    for i in range(strangers):
        hello = b"\x16\x03\x01\xff\xff" + os.urandom(200)  # as TLS begins
        said = [os.urandom(1 + i % 300), greeting, greeting[:-1], hello, b""]
        # Closes at once, with or without a reset; none waits for an answer.
        knock(run.ports[(C, B)[i % 2]], said[i % 5]).close()
    run.come(A)
    assert_connected(run.wait())


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_silent_strangers_hold_nobody_up_for_long(
    meet: Callable[..., Meeting],
    certificates: Path,
    secured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "_PATIENCE", 1.0)
    run = meet(certificates if secured else None)
    run.come(C)
    # More than are let in at the same time.
    silent = [knock(run.ports[C], b"MPC" if i % 2 else b"") for i in range(handshake._MOST + 20)]
    run.come(B)
    run.come(A)
    try:
        assert_connected(run.wait())
    finally:
        for stranger in silent:
            stranger.close()


@pytest.mark.parametrize("host", ["x" * 200, "a..b", "\0", "256.256.256.256"])
def test_an_address_that_cannot_be_one(host: str) -> None:
    door = handshake.Listener(Roster(PARTIES, A), "127.0.0.1", 0, None)
    try:
        with pytest.raises(NetworkError, match=r"^A \(source\) cannot reach C \(coordinator\) at") as raised:
            door.connect(C, handshake.Address(host, 9, bytes(16)), 5.0)
    finally:
        door.close()
    assert raised.value.about == ("NetworkError", "C", "connect")


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60))
def test_any_answer_at_the_door_is_our_own_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.sendall(answer)
                caller.recv(100)

        other = threading.Thread(target=reply)
        other.start()
        door = handshake.Listener(Roster(PARTIES, A), "127.0.0.1", 0, None)
        address = handshake.Address("127.0.0.1", listener.getsockname()[1], bytes(16))
        # The second connection is never answered: nobody accepts it any more.
        with pytest.raises(MpcSpearmanError):
            door.connect(C, address, 0.5)
        door.close()
        door.sockets().close()
        other.join(10)


# ---- the store


class Written:
    """A store as torch has them, in memory."""

    def __init__(self, entries: dict[str, bytes] | None = None) -> None:
        self.entries = entries or {}

    def check(self, keys: list[str]) -> bool:
        return all(key in self.entries for key in keys)

    def get(self, key: str) -> bytes:
        return self.entries[key]

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        return self.entries.setdefault(key, value.encode())


def store(entries: dict[str, bytes]) -> TcpStore:
    return TcpStore(Written(entries), C, 10.0)


RIGHT = {"host": "127.0.0.1", "port": 9, "token": "00" * 16, "parties": 3, "tls": ""}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
ENTRIES = st.one_of(
    st.binary(max_size=200),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda key, value: json.dumps({**RIGHT, key: value}).encode(),
        st.sampled_from(sorted(RIGHT)),
        JSON | st.sampled_from([10**400, 1e308 * 10, -1, 1 << 16, "9" * 5000, "host" * 1000]),
    ),
    st.sampled_from([b"[" * 100_000, b"9" * 100_000, b'"' + b"x" * 1_000_000 + b'"', b"NaN", b""]),
)


@settings(max_examples=400, deadline=None)
@given(ENTRIES)
def test_any_entry_in_the_store_is_an_address_or_a_failed_handshake(entry: bytes) -> None:
    table = rendezvous._Table(store({"party-2": entry}), Roster(PARTIES, C))
    try:
        address = table._read(A, rendezvous.Terms(3, ""))
    except HandshakeError as raised:
        error = raised
    else:
        error = None
    if error is not None:
        assert len(str(error)) < 300
        return
    assert 0 < address.port < 1 << 16
    assert len(address.token) == 16
    assert len(address.host) <= 255


@settings(max_examples=400, deadline=None)
@given(
    ENTRIES
    | st.lists(st.sampled_from(["PeerDied", "TableError", "A", "C", "connect", "rank", "x"]), max_size=4).map(
        lambda words: json.dumps(words).encode()
    )
)
def test_any_word_to_stop_stops_with_our_own_error(entry: bytes) -> None:
    table = rendezvous._Table(store({"outcome": entry}), Roster(PARTIES, C))
    with pytest.raises((HandshakeError, NetworkError)) as raised:
        table.check()
    assert len(str(raised.value)) < 300


def test_garbage_in_the_store_ends_a_meeting_for_all(meet: Callable[..., Meeting], tmp_path: Path) -> None:
    run = meet(None)
    rendezvous.FolderStore(tmp_path / "meeting-point-0").write("party-2", "{")
    run.come(C)
    run.come(B)
    assert {type(error) for error in run.wait().values()} == {HandshakeError}


def test_a_store_that_does_not_answer_is_not_waited_for(meet: Callable[..., Meeting]) -> None:
    asked = threading.Event()

    class Frozen(Written):
        def check(self, keys: list[str]) -> bool:
            asked.wait(30.0)
            return False

    table = rendezvous._Table(TcpStore(Frozen(), C, 0.5), Roster(PARTIES, A))
    begin = time.monotonic()
    with pytest.raises(NetworkError, match=r"which C \(coordinator\) provides, did not answer"):
        table.check()
    assert time.monotonic() - begin < 5
    asked.set()


def test_a_store_that_is_gone_is_a_dead_coordinator(tmp_path: Path) -> None:
    class Gone(Written):
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("failed to recv, got 0 bytes")

    with pytest.raises(PeerDied, match="the meeting point is gone") as raised:
        rendezvous.meet(
            TcpStore(Gone(), C, 5.0),
            Roster(PARTIES, A),
            rendezvous.Terms(3, ""),
            ("127.0.0.1", 0),
            None,
            fault=None,
            last=False,
            join_timeout=5.0,
            timeout=5.0,
            say=lambda text: None,
        )
    assert raised.value.about == ("PeerDied", "C", "connect")
