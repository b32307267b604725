"""The step in which a party meets the others: the same plan, the same version, a key with each."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_bytes
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import differences
from mpc_spearman.errors import HandshakeError, PlanMismatch
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.version import __version__
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.kinds import Kind


def connect(run: Run) -> None:
    """Meet the others, see that all run the same plan and version, and agree a key with each.

    Everyone sends before anyone checks, so that all find the same difference themselves.

    Raises
    ------
    PlanMismatch
        Naming every key that differs, here and there.
    HandshakeError
        Another version, or a party that is not who the plan says it is.
    """
    run.links = run.meet()
    _say_hello(run)


@step("connect")
def _say_hello(run: Run) -> None:
    me, peers = run.roster.me, run.roster.peers
    mine = X25519PrivateKey.generate()
    hello: dict[str, Any] = {
        "version": __version__,
        "party": me.name,
        "role": me.role.value,
        "number": np.array([me.number]),
        "plan": run.plan.canonical_json(),
        "public_key": mine.public_key().public_bytes_raw(),
        "run": token_bytes(16),
    }
    for peer in peers:
        run.links.send(peer, Kind.HELLO, hello)
    heard = {peer: run.links.receive(peer, Kind.HELLO) for peer in peers}
    for peer, theirs in heard.items():
        _check_hello(run, peer, theirs)
    run_id = (heard | {me: hello})[run.roster.coordinator]["run"]
    for peer, theirs in heard.items():
        run.keys[peer] = PairKey(mine, theirs["public_key"], me, peer, run_id, run.plan.digest(), run.secret)
        run.links.secure(peer, run.keys[peer])


def _check_hello(run: Run, peer: Party, theirs: Mapping[str, Any]) -> None:
    if theirs["version"] != __version__:
        raise HandshakeError(
            f"{peer} runs version {theirs['version'][:50]!r}, {run.roster.me} {__version__!r}"
        )
    differing = differences(run.plan.canonical_json(), theirs["plan"])
    if differing:
        raise PlanMismatch(
            f"the plans of {run.roster.me} (here) and {peer} (there) differ: " + "; ".join(differing)
        )
    claimed = (theirs["party"], theirs["role"], int(theirs["number"][0]))
    if claimed != (peer.name, peer.role.value, peer.number):
        raise HandshakeError(
            f"party {peer.number} should be {peer}, but what answers there is "
            f"{claimed[0][:64]} ({claimed[1][:20]}) with number {claimed[2]}"
        )
