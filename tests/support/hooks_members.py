"""Faults for test_fault_matrix.py, in the process of one role of ``mpc-spearman join`` (see members.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpc_spearman.launch import role_process


def mark(
    order: role_process.Assignment, *, marks: str, label: str, hook: str | None, arguments: dict[str, Any]
) -> None:
    """Write down when this role goes to the meeting and when a fault happens, and prepare the fault."""

    def note(what: str) -> None:
        part = Path(marks, f".{label}.{what}")
        part.write_text(repr(time.monotonic()))
        part.rename(Path(marks, f"{label}.{what}"))

    on_phase("connect", lambda: note("connect"))
    if hook is not None:
        globals()[hook](order, lambda: note("fault"), **arguments)


def on_phase(phase: str, act: Callable[[], None]) -> None:
    """Do something once the role has said that it enters a phase, the first time."""
    say, done = role_process._Launcher.say, []

    def say_and_act(launcher: Any, **report: Any) -> None:
        say(launcher, **report)
        if report.get("phase") == phase and not done:
            done.append(True)
            act()

    role_process._Launcher.say = say_and_act


def at(order: role_process.Assignment, fault: Callable[[], None], *, phase: str, act: str) -> None:
    """Kill, freeze or cut off this role in a phase.

    ``meeting`` is when it has joined, and all others too, and is about to connect to them.
    """

    def happen() -> None:
        fault()
        _ACTS[act]()

    if act == "cut":
        _prepare_cut()
    if phase != "meeting":
        on_phase(phase, happen)
        return
    from mpc_spearman.wire import rendezvous

    wait = rendezvous._Table.wait

    def wait_and_happen(*given: Any) -> Any:
        met = wait(*given)
        happen()
        return met

    rendezvous._Table.wait = wait_and_happen


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _prepare_cut() -> None:
    """Make the links of this role such that from the cut on no byte gets out, and none gets in."""
    from mpc_spearman.wire import sockets

    send, receive = sockets.Sockets.send, sockets.Sockets.receive

    def mute(sockets: Any, rank: int, header: bytes, payload: bytes) -> None:
        if not _cut.is_set():
            send(sockets, rank, header, payload)

    begin = sockets.Sockets.__init__

    def keep(sockets: Any, *connections: Any) -> None:
        begin(sockets, *connections)
        _connections.extend(one for half in connections for one in half.values())

    sockets.Sockets.__init__ = keep

    def deaf(sockets: Any, rank: int, size: int, heard: Callable[[], None]) -> memoryview:
        data = receive(sockets, rank, size, lambda: None if _cut.is_set() else heard())
        while _cut.is_set():
            time.sleep(60)
        return data

    sockets.Sockets.send, sockets.Sockets.receive = mute, deaf


def _cut_off() -> None:
    _cut.set()
    # Someone holds the connections for a while, so that not even their end gets out when this process ends.
    files = [connection.fileno() for connection in _connections]
    subprocess.Popen(
        ["sleep", "15"],
        pass_fds=files,
        env={},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


_cut = threading.Event()
_connections: list[Any] = []
_ACTS = {"kill": _kill, "freeze": _freeze, "cut": _cut_off}


def message(order: role_process.Assignment, fault: Callable[[], None], *, kind: str, change: str) -> None:
    """Corrupt or replay the first message of a kind, as it would be by whoever sits between the hosts."""
    from mpc_spearman.wire import disclosure, sockets

    send, done = sockets.Sockets.send, []

    def changed(sockets: Any, rank: int, header: bytes, payload: bytes) -> None:
        if header[3] != disclosure.Kind[kind] or done:
            send(sockets, rank, header, payload)
            return
        done.append(True)
        fault()
        if change == "replay":
            send(sockets, rank, header, payload)
            send(sockets, rank, header, payload)
        else:
            middle = len(payload) // 2
            send(
                sockets, rank, header, payload[:middle] + bytes([payload[middle] ^ 4]) + payload[middle + 1 :]
            )

    sockets.Sockets.send = changed


def unchecked(order: role_process.Assignment, fault: Callable[[], None]) -> None:
    """Go to the meeting whatever this party's own certificate is: the others must find out."""
    from mpc_spearman.wire import tls

    tls.check_own = lambda *_: None


def hold(order: role_process.Assignment, fault: Callable[[], None], *, until: str) -> None:
    """Go to the meeting only once a file exists."""

    def wait() -> None:
        while not Path(until).exists():
            time.sleep(0.02)

    on_phase("connect", wait)


def relayed(order: role_process.Assignment, fault: Callable[[], None], *, port: int, behind: int) -> None:
    """Listen behind a relay, which has the port that the others are told, and say when the links are up."""
    from dataclasses import replace

    from mpc_spearman.wire import handshake

    begin = handshake.Listener.__init__

    def begin_behind(self: Any, roster: Any, host: str, _: int, credentials: Any) -> None:
        begin(self, roster, host, behind, credentials)
        self.address = replace(self.address, port=port)

    handshake.Listener.__init__ = begin_behind
    on_phase("agree", fault)
