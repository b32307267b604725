"""Addresses of hosts; nothing here is sent."""

from __future__ import annotations

import socket
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Tell whether a host's address cannot be reached from another machine."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return all(ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)
    except (OSError, ValueError):
        return False


def own_address(host: str, port: int) -> str:
    """Return the address of this machine from which it reaches a host; `OSError` if there is none."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))  # of a datagram socket: looks up the route and sends nothing
        return str(probe.getsockname()[0])
