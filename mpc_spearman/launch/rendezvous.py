"""From a plan to the connections with others: where they meet, and everybody's key.

With ``shards`` a worker first meets its own party's, and then those of its shard at the other parties.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Thread

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mpc_spearman.config import DataParty, Plan, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.identity import Identity, Signer, public_key
from mpc_spearman.launch.pipe import Supervisor
from mpc_spearman.network.addresses import Address, is_loopback
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.round import Agree, Check, Settings
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Role, Roster
from mpc_spearman.version import __version__
from mpc_spearman.wire.meter import Meter

#: What stands for a worker's number in a host's name.
_SHARD = "{shard}"


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


def shard_of(plan: Plan, environment: Mapping[str, str] = os.environ) -> int:
    """Return the shard of a process that was started without one: torchrun's ``RANK`` says, else it is 0."""
    return _number(environment, "RANK", 0) % plan.shards


def meeting_point(
    plan: Plan, party: str, environment: Mapping[str, str] = os.environ, *, shard: int = 0
) -> MeetingPoint:
    """Find out where a party's worker for a shard meets those of the others, each started by itself.

    In the `environment` ``MASTER_ADDR`` and ``MASTER_PORT`` come before the plan's ``network.address``, if
    that is one host, and ``network.port``. Under torchrun ``MASTER_PORT`` is its agent's and not the run's.
    `PlanError` if nothing says where, torchrun has the port, a party has no identity yet, or nothing says
    where the party's own workers meet; `HandshakeError` if ``RANK`` or ``WORLD_SIZE`` contradict the plan.
    """
    roster, address = Roster.of(plan, party, shard), plan.network.address
    host = environment.get("MASTER_ADDR") or address
    if address and _SHARD in address:  # torchrun knows the first worker's host only
        host = address
    if not host:
        raise PlanError(
            "network.address is missing: the coordinator's host, where the parties meet; give it "
            "in the plan, as network.address=HOST, or in MASTER_ADDR"
        )
    port = _number(environment, "MASTER_PORT", plan.network.port)
    everyone, own = len(roster.parties) * plan.shards, roster.me.number * plan.shards + shard
    size = _number(environment, "WORLD_SIZE", everyone)
    rank = _number(environment, "RANK", own)
    if size != everyone:
        what = "parties" if plan.shards == 1 else f"processes, {plan.shards} for each party"
        raise HandshakeError(
            f"the environment's WORLD_SIZE is {size}, but the plan has {everyone} {what}: start all"
        )
    if rank != own:
        raise HandshakeError(
            f"the environment's RANK is {rank}, but in the plan {roster.me} is number {own}: "
            "correct RANK (torchrun: --node_rank), or unset it"
        )
    torchrun = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    ports = 1 if _SHARD in host else plan.shards
    if torchrun and port in range(plan.network.port, plan.network.port + ports):
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
    if plan.shards > 1 and plan.party(party).workers is None:
        raise PlanError(
            f"party {party} has no `workers`: beside its name, give the HOST:PORT where its first worker "
            f"listens for its other workers"
        )
    there = _at("network.port", host, plan.network.port if torchrun else port, shard)
    bind, port = there.host if is_loopback(there.host) else "", there.port
    listen = plan.parties.coordinator.listen
    if listen is not None and roster.me.role is Role.COORDINATOR:
        where = _at("listen", *host_and_port(listen, any_address=True), shard)
        bind, port = where.host, where.port
    return MeetingPoint(there.host, port, bind, patient=not torchrun)


def _at(setting: str, host: str, port: int, shard: int) -> Address:
    """Return where the worker for a shard is: on a host of its own if the name says so, else at a port."""
    if _SHARD in host or not port:  # any free port is that for all
        return Address(host.replace(_SHARD, str(shard)), port)
    if port + shard >= 1 << 16:
        raise PlanError(f"{setting}: worker {shard} would be at port {port} + {shard}, which is not a port")
    return Address(host, port + shard)


