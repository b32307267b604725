"""What the coordinator's host forwards: bytes it cannot read or change unnoticed, of one pair or another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from mpc_spearman.errors import MpcSpearmanError, UnknownKey
from mpc_spearman.network import forwarding
from mpc_spearman.network.forwarding import Forwarding
from support.meetings import KEYS, PARTIES, Connected, Meeting, assert_connected, tls
from support.memory_network import A, B
from support.processes import EVER, eventually

Meet = Callable[..., Meeting]
SECRET_WORDS = b"ranks of a patient " * 500


@pytest.fixture
def forwarded(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, bytearray]:
    """A meeting in which everything between A and B is forwarded, and all that C's host has of it."""
    seen = bytearray()
    pass_on = forwarding.Forwarding._pass_on

    class Watched:
        """A connection whose decrypted bytes are written down, as they pass the forwarding host."""

        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def __enter__(self) -> Watched:
            return self

        def __exit__(self, *exception: object) -> None:
            self.connection.close()

        def recv_into(self, block: memoryview) -> int:
            size: int = self.connection.recv_into(block)
            seen.extend(block[:size])
            return size

    def watched(self: Forwarding, first: Any, second: Any, low: int, high: int) -> None:
        pass_on(self, Watched(first), Watched(second), low, high)  # type: ignore[arg-type]

    monkeypatch.setattr(forwarding.Forwarding, "_pass_on", watched)
    run = meet(listen={})
    for member in PARTIES:
        run.come(member)
    met = run.wait()
    assert_connected(met)
    return met, seen


def test_what_is_forwarded_is_tls_of_the_two_and_shows_nothing_they_say(
    forwarded: tuple[dict[str, Connected], bytearray],
) -> None:
    met, seen = forwarded
    met["A"].sockets.send(1, b"head", SECRET_WORDS)
    assert bytes(met["B"].sockets.receive(2, 4 + len(SECRET_WORDS), lambda: None)) == b"head" + SECRET_WORDS
    eventually(lambda: len(seen) > len(SECRET_WORDS))
    assert SECRET_WORDS[:20] not in seen
    # Each of the two connections begins with a ClientHello, and what follows are records of TLS 1.2 and 1.3.
    assert seen[:3] in (b"\x16\x03\x01", b"\x16\x03\x03")
    assert b"MPCSPEAR" not in seen  # nor do names and numbers show
    assert not any(key.public in seen for key in KEYS.values())


@pytest.mark.parametrize("side", ["caller", "callee"])
def test_a_coordinator_that_answers_itself_is_found_out(
    meet: Meet, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """It speaks TLS with the party in the place of the other one, with the only private key that it has."""
    install, own = forwarding.Forwarding.install, tls("C")

    def answer(self: Forwarding, caller: int, to: int, connection: Any) -> None:
        if caller != {"caller": 2, "callee": 1}[side]:
            install(self, caller, to, connection)
            return

        def in_the_middle() -> None:
            connection.settimeout(EVER)
            with connection, suppress(MpcSpearmanError, OSError):
                other = own.answer(connection, A)[0] if side == "caller" else own.call(connection, B)
                other.recv(1)

        threading.Thread(target=in_the_middle, daemon=True).start()

    monkeypatch.setattr(forwarding.Forwarding, "install", answer)
    run = meet(listen={}, timeout=20.0)
    for member in PARTIES:
        run.come(member, join_timeout=5.0)
    met = run.wait()
    found, other = met["A" if side == "caller" else "B"], B if side == "caller" else A
    assert type(found) is UnknownKey
    assert f"what answers as {other} does not have the key of this plan, {KEYS[other.name]}" in str(found)
    assert set(run.classes().values()) == {"UnknownKey", "PartyMissing"}, met


def test_the_coordinator_ends_when_the_others_have(meet: Meet) -> None:
    """It could be done before its host has passed on the last of what the others say to each other."""
    run = meet(listen={})
    for member in PARTIES:
        run.come(member)
    met = run.wait()
    done = threading.Thread(target=met["C"].sockets.close)
    done.start()
    met["A"].sockets.send(1, b"last", b" words")
    assert bytes(met["B"].sockets.receive(2, 10, lambda: None)) == b"last words"
    assert done.is_alive()
    met["A"].sockets.close()
    met["B"].sockets.close()
    done.join(EVER)
    assert not done.is_alive()
