"""Meetings over IPv6, through an HTTP proxy, and past one that opens TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from mpc_spearman.errors import UnknownKey
from mpc_spearman.identity import Identity
from mpc_spearman.network import addresses
from mpc_spearman.network.addresses import Address
from support.meetings import PARTIES, Meeting, assert_connected, tls
from support.memory_network import A, C

Meet = Callable[..., Meeting]


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 29500)) == "[::1]:29500"
    assert str(Address("c.example.org", 1)) == "c.example.org:1"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_parties_meet_over_ipv6(meet: Meet) -> None:
    run = meet(listen={A: Address("::1", 0)})
    for member in PARTIES:
        run.come(member, where=Address("::1", 0) if member == C else None)
    assert_connected(run.wait())


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

    def make(*given: Any) -> Proxy:
        made.append(Proxy(*given))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_party_meets_the_others_through_an_http_proxy(
    meet: Meet, proxied: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(addresses.PROXY_USER, "me")
    monkeypatch.setenv(addresses.PROXY_PASSWORD, "a word")
    proxy = proxied(b"bWU6YSB3b3Jk")
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
