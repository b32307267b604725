"""The address at which a party meets the others, from its plan and environment; and the keys."""

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
class Rehearsal:
    """Keys for one run, made by the program that starts all its roles; no file and no plan has them.

    `key` is a party's own private key in hexadecimal; `identities` are everybody's public keys by party.
    """

    key: str = field(repr=False)
    identities: Mapping[str, str]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> dict[str, Rehearsal]:
        """Return new keys for each party, by its name."""
        identities = {name: Identity.new() for name in names}
        public = {name: str(identity) for name, identity in identities.items()}
        return {
            name: cls(identity.key.private_bytes_raw().hex(), public) for name, identity in identities.items()
        }


@dataclass(frozen=True)
class MeetingPoint:
    """The coordinator's address; by default on this machine, at a port that the supervisor passes on.

    Others dial it at `host` and `port`; it listens at `bind`, or if that is empty at all addresses. If it is
    `patient`, all wait again for a party that is lost or leaves before all have met. It is not where one
    program has started all roles, and sees how they end: there may be a `rehearsal`, with keys of its own.
    """

    host: str = ""
    port: int = 0
    bind: str = "127.0.0.1"
    patient: bool = False
    rehearsal: Rehearsal | None = None


def meeting_point(plan: Plan, party: str, environment: Mapping[str, str] = os.environ) -> MeetingPoint:
    """Return the address at which a party meets the others, where each is started on its own.

    In the `environment` ``MASTER_ADDR`` and ``MASTER_PORT`` override the plan's ``network.address`` and
    ``network.port``. Under torchrun ``MASTER_PORT`` is the port of its agent, not of the run. `PlanError` if
    no address is given, torchrun uses the same port, or a party has no identity yet; `HandshakeError` if
    ``RANK`` or
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
    without_identity = [name for name, identity in plan.identities.items() if identity is None]
    if without_identity:
        raise PlanError(
            f"this plan is a draft, without an identity of {' and '.join(without_identity)}: `mpc-spearman "
            "init --party NAME` makes a key, and prints the identity to put below the party's name"
        )
    if plan.party(party).key is None:
        raise PlanError(
            f"party {party} has no key: give `key`, the file that `mpc-spearman init --party {party}` has "
            "made, beside its name"
        )
    port = plan.network.port if torchrun else port
    bind = host if is_loopback(host) else ""
    listen = plan.parties.coordinator.listen
    if listen is not None and roster.me.role is Role.COORDINATOR:
        bind, port = host_and_port(listen, any_address=True)
    return MeetingPoint(host, port, bind, patient=not torchrun)


def party_signer(plan: Plan, party: str, rehearsal: Rehearsal | None) -> Signer:
    """Return a party's private key with everybody's public keys.

    `PlanError` if its key file cannot be used, or is not the key of the party's identity in the plan.
    """
    if rehearsal is not None:
        temporary = Identity(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rehearsal.key)))
        return Signer(temporary, rehearsal.identities, rehearsal=True)
    me, identities = plan.party(party), {name: line or "" for name, line in plan.identities.items()}
    assert me.key is not None
    identity = Identity.read(me.key, f"key of party {me.name}")
    if str(identity) != me.identity:
        key_owner = next((name for name, line in identities.items() if line == str(identity)), None)
        actual = (
            f"the key of party {key_owner} in this plan"
            if key_owner
            else f"{identity}, and the plan has {me.identity}"
        )
        raise PlanError(
            f"key of party {me.name}: {me.key} is {actual}; name the file of that identity, or put the key's "
            "identity into everybody's plan"
        )
    return Signer(identity, identities, rehearsal=False)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
