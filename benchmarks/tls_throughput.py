"""Compare our links with a plain TLS socket: megabytes a second from one process to another on loopback.

    python benchmarks/tls_throughput.py

One direction, blocks of 1 MB as they travel in a run, the median of the repeats, all ways in turn:

- ``ssl``: a plain blocking `ssl` socket, TLS 1.3, `sendall` and `recv_into`, and nothing else;
- ``links``: :mod:`mpc_spearman.wire.links` over our two TLS connections: messages encoded, checked, counted;
- ``forwarded``: by way of a third process, the coordinator's, with TLS to each of the two outside and TLS of
  the two inside (:mod:`mpc_spearman.network.forwarding`): here all of it on the same processors.
"""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, cast

import measuring
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mpc_spearman.config import load_plan
from mpc_spearman.identity import Identity
from mpc_spearman.levels.view import VIEW
from mpc_spearman.network.connections import Sockets, receive_exactly
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

#: How many blocks are sent, each of 16 columns of 8,192 ring elements.
BLOCKS, COLUMNS, ROWS = 400, 16, 1 << 13
BLOCK_BYTES = 8 * COLUMNS * ROWS
SIZES = {"m_source": COLUMNS, "rows": ROWS, "ring_bytes": 8}
PLAN = load_plan(measuring.plan())
PARTIES = {party.name: party for party in PLAN.roster("C").parties}
Ends = list[socket.socket]
Way = Callable[[Ends], None]


def text() -> str:
    """Return the table of all ways."""
    ways = {
        "ssl": partial(measure, send_plainly, receive_plainly),
        "links": partial(measure, send_messages, receive_messages),
        "forwarded": partial(measure, send_messages, receive_messages, forwarded=True),
    }
    seconds = {way: statistics.median(times) for way, times in measuring.in_turn(ways).items()}
    lines = [
        (way, f"{BLOCKS * BLOCK_BYTES / 1e6 / median:.0f}", f"{seconds['ssl'] / median:.2f}")
        for way, median in seconds.items()
    ]
    return f"{measuring.table(['', 'MB/s', 'of ssl'], lines)}\n{measuring.environment()}"


def measure(send: Way, receive: Way, *, forwarded: bool = False) -> float:
    """Return the seconds from the first block's departure to the last one's arrival."""
    context = multiprocessing.get_context("spawn")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if forwarded:
        receiving, sending = context.Pipe()
        context.Process(target=_forward, args=(sending,), daemon=True).start()
        port = receiving.recv()
    control, control_of_sender = context.Pipe()
    sender = context.Process(target=_send_from_process, args=(control_of_sender, port, send, forwarded))
    sender.start()
    ends = []
    for _ in range(2):
        raw = _through(port, "B") if forwarded else listener.accept()[0]
        ends.append(_secured(raw, "B", "A", server=True))
    ends.sort(key=lambda end: bytes(receive_exactly(end, 1)))
    control.send("go")
    start = time.perf_counter()
    receive(ends)
    seconds = time.perf_counter() - start
    control.send("done")
    sender.join()
    for end in (*ends, listener):
        end.close()
    return seconds


def _send_from_process(control: Connection, port: int, send: Way, forwarded: bool) -> None:
    ends = []
    for number in range(2):
        raw = _through(port, "A") if forwarded else socket.create_connection(("127.0.0.1", port))
        ends.append(_secured(raw, "A", "B", server=False))
        ends[-1].sendall(bytes([number]))
    control.recv()
    send(ends)
    control.recv()
    for end in ends:
        end.close()


def _secured(raw: socket.socket, me: str, peer: str, *, server: bool) -> socket.socket:
    """Shake hands, with keys that each process makes of the parties' names: nothing here is a secret."""
    keys = {name: Identity(Ed25519PrivateKey.from_private_bytes(name.encode() * 32)) for name in PARTIES}
    tls = Tls(keys[me], {PARTIES[peer]: keys[peer].public})
    secured = tls.answer(raw, PARTIES[peer])[0] if server else tls.call(raw, PARTIES[peer])
    secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return cast("socket.socket", secured)


def _through(port: int, party: str) -> socket.socket:
    """Connect a party to the process that forwards."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(party.encode())
    return _secured(raw, party, "C", server=False)


def _forward(port: Connection) -> None:
    """Pass on bytes between two parties, two connections of each."""
    listener = socket.create_server(("127.0.0.1", 0))
    port.send(listener.getsockname()[1])
    forwarding = Forwarding(lambda low, high, size: None)
    for _ in range(4):
        raw, _ = listener.accept()
        name = raw.recv(1).decode()
        connection = cast("Any", _secured(raw, "C", name, server=True))
        forwarding.install(PARTIES[name].number, 3 - PARTIES[name].number, connection)
    forwarding.close(3600)


def send_plainly(ends: Ends) -> None:
    """Send by a socket alone."""
    data = bytes(BLOCK_BYTES)
    for _ in range(BLOCKS):
        ends[0].sendall(data)


def receive_plainly(ends: Ends) -> None:
    """Receive by a socket alone."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    missing = BLOCKS * BLOCK_BYTES
    while missing:
        missing -= ends[0].recv_into(buffer, min(missing, BLOCK_BYTES))


def send_messages(ends: Ends) -> None:
    """Send by the links."""
    links, target = _links("A", ends[0], ends[1])
    values = np.arange(COLUMNS * ROWS, dtype=np.int64).reshape(COLUMNS, ROWS)
    for _ in range(BLOCKS):
        links.send(target, Kind.MASKED, {"block": values}, sizes=SIZES)
    links.close()


def receive_messages(ends: Ends) -> None:
    """Receive by the links."""
    links, source = _links("B", ends[1], ends[0])
    for _ in range(BLOCKS):
        links.receive(source, Kind.MASKED, sizes=SIZES)
    links.close()


def _links(party: str, sending: socket.socket, receiving: socket.socket) -> tuple[Links, Party]:
    whole = PLAN.roster(party)
    roster = Roster(whole.parties[1:], whole.me)  # no coordinator: a pair
    peer = roster.peers[0]
    sockets = Sockets({peer.number: sending}, {peer.number: receiving})
    return Links(partial(VIEW.fields, PLAN.terms), roster, sockets, Meter(), PLAN.network.timeout), peer


if __name__ == "__main__":
    print(text())
