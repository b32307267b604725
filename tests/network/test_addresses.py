"""Listening and dialling: names with several addresses, both versions of IP, an HTTP proxy."""

from __future__ import annotations

import re
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from mpc_spearman.network.addresses import PROXY_PASSWORD, PROXY_USER, Address, dial, is_loopback, listening

#: For documentation (RFC 5737, RFC 3849): no host has them.
NOWHERE, NOWHERE_6 = "192.0.2.1", "2001:db8::1"


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name ``several`` have three addresses, of which only the last is this host's."""
    real = socket.getaddrinfo

    def found(host: str, *given: Any, **named: Any) -> list[Any]:
        if host != "several":
            return real(host, *given, **named)
        each = (NOWHERE_6, NOWHERE, "127.0.0.1")
        return [entry for address in each for entry in real(address, *given, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest.mark.usefixtures("several")
def test_a_name_of_several_addresses_is_listened_at_where_that_can_be() -> None:
    """As a `localhost` that is also ::1, on a host without IPv6."""
    with listening(Address("several", 0)) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="assign"):
        listening(Address(NOWHERE, 0))


@pytest.mark.usefixtures("several")
def test_a_name_of_several_addresses_is_dialled_until_one_answers() -> None:
    with (
        listening(Address("127.0.0.1", 0)) as listener,
        dial(Address("several", listener.getsockname()[1]), 6.0) as connection,
    ):
        assert connection.getpeername()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_both_versions_of_ip(host: str) -> None:
    try:
        listener = listening(Address(host, 0))
    except OSError as error:
        assert host == "::1"
        pytest.skip(f"this host has no IPv6: {error}")
    with listener, dial(Address(host or "127.0.0.1", listener.getsockname()[1]), 5.0):
        pass
    assert is_loopback(host or "127.0.0.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
def test_names_that_no_host_has(host: str) -> None:
    for attempt in (dial, lambda address, _: listening(address)):
        with pytest.raises(OSError, match=r"\w") as raised:
            attempt(Address(host, 1), 1.0)
        assert raised.value.strerror
    assert not is_loopback(host)


# ---- a proxy


class Proxy:
    """A proxy that answers one request with what it is told to."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.asked = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(1)
                while b"\r\n\r\n" not in self.asked:
                    self.asked += connection.recv(4096)
                connection.sendall(self._answer)
                connection.recv(1)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxies() -> Iterator[Any]:
    made: list[Proxy] = []

    def make(answer: bytes) -> Proxy:
        made.append(Proxy(answer))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def test_a_proxy_is_asked_to_connect_and_given_credentials_of_the_environment(
    proxies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_USER, "ward 3")
    monkeypatch.setenv(PROXY_PASSWORD, "s:crét")
    proxy = proxies(b"HTTP/1.1 200 Connection established\r\n\r\n")
    with dial(Address("2001:db8::7", 29500), 5.0, proxy.address):
        pass
    head, *fields = proxy.asked.decode().split("\r\n")
    assert head.startswith("CONNECT [2001:db8::7]:29500 HTTP/1.")
    assert f"Proxy-Authorization: Basic {b64encode('ward 3:s:crét'.encode()).decode()}" in fields


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"HTTP/1.1 407 \x1b[31mred\r\n\r\n",
            "wants credentials, in the environment's MPC_SPEARMAN_PROXY_USER",
        ),
        (b"HTTP/1.1 403 No\r\n\r\n", "refused, with status 403"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "does not answer as an HTTP proxy"),
        (b"", "the proxy 127.0.0.1:"),
    ],
)
def test_a_proxy_that_refuses_is_named_with_why_and_nothing_else_it_says(
    proxies: Any, answer: bytes, words: str
) -> None:
    proxy = proxies(answer)
    with pytest.raises(OSError, match=re.escape(words)) as raised:
        dial(Address("c.example", 29500), 60.0, proxy.address)
    assert f"the proxy {proxy.address}" in raised.value.strerror
    assert "\x1b" not in raised.value.strerror


def test_a_proxy_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError, match=f"the proxy 127.0.0.1:{port}: Connection refused"):
        dial(Address("c.example", 29500), 5.0, Address("127.0.0.1", port))
