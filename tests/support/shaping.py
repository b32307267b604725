"""A network of hosts within this one, as slow as wanted: Linux, root.

Each party gets a network namespace, which is to its processes a host of its own: own addresses, own ports,
own loopback. All are connected through one more namespace, the hub::

    party ══ veth, tbf ══ hub ══ veth, tbf ══ party

- **rate**: ``tbf``, the kernel's token bucket filter, at both ends of every veth pair: what a party sends,
  and what it is sent.
- **delay**: the hub routes what comes from a party into a TUN device. A process (this file, executed)
  reads each packet there, holds it for the delay and writes it back unchanged; only then the hub routes it to
  its destination. The kernel's own means for this, ``netem``, is often not built in.

Packets are cut to the size of a wire's (no segmentation offload), so the interfaces' counters count what a
network card's would: all headers of IP and Ethernet included. Nothing here touches the host's own network,
and when the block ends, whatever still runs in the namespaces is killed and they are gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

_TUN = "/dev/net/tun"
# From linux/if_tun.h: bind a file to a device; a device of IP packets, without a header of its own.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_HUB, _SUBNET, _VIA_RELAY = "10.77.0.254", "10.77.0", "77"
_LARGEST_PACKET = 1 << 16
# Packets that the hub holds for the relay while it is busy writing.
_QUEUE = "10000"
# What tbf lets through at once, and how long a packet may wait for its turn before it is dropped.
_BURST, _PATIENCE = "32kb", "50ms"


@dataclass(frozen=True)
class Counters:
    """What an interface has carried, Ethernet headers included.

    Attributes
    ----------
    sent, received : int
        Bytes.
    packets_sent, packets_received : int
    """

    sent: int
    received: int
    packets_sent: int
    packets_received: int

    def __sub__(self, before: Counters) -> Counters:
        return Counters(
            self.sent - before.sent,
            self.received - before.received,
            self.packets_sent - before.packets_sent,
            self.packets_received - before.packets_received,
        )


def unavailable() -> str | None:
    """Say why this process cannot make such a network; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces take Linux and root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"the command {tool} is missing (package iproute2)"
    if not os.path.exists(_TUN):
        return f"{_TUN} is missing"
    probe = f"mpcs-{secrets.token_hex(4)}"
    try:
        _run("ip", "netns", "add", probe)
        _run("ip", "netns", "del", probe)
    except RuntimeError as error:
        return str(error)
    return None


