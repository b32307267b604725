"""Listening and dialling: names with several addresses, both versions of IP, proxies of both kinds."""

from __future__ import annotations

import re
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from mpc_spearman.errors import SetupError, UnknownKey
from mpc_spearman.identity import Identity
from mpc_spearman.network.addresses import PROXY_PASSWORD, PROXY_USER, Address, dial, is_loopback, listen_at
from support import relay
from support.meetings import Meeting, assert_connected, tls
from support.memory_network import A, B, C
from support.processes import EVER

Meet = Callable[..., Meeting]
#: For documentation (RFC 5737, RFC 3849): no host has them.
NOWHERE, NOWHERE_6 = "192.0.2.1", "2001:db8::1"


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name ``several`` have three addresses, of which only the last is this host's."""
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> list[Any]:
        addresses = (NOWHERE_6, NOWHERE, "127.0.0.1") if host == "several" else (host,)
        return [entry for address in addresses for entry in real(address, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("several")
def test_a_party_listens_at_the_first_possible_address_of_a_name() -> None:
    """Such as a `localhost` that is also ::1, on a host without IPv6."""
    with listen_at(Address("several", 0)) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="assign"):
        listen_at(Address(NOWHERE, 0))


@pytest.mark.usefixtures("several")
def test_a_name_of_several_addresses_is_dialled_until_one_answers() -> None:
    with (
        listen_at(Address("127.0.0.1", 0)) as listener,
        dial(Address("several", listener.getsockname()[1]), 6.0) as connection,
    ):
        assert connection.getpeername()[0] == "127.0.0.1"


def test_the_reason_is_of_the_first_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the system prefers: another may only be of a version of IP that this host has not."""
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    entries = [(*loopback, ("127.0.0.1", 9)), (*loopback, ("255.255.255.255", 9))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: entries)
    with pytest.raises(OSError, match="refused"):
        dial(Address("several", 9), 5.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_a_party_listens_and_dials_by_both_versions_of_ip(host: str) -> None:
    try:
        listener = listen_at(Address(host, 0))
    except OSError as error:
        assert host == "::1"
        pytest.skip(f"this host has no IPv6: {error}")
    with listener, dial(Address(host or "127.0.0.1", listener.getsockname()[1]), 5.0):
        pass
    assert is_loopback(host or "127.0.0.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
def test_a_name_that_no_host_has_is_an_error_with_a_reason(host: str) -> None:
    for attempt in (dial, lambda address, _: listen_at(address)):
        with pytest.raises(OSError, match=r"\w") as raised:
            attempt(Address(host, 1), 1.0)
        assert raised.value.strerror
    assert not is_loopback(host)


# ---- a proxy


class Proxy(ThreadingTCPServer):
    """An HTTP proxy that connects to `goal`, whatever it is asked for, if the credentials are right."""

    daemon_threads = True

    def __init__(
        self, credentials: bytes = b"", answer: bytes = b"HTTP/1.1 200 Fine\r\nX: y\r\n\r\n"
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.address = Address("127.0.0.1", self.server_address[1])
        self.requests: list[bytes] = []
        self.goal: Callable[[], Address] = lambda: Address("127.0.0.1", 9)
        self.credentials, self.answer = credentials, answer
        threading.Thread(target=self.serve_forever, args=(0.02,)).start()


class _Request(BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        proxy, near, head = self.server, self.request, b""
        with suppress(OSError):
            while b"\r\n\r\n" not in head:
                head += near.recv(1)
            proxy.requests.append(head)
            if proxy.credentials and b"Proxy-Authorization: Basic " + proxy.credentials not in head:
                near.sendall(b"HTTP/1.1 407 \x1b[31mWho are you\r\n\r\n")
                return
            near.sendall(proxy.answer)
            with socket.create_connection(proxy.goal()) as far:
                relay.join(near, far)


@pytest.fixture
def proxied() -> Iterator[Callable[..., Proxy]]:
    """Start proxies, which end with the test."""
    with ExitStack() as undo:

        def start(**settings: bytes) -> Proxy:
            proxy = undo.enter_context(Proxy(**settings))
            undo.callback(proxy.shutdown)
            return proxy

        yield start


def test_a_proxy_receives_connect_and_credentials_of_the_environment(
    proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_USER, "ward 3")
    monkeypatch.setenv(PROXY_PASSWORD, "s:crét")
    proxy = proxied()
    with dial(Address("2001:db8::7", 29500), 5.0, proxy.address):
        pass
    head, *fields = proxy.requests[0].decode().split("\r\n")
    assert head.startswith("CONNECT [2001:db8::7]:29500 HTTP/1.")
    assert f"Proxy-Authorization: Basic {b64encode('ward 3:s:crét'.encode()).decode()}" in fields


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 403 No\r\n\r\n", "refused, with status 403"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "does not answer as an HTTP proxy"),
        (b"", "the proxy 127.0.0.1:"),
    ],
)
def test_a_refusing_proxy_is_named_with_its_status_alone(
    proxied: Callable[..., Proxy], answer: bytes, words: str
) -> None:
    proxy = proxied(answer=answer)
    with pytest.raises(OSError, match=re.escape(words)) as raised:
        dial(Address("c.example", 29500), 60.0, proxy.address)
    assert f"the proxy {proxy.address}" in raised.value.strerror
    assert "\x1b" not in raised.value.strerror


@pytest.mark.parametrize(
    ("user", "problem"), [("", "wants credentials: set"), ("me", "refuses the credentials in")]
)
def test_a_party_asks_a_proxy_once_if_it_wants_credentials(
    meet: Meet, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch, user: str, problem: str
) -> None:
    """A second attempt with the same credentials could lock an account."""
    monkeypatch.setenv(PROXY_USER, user)
    proxy = proxied(credentials=b"bWU6YSB3b3Jk")
    run = meet(listen={})
    run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
    error = run.error("A")
    assert type(error) is SetupError
    where = "the environment's MPC_SPEARMAN_PROXY_USER and MPC_SPEARMAN_PROXY_PASSWORD"
    assert str(error) == f"the proxy {proxy.address} {problem} {where} (status 407)"
    assert len(proxy.requests) == 1


def test_a_proxy_that_is_not_there_is_named() -> None:
    with socket.socket() as silent:  # nobody listens there
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(OSError, match=f"the proxy 127.0.0.1:{port}: Connection refused"):
            dial(Address("c.example", 29500), EVER, Address("127.0.0.1", port))


def test_a_party_meets_the_others_through_an_http_proxy(
    meet: Meet, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_USER, "me")
    monkeypatch.setenv(PROXY_PASSWORD, "a word")
    proxy = proxied(credentials=b"bWU6YSB3b3Jk")
    run = meet(listen={})
    proxy.goal = lambda: run.address
    run.come_all(C, B)
    run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
    assert_connected(run.wait())
    # The proxy resolves the name; this host need not know it.
    assert {request.split(b"\r\n")[0] for request in proxy.requests} == {
        b"CONNECT c.example.org:29500 HTTP/1.0"
    }
    assert len(proxy.requests) == 1 + 2 + 2


def test_a_proxy_that_decrypts_tls_is_refused_with_what_to_do(
    meet: Meet, proxied: Callable[..., Proxy]
) -> None:
    proxys = tls("C", own=Identity.new())
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                raw, _ = listener.accept()
                with suppress(UnknownKey):
                    proxys.answer(raw)[0].close()

        threading.Thread(target=serve, daemon=True).start()
        proxy = proxied()
        proxy.goal = lambda: Address("127.0.0.1", listener.getsockname()[1])
        run = meet()
        run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
        error = run.error("A")
    assert type(error).__name__ == "UnknownKey"
    assert "a proxy must let these connections pass" in str(error)


def test_the_server_name_is_sent_so_that_routers_can_use_it(
    meet: Meet, proxied: Callable[..., Proxy]
) -> None:
    names: list[str | None] = []
    run = meet(listen={})
    hub = run.come(C)
    hub._settings.tls.server.sni_callback = lambda connection, name, context: names.append(name)
    proxy = proxied()
    proxy.goal = lambda: run.address
    run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
    run.come(B)
    assert_connected(run.wait())
    assert "c.example.org" in names
