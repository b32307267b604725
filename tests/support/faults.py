"""Faults of one party: hooks around its ``run_role``, in a process (see server.py) or in a thread.

`marked` is the one around the role of a ``mpc-spearman join`` (see members.py).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpc_spearman import errors
from mpc_spearman.network import attempt
from mpc_spearman.parties import Party
from mpc_spearman.results.result import Result
from mpc_spearman.run import Progress, Run
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

#: Runs a role: ``run_role``, or a hook around it.
Role = Callable[..., Result]
Happens = Callable[[], None]


def marked(
    role: Role, run: Run, frame: Any, *, marks: str, label: str, fault: str | None, arguments: dict[str, Any]
) -> Result:
    """Run a role; write down when it goes to the meeting, when a fault happens, and when it has failed."""
    from support import forwarded  # which imports this module

    def note(event: str) -> None:
        part = Path(marks, f".{label}.{event}")
        part.write_text(repr(time.monotonic()))
        part.rename(Path(marks, f"{label}.{event}"))

    if fault is not None:
        hook = {**vars(forwarded), **globals()}[fault]
        role = partial(hook, role, happens=lambda: note("fault"), **arguments)
    try:
        return role(replace(run, progress=entering("connect", lambda: note("connect"), run.progress)), frame)
    except errors.MpcSpearmanError:
        note("failed")
        raise


# ---- something happens in a phase


def entering(phase: str, happen: Callable[[], None], progress: Progress) -> Progress:
    """Call a function when a phase is first entered, right after that was reported."""
    pending = [happen]

    def report(current: str, done: int, of: int) -> None:
        progress(current, done, of)
        if (current, done) == (phase, 0) and pending:
            pending.pop()()

    return report


def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.02)


def on_phase(
    role: Role,
    run: Run,
    frame: Any,
    *,
    phase: str,
    act: str,
    party: str = "",
    seconds: float = 0.0,
    until: str = "",
    mark: str = "",
    happens: Happens = lambda: None,
) -> Result:
    """Do one of `ACTS`, cut this role off, or hold it until a file is there, when it enters `phase`.

    ``meeting`` is when it has joined, and all others too, and is about to connect to them. If `party` is
    given, nothing happens to others. First the file `mark` is made, and `happens` called.
    """
    if party not in ("", run.roster.me.name):
        return role(run, frame)
    cut = threading.Event()

    def happen() -> None:
        happens()
        if mark:
            Path(mark).touch()
        if act == "cut":
            cut.set()
            _keep_connections()
        elif act == "hold":
            wait_for(until)
        else:
            ACTS[act](seconds)

    if phase == "start":  # which is over when the role is run
        happen()
    if phase == "meeting":
        begin = attempt.Attempt.begin

        def begin_then(self: attempt.Attempt) -> None:
            happen()
            begin(self)

        attempt.Attempt.begin = begin_then  # type: ignore[method-assign]
    if act == "cut":
        run = with_transport(run, lambda transport: _Cut(transport, cut))
    return role(replace(run, progress=entering(phase, happen, run.progress)), frame)


def on_progress(role: Role, run: Run, frame: Any, *, watch: Callable[[str], None]) -> Result:
    """Report which phases a party enters."""
    return role(replace(run, progress=lambda phase, done, of: watch(phase)), frame)


def _divide(seconds: float) -> None:
    secret = 918_273_645
    {}[secret] / 0


def _refuse(seconds: float) -> None:
    raise errors.TableError("column 'salary' was refused")


def _compute(step: Callable[[], object]) -> Callable[[float], None]:
    def act(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step()

    return act


ACTS: dict[str, Callable[[float], None]] = {
    "kill": lambda seconds: os.kill(os.getpid(), signal.SIGKILL),
    "freeze": lambda seconds: os.kill(os.getpid(), signal.SIGSTOP),
    "divide": _divide,
    "refuse": _refuse,
    "memory": lambda seconds: bytearray(sys.maxsize),
    "exit": lambda seconds: os._exit(3),
    "sleep": time.sleep,
    # In NumPy, which lets other threads run; in pure Python, which does so every 5 ms.
    "sort": _compute(lambda: np.argsort(np.arange(1_000_000)[::-1])),
    "count": _compute(lambda: None),
    # One C call that keeps all other threads from running.
    "block": lambda seconds: ctypes.PyDLL(None).usleep(int(seconds * 1e6)),
}


class Around:
    """A transport, or a meeting, around another one: subclasses change some of its methods."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def with_transport(run: Run, wrap: Callable[[Any], Any]) -> Run:
    """Return a run whose meeting gives the role another transport."""

    class Wrapped(Around):
        def join(self, meter: Meter, agree: Callable[[Transport], None]) -> None:
            self.inner.join(meter, lambda transport: agree(wrap(transport)))

    return replace(run, meeting=Wrapped(run.meeting))


class _Cut(Around):
    """A transport through which from the cut on no byte gets out, and none gets in, nor its end."""

    def __init__(self, transport: Transport, cut: threading.Event) -> None:
        super().__init__(transport)
        self._cut = cut

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        if not self._cut.is_set():
            self.inner.send(number, header, payload)

    def receive(self, number: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        data = self.inner.receive(number, size, lambda: None if self._cut.is_set() else on_arrival())
        while self._cut.is_set():
            time.sleep(60)
        return data

    def close(self) -> None:
        if not self._cut.is_set():
            self.inner.close()


def _keep_connections() -> None:
    """Let someone hold the connections for a while: not even their end gets out when this process ends."""
    copies = filter(None, map(_copy, map(int, os.listdir("/proc/self/fd"))))
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(["sleep", "60"], pass_fds=[*copies], env={}, start_new_session=True, **quiet)


def _copy(file: int) -> int | None:
    """Copy a connection with another party, which a thread may close meanwhile; None of another file."""
    with suppress(OSError):  # no socket, or closed by now
        copy = socket.socket(fileno=os.dup(file))
        if copy.family == socket.AF_INET:
            return copy.detach()
        copy.close()
    return None


# ---- messages that are not what they should be


def on_frames(
    role: Role, run: Run, frame: Any, *, change: Callable[[int, bytes, bytes], list[tuple[bytes, bytes]]]
) -> Result:
    """Let a party send other frames: those of `change` for a receiver's number, a header and a payload."""

    class Changing(Around):
        def send(self, number: int, header: bytes, payload: bytes) -> None:
            for changed in change(number, header, payload):
                self.inner.send(number, *changed)

    return role(with_transport(run, Changing), frame)


def with_links(role: Role, run: Run, frame: Any, *, links: Callable[..., Links]) -> Result:
    """Let a party have other links."""
    return role(replace(run, make_links=links), frame)


def on_values(
    role: Role, run: Run, frame: Any, *, kind: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Result:
    """Let a party send other values in its messages of a kind."""

    class Lying(Links):
        def send(self, peer: Party, sent: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
            return super().send(peer, sent, change(values) if sent.name == kind else values, **more)

    return with_links(role, run, frame, links=Lying)


def message(role: Role, run: Run, frame: Any, *, happens: Happens, kind: str) -> Result:
    """Send the first message of a kind twice."""
    repeated: list[bytes] = []

    def change(_: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if header[3] != Kind[kind] or repeated:
            return [(header, payload)]
        repeated.append(header)
        happens()
        return [(header, payload)] * 2

    return on_frames(role, run, frame, change=change)