class ShapedNetwork:
    """Hosts for parties, for the length of a ``with`` block.

    Parameters
    ----------
    parties : sequence of str
    rate : float, optional
        Bits a second that each party can send, and be sent; None for as fast as this machine is.
    delay : float
        Seconds that a packet takes from any party to any other: half a round trip.

    Raises
    ------
    RuntimeError
        On entering: it cannot be made here; :func:`unavailable` says so beforehand.

    Examples
    --------
    >>> with ShapedNetwork(["C", "B", "A"], rate=1e8, delay=0.02) as network:  # doctest: +SKIP
    ...     subprocess.run(network.command("B", "ping", "-c", "3", network.address("A")))
    """

    def __init__(self, parties: Sequence[str], rate: float | None = None, delay: float = 0.0) -> None:
        self._parties, self._rate, self._delay = tuple(parties), rate, delay
        # A name of its own for each: several networks may exist at a time.
        self._prefix = f"mpcs-{secrets.token_hex(4)}"
        self._hub = f"{self._prefix}-hub"
        self._undo = ExitStack()

    def __enter__(self) -> ShapedNetwork:
        with ExitStack() as undo:
            for name in (self._hub, *map(self.namespace, self._parties)):
                _run("ip", "netns", "add", name)
                undo.callback(_remove, name)
                _setting(name, "net/ipv6/conf/all/disable_ipv6", "1")  # would add packets of its own
                _run("ip", "-n", name, "link", "set", "lo", "up")
            _setting(self._hub, "net/ipv4/ip_forward", "1")
            for scope in ("all", "default"):  # what the relay gives back comes in by another device
                _setting(self._hub, f"net/ipv4/conf/{scope}/rp_filter", "0")
            for party in self._parties:
                self._connect(party)
            if self._delay:
                self._hold_packets(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._undo.close()

    def address(self, party: str) -> str:
        """Return a party's address."""
        return f"{_SUBNET}.{self._parties.index(party) + 1}"

    def command(self, party: str, *command: str) -> list[str]:
        """Return the command that runs another one on a party's host."""
        return ["ip", "netns", "exec", self.namespace(party), *command]

    def counters(self, party: str) -> Counters:
        """Return what a party's interface has carried so far."""
        shown = _run("ip", "-n", self.namespace(party), "-s", "-j", "link", "show", "dev", "eth0")
        figures: dict[str, dict[str, Any]] = json.loads(shown)[0]["stats64"]
        sent, received = figures["tx"], figures["rx"]
        return Counters(sent["bytes"], received["bytes"], sent["packets"], received["packets"])

    def namespace(self, party: str) -> str:
        """Return the name of a party's namespace."""
        return f"{self._prefix}-{self._parties.index(party)}"

    def _port(self, party: str) -> str:
        return f"port{self._parties.index(party)}"

    def _connect(self, party: str) -> None:
        host, port, address = self.namespace(party), self._port(party), self.address(party)
        cable = ("link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", host)
        _run("ip", "-n", self._hub, *cable)
        for name, device, own, peer in ((host, "eth0", address, _HUB), (self._hub, port, _HUB, address)):
            _run("ip", "-n", name, "address", "add", own, "peer", peer, "dev", device)
            _run("ip", "-n", name, "link", "set", "dev", device, "gso_max_segs", "1", "up")
            if self._rate is not None:
                limit = ("rate", f"{round(self._rate)}bit", "burst", _BURST, "latency", _PATIENCE)
                _run("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", *limit)
        _run("ip", "-n", host, "route", "add", "default", "via", _HUB)

    def _hold_packets(self, undo: ExitStack) -> None:
        _run("ip", "-n", self._hub, "tuntap", "add", "dev", "relay", "mode", "tun")
        relay = subprocess.Popen(
            ["ip", "netns", "exec", self._hub, sys.executable, __file__, "relay", str(self._delay)],
            stdin=subprocess.PIPE,  # closed when this process ends, however it does: then the relay ends
            stdout=subprocess.PIPE,
        )
        undo.callback(_stop, relay)
        if relay.stdout is None or not relay.stdout.readline():
            raise RuntimeError("the relay that delays packets did not start; its own message says why")
        _run("ip", "-n", self._hub, "link", "set", "dev", "relay", "txqueuelen", _QUEUE, "up")
        _run("ip", "-n", self._hub, "route", "add", "default", "dev", "relay", "table", _VIA_RELAY)
        for party in self._parties:
            _run("ip", "-n", self._hub, "rule", "add", "iif", self._port(party), "lookup", _VIA_RELAY)


def _run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise RuntimeError(f"cannot make a network within this host: `{' '.join(command)}`: {reason}")
    return done.stdout


def _setting(namespace: str, name: str, value: str) -> None:
    _run("ip", "netns", "exec", namespace, "tee", f"/proc/sys/{name}", text=value)


def _remove(namespace: str) -> None:
    """Delete a namespace with all that runs in it: otherwise it would live on without a name."""
    with suppress(RuntimeError):
        for pid in _run("ip", "netns", "pids", namespace).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    with suppress(RuntimeError):
        _run("ip", "netns", "del", namespace)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


# --- the relay: a process of its own, in the hub's namespace --------------------------------------------


def relay(device: int, delay: float, until: int) -> None:
    """Read packets from a TUN device and write each back after the delay, in order.

    Parameters
    ----------
    device : int
        Its file descriptor, non-blocking.
    delay : float
        Seconds.
    until : int
        A file descriptor at whose end this ends.
    """
    held: deque[tuple[float, bytes]] = deque()
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready, _, _ = select.select([device, until], [], [], wait)
        if until in ready:
            return
        if device in ready:
            with suppress(BlockingIOError):
                for _ in range(64):  # not for ever: what is due has to leave
                    held.append((time.monotonic() + delay, os.read(device, _LARGEST_PACKET)))
        now = time.monotonic()
        while held and held[0][0] <= now:
            with suppress(OSError):  # one packet lost, as on any network
                os.write(device, held.popleft()[1])


def main(name: str, delay: str) -> None:
    """Attach to the TUN device, say so, and relay until the other end of standard input is closed."""
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    with suppress(OSError):
        os.nice(-10)  # a relay that waits for a processor would add to the delay
    print("ready", flush=True)
    relay(device, float(delay), sys.stdin.fileno())


if __name__ == "__main__":
    main(*sys.argv[1:])
