"""A meeting has one outcome for all who have joined, however late any of them looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpc_spearman.errors import HandshakeError, PeerDied
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire import rendezvous
from mpc_spearman.wire.rendezvous import FolderStore, Terms, meet
from mpc_spearman.wire.sockets import Sockets

C, B, A = PARTIES = (
    Party("C", Role.COORDINATOR, 0),
    Party("B", Role.TARGET, 1),
    Party("A", Role.SOURCE, 2),
)


class Slow(FolderStore):
    """A store that one party reaches only now and then, and that ends with the coordinator's process."""

    def __init__(self, folder: Path, ended: threading.Event, held: Callable[[str, str], bool]) -> None:
        super().__init__(folder)
        self.ended, self._held = ended, held
        #: The party waits for the store; it may go on.
        self.waits, self.go = threading.Event(), threading.Event()

    def has(self, *keys: str) -> bool:
        self._pass("has", keys[0])
        return super().has(*keys)

    def write(self, key: str, text: str) -> bytes:
        self._pass("write", key)
        return super().write(key, text)

    def _pass(self, what: str, key: str) -> None:
        if self._held(what, key):
            self.waits.set()
            assert self.go.wait(60.0)
        if self.ended.is_set():
            raise PeerDied("the meeting point is gone")


class Meeting:
    """Parties in threads of this process; the store is there until C's part of it is over."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.ended = folder, threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._met: dict[str, Sockets | BaseException] = {}

    def come(
        self, me: Party, label: str = "", held: Callable[[str, str], bool] = lambda what, key: False
    ) -> Slow:
        store, label = Slow(self._folder, self.ended, held), label or me.name

        def run() -> None:
            try:
                self._met[label] = meet(
                    store,
                    Roster(PARTIES, me),
                    Terms(len(PARTIES), ""),
                    ("127.0.0.1", 0),
                    None,
                    fault=None,
                    last=me == C,
                    join_timeout=60.0,
                    timeout=60.0,
                    say=lambda text: None,
                )
            except BaseException as error:
                self._met[label] = error
            if me == C:
                self.ended.set()

        self._threads[label] = threading.Thread(target=run)
        self._threads[label].start()
        return store

    def outcome(self, label: str) -> type:
        self._threads[label].join(60.0)
        assert not self._threads[label].is_alive()
        return type(self._met[label])

    def close(self) -> None:
        for label in self._threads:
            self.outcome(label)
            met = self._met[label]
            if isinstance(met, Sockets):
                met.close()


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Meeting]:
    monkeypatch.setattr(rendezvous, "_LINGER", 0.0)  # nobody is told because he happens to look in time
    made = Meeting(tmp_path / "meeting")
    yield made
    made.close()


def test_who_has_joined_is_told_why_all_stop_however_late_it_looks(meeting: Meeting) -> None:
    joined: list[str] = []

    def late(what: str, key: str) -> bool:
        joined.extend([key] if what == "write" else [])
        return bool(joined) and what == "has"

    slow = meeting.come(B, held=late)
    assert slow.waits.wait(60.0)
    meeting.come(C)
    meeting.come(A)
    meeting.come(A, "A2")
    assert {meeting.outcome("A"), meeting.outcome("A2")} == {HandshakeError}
    assert not meeting.ended.wait(0.5)  # C stays
    slow.go.set()
    assert {meeting.outcome("B"), meeting.outcome("C")} == {HandshakeError}


def test_nobody_leaves_before_all_are_connected(meeting: Meeting) -> None:
    """A second process comes when all but one have all their connections."""
    meeting.come(C)
    meeting.come(A)
    slow = meeting.come(B, held=lambda what, key: key == "connected-1")
    assert slow.waits.wait(60.0)
    meeting.come(A, "A2")
    assert meeting.outcome("A2") is HandshakeError
    slow.go.set()
    assert {meeting.outcome(name) for name in "CBA"} == {HandshakeError}


def test_a_second_process_that_comes_when_all_have_met_disturbs_nobody(meeting: Meeting) -> None:
    meeting.come(C)
    meeting.come(A)
    # It is the last to leave, and the store is there for so long.
    slow = meeting.come(B, held=lambda what, key: key == "left-1")
    assert slow.waits.wait(60.0)
    meeting.come(A, "A2")
    assert meeting.outcome("A2") is HandshakeError
    slow.go.set()
    assert {meeting.outcome(name) for name in "CBA"} == {Sockets}
