"""Hooks for tests of the homomorphic protocol, run inside the roles' processes (see child.py)."""

from __future__ import annotations

from pathlib import Path

from mpc_spearman.protocols.he import engine
from mpc_spearman.protocols.he.paillier import arithmetic
from support import hooks_record


def record(order, directory):
    """Record the wire, and at the coordinator what must never be on it: the secret primes and what opens."""
    hooks_record.record(order, directory)
    place = Path(directory, order.party)
    generate, add = arithmetic.generate, engine.Squares.add_basis

    def recorded_generate(bits, *, short):
        secret, public = generate(bits, short=short)
        primes = [secret._p, secret._q]
        (place / "secret").write_text("\n".join(str(int(prime)) for prime in primes))
        return secret, public

    def recorded_add(self, opened):
        with (place / "opened-differences").open("ab") as file:
            file.write(opened.astype("<i8").tobytes())
        add(self, opened)

    arithmetic.generate, engine.Squares.add_basis = recorded_generate, recorded_add


def damage(order, kind):
    """Let the target add one to a byte in the middle of its first message of a kind, before encryption."""
    if order.party != "B":
        return
    from mpc_spearman.wire import links

    send, done = links.Links.send, []

    def damaged(self, peer, sent, values, **options):
        if sent.name == kind and not done:
            done.append(True)
            batch = bytearray(values["batch"])
            batch[len(batch) // 2] ^= 1
            values = {**values, "batch": bytes(batch)}
        send(self, peer, sent, values, **options)

    links.Links.send = damaged
