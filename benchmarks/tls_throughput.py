"""Compare our links with a plain TLS socket: megabytes a second from one process to another on loopback.

    python benchmarks/tls_throughput.py [--blocks 400]

One direction, blocks of 1 MB as they travel in a run, the median of the repeats, all ways in turn:

- ``ssl``: a plain blocking `ssl` socket, TLS 1.3, `sendall` and `recv_into`, and nothing else;
- ``links``: :mod:`mpc_spearman.wire.links` over our two TLS connections: messages encoded, checked, counted;
- ``forwarded``: by way of a third process, the coordinator's, with TLS to each of the two outside and TLS of
  the two inside (:mod:`mpc_spearman.network.forwarding`): here all of it on the same processors.
"""

from __future__ import annotations

import multiprocessing
import socket
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
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.sockets import Sockets, receive_exactly
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

#: Bytes of a block: 16 columns of 8,192 ring elements.
COLUMNS, ROWS = 16, 1 << 13
BLOCK = 8 * COLUMNS * ROWS
SIZES = {"m_source": COLUMNS, "rows": ROWS, "ring_bytes": 8}
PLAN = load_plan(measuring.plan())
PARTIES = {party.name: party for party in PLAN.roster("C").parties}
Ends = list[socket.socket]
Way = Callable[[Ends, int], None]


def main() -> None:
    """Measure every way and print a table."""
    parser = measuring.parser(__doc__, writes=False)
    parser.add_argument("--blocks", type=int, default=400)
    options = parser.parse_args()
    ways = {
        "ssl": lambda: measure(send_plainly, receive_plainly, options.blocks),
        "links": lambda: measure(send_messages, receive_messages, options.blocks),
        "forwarded": lambda: measure(send_messages, receive_messages, options.blocks, forwarded=True),
    }
    found = measuring.in_turn(ways)
    rows = [
        [name, f"{options.blocks * BLOCK / 1e6 / seconds:.0f}", f"{found['ssl'] / seconds:.2f}"]
        for name, seconds in found.items()
    ]
    print(measuring.table(["", "MB/s", "of ssl's"], rows), measuring.environment(), sep="\n")


def measure(send: Way, receive: Way, blocks: int, *, forwarded: bool = False) -> float:
    """Return the seconds from the first block's departure to the last one's arrival."""
    context = multiprocessing.get_context("spawn")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if forwarded:
        found, tells = context.Pipe()
        context.Process(target=_forward, args=(tells,), daemon=True).start()
        port = found.recv()
    here, there = context.Pipe()
    sender = context.Process(target=_from_other_process, args=(there, port, send, blocks, forwarded))
    sender.start()
    ends = []
    for _ in range(2):
        raw = _through(port, "B") if forwarded else listener.accept()[0]
        ends.append(_secured(raw, "B", "A", server=True))
    ends.sort(key=lambda end: bytes(receive_exactly(end, 1)))
    here.send("go")
    start = time.perf_counter()
    receive(ends, blocks)
    seconds = time.perf_counter() - start
    here.send("done")
    sender.join()
    for end in (*ends, listener):
        end.close()
    return seconds


def _from_other_process(go: Connection, port: int, send: Way, blocks: int, forwarded: bool) -> None:
    ends = []
    for number in range(2):
        raw = _through(port, "A") if forwarded else socket.create_connection(("127.0.0.1", port))
        ends.append(_secured(raw, "A", "B", server=False))
        ends[-1].sendall(bytes([number]))
    go.recv()
    send(ends, blocks)
    go.recv()
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
    """Connect to the process that forwards, and say who one is."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(party.encode())
    return _secured(raw, party, "C", server=False)


def _forward(tell: Connection) -> None:
    """Pass on bytes between two parties, two connections of each."""
    listener = socket.create_server(("127.0.0.1", 0))
    tell.send(listener.getsockname()[1])
    forwarding = Forwarding(lambda low, high, size: None)
    for _ in range(4):
        raw, _ = listener.accept()
        name = raw.recv(1).decode()
        connection = cast("Any", _secured(raw, "C", name, server=True))
        forwarding.install(PARTIES[name].number, 3 - PARTIES[name].number, connection)
    forwarding.close(3600)


def send_plainly(ends: Ends, blocks: int) -> None:
    """Send by a socket alone."""
    data = bytes(BLOCK)
    for _ in range(blocks):
        ends[0].sendall(data)


def receive_plainly(ends: Ends, blocks: int) -> None:
    """Receive by a socket alone."""
    buffer = memoryview(bytearray(BLOCK))
    left = blocks * BLOCK
    while left:
        left -= ends[0].recv_into(buffer, min(left, BLOCK))


def send_messages(ends: Ends, blocks: int) -> None:
    """Send by the links."""
    links, target = _links("A", ends[0], ends[1])
    values = np.arange(COLUMNS * ROWS, dtype=np.int64).reshape(COLUMNS, ROWS)
    for _ in range(blocks):
        links.send(target, Kind.MASKED, {"block": values}, sizes=SIZES)
    links.close()


def receive_messages(ends: Ends, blocks: int) -> None:
    """Receive by the links."""
    links, source = _links("B", ends[1], ends[0])
    for _ in range(blocks):
        links.receive(source, Kind.MASKED, sizes=SIZES)
    links.close()


def _links(party: str, sending: socket.socket, receiving: socket.socket) -> tuple[Links, Party]:
    whole = PLAN.roster(party)
    roster = Roster(whole.parties[1:], whole.me)  # no coordinator: a pair
    peer = roster.peers[0]
    sockets = Sockets({peer.number: sending}, {peer.number: receiving})
    return Links(partial(VIEW.fields, PLAN.terms), roster, sockets, Meter(), PLAN.network.timeout), peer


if __name__ == "__main__":
    main()
