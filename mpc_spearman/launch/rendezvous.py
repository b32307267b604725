"""From a plan to the connections with all other parties: the coordinator's address, and everybody's key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mpc_spearman.config import Plan, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.parties import Role, Roster
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    from mpc_spearman.identity import Signer
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.network.sockets import Sockets
    from mpc_spearman.network.tls import Tls
    from mpc_spearman.wire.meter import Meter

Say = Callable[[str], None]


@dataclass(frozen=True)
class MeetingPoint:
    """Where the coordinator is, and how a party finds that out.

    Attributes
    ----------
    host : str
        Of the coordinator, as others dial it; empty if nobody knows beforehand.
    port : int
        There; 0 for any free one.
    agent : int
        The port there of the store of torchrun's agent, in which the coordinator says where it is; 0 where
        it is `port` itself. Where `host` is empty, whoever started all roles passes it on.
    bind : str
        Where the coordinator listens; empty for all addresses of its host.
    listen : str
        ``HOST:PORT`` at which this party can be dialled, in place of its plan's.
    patient : bool
        Whether a party that is lost or leaves before all have met is waited for again. Not where somebody
        else has started all roles, and sees how they end.
    """

    host: str = ""
    port: int = 0
    agent: int = 0
    bind: str = ""
    listen: str = ""
    patient: bool = False


@dataclass(frozen=True)
class Rehearsal:
    """Keys made for one run by whoever starts all of its roles; no file and no plan has them.

    `key` is a party's own private key, 32 bytes in hexadecimal; `identities` are everybody's public keys by
    party, as a plan would have them.
    """

    key: str = field(repr=False)
    identities: Mapping[str, str]

    @classmethod
    def of(cls, names: tuple[str, ...]) -> dict[str, Rehearsal]:
        """Make everybody's, by party."""
        from mpc_spearman.identity import Identity

        made = {name: Identity.new() for name in names}
        public = {name: str(identity) for name, identity in made.items()}
        return {name: cls(identity.key.private_bytes_raw().hex(), public) for name, identity in made.items()}


class Starter(Protocol):
    """Whoever has started all roles on one machine, and passes on where the coordinator listens."""

    def tell(self, address: Address) -> None:
        """Tell the others, as the coordinator."""

    def ask(self) -> Address:
        """Wait until the coordinator has told."""


