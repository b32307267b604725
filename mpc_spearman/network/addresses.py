"""Addresses of hosts: listening there, and connecting to them, directly or through an HTTP proxy."""

from __future__ import annotations

import os
import re
import socket
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address

from mpc_spearman.errors import SetupError

#: The environment variables with a proxy's credentials; no file and no command line has them.
PROXY_USER, PROXY_PASSWORD = "MPC_SPEARMAN_PROXY_USER", "MPC_SPEARMAN_PROXY_PASSWORD"
# Connections that may wait to be accepted.
_BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """A host's name or address, an IPv6 one without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Tell whether a host's address cannot be reached from another machine."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return all(ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)
    except (OSError, ValueError):
        return False


def listening(address: Address) -> socket.socket:
    """Listen there; without a host on all addresses of this machine, of either version of IP."""
    if not address.host:
        dual = socket.has_dualstack_ipv6()
        any_of = socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server(("", address.port), family=any_of, backlog=_BACKLOG, dualstack_ipv6=dual)
    *others, last = _resolved(address)
    for family, *_, where in others:
        with suppress(OSError):  # such as ::1 of a `localhost` where IPv6 is off
            return socket.create_server(where[:2], family=family, backlog=_BACKLOG)
    return socket.create_server(last[4][:2], family=last[0], backlog=_BACKLOG)


def dial(address: Address, seconds: float, proxy: Address | None = None) -> socket.socket:
    """Connect, trying all addresses that the host's name has, within so many seconds together.

    The returned connection keeps this time-out. A `proxy` is asked to CONNECT (RFC 9110, 9.3.6), and resolves
    the name. `OSError.strerror` says why the first address could not be reached; `SetupError` if the proxy
    wants credentials, or others.
    """
    if proxy is not None:
        return _through(proxy, address, seconds)
    end, first = time.monotonic() + seconds, None
    found = _resolved(address)
    for left, (family, kind, protocol, _, where) in zip(range(len(found), 0, -1), found, strict=True):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(max(0.05, (end - time.monotonic()) / left))
            raw.connect(where)
        except OSError as error:
            raw.close()
            first = first or error
        else:
            raw.settimeout(seconds)
            return raw
    raise OSError(None, _reason(first)) from None


def _resolved(address: Address) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except ValueError:  # of the codec for names
        raise OSError(None, "no host can have such a name") from None
    return list(dict.fromkeys(found))  # type: ignore[arg-type]  # TCP has (host, port, …)


def _reason(error: OSError | None) -> str:
    if isinstance(error, TimeoutError):
        return "nothing answers"
    return str(getattr(error, "strerror", None) or type(error).__name__)


def _through(proxy: Address, address: Address, seconds: float) -> socket.socket:
    """Have a proxy connect; of its answer only the status is shown. `SetupError` if it wants credentials."""
    sent, connection = _credentials(os.environ), HTTPConnection(proxy.host, proxy.port, timeout=seconds)
    host = f"[{address.host}]" if ":" in address.host else address.host
    connection.set_tunnel(host, address.port, sent)
    try:
        connection.connect()
    except (OSError, HTTPException, ValueError) as error:
        connection.close()
        status = re.search(r"Tunnel connection failed: (\d{3})", str(error))
        if status is None and isinstance(error, OSError):
            raise OSError(None, f"the proxy {proxy}: {_reason(error)}") from None
        if status is None:
            raise OSError(None, f"the proxy {proxy} does not answer as an HTTP proxy") from None
        if status.group(1) == "407":  # never again with the same credentials: that can lock an account
            where = f"the environment's {PROXY_USER} and {PROXY_PASSWORD}"
            why = f"refuses the credentials in {where}" if sent else f"wants credentials: set {where}"
            raise SetupError(f"the proxy {proxy} {why} (status 407)") from None
        raise OSError(None, f"the proxy {proxy} refused, with status {status.group(1)}") from None
    raw: socket.socket = connection.sock
    raw.settimeout(seconds)
    return raw


def _credentials(environment: Mapping[str, str]) -> dict[str, str]:
    user = environment.get(PROXY_USER)
    if not user:
        return {}
    pair = f"{user}:{environment.get(PROXY_PASSWORD, '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(pair).decode()}"}
