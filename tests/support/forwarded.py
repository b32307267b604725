"""What a coordinator's host forwards: recorded, cut off, or attacked. Hooks, as in faults.py."""

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
    """A connection with the coordinator, what arrives over which is also written to a file."""

    into: Path

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        size = super().recv_into(buffer, *arguments)
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
    role: Role,
    run: Run,
    frame: Any,
    *,
    happens: Callable[[], None],
    folder: str,
    phase: str,
    until: str,
) -> Result:
    """Write down what is forwarded, by who sends it: ``CALLER-TO-NUMBER`` in a folder; and this process.

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
    """Write down the secrets of all connections that this role makes."""
    make_context = Tls._context

    def logged(self: Tls, protocol: int, trusted: Any) -> ssl.SSLContext:
        context = make_context(self, protocol, trusted)
        if protocol == ssl.PROTOCOL_TLS_CLIENT:
            context.keylog_filename = file
        return context

    Tls._context = logged  # type: ignore[method-assign]
    return role(run, frame)


def impersonating(role: Role, run: Run, frame: Any, *, happens: Callable[[], None]) -> Result:
    """Be the other end of what should be forwarded, with this party's own key."""
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
    """End all that is forwarded when this role enters a phase."""
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
