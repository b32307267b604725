"""Faults for test_faults.py: each function runs in a role's process before the role does (see child.py)."""

from __future__ import annotations

import importlib.machinery
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from mpc_spearman import errors
from mpc_spearman.launch import role_process


def on_phase(
    order: role_process.Assignment, *, party: str, phase: str, act: str, nth: int = 1, seconds: float = 0.0
) -> None:
    """Do `act` when `party` enters `phase` for the `nth` time, right after that was reported."""
    if order.party != party:
        return
    say, entered = role_process._Launcher.say, 0

    def say_and_act(launcher: Any, **report: Any) -> None:
        nonlocal entered
        say(launcher, **report)
        if report.get("phase") == phase and report["done"] == 0:
            entered += 1
            if entered == nth:
                _ACTS[act](seconds)

    role_process._Launcher.say = say_and_act


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


_ACTS = {
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


def on_message(order: role_process.Assignment, *, party: str, kind: str, change: str) -> None:
    """Let `party` change its messages of a kind: their payload, or the header that goes on the wire."""
    if order.party != party:
        return
    from mpc_spearman.wire import channel, disclosure

    put = channel.Channel.put
    if change in ("short", "long", "empty", "huge"):

        def put_changed(link: Any, sent: Any, depth: int, payload: bytes, phase: str) -> None:
            changed = {
                "short": payload[:-1],
                "long": payload + bytes(8),
                "empty": b"",
                "huge": bytes(1 << 22),
            }
            put(link, sent, depth, changed[change] if sent.name == kind else payload, phase)

        channel.Channel.put = put_changed
        return

    from mpc_spearman.wire import sockets

    send = sockets.Sockets.send

    def send_changed(sockets: Any, rank: int, header: bytes, payload: bytes) -> None:
        if header[3] == disclosure.Kind[kind]:
            header = _HEADERS[change](*struct.unpack("!2sBBIQQ", header))
        send(sockets, rank, header, payload)

    sockets.Sockets.send = send_changed


def _header(*parts: Any) -> bytes:
    return struct.pack("!2sBBIQQ", *parts)


_HEADERS: dict[str, Callable[..., bytes]] = {
    "unknown kind": lambda m, v, kind, d, n, length: _header(m, v, 99, d, n, length),
    "other kind": lambda m, v, kind, d, n, length: _header(m, v, 7, d, n, length),
    "version": lambda m, v, kind, d, n, length: _header(m, 2, kind, d, n, length),
    "number": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n + 1, length),
    "length": lambda m, v, kind, d, n, length: _header(m, v, kind, d, n, 1 << 60),
    "depth": lambda m, v, kind, d, n, length: _header(m, v, kind, d + 7, n, length),
    "garbage": lambda *_: b"\xa5" * 24,
    "garbage long": lambda *_: b"\xa5" * 1000,
    "garbage short": lambda *_: b"\xa5" * 5,
}


def on_plan(order: role_process.Assignment, *, party: str, key: str, value: Any) -> None:
    """Let `party` run another plan."""
    if order.party == party:
        order.plan[key] = value


def on_policy(order: role_process.Assignment, *, party: str, max_reveal: str) -> None:
    """Let `party`'s process have a policy that whoever started it does not know."""
    for source in order.plan["parties"]["sources"]:
        if order.party == party == source["name"]:
            source["policy"]["max_reveal"] = max_reveal


def on_hello(order: role_process.Assignment, *, party: str, claims: dict[str, Any]) -> None:
    """Let `party` claim other things in its HELLO."""
    if order.party != party:
        return
    from mpc_spearman.wire import links

    send = links.Links.send

    def send_changed(these: Any, peer: Any, kind: Any, values: Any, **more: Any) -> None:
        send(these, peer, kind, {**values, **claims} if kind.name == "HELLO" else values, **more)

    links.Links.send = send_changed


def without_crypten(order: role_process.Assignment) -> None:
    """Make CrypTen as good as not installed."""

    class Finder(importlib.machinery.PathFinder):
        @classmethod
        def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
            return None if name == "crypten" else super().find_spec(name, path, target)

    sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
