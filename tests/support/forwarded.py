"""Hooks, as in faults.py, that record, cut off or attack what a coordinator's host forwards."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from mpc_spearman.errors import MpcSpearmanError
from mpc_spearman.identity import Identity, public_key
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.tls import Tls
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run
from support.faults import Role, entering, wait_for


class _Recorded(ssl.SSLSocket):
    """A connection with the coordinator that also writes the bytes that arrive to a file."""

    into: Path

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        size = super().recv_into(buffer, *arguments)
        with self.into.open("ab") as file:
            file.write(bytes(buffer[:size]))
        return size


def _at_the_install(change: Callable[[int, int, Any], bool]) -> None:
    """Call `change` with each connection that is to be forwarded; forward it only if that returns True."""
    install = Forwarding.install

    def changed(self: Forwarding, caller: int, to: int, connection: Any) -> None:
        if change(caller, to, connection):
            install(self, caller, to, connection)

    Forwarding.install = changed  # type: ignore[method-assign]


def recorded(
    role: Role,
    run: Run,
    frame: Any,
    *,
    happens: Callable[[], None],
    folder: str,
    phase: str,
    until: str,
) -> Result:
    """Write forwarded bytes to files ``CALLER-TO-NUMBER`` in a folder, and this process's number beside them.

    In a phase it waits for a file.
    """
    numbers = count()

    def record(caller: int, to: int, connection: Any) -> bool:
        connection.__class__ = _Recorded
        connection.into = Path(folder, f"{caller}-{to}-{next(numbers)}")
        return True

    def hold() -> None:
        happens()
        wait_for(until)

    Path(folder, "process").write_text(str(os.getpid()))
    _at_the_install(record)
    return role(replace(run, progress=entering(phase, hold, run.progress)), frame)


def logging_keys(role: Role, run: Run, frame: Any, *, happens: Callable[[], None], file: str) -> Result:
    """Write the TLS secrets of all connections that this role makes to a file."""
    make_context = Tls._context

    def logged(self: Tls, protocol: int, trusted: Any) -> ssl.SSLContext:
        context = make_context(self, protocol, trusted)
        if protocol == ssl.PROTOCOL_TLS_CLIENT:
            context.keylog_filename = file
        return context

    Tls._context = logged  # type: ignore[method-assign]
    return role(run, frame)


def impersonating(role: Role, run: Run, frame: Any, *, happens: Callable[[], None]) -> Result:
    """Pose as the other end of each forwarded connection, with this party's key."""
    plan, roster = run.plan, run.roster
    identity = Identity.read(plan.party("C").key, "key")
    # It knows both parties' public keys, and neither's private one.
    keys = {peer: public_key(plan.identities[peer.name]) for peer in roster.peers}

    def pose(connection: Any, caller: int) -> None:
        connection.settimeout(20)
        peer, buffer = roster.parties[caller], memoryview(bytearray(4096))
        with suppress(OSError, MpcSpearmanError):
            impostor = Tls(identity, keys)
            if caller > 1:  # the source calls the target
                impostor.answer(connection, peer)[0].recv_into(buffer)
            else:
                impostor.call(connection, peer).recv_into(buffer)

    def take(caller: int, to: int, connection: Any) -> bool:
        threading.Thread(target=pose, args=(connection, caller), daemon=True).start()
        return False

    _at_the_install(take)
    return role(run, frame)


def cut_off(role: Role, run: Run, frame: Any, *, happens: Callable[[], None], phase: str) -> Result:
    """End all forwarded connections when this role enters a phase."""
    connections: list[Any] = []

    def keep(caller: int, to: int, connection: Any) -> bool:
        connections.append(connection)
        return True

    def cut() -> None:
        happens()
        for connection in connections:
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    _at_the_install(keep)
    return role(replace(run, progress=entering(phase, cut, run.progress)), frame)
