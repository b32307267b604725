"""Anything at all is written where the parties meet, or nothing answers there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import HandshakeError, NetworkError, PeerDied
from mpc_spearman.parties import Roster
from mpc_spearman.wire import rendezvous
from mpc_spearman.wire.tcp_store import TcpStore
from support.meetings import PARTIES, Meeting
from support.memory_network import A, B, C
from support.processes import EVER

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
            asked.wait(EVER)
            return False

    table = rendezvous._Table(TcpStore(Frozen(), C, 0.5), Roster(PARTIES, A))
    with pytest.raises(NetworkError, match=r"which C \(coordinator\) provides, did not answer"):
        table.check()
    assert not asked.is_set()
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
