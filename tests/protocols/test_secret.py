"""Without TLS every key of a run is made from the secret too: without it nobody agrees one with a party."""

from __future__ import annotations

from typing import Any

import pytest

from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.in_memory import run_in_memory
from support.plans import plan
from support.references import normal_tables

SECRET = bytes(range(32))


@pytest.mark.parametrize(("party", "other"), [("C", None), ("B", SECRET[::-1]), ("A", None)], ids="CBA")
def test_who_does_not_know_the_secret_reads_no_message_after_the_public_keys(
    party: str, other: bytes | None
) -> None:
    """As an attacker between two parties, who has exchanged their public keys for its own."""
    read: list[Kind] = []

    class Listening(Links):
        def receive(self, peer: Any, kind: Kind, **sizes: Any) -> Any:
            values = super().receive(peer, kind, **sizes)
            read.append(kind)
            return values

    def without(run: Any, *given: Any, **seams: Any) -> Any:
        return run(*given, **{**seams, "secret": other, "links": Listening})

    ended = run_in_memory(plan(), normal_tables(40), {party: without}, secret=SECRET)
    assert not ended.results
    assert set(read) == {Kind.HELLO}
    assert set(ended.classes().values()) <= {"ProtocolViolation", "PeerFailed"}
    assert any("fails its authentication" in str(error) for error in ended.errors.values())
