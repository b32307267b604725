"""Faults of one party: hooks around its ``run_role``, in a process (see child.py) or in a thread."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from mpc_spearman import errors
from mpc_spearman.config import Plan, load_plan
from mpc_spearman.parties import Party
from mpc_spearman.results.result import Result
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.frames import HEADER
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links

Run = Callable[..., Result]


# ---- something happens in a phase


def on_phase(
    run: Run,
    plan: Plan,
    name: str,
    *given: Any,
    party: str,
    phase: str,
    act: str,
    nth: int = 1,
    seconds: float = 0.0,
    until: str = "",
    mark: str = "",
    progress: Callable[[str, int, int], None],
    **seams: Any,
) -> Result:
    """Do `act` when `party` enters `phase` for the `nth` time, right after that was reported.

    To ``wait`` is to go on only once the file `until` exists. The file `mark` is made first.
    """
    entered = 0

    def happen() -> None:
        if mark:
            Path(mark).touch()
        if act == "wait":
            while not Path(until).exists():
                time.sleep(0.02)
        else:
            ACTS[act](seconds)

    def report(now: str, done: int, of: int) -> None:
        nonlocal entered
        progress(now, done, of)
        if (name, now, done) == (party, phase, 0):
            entered += 1
            if entered == nth:
                happen()

    if (name, "start") == (party, phase):  # which is over when the role is run
        happen()
    return run(plan, name, *given, progress=report, **seams)


def on_progress(run: Run, *given: Any, told: Callable[[str], None], **seams: Any) -> Result:
    """Tell which phases a party enters."""
    return run(*given, **{**seams, "progress": lambda phase, done, of: told(phase)})


def _kill(seconds: float) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(seconds: float) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _divide(seconds: float) -> None:
    secret = 918_273_645
    {}[secret] / 0


def _refuse(seconds: float) -> None:
    raise errors.TableError("column 'salary' was refused")


def _run_out_of_memory(seconds: float) -> None:
    raise MemoryError


def _exit(seconds: float) -> None:
    os._exit(3)


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _sort(seconds: float) -> None:
    """Compute in NumPy, which lets other threads run."""
    import numpy as np

    values = np.arange(1_000_000)[::-1]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        np.argsort(values)


def _count(seconds: float) -> None:
    """Compute in pure Python, which lets other threads run every 5 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def _hold(seconds: float) -> None:
    """Stay within one C call that keeps all other threads from running."""
    import ctypes

    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


ACTS: dict[str, Callable[[float], None]] = {
    "kill": _kill,
    "stop": _stop,
    "divide": _divide,
    "refuse": _refuse,
    "memory": _run_out_of_memory,
    "exit": _exit,
    "sleep": _sleep,
    "sort": _sort,
    "count": _count,
    "hold": _hold,
}


# ---- messages that are not what they should be


class Passing:
    """A transport that changes frames before they go out.

    `change` gets the peer's number, header and payload, and returns what goes out instead.
    """

    def __init__(
        self, transport: Transport, change: Callable[[int, bytes, bytes], list[tuple[bytes, bytes]]]
    ) -> None:
        self._transport, self._change = transport, change
        self.receive, self.hurry, self.close = transport.receive, transport.hurry, transport.close

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        for frame in self._change(number, header, payload):
            self._transport.send(number, *frame)


def through(join: Any, wrap: Callable[[Transport], Transport]) -> Any:
    """Put something between a role and the transport that it agrees and runs over."""
    return lambda roster, meter, agree: join(roster, meter, lambda transport: agree(wrap(transport)))


def on_header(
    run: Run, *given: Any, kind: str, change: str, to: Collection[int], join: Any, **seams: Any
) -> Result:
    """Change the headers of a party's messages of a kind to some others, as they go on the wire."""

    def changed(number: int, header: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if header[3] == Kind[kind] and number in to:
            header = _HEADERS[change](*struct.unpack("!2sBBIQQ", header))
        return [(header, payload)]

    return run(*given, join=through(join, lambda transport: Passing(transport, changed)), **seams)


def _header(*parts: Any) -> bytes:
    return struct.pack("!2sBBIQQ", *parts)


_HEADERS: dict[str, Callable[..., bytes]] = {
    "unknown kind": lambda m, v, kind, d, n, length: _header(m, v, 99, d, n, length),
    "other kind": lambda m, v, kind, d, n, length: _header(m, v, 7, d, n, length),
    "version": lambda m, v, kind, d, n, length: _header(m, 2, kind, d, n, length),
    "number": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n + 1, length),
    "length": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n, 1 << 60),
    "depth": lambda m, v, kind, d, n, length: _header(m, v, kind, d + 7, n, length),
    "garbage": lambda *_: b"\xa5" * HEADER,
    "garbage long": lambda *_: b"\xa5" * 1000,
    "garbage short": lambda *_: b"\xa5" * 5,
}


def on_payload(
    run: Run, *given: Any, kind: str, change: str, to: Collection[int], join: Any, **seams: Any
) -> Result:
    """Change what a party's messages of a kind say to what no codec would encode."""

    def changed(number: int, raw: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
        if raw[3] != Kind[kind] or number not in to:
            return [(raw, payload)]
        said = _PAYLOADS[change](payload)
        return [(_header(*struct.unpack("!2sBBIQQ", raw)[:-1], len(said)), said)]

    return run(*given, join=through(join, lambda transport: Passing(transport, changed)), **seams)


_PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda payload: payload[:-1],
    "long": lambda payload: payload + bytes(8),
    "empty": lambda payload: b"",
    "huge": lambda payload: bytes(1 << 22),
}


def on_values(
    run: Run, *given: Any, kind: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], **seams: Any
) -> Result:
    """Let a party say other things in its messages of a kind."""

    class Lying(Links):
        def send(self, peer: Party, sent: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
            return super().send(peer, sent, change(values) if sent.name == kind else values, **more)

    return run(*given, links=Lying, **seams)


# ---- a party that is set up otherwise than the others think


def on_policy(
    run: Run, plan: Plan, name: str, *given: Any, party: str, policy: Mapping[str, Any], **seams: Any
) -> Result:
    """Let `party`'s process have a policy that whoever started it does not know."""
    if name == party:
        plan = load_plan(
            plan.model_dump(mode="json"),
            [f"parties.sources.{party}.policy.{key}={value}" for key, value in policy.items()],
        )
    return run(plan, name, *given, **seams)
