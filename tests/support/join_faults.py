"""Faults for test_fault_matrix.py: hooks around the role of one ``mpc-spearman join`` (see members.py)."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mpc_spearman.errors import MpcSpearmanError
from mpc_spearman.network import round
from mpc_spearman.results.result import Result
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.kinds import Kind
from support import forwarded
from support.faults import Passing, Progress, Run, do, entering, through

Happens = Callable[[], None]
Join = Callable[..., Transport]


def marked(
    run: Run,
    *given: Any,
    marks: str,
    label: str,
    fault: str | None,
    arguments: dict[str, Any],
    progress: Progress,
    **seams: Any,
) -> Result:
    """Run a role; write down when it goes to the meeting, when a fault happens, and when it has failed."""

    def note(what: str) -> None:
        part = Path(marks, f".{label}.{what}")
        part.write_text(repr(time.monotonic()))
        part.rename(Path(marks, f"{label}.{what}"))

    if fault is not None:
        hook = {**vars(forwarded), **globals()}[fault]
        run = partial(hook, run, happens=lambda: note("fault"), **arguments)
    try:
        return run(*given, progress=entering("connect", lambda: note("connect"), progress), **seams)
    except MpcSpearmanError:
        note("failed")
        raise


def at(
    run: Run,
    *given: Any,
    happens: Happens,
    phase: str,
    act: str,
    until: str = "",
    progress: Progress,
    join: Join,
    **seams: Any,
) -> Result:
    """Kill, freeze, cut off or hold this role in a phase.

    ``meeting`` is when it has joined, and all others too, and is about to connect to them.
    """
    cut = threading.Event()

    def happen() -> None:
        happens()
        if act == "cut":
            cut.set()
            _keep_connections()
        else:
            do(act, until=until)

    if phase == "meeting":
        begin = round.Round.begin

        def begin_then(self: round.Round, contacts: Any) -> None:
            happen()
            begin(self, contacts)

        round.Round.begin = begin_then  # type: ignore[method-assign]
    if act == "cut":
        join = through(join, lambda transport: _Cut(transport, cut))
    return run(*given, progress=entering(phase, happen, progress), join=join, **seams)


class _Cut:
    """A transport through which from the cut on no byte gets out, and none gets in, nor its end."""

    def __init__(self, transport: Transport, cut: threading.Event) -> None:
        self._transport, self._cut = transport, cut
        self.hurry = transport.hurry

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        if not self._cut.is_set():
            self._transport.send(number, header, payload)

    def receive(self, number: int, size: int, heard: Callable[[], None]) -> memoryview:
        data = self._transport.receive(number, size, lambda: None if self._cut.is_set() else heard())
        while self._cut.is_set():
            time.sleep(60)
        return data

    def close(self) -> None:
        if not self._cut.is_set():
            self._transport.close()


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


def message(run: Run, *given: Any, happens: Happens, kind: str, join: Join, **seams: Any) -> Result:
    """Send the first message of a kind twice."""
    done: list[bool] = []

    def changed(_: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if header[3] != Kind[kind] or done:
            return [(header, payload)]
        done.append(True)
        happens()
        return [(header, payload)] * 2

    return run(*given, join=through(join, lambda transport: Passing(transport, changed)), **seams)