def meeting_point(plan: Plan, party: str, environment: Mapping[str, str] = os.environ) -> MeetingPoint:
    """Find out where a party of a plan meets the others, when each starts on a host of its own.

    In the `environment` ``MASTER_ADDR`` and ``MASTER_PORT`` come before the plan's ``network.address`` and
    ``network.port``; under torchrun they are where its agent has its store. ``RANK`` and ``WORLD_SIZE``, if
    set, must be what the plan says.

    Raises
    ------
    PlanError
        Nothing says where, or a party has no identity yet.
    HandshakeError
        The environment puts another party on this rank.
    """
    from mpc_spearman.network.addresses import is_loopback

    roster = Roster.of(plan, party)
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
            f"the environment's WORLD_SIZE is {size}, but the plan has {len(roster.parties)} parties: "
            "start all"
        )
    if rank != roster.me.number:
        raise HandshakeError(
            f"the environment's RANK is {rank}, but in the plan {roster.me} is number {roster.me.number}: "
            "leave out --party or RANK"
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
    bind = host if is_loopback(host) else ""
    agent = 0
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        agent, port = port, plan.network.port if plan.network.port != port else 0
    listen = plan.parties.coordinator.listen
    if listen is not None and roster.me.role is Role.COORDINATOR:
        bind, port = host_and_port(listen)
    return MeetingPoint(host, port, agent, bind, patient=not agent)


def join(
    point: MeetingPoint, plan: Plan, roster: Roster, tls: Tls, starter: Starter, meter: Meter, say: Say,
    agree: Callable[[Sockets], None],
) -> None:  # fmt: skip
    """Meet the other parties and connect to each of them.

    Parameters
    ----------
    meter : Meter
        Is told how each pair is connected, and what is forwarded.
    agree : callable
        Agrees with all peers over connections, which are those of the run once this function returns. Until
        then a party can be lost, and all connect and agree anew.

    Raises
    ------
    PartyMissing
        Not all joined in time.
    Unreachable
        Another party cannot reach this one where it listens.
    PeerTimeout, PeerDied
        A party that has joined does not answer or connect, or is gone, and is not waited for again.
    HandshakeError
        Another process has joined as this party; the plans differ (`PlanMismatch`).
    TlsError
        And its kinds: a peer shows another key than the plan has, or does not know this party's.
    NetworkError
        Nothing can listen where it should.
    """
    _attend(point, plan, roster, tls, starter, meter, say, agree, None)


def decline(
    point: MeetingPoint, plan: Plan, roster: Roster, tls: Tls, starter: Starter, meter: Meter, say: Say,
    error: Exception,
) -> None:  # fmt: skip
    """Tell the other parties, if they can be reached, that this one has failed and will not come."""
    if not point.host:
        return  # who has started all roles passes it on
    say(f"cannot take part, and will try to tell the others why: {error}")  # now: they may not be there yet
    with suppress(NetworkError, HandshakeError, PlanError, type(error)):
        _attend(point, plan, roster, tls, starter, meter, say, lambda sockets: None, error)


def _attend(
    point: MeetingPoint, plan: Plan, roster: Roster, tls: Tls, starter: Starter, meter: Meter, say: Say,
    agree: Callable[[Sockets], None], fault: Exception | None,
) -> None:  # fmt: skip
    # Not above: the supervisor, which needs none of it, is here too.
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.network.coordinator import CoordinatorMeeting
    from mpc_spearman.network.data_party import DataPartyMeeting
    from mpc_spearman.network.settings import Settings

    network, party = plan.network, plan.party(roster.me.name)
    listen = point.listen or party.listen
    proxy = None if network.proxy is None else network.proxy.removeprefix("http://").removesuffix("/")
    own = Settings(
        tls=tls,
        plan=plan.canonical_json(),
        version=__version__,
        listen=None if listen is None else Address(*host_and_port(listen, any_address=True)),
        advertise=None if party.advertise is None else Address(*host_and_port(party.advertise)),
        proxy=None if proxy is None else Address(*host_and_port(proxy)),
        join_timeout=network.join_timeout,
        timeout=network.timeout,
        say=say,
        patient=point.patient,
    )

    def agree_over(sockets: Sockets, ways: Mapping[tuple[str, str], str]) -> None:
        meter.ways = ways
        agree(sockets)

    def announce(found: Address) -> None:
        if point.agent:
            from mpc_spearman.launch.torchrun import put

            told = own.advertise or Address(point.host, found.port)
            put(point.host, point.agent, str(told), network.join_timeout, roster.coordinator)
        elif not point.host:
            starter.tell(found)

    def find(seconds: float) -> Address:
        if point.agent:
            from mpc_spearman.launch.torchrun import get

            text = get(point.host, point.agent, seconds, roster.coordinator)
            try:
                return Address(*host_and_port(text))
            except ValueError:
                raise HandshakeError(
                    "torchrun's store has an address of the coordinator that this version cannot parse"
                ) from None
        return Address(point.host, point.port) if point.host else starter.ask()

    def carried(low: int, high: int, size: int) -> None:
        meter.passed((roster.parties[low].name, roster.parties[high].name), size, size)

    if roster.me.role is Role.COORDINATOR:
        where = Address(point.bind, point.port)
        CoordinatorMeeting(roster, own, agree_over, carried).attend(where, announce, fault)
    else:
        DataPartyMeeting(roster, own, agree_over).attend(find, fault)


def own_signer(plan: Plan, party: str, rehearsal: Rehearsal | None) -> Signer:
    """Return a party's key, and everybody's public keys.

    `PlanError` if its key file cannot be used, or is not the key of its own line in the plan.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from mpc_spearman.identity import Identity, Signer

    if rehearsal is not None:
        made = Identity(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(rehearsal.key)))
        return Signer(made, rehearsal.identities, rehearsal=True)
    me, identities = plan.party(party), {name: line or "" for name, line in plan.identities.items()}
    assert me.key is not None
    own = Identity.read(me.key, f"key of party {me.name}")
    if str(own) != me.identity:
        whose = [name for name, identity in identities.items() if identity == str(own)]
        raise PlanError(
            f"key of party {me.name}: {me.key} is "
            + (
                f"the key of party {whose[0]} in this plan"
                if whose
                else f"{own}, and the plan has {me.identity}"
            )
            + "; name the file of that identity, or put the key's identity into everybody's plan"
        )
    return Signer(own, identities, rehearsal=False)


def own_tls(signer: Signer, roster: Roster) -> Tls:
    """Return this party's end of all connections, once it has shaken hands with itself (`Tls.check`)."""
    from mpc_spearman.identity import public_key
    from mpc_spearman.network.tls import Tls

    tls = Tls(signer.identity, {peer: public_key(signer.identities[peer.name]) for peer in roster.peers})
    tls.check()
    return tls


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
