"""Compare our links with a plain TLS socket: megabytes a second from one process to another on loopback.

    python benchmarks/tls_throughput.py [--blocks 400] [--repeats 5]

One direction, blocks of 1 MB as they travel in a run, the best of the repeats, all ways in turn:

- ``ssl``: a plain blocking `ssl` socket, TLS 1.3, `sendall` and `recv_into`, and nothing else;
- ``transport``: our two connections per pair (:mod:`mpc_spearman.network.sockets`), over TLS;
- ``links``: all of :mod:`mpc_spearman.wire.links` over TLS: messages encoded, checked and counted;
- ``links, plain``: the same over TCP alone, which no run does;
- ``forwarded``: by way of a third process, the coordinator's, with TLS to each of the two outside and TLS of
  the two inside (:mod:`mpc_spearman.network.forwarding`): here all of it on the same processors;
- ``spliced``: the same without the TLS outside.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, cast

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mpc_spearman.config import load_plan
from mpc_spearman.identity import Identity
from mpc_spearman.levels.view import VIEW
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

#: Bytes of a block: 16 columns of 8,192 ring elements.
COLUMNS, ROWS = 16, 1 << 13
BLOCK = 8 * COLUMNS * ROWS
#: Share of a plain TLS socket's throughput wanted, and where forwarded of the direct connection's.
TARGET, FORWARDED = 0.6, 0.4
SIZES = {"m_source": COLUMNS, "rows": ROWS, "ring_bytes": 8}
PLAN = load_plan(
    {"parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}}
)
PARTIES = {party.name: party for party in Roster.of(PLAN, "C").parties}
End = Callable[[list[socket.socket], int], None]


@dataclass(frozen=True)
class Way:
    """Bytes from one process to another: what sends, what receives, and what is between."""

    sender: End
    receiver: End
    secure: bool = True
    forwarded: str = ""


def main() -> None:
    """Measure every way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ways: dict[str, Way] = {
        "ssl": Way(send_plainly, receive_plainly),
        "transport": Way(send_frames, receive_frames),
        "transport, forwarded": Way(send_frames, receive_frames, forwarded="tls"),
        "transport, spliced": Way(send_frames, receive_frames, forwarded="tcp"),
        "links": Way(send_messages, receive_messages),
        "links, forwarded": Way(send_messages, receive_messages, forwarded="tls"),
        "links, spliced": Way(send_messages, receive_messages, forwarded="tcp"),
        "links, plain": Way(send_messages, receive_messages, secure=False),
    }
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for name, way in ways.items():
            speeds[name].append(options.blocks * BLOCK / 1e6 / measure(way, options.blocks))
    print(f"{options.blocks} blocks of {BLOCK / 1e6:.1f} MB, {options.repeats} times, in turn")
    print(f"{'':22}{'best MB/s':>10}{'/ ssl':>8}{'wanted':>8}{'/ direct':>10}{'wanted':>8}")
    for name, found in speeds.items():
        wanted = f"{TARGET:>8}" if name in ("transport", "links") else f"{'':8}"
        line = f"{name:22}{max(found):>10.0f}{max(found) / max(speeds['ssl']):>8.2f}{wanted}"
        direct = speeds.get(name.partition(",")[0])
        if ways[name].forwarded and direct:
            # Of each pair that was measured one after the other, the ratio in the middle.
            ratio = median(one / other for one, other in zip(found, direct, strict=True))
            line += f"{ratio:>10.2f}" + (f"{FORWARDED:>8}" if name == "links, forwarded" else "")
        print(line)


def measure(way: Way, blocks: int) -> float:
    """Return the seconds from the first block's departure to the last one's arrival."""
    context = multiprocessing.get_context("spawn")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    here, there = context.Pipe()
    processes = []
    if way.forwarded:
        found, tells = context.Pipe()
        forwarder = context.Process(target=_forward, args=(tells, way.forwarded == "tls"), daemon=True)
        forwarder.start()
        processes.append(forwarder)
        port = found.recv()
    sender = context.Process(target=_from_other_process, args=(there, port, way, blocks))
    sender.start()
    if way.forwarded:
        unsorted = [_secured(_through(port, "B", way), "B", "A", server=True) for _ in range(2)]
        ends = sorted(unsorted, key=lambda end: end.recv(1))
    else:
        ends = []
        for _ in range(2):
            raw, _ = listener.accept()
            ends.append(_secured(raw, "B", "A", server=True) if way.secure else raw)
    here.send("go")
    start = time.perf_counter()
    way.receiver(ends, blocks)
    seconds = time.perf_counter() - start
    here.send("done")
    sender.join()
    for end in (*ends, listener):
        end.close()
    for process in processes:
        process.terminate()
        process.join()
    return seconds


