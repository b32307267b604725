"""From a plan to the connections with others: where they meet, and everybody's key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mpc_spearman.config import DataParty, Plan, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.identity import Identity, Signer, public_key
from mpc_spearman.launch.pipe import Supervisor
from mpc_spearman.network.addresses import Address, is_loopback
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.round import Settings
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Role, Roster
from mpc_spearman.version import __version__
from mpc_spearman.wire.meter import Meter


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


class Rendezvous:
    """A party's part in its meeting; `rehearsal` where its key is in no file.

    `supervisor` passes on where the coordinator on this machine listens, and shows notes.
    """

    def __init__(
        self, plan: Plan, roster: Roster, point: MeetingPoint, rehearsal: Rehearsal | None,
        supervisor: Supervisor,
    ) -> None:  # fmt: skip
        self._plan, self._roster, self._point = plan, roster, point
        self._rehearsal, self._supervisor = rehearsal, supervisor
        self._tls: Tls | None = None
        self._joins = False

    def ready(self) -> Signer:
        """Take this party's key, before anything else is done, and see that this machine allows it.

        `PlanError` as `own_signer`; `TlsError` as `Tls.check`.
        """
        signer = own_signer(self._plan, self._roster.me.name, self._rehearsal)
        peers = {peer: public_key(signer.identities[peer.name]) for peer in self._roster.peers}
        self._tls = Tls(signer.identity, peers)
        self._tls.check()
        return signer

    def join(self, meter: Meter, agree: Callable[[Sockets], None]) -> None:
        """Meet the other parties, and connect to each of them.

        `agree` agrees with all peers over connections, which are those of the run once this returns. Until
        then a party can be lost, and all connect and agree anew. The meter is told how each pair is
        connected, and what is forwarded.

        Raises `NetworkError`, `HandshakeError`, `TlsError` or one of their kinds: docs/errors.md.
        """
        self._joins, self._supervisor.meter = True, meter
        self._meet(meter, agree)
        self._supervisor.joined()

    def decline(self, error: Exception) -> None:
        """Tell all others, if they can be reached, that this process has failed and will not come.

        Once `join` has been called, that has told them.
        """
        if self._joins or self._tls is None or not self._point.host:
            return  # it cannot show who it is, or the supervisor tells the others
        # Now: they may not be there yet. The error itself is printed when this process ends with it.
        self._supervisor.note(f"cannot take part ({type(error).__name__}), and tries to tell the others")
        with suppress(NetworkError, HandshakeError, PlanError, type(error)):
            self._meet(Meter(), lambda sockets: None, error)

    def _meet(self, meter: Meter, agree: Callable[[Sockets], None], fault: Exception | None = None) -> None:
        roster, names = self._roster, self._roster.names

        def agree_over(sockets: Sockets, ways: Mapping[tuple[str, str], str]) -> None:
            meter.ways = ways
            agree(sockets)

        def carried(low: int, high: int, size: int) -> None:
            meter.passed((names[low], names[high]), size, size)

        point, settings, supervisor = self._point, self._settings(), self._supervisor
        there = Address(point.host, point.port)
        if roster.me == roster.coordinator:
            announce = (lambda address: None) if point.host else supervisor.tell
            meeting = CoordinatorMeeting(roster, settings, agree_over, carried)
            meeting.attend(Address(point.bind, point.port), announce, fault)
        else:
            find = (lambda: there) if point.host else supervisor.ask
            DataPartyMeeting(roster, settings, agree_over).attend(find, fault)

    def _settings(self) -> Settings:
        network, party = self._plan.network, self._plan.party(self._roster.me.name)
        listen = party.listen if self._point.host else f"{self._point.bind}:0"
        advertise = party.advertise if isinstance(party, DataParty) else None
        proxy = None if network.proxy is None else network.proxy.removeprefix("http://").removesuffix("/")
        assert self._tls is not None
        return Settings(
            tls=self._tls,
            plan=self._plan.canonical_json(),
            version=__version__,
            join_timeout=network.join_timeout,
            timeout=network.timeout,
            say=self._supervisor.note,
            patient=self._point.patient,
            listen=None if listen is None else Address(*host_and_port(listen, any_address=True)),
            advertise=None if advertise is None else Address(*host_and_port(advertise)),
            proxy=None if proxy is None else Address(*host_and_port(proxy)),
        )


def own_signer(plan: Plan, party: str, rehearsal: Rehearsal | None) -> Signer:
    """Return a party's key, and everybody's public keys.

    `PlanError` if its key file cannot be used, or is not the key of its own line in the plan.
    """
    if rehearsal is not None:
        made = Identity(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rehearsal.key)))
        return Signer(made, rehearsal.identities, rehearsal=True)
    me, identities = plan.party(party), {name: line or "" for name, line in plan.identities.items()}
    assert me.key is not None
    own = Identity.read(me.key, f"key of party {me.name}")
    if str(own) != me.identity:
        whose = next((name for name, identity in identities.items() if identity == str(own)), None)
        found = (
            f"the key of party {whose} in this plan" if whose else f"{own}, and the plan has {me.identity}"
        )
        raise PlanError(
            f"key of party {me.name}: {me.key} is {found}; name the file of that identity, or put the key's "
            "identity into everybody's plan"
        )
    return Signer(own, identities, rehearsal=False)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
