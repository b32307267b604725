"""The step in which parties check that they have the same plan and version, and agree on keys.

1. Everyone sends everyone its HELLO: version, who it is, the shared plan, an X25519 public key and 32 random
   bytes, all fresh. Only then does anyone check, so that every party finds a difference itself.
2. The run id is a hash of everyone's random bytes in order of numbers: no party chooses it alone, and
   messages of another run do not fit.
3. The keys follow (:class:`mpc_spearman.wire.keys.PairKey`), and each party confirms its own to each peer.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from functools import partial
from secrets import token_bytes
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import Plan, mismatch
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.errors import HandshakeError
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Roster
from mpc_spearman.run import Run
from mpc_spearman.version import __version__
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.keys import PairKey, joined
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links


def connect(run: Run) -> None:
    """Meet the others: all run the same plan and version, and each pair has a key when this returns.

    Errors are those of `agree_keys` and of :func:`mpc_spearman.launch.rendezvous.Rendezvous.join`.
    """
    # To import it may fail, and takes longer than to read a small table, which came first: in no phase, and
    # not while others wait.
    engine_for(run.plan.protocol)
    with run.meter.phase("connect"):
        run.enter("connect")
        with run.meter.waiting():
            run.meeting.join(run.meter, partial(_agree, run))


def _agree(run: Run, transport: Transport) -> None:
    """Agree with all parties over their connections; tell them if that fails."""
    network = run.plan.network
    run.links = run.make_links(
        partial(VIEW.fields, run.plan.terms),
        run.roster,
        transport,
        run.meter,
        timeout=network.timeout,
        longest=network.message_timeout,
    )
    try:
        agree_keys(run.plan, run.roster, run.links)
    except BaseException as error:
        run.links.abort(error)
        raise


def agree_keys(plan: Plan, roster: Roster, links: Links) -> None:
    """Check that all run the same plan and version; put a key with each peer into ``links.keys``.

    `PlanMismatch` names every key that differs, here and there; `HandshakeError` is for another version, a
    party that is not who the plan says it is, or one that has agreed another key.
    """
    me, mine, peers = roster.me, X25519PrivateKey.generate(), roster.peers
    own: dict[str, Any] = {
        "version": __version__,
        "party": me.name,
        "role": me.role.value,
        "number": np.array([me.number]),
        "plan": plan.canonical_json(),
        "public_key": mine.public_key().public_bytes_raw(),
        "nonce": token_bytes(32),
    }
    for peer in peers:
        links.send(peer, Kind.HELLO, own)
    heard = {peer: links.receive(peer, Kind.HELLO) for peer in peers}
    for peer, theirs in heard.items():
        _check(own, me, peer, theirs)
    said = {**heard, me: own}
    run = links.run = joined(*(bytes(said[party]["nonce"]) for party in roster.parties))
    for peer, theirs in heard.items():
        digest = hashlib.sha256(own["plan"].encode()).digest()
        links.keys[peer] = PairKey(mine, theirs["public_key"], me, peer, run, digest)
        mac = links.keys[peer].confirmation(me, peer, (_text(own), _text(theirs)))
        links.send(peer, Kind.CONFIRM, {"mac": mac})
    for peer in peers:
        expected = links.keys[peer].confirmation(peer, me, (_text(heard[peer]), _text(own)))
        if not hmac.compare_digest(links.receive(peer, Kind.CONFIRM)["mac"], expected):
            raise HandshakeError(
                f"{peer} and {me} derived different keys: a message between them was altered, or belongs to "
                "another run"
            )


def _text(hello: Mapping[str, Any]) -> bytes:
    """Return a HELLO's content as text."""
    said = (hello["version"], hello["party"], hello["role"], str(int(hello["number"][0])), hello["plan"])
    return joined(*(text.encode() for text in said), bytes(hello["public_key"]), bytes(hello["nonce"]))


def _check(own: Mapping[str, Any], me: Party, peer: Party, theirs: Mapping[str, Any]) -> None:
    said = [(hello["version"], hello["plan"]) for hello in (own, theirs)]
    if error := mismatch(me, said[0], peer, said[1]):
        raise error
    claimed = (theirs["party"], theirs["role"], int(theirs["number"][0]))
    if claimed != (peer.name, peer.role.value, peer.number):
        raise HandshakeError(
            f"party {peer.number} should be {peer}, but what answers there is "
            f"{claimed[0][:64]} ({claimed[1][:20]}) with number {claimed[2]}"
        )