def _from_other_process(go: Connection, port: int, way: Way, blocks: int) -> None:
    ends = []
    for number in range(2):
        raw = _through(port, "A", way) if way.forwarded else socket.create_connection(("127.0.0.1", port))
        ends.append(_secured(raw, "A", "B", server=False) if way.secure else raw)
        if way.forwarded:
            ends[-1].sendall(bytes([number]))
    go.recv()
    way.sender(ends, blocks)
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


# --- by way of a third process ------------------------------------------------------------------------


def _through(port: int, party: str, way: Way) -> socket.socket:
    """Connect to the process that forwards, and say who one is."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(party.encode())
    return _secured(raw, party, "C", server=False) if way.forwarded == "tls" else raw


def _forward(tell: Connection, secure: bool) -> None:
    """Pass on bytes between two parties, two connections of each."""
    listener = socket.create_server(("127.0.0.1", 0))
    tell.send(listener.getsockname()[1])
    forwarding = Forwarding(lambda low, high, size: None)
    for _ in range(4):
        raw, _ = listener.accept()
        name = raw.recv(1).decode()
        connection = _secured(raw, "C", name, server=True) if secure else raw
        forwarding.install(PARTIES[name].number, 3 - PARTIES[name].number, cast("Any", connection))
    forwarding.close(3600)


# --- the ways -------------------------------------------------------------------------------------------


def send_plainly(ends: list[socket.socket], blocks: int) -> None:
    """Send by a socket alone."""
    data = bytes(BLOCK)
    for _ in range(blocks):
        ends[0].sendall(data)


def receive_plainly(ends: list[socket.socket], blocks: int) -> None:
    """Receive by a socket alone."""
    buffer = memoryview(bytearray(BLOCK))
    left = blocks * BLOCK
    while left:
        left -= ends[0].recv_into(buffer, min(left, BLOCK))


def send_frames(ends: list[socket.socket], blocks: int) -> None:
    """Send by the transport."""
    sockets, data = Sockets({1: ends[0]}, {1: ends[1]}), bytes(BLOCK)
    for _ in range(blocks):
        sockets.send(1, bytes(24), data)


def receive_frames(ends: list[socket.socket], blocks: int) -> None:
    """Receive by the transport."""
    sockets = Sockets({2: ends[1]}, {2: ends[0]})
    for _ in range(blocks):
        sockets.receive(2, 24, lambda: None)
        sockets.receive(2, BLOCK, lambda: None)


def send_messages(ends: list[socket.socket], blocks: int) -> None:
    """Send by the links."""
    links, target = _links("A", ends[0], ends[1])
    values = np.arange(COLUMNS * ROWS, dtype=np.int64).reshape(COLUMNS, ROWS)
    for _ in range(blocks):
        links.send(target, Kind.MASKED, {"block": values}, sizes=SIZES)
    links.close()


def receive_messages(ends: list[socket.socket], blocks: int) -> None:
    """Receive by the links."""
    links, source = _links("B", ends[1], ends[0])
    for _ in range(blocks):
        links.receive(source, Kind.MASKED, sizes=SIZES)
    links.close()


def _links(party: str, sending: socket.socket, receiving: socket.socket) -> tuple[Links, Party]:
    """Two parties' links."""
    whole = Roster.of(PLAN, party)
    roster = Roster(whole.parties[1:], whole.me)  # no coordinator: a pair
    peer = roster.peers[0]
    sockets = Sockets({peer.number: sending}, {peer.number: receiving})
    return Links(VIEW.under(PLAN.shared()), roster, sockets, Meter(), PLAN.network.timeout), peer


if __name__ == "__main__":
    main()
