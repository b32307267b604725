"""Where a party meets the others, by plan and environment, and with which keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mpc_spearman.config import Plan, host_and_port
from mpc_spearman.errors import HandshakeError, PlanError
from mpc_spearman.identity import Identity, Signer
from mpc_spearman.network.addresses import is_loopback
from mpc_spearman.parties import Role


@dataclass(frozen=True)
class MeetingPoint:
    """Where the coordinator is; by default on this machine, at a port that the supervisor passes on.

    Others dial it at `host` and `port`; it listens at `bind`, or if that is empty at all addresses. Where it
    is `patient`, a party that is lost or leaves before all have met is waited for again: not where somebody
    else has started all roles, and sees how they end.
    """

    host: str = ""
    port: int = 0
    bind: str = "127.0.0.1"
    patient: bool = False


@dataclass(frozen=True)
class Rehearsal:
    """Keys made for one run by whoever starts all of its roles; no file and no plan has them.

    `key` is a party's own private key in hexadecimal; `identities` are everybody's public keys by party.
    """

    key: str = field(repr=False)
    identities: Mapping[str, str]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> dict[str, Rehearsal]:
        """Make everybody's, by party."""
        made = {name: Identity.new() for name in names}
        public = {name: str(identity) for name, identity in made.items()}
        return {name: cls(identity.key.private_bytes_raw().hex(), public) for name, identity in made.items()}


def meeting_point(plan: Plan, party: str, environment: Mapping[str, str] = os.environ) -> MeetingPoint:
    """Find out where a party meets the others, each started by itself.

    In the `environment` ``MASTER_ADDR`` and ``MASTER_PORT`` come before the plan's ``network.address`` and
    ``network.port``. Under torchrun ``MASTER_PORT`` is its agent's and not the run's. `PlanError` if nothing
    says where, torchrun has the port, or a party has no identity yet; `HandshakeError` if ``RANK`` or
    ``WORLD_SIZE`` contradict the plan.
    """
    roster = plan.roster(party)
    host = environment.get("MASTER_ADDR") or plan.network.address
    if not host:
        raise PlanError(
            "network.address is missing: the coordinator's host, where the parties meet; give it "
            "in the plan, as network.address=HOST, or in MASTER_ADDR"
        )
    port = _number(environment, "MASTER_PORT", plan.network.port)
    size = _number(environment, "WORLD_SIZE", len(roster.parties))
    rank = _number(environment, "RANK", roster.me.number)
    if size != len(roster.parties):
        raise HandshakeError(
            f"the environment's WORLD_SIZE is {size}, but the plan has {len(roster.parties)} parties: start "
            "all"
        )
    if rank != roster.me.number:
        raise HandshakeError(
            f"the environment's RANK is {rank}, but in the plan {roster.me} is number {roster.me.number}: "
            "correct RANK (torchrun: --node_rank), or unset it"
        )
    torchrun = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if torchrun and port == plan.network.port:
        raise PlanError(
            f"network.port: torchrun itself uses port {port}; give it another --master_port, or the plan "
            "another network.port"
        )
    unknown = [name for name, identity in plan.identities.items() if identity is None]
    if unknown:
        raise PlanError(
            f"this plan is a draft, without an identity of {' and '.join(unknown)}: `mpc-spearman init "
            "--party NAME` makes a key, and prints the identity to put below the party's name"
        )
    if plan.party(party).key is None:
        raise PlanError(
            f"party {party} has no key: give `key`, the file that `mpc-spearman init --party {party}` has "
            "made, beside its name"
        )
    dialled = plan.network.port if torchrun else port
    bind, port = host if is_loopback(host) else "", dialled
    listen = plan.parties.coordinator.listen
    if listen is not None and roster.me.role is Role.COORDINATOR:
        bind, port = host_and_port(listen, any_address=True)
    return MeetingPoint(host, port, bind, patient=not torchrun)


def own_signer(plan: Plan, party: str, rehearsal: Rehearsal | None) -> Signer:
    """Return a party's key, and everybody's public keys.

    `PlanError` if its key file cannot be used, or is not the key of its own line in the plan.
    """
    if rehearsal is not None:
        made = Identity(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rehearsal.key)))
        return Signer(made, rehearsal.identities, rehearsal=True)
    me, identities = plan.party(party), {name: line or "" for name, line in plan.identities.items()}
    assert me.key is not None
    key_pair = Identity.read(me.key, f"key of party {me.name}")
    if str(key_pair) != me.identity:
        whose = next((name for name, identity in identities.items() if identity == str(key_pair)), None)
        holder = (
            f"the key of party {whose} in this plan"
            if whose
            else f"{key_pair}, and the plan has {me.identity}"
        )
        raise PlanError(
            f"key of party {me.name}: {me.key} is {holder}; name the file of that identity, or put the key's "
            "identity into everybody's plan"
        )
    return Signer(key_pair, identities, rehearsal=False)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
