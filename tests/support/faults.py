"""Faults of one party: hooks around its ``run_role``, in a process (see server.py) or in a thread."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpc_spearman import errors
from mpc_spearman.config import Plan
from mpc_spearman.parties import Party, worker_name
from mpc_spearman.results.result import Result
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links

Run = Callable[..., Result]
Progress = Callable[[str, int, int], None]


# ---- something happens in a phase


def entering(phase: str, happen: Callable[[], None], progress: Progress) -> Progress:
    """Let something happen when a phase is entered for the first time, right after that was reported."""
    left = [happen]

    def report(now: str, done: int, of: int) -> None:
        progress(now, done, of)
        if (now, done) == (phase, 0) and left:
            left.pop()()

    return report


def do(act: str, seconds: float = 0.0, until: str = "") -> None:
    """Do one of `ACTS`, or ``hold`` until a file is there."""
    if act == "hold":
        wait_for(until)
    else:
        ACTS[act](seconds)


def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.02)


def on_phase(
    run: Run,
    plan: Plan,
    name: str,
    *given: Any,
    party: str,
    phase: str,
    act: str,
    seconds: float = 0.0,
    until: str = "",
    mark: str = "",
    progress: Progress,
    **seams: Any,
) -> Result:
    """Do `act` when `party` enters `phase`; make the file `mark` first."""

    def happen() -> None:
        if mark:
            Path(mark).touch()
        do(act, seconds, until)

    if worker_name(name, seams.get("shard", 0)) == party:
        progress = entering(phase, happen, progress)
        if phase == "start":  # which is over when the role is run
            happen()
    return run(plan, name, *given, progress=progress, **seams)


def on_progress(run: Run, *given: Any, told: Callable[[str], None], **seams: Any) -> Result:
    """Tell which phases a party enters."""
    return run(*given, **{**seams, "progress": lambda phase, done, of: told(phase)})


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


# ---- messages that are not what they should be


class Passing:
    """A transport that changes frames before they go out: number, header and payload to frames."""

    def __init__(
        self, transport: Transport, change: Callable[[int, bytes, bytes], list[tuple[bytes, bytes]]]
    ) -> None:
        self._transport, self._change = transport, change
        self.receive, self.hurry, self.close = transport.receive, transport.hurry, transport.close

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        for frame in self._change(number, header, payload):
            self._transport.send(number, *frame)


def through(join: Any, wrap: Callable[[Transport], Transport]) -> Any:
    """Put something between a role and the transport that it runs over; `join` may be its ``gather`` too."""
    return lambda *given: join(*given[:-1], lambda transport: given[-1](wrap(transport)))


def on_values(
    run: Run, *given: Any, kind: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], **seams: Any
) -> Result:
    """Let a party say other things in its messages of a kind."""

    class Lying(Links):
        def send(self, peer: Party, sent: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
            return super().send(peer, sent, change(values) if sent.name == kind else values, **more)

    return run(*given, links=Lying, **seams)
