"""What a coordinator's host forwards: recorded, cut off, or attacked. Hooks, as in join_faults.py."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from mpc_spearman.launch import meeting
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.results.result import Result
from mpc_spearman.wire import tls
from mpc_spearman.wire.nested import Nested
from support.faults import Run


class _Recorded(ssl.SSLSocket):
    """A connection with the coordinator, what arrives over which is also written to a file."""

    into: Path

    def recv_into(self, buffer: Any, *given: Any) -> int:
        size = super().recv_into(buffer, *given)
        with self.into.open("ab") as file:
            file.write(bytes(buffer[:size]))
        return size


def _at_the_install(change: Callable[[int, int, Any], bool]) -> None:
    """See each connection that is to be forwarded; where `change` says so it is not."""
    install = Forwarding.install

    def changed(self: Forwarding, caller: int, to: int, connection: Any) -> None:
        if change(caller, to, connection):
            install(self, caller, to, connection)

    Forwarding.install = changed  # type: ignore[method-assign]


def recorded(
    run: Run,
    *given: Any,
    happens: Callable[[], None],
    folder: str,
    phase: str,
    until: str,
    progress: Callable[[str, int, int], None],
    **seams: Any,
) -> Result:
    """Write down what is forwarded, by who sends it: ``CALLER-TO-NUMBER`` in a folder; and this process.

    In a phase it waits for a file.
    """
    numbers = count()

    def record(caller: int, to: int, connection: Any) -> bool:
        connection.__class__ = _Recorded
        connection.into = Path(folder, f"{caller}-{to}-{next(numbers)}")
        return True

    def report(now: str, done: int, of: int) -> None:
        progress(now, done, of)
        if now == phase and not done and not Path(until).exists():
            happens()
            while not Path(until).exists():
                time.sleep(0.02)

    Path(folder, "process").write_text(str(os.getpid()))
    _at_the_install(record)
    return run(*given, progress=report, **seams)


def logging_keys(run: Run, *given: Any, happens: Callable[[], None], file: str, **seams: Any) -> Result:
    """Write down the secrets of all connections that this role makes."""
    made = tls.client_context

    def logged(credentials: tls.Credentials) -> ssl.SSLContext:
        context = made(credentials)
        context.keylog_filename = file
        return context

    tls.client_context = logged
    return run(*given, **seams)


def impersonating(run: Run, plan: Any, *given: Any, happens: Callable[[], None], **seams: Any) -> Result:
    """Be the other end of what should be forwarded, with this party's own certificate."""
    own = meeting.credentials(plan, "C")
    assert own is not None

    def pose(connection: Any, server: bool) -> None:
        connection.settimeout(20)
        context = tls.server_context(own) if server else tls.client_context(own)
        with suppress(OSError):
            Nested(connection, context, server).do_handshake()
            while connection.recv(4096):
                pass

    def take(caller: int, to: int, connection: Any) -> bool:
        threading.Thread(target=pose, args=(connection, caller > to), daemon=True).start()
        return False

    _at_the_install(take)
    return run(plan, *given, **seams)


def cut_off(
    run: Run,
    *given: Any,
    happens: Callable[[], None],
    phase: str,
    progress: Callable[[str, int, int], None],
    **seams: Any,
) -> Result:
    """End all that is forwarded when this role enters a phase."""
    connections: list[Any] = []

    def keep(caller: int, to: int, connection: Any) -> bool:
        connections.append(connection)
        return True

    def report(now: str, done: int, of: int) -> None:
        progress(now, done, of)
        if now == phase and connections:
            happens()
            for connection in connections:
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
            connections.clear()

    _at_the_install(keep)
    return run(*given, progress=report, **seams)
