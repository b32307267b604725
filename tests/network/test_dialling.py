"""Listening and dialling: names with several addresses, both versions of IP, proxies of both kinds."""

from __future__ import annotations

import re
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from mpc_spearman.errors import SetupError, UnknownKey
from mpc_spearman.identity import Identity
from mpc_spearman.network.addresses import PROXY_PASSWORD, PROXY_USER, Address, dial, is_loopback, listen_at
from support.meetings import PARTIES, Meeting, assert_connected, tls
from support.memory_network import A, C
from support.processes import EVER

Meet = Callable[..., Meeting]
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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_both_versions_of_ip(host: str) -> None:
    try:
        listener = listen_at(Address(host, 0))
    except OSError as error:
        assert host == "::1"
        pytest.skip(f"this host has no IPv6: {error}")
    with listener, dial(Address(host or "127.0.0.1", listener.getsockname()[1]), 5.0):
        pass
    assert is_loopback(host or "127.0.0.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
def test_names_that_no_host_has(host: str) -> None:
    for attempt in (dial, lambda address, _: listen_at(address)):
        with pytest.raises(OSError, match=r"\w") as raised:
            attempt(Address(host, 1), 1.0)
        assert raised.value.strerror
    assert not is_loopback(host)


# ---- a proxy


class Proxy:
    """An HTTP proxy that connects to its goal, whatever it is asked for, if the credentials are right."""

    def __init__(
        self, credentials: bytes = b"", answer: bytes = b"HTTP/1.1 200 Fine\r\nX: y\r\n\r\n"
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.asked: list[bytes] = []
        self.goal: Callable[[], Address] = lambda: Address("127.0.0.1", 9)
        self._credentials, self._answer = credentials, answer
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        head = b""
        with near, suppress(OSError):
            while b"\r\n\r\n" not in head:
                head += near.recv(1)
            self.asked.append(head)
            if self._credentials and b"Proxy-Authorization: Basic " + self._credentials not in head:
                near.sendall(b"HTTP/1.1 407 \x1b[31mWho are you\r\n\r\n")
                return
            near.sendall(self._answer)
            goal = self.goal()
            with socket.create_connection((goal.host, goal.port)) as far:
                threads = [threading.Thread(target=_copy, args=ends) for ends in ((near, far), (far, near))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxied() -> Iterator[Callable[..., Proxy]]:
    made: list[Proxy] = []

    def make(**given: Any) -> Proxy:
        made.append(Proxy(**given))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_proxy_receives_connect_and_credentials_of_the_environment(
    proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_USER, "ward 3")
    monkeypatch.setenv(PROXY_PASSWORD, "s:crét")
    proxy = proxied()
    with dial(Address("2001:db8::7", 29500), 5.0, proxy.address):
        pass
    head, *fields = proxy.asked[0].decode().split("\r\n")
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
    ("user", "said"), [("", "wants credentials: set"), ("me", "refuses the credentials in")]
)
def test_a_party_asks_a_proxy_once_if_it_wants_credentials(
    meet: Meet, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch, user: str, said: str
) -> None:
    """A second attempt with the same credentials could lock an account."""
    monkeypatch.setenv(PROXY_USER, user)
    proxy = proxied(credentials=b"bWU6YSB3b3Jk")
    run = meet(listen={})
    run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
    error = run.wait()["A"]
    assert type(error) is SetupError
    where = "the environment's MPC_SPEARMAN_PROXY_USER and MPC_SPEARMAN_PROXY_PASSWORD"
    assert str(error) == f"the proxy {proxy.address} {said} {where} (status 407)"
    assert len(proxy.asked) == 1


def test_a_proxy_that_is_not_there_is_named() -> None:
    with socket.socket() as held:  # nobody else's, and nobody listens there
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(OSError, match=f"the proxy 127.0.0.1:{port}: Connection refused"):
            dial(Address("c.example", 29500), EVER, Address("127.0.0.1", port))


def test_a_party_meets_the_others_through_an_http_proxy(
    meet: Meet, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY_USER, "me")
    monkeypatch.setenv(PROXY_PASSWORD, "a word")
    proxy = proxied(credentials=b"bWU6YSB3b3Jk")
    run = meet(listen={})
    for member in PARTIES:
        if member == A:
            proxy.goal = lambda: run.address
            run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
        else:
            run.come(member)
    assert_connected(run.wait())
    # The proxy resolves the name; this host need not know it.
    assert {request.split(b"\r\n")[0] for request in proxy.asked} == {b"CONNECT c.example.org:29500 HTTP/1.0"}
    assert len(proxy.asked) == 1 + 2 + 2


def test_a_proxy_that_opens_tls_is_refused_in_words(meet: Meet, proxied: Callable[..., Proxy]) -> None:
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
        error = run.wait()["A"]
    assert type(error).__name__ == "UnknownKey"
    assert "a proxy must let these connections pass" in str(error)


def test_the_server_name_is_sent_for_who_routes_by_it(meet: Meet, proxied: Callable[..., Proxy]) -> None:
    names: list[str | None] = []
    run = meet(listen={})
    hub = run.come(C)
    server = hub._settings.tls.server
    server.sni_callback = lambda connection, name, context: names.append(name)
    proxy = proxied()
    proxy.goal = lambda: run.address
    run.come(A, proxy=proxy.address, where=Address("c.example.org", 29500))
    run.come(PARTIES[1])
    assert_connected(run.wait())
    assert "c.example.org" in names
