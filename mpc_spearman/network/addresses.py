"""Listen at the address of a host, or connect to it, directly or through an HTTP proxy."""

from __future__ import annotations

import os
import re
import socket
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any, NamedTuple

from mpc_spearman.errors import SetupError

#: The environment variables with a proxy's credentials; no file and no command line has them.
PROXY_USER, PROXY_PASSWORD = "MPC_SPEARMAN_PROXY_USER", "MPC_SPEARMAN_PROXY_PASSWORD"
# Connections that may wait to be accepted.
_BACKLOG = 128
# Longest name of a host.
_LONGEST_HOST = 255


class Address(NamedTuple):
    """A host's name or address, an IPv6 one without brackets, and a port."""

    host: str
    port: int

    @classmethod
    def from_json(cls, value: Any) -> Address | None:
        """Return a peer's address; ValueError or TypeError unless it is null, or a host and a port."""
        if value is None:
            return None
        host, port = value
        if not isinstance(host, str) or not 0 < len(host) <= _LONGEST_HOST or not host.isprintable():
            raise ValueError("no host")
        if type(port) is not int or not 0 < port < 1 << 16:
            raise ValueError("no port")
        return cls(host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether a host's address cannot be reached from another machine."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return all(ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in entries)
    except (OSError, ValueError):
        return False


def listen_at(address: Address) -> socket.socket:
    """Return a socket that listens at an address; without a host, at all addresses of this machine."""
    if not address.host:
        dual = socket.has_dualstack_ipv6()
        version = socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server(("", address.port), family=version, backlog=_BACKLOG, dualstack_ipv6=dual)
    *first_entries, last = _resolved(address)
    for family, *_, address_tuple in first_entries:
        with suppress(OSError):  # such as ::1 of a `localhost` where IPv6 is off
            return socket.create_server(address_tuple[:2], family=family, backlog=_BACKLOG)
    return socket.create_server(last[4][:2], family=last[0], backlog=_BACKLOG)


def dial(address: Address, seconds: float, proxy: Address | None = None) -> socket.socket:
    """Return a connection to the first of a host's addresses that answers, within `seconds` in all.

    The returned connection keeps this time-out. A `proxy` is asked to CONNECT (RFC 9110, 9.3.6), and resolves
    the name. `OSError.strerror` says why the first address, which the system prefers, could not be
    reached; `SetupError` if the proxy wants credentials, or refuses those that it was given.
    """
    if proxy is not None:
        return _dial_through(proxy, address, seconds)
    entries, first_error = _resolved(address), None
    for family, kind, protocol, _, address_tuple in entries:
        connection = None
        try:
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(max(0.05, seconds / len(entries)))
            connection.connect(address_tuple)
        except OSError as error:
            first_error = first_error or error
            if connection is not None:
                connection.close()
        else:
            connection.settimeout(seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small messages go at once
            return connection
    assert first_error is not None
    raise OSError(None, _reason(first_error)) from None


def _resolved(address: Address) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    try:
        entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except ValueError:  # of the codec for names
        raise OSError(None, "no host can have such a name") from None
    return list(dict.fromkeys(entries))  # type: ignore[arg-type]  # TCP has (host, port, …)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "nothing answers"
    return error.strerror or type(error).__name__


def _dial_through(proxy: Address, address: Address, seconds: float) -> socket.socket:
    """Return a connection that a proxy has made; an error shows only the status of its answer."""
    credentials = _credentials()
    connection = HTTPConnection(proxy.host, proxy.port, timeout=seconds)
    host = f"[{address.host}]" if ":" in address.host else address.host
    connection.set_tunnel(host, address.port, credentials)
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
            variables = f"the environment's {PROXY_USER} and {PROXY_PASSWORD}"
            why = "refuses the credentials in" if credentials else "wants credentials: set"
            raise SetupError(f"the proxy {proxy} {why} {variables} (status 407)") from None
        raise OSError(None, f"the proxy {proxy} refused, with status {status.group(1)}") from None
    raw: socket.socket = connection.sock
    raw.settimeout(seconds)
    return raw


def _credentials() -> dict[str, str]:
    user = os.environ.get(PROXY_USER)
    if not user:
        return {}
    pair = f"{user}:{os.environ.get(PROXY_PASSWORD, '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(pair).decode()}"}