class Rendezvous:
    """A role's part in its meetings, as the worker for a `shard`; `rehearsal` where its key is in no file.

    `supervisor` passes on where the others on this machine listen, and shows notes.
    """

    def __init__(
        self, plan: Plan, party: str, shard: int, point: MeetingPoint, rehearsal: Rehearsal | None,
        supervisor: Supervisor,
    ) -> None:  # fmt: skip
        self._plan, self._party, self._shard, self._point = plan, party, shard, point
        self._rehearsal, self._supervisor = rehearsal, supervisor
        self._identity: Identity | None = None
        self._tls: Tls | None = None
        self._gathers = plan.shards > 1
        self._checks: list[Check] = [supervisor.check]

    def ready(self, roster: Roster) -> Signer:
        """Take this party's key, before anything else is done, and see that this machine allows it.

        `PlanError` as `own_signer`; `TlsError` as `Tls.check`.
        """
        signer = own_signer(self._plan, self._party, self._rehearsal)
        peers = {peer: public_key(signer.identities[peer.owner]) for peer in roster.peers}
        self._identity, self._tls = signer.identity, Tls(signer.identity, peers)
        self._tls.check()
        return signer

    def gather(self, team: Roster, take: Callable[[Sockets], Check]) -> None:
        """Meet the party's other workers, under keys that only a holder of the party's key can derive.

        The first worker is connected with each of the others. `take` receives the connections, which the run
        uses once this returns. It returns a check that raises if one of them fails; `join` calls it while it
        waits. Raises as `join` does; the caller then tells the other parties (`decline`).
        """

        def keep(sockets: Sockets) -> None:
            taken.append(take(sockets))

        taken: list[Check] = []
        self._gathers = False
        self._supervisor.asks()
        self._meet_team(team, keep, None)
        self._checks.append(taken[-1])
        if self._shard:
            self._supervisor.joined()  # with its party's first worker, which tells it of lost parties

    def join(self, roster: Roster, meter: Meter, agree: Callable[[Sockets], None]) -> None:
        """Meet the other parties' workers of this shard, and connect to each of them.

        `agree` agrees with all peers over connections, which are those of the run once this returns. Until
        then a party can be lost, and all connect and agree anew. The meter is told how each pair is
        connected, and what is forwarded.

        Raises `NetworkError`, `HandshakeError`, `TlsError` or one of their kinds: docs/errors.md.
        """
        self._meet_parties(roster, meter, agree, None)
        self._supervisor.joined()

    def decline(self, roster: Roster, meter: Meter, error: Exception) -> None:
        """Tell all others, if they can be reached, that this process has failed and will not come."""
        if self._tls is None or not self._point.host:
            return  # it cannot show who it is, or the supervisor tells the others
        # Now: they may not be there yet. The error itself is printed when this process ends with it.
        self._supervisor.note(f"cannot take part ({type(error).__name__}), and tries to tell the others")

        def tell(meet: Callable[[Callable[[Sockets], None], Exception], None]) -> None:
            with suppress(NetworkError, HandshakeError, PlanError, type(error)):
                meet(lambda sockets: None, error)

        team = Thread(target=tell, args=(partial(self._meet_team, roster.team(self._plan.shards)),))
        if self._gathers:
            team.start()
        tell(partial(self._meet_parties, roster, meter))
        if self._gathers:
            team.join()

    def _check(self) -> None:
        for check in self._checks:
            check()

    def _meet_parties(
        self, roster: Roster, meter: Meter, agree: Callable[[Sockets], None], fault: Exception | None
    ) -> None:
        def agree_over(sockets: Sockets, ways: Mapping[tuple[str, str], str]) -> None:
            meter.ways = ways
            agree(sockets)

        def carried(low: int, high: int, size: int) -> None:
            meter.passed((roster.parties[low].name, roster.parties[high].name), size, size)

        network, party, shard = self._plan.network, self._plan.party(self._party), self._shard
        listen = party.listen if self._point.host else f"{self._point.bind}:0"
        advertise = party.advertise if isinstance(party, DataParty) else None
        proxy = None if network.proxy is None else network.proxy.removeprefix("http://").removesuffix("/")
        assert self._tls is not None
        own = replace(
            self._settings(self._tls, self._plan.canonical_json(shard)),
            listen=None if listen is None else _at("listen", *host_and_port(listen, any_address=True), shard),
            advertise=None if advertise is None else _at("advertise", *host_and_port(advertise), shard),
            proxy=None if proxy is None else Address(*host_and_port(proxy)),
        )
        self._attend(roster, own, self._point, agree_over, carried, fault)

    def _meet_team(self, team: Roster, take: Callable[[Sockets], None], fault: Exception | None) -> None:
        assert self._identity is not None
        keys = {peer: self._identity.worker(peer.number).public for peer in team.peers}
        tls = Tls(self._identity.worker(team.me.number), keys)
        point, workers = self._point, self._plan.party(self._party).workers
        if point.host:
            assert workers is not None
            host, port = host_and_port(workers)
            point = replace(point, host=host, port=port, bind=host if is_loopback(host) else "")
        own = replace(self._settings(tls, self._plan.canonical_json()), found_by="`workers`")
        self._attend(team, own, point, lambda sockets, ways: take(sockets), lambda *carried: None, fault)

    def _attend(
        self, roster: Roster, own: Settings, point: MeetingPoint, agree: Agree,
        carried: Callable[[int, int, int], None], fault: Exception | None,
    ) -> None:  # fmt: skip
        there, hub, supervisor = Address(point.host, point.port), roster.coordinator, self._supervisor
        meeting = f"{'workers' if roster.star else 'parties'} of {hub.name}"
        if roster.me == hub:
            announce = (lambda found: None) if point.host else partial(supervisor.tell, meeting)
            where = Address(point.bind, point.port)
            CoordinatorMeeting(roster, own, agree, carried).attend(where, announce, fault)
        else:
            find = (lambda: there) if point.host else partial(supervisor.ask, meeting, own.check)
            DataPartyMeeting(roster, own, agree).attend(find, fault)

    def _settings(self, tls: Tls, plan: str) -> Settings:
        network = self._plan.network
        return Settings(
            tls=tls,
            plan=plan,
            version=__version__,
            join_timeout=network.join_timeout,
            timeout=network.timeout,
            say=self._supervisor.note,
            patient=self._point.patient,
            check=self._check,
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
