"""Compare our links with a plain TLS socket: megabytes a second from one process to another on loopback.

    python benchmarks/tls_throughput.py [--blocks 100] [--repeats 5]

One direction, blocks of 4 MB as they travel in a run, the best of the repeats, all ways in turn:

- ``ssl``: a plain blocking `ssl` socket, TLS 1.3, `sendall` and `recv_into`, and nothing else;
- ``transport``: our two connections per pair (:mod:`mpc_spearman.wire.sockets`), over TLS;
- ``links``: all of :mod:`mpc_spearman.wire.links` over TLS: messages encoded and checked, encrypted and
  authenticated once more under the pair's own key;
- ``links, plain``: the same over TCP alone, as between the roles on one machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import load_plan
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.certificates import make_certificates
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from mpc_spearman.wire.sockets import Sockets
from mpc_spearman.wire.tls import Credentials, client_context, handshake, server_context

#: Bytes of a block: 16 columns of 32,768 ring elements.
COLUMNS, ROWS = 16, 1 << 15
BLOCK = 8 * COLUMNS * ROWS
#: Share of a plain TLS socket's throughput wanted.
TARGET = 0.6
SIZES = {"m_source": COLUMNS, "rows": ROWS}
PLAN = load_plan(
    {"parties": {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A"}]}}
)
End = Callable[[list[socket.socket], int], None]


def main() -> None:
    """Measure every way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ways: dict[str, tuple[End, End, bool]] = {
        "ssl": (send_plainly, receive_plainly, True),
        "transport": (send_frames, receive_frames, True),
        "links": (send_messages, receive_messages, True),
        "links, plain": (send_messages, receive_messages, False),
    }
    best = dict.fromkeys(ways, 0.0)
    with tempfile.TemporaryDirectory() as name:
        make_certificates(Path(name) / "certs", ["A", "B"])
        for _ in range(options.repeats):
            for way, (sender, receiver, secure) in ways.items():
                seconds = measure(sender, receiver, Path(name) / "certs" if secure else None, options.blocks)
                best[way] = max(best[way], options.blocks * BLOCK / 1e6 / seconds)
    print(f"{options.blocks} blocks of {BLOCK / 1e6:.1f} MB, best of {options.repeats}")
    print(f"{'':14}{'MB/s':>8}{'/ ssl':>8}{'wanted':>8}")
    for way, speed in best.items():
        wanted = f"{TARGET:>8}" if way in ("transport", "links") else ""
        print(f"{way:14}{speed:>8.0f}{speed / best['ssl']:>8.2f}{wanted}")


def measure(sender: End, receiver: End, certs: Path | None, blocks: int) -> float:
    """Return the seconds from the first block's departure to the last one's arrival."""
    context = multiprocessing.get_context("spawn")
    listener = socket.create_server(("127.0.0.1", 0))
    here, there = context.Pipe()
    arguments = (there, listener.getsockname()[1], sender, certs, blocks)
    process = context.Process(target=_from_other_process, args=arguments)
    process.start()
    ends = [_secured(listener.accept()[0], certs, "B", server=True) for _ in range(2)]
    here.send("go")
    start = time.perf_counter()
    receiver(ends, blocks)
    seconds = time.perf_counter() - start
    here.send("done")
    process.join()
    for end in (*ends, listener):
        end.close()
    return seconds


def _from_other_process(go: Connection, port: int, sender: End, certs: Path | None, blocks: int) -> None:
    ends = [
        _secured(socket.create_connection(("127.0.0.1", port)), certs, "A", server=False) for _ in range(2)
    ]
    go.recv()
    sender(ends, blocks)
    go.recv()
    for end in ends:
        end.close()


def _secured(raw: socket.socket, certs: Path | None, party: str, *, server: bool) -> socket.socket:
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if certs is None:
        return raw
    files = Credentials(certs / "ca.pem", certs / f"{party}.pem", certs / f"{party}.key")
    return handshake(raw, (server_context if server else client_context)(files), "the other end")


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
    """Two parties' links, with a key that both derive from the same made-up secrets: nothing here is one."""
    whole = Roster.of(PLAN, party)
    roster = Roster(whole.parties[1:], whole.me)  # no coordinator: a pair
    peer = roster.peers[0]
    sockets = Sockets({peer.rank: sending}, {peer.rank: receiving})
    links = Links(PLAN.shared(), roster, sockets, Meter(), PLAN.network.timeout)
    secrets = {name: X25519PrivateKey.from_private_bytes(name.encode() * 32) for name in "AB"}
    theirs = secrets[peer.name].public_key().public_bytes_raw()
    links.secure(peer, PairKey(secrets[party], theirs, roster.me, peer, bytes(16), bytes(32)))
    return links, peer


if __name__ == "__main__":
    main()
