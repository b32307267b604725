"""Parties in threads of this process that meet through a folder, and strangers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire import rendezvous
from mpc_spearman.wire.sockets import Sockets
from mpc_spearman.wire.tls import Credentials
from support.memory_network import A, B, C

PARTIES = (C, B, A)


def credentials(folder: Path | None, party: str) -> Credentials | None:
    if folder is None:
        return None
    return Credentials(folder / "ca.pem", folder / f"{party}.pem", folder / f"{party}.key")


class Meeting:
    """Three parties in threads of this process that meet through a file."""

    def __init__(self, place: Path, folder: Path | None, timeout: float = 30.0) -> None:
        self._place, self._folder, self._timeout = place, folder, timeout
        self.ports = {}
        for member in PARTIES:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.ports[member] = free.getsockname()[1]
        self.met: dict[Party, Sockets | BaseException] = {}
        self._threads: dict[Party, threading.Thread] = {}

    def come(self, member: Party) -> None:
        self._threads[member] = threading.Thread(target=self._meet, args=(member,))
        self._threads[member].start()

    def wait(self) -> dict[Party, Sockets | BaseException]:
        for thread in self._threads.values():
            thread.join(60.0)
            assert not thread.is_alive()
        return self.met

    def close(self) -> None:
        for thread in self._threads.values():
            thread.join(60.0)
        for sockets in self.met.values():
            if isinstance(sockets, Sockets):
                sockets.close()

    def _meet(self, me: Party) -> None:
        try:
            self.met[me] = rendezvous.meet(
                rendezvous.FolderStore(self._place),
                Roster(PARTIES, me),
                rendezvous.Terms(len(PARTIES), "" if self._folder is None else "mutual"),
                ("127.0.0.1", self.ports[me]),
                credentials(self._folder, me.name),
                fault=None,
                last=False,
                join_timeout=30.0,
                timeout=self._timeout,
                say=lambda text: None,
            )
        except BaseException as error:
            self.met[me] = error


def assert_connected(met: dict[Party, Sockets | BaseException]) -> None:
    for me in PARTIES:
        for peer in PARTIES:
            if me is not peer:
                sender, receiver = met[me], met[peer]
                assert isinstance(sender, Sockets), sender
                assert isinstance(receiver, Sockets), receiver
                sender.send(peer.number, b"from", me.name.encode())
                assert bytes(receiver.receive(me.number, 5, lambda: None)) == b"from" + me.name.encode()


def knock(port: int, said: bytes) -> socket.socket:
    end = time.monotonic() + 20
    while True:
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=20)
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
    with suppress(OSError):
        stranger.sendall(said)
    return stranger
