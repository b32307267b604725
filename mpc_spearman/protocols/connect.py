"""The step in which each pair of parties agrees on a key. It fails if their plans or versions differ.

1. Everyone sends everyone its HELLO: an X25519 public key and 32 random bytes, all fresh.
2. The run id is a hash of everyone's random bytes in order of numbers: no party chooses it alone, and
   messages of another run do not fit.
3. The keys follow (:class:`mpc_spearman.wire.keys.PairKey`). They depend on the version and the shared plan,
   which the coordinator has compared with everyone's at the meeting. Each party confirms its key to each
   peer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import partial
from secrets import token_bytes

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import Plan
from mpc_spearman.engines.engine import engine_for
from mpc_spearman.errors import HandshakeError
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Roster
from mpc_spearman.run import Run
from mpc_spearman.version import __version__
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.keys import PairKey, list_hash
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links


def connect(run: Run) -> None:
    """Meet the others: all run the same plan and version, and each pair has a key when this returns.

    Errors are those of `agree_keys` and of :func:`mpc_spearman.launch.rendezvous.Rendezvous.join`.
    """
    # Importing the engine may fail, and takes longer than reading a small table. So it is done before the
    # others wait, and outside the phases that are timed.
    engine_for(run.plan.protocol)
    with run.meter.phase("connect"):
        run.enter("connect")
        with run.meter.waiting():
            run.meeting.join(run.meter, partial(_agree, run))


def _agree(run: Run, transport: Transport) -> None:
    """Agree on keys with all parties over their connections; send them the error if that fails."""
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
    """Agree on a key with each peer, and on the run's id; put them into ``links.keys`` and ``links.run``.

    `HandshakeError` if a peer derives another key, since its version or plan differs, or a message between
    the two was altered.
    """
    me, private, peers = roster.me, X25519PrivateKey.generate(), roster.peers
    hellos: dict[Party, Mapping[str, bytes]] = {
        me: {"public_key": private.public_key().public_bytes_raw(), "nonce": token_bytes(32)}
    }
    for peer in peers:
        links.send(peer, Kind.HELLO, hellos[me])
    hellos |= {peer: links.receive(peer, Kind.HELLO) for peer in peers}
    texts = {
        party: list_hash(bytes(hello["public_key"]), bytes(hello["nonce"])) for party, hello in hellos.items()
    }
    run = links.run = list_hash(*(bytes(hellos[party]["nonce"]) for party in roster.parties))
    agreement = list_hash(__version__.encode(), plan.canonical_json().encode())
    for peer in peers:
        links.keys[peer] = PairKey(private, hellos[peer]["public_key"], me, peer, run, agreement)
        mac = links.keys[peer].confirmation(me, peer, (texts[me], texts[peer]))
        links.send(peer, Kind.CONFIRM, {"mac": mac})
    for peer in peers:
        expected = links.keys[peer].confirmation(peer, me, (texts[peer], texts[me]))
        if not hmac.compare_digest(links.receive(peer, Kind.CONFIRM)["mac"], expected):
            raise HandshakeError(
                f"{peer} and {me} derived different keys: their plans or versions differ, or a message "
                "between them was altered, or belongs to another run"
            )
