"""From a plan to the connections with all other parties: where the coordinator is, and who proves what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mpc_spearman.config import Plan, check_policy_network, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.parties import Role, Roster

if TYPE_CHECKING:
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.network.authentication import Authentication
    from mpc_spearman.network.sockets import Sockets
    from mpc_spearman.wire.credentials import Credentials
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
    """

    host: str = ""
    port: int = 0
    agent: int = 0
    bind: str = ""
    listen: str = ""


class Passing(Protocol):
    """Whoever has started all roles on one machine, and passes on where the coordinator listens."""

    def tell(self, address: Address) -> None:
        """Tell the others, as the coordinator."""

    def ask(self) -> Address:
        """Wait until the coordinator has told."""


def meeting_point(plan: Plan, party: str, environment: Mapping[str, str] = os.environ) -> MeetingPoint:
    """Find out where a party of a plan meets the others, when each starts on a host of its own.

    Parameters
    ----------
    plan : Plan
    party : str
    environment : mapping
        ``MASTER_ADDR`` and ``MASTER_PORT`` come before the plan's ``network.address`` and ``network.port``;
        under torchrun they are where its agent has its store. ``RANK`` and ``WORLD_SIZE``, if set, must be
        what the plan says.

    Raises
    ------
    PlanError
        Nothing says where, or how the parties show who they are.
    HandshakeError
        The environment puts another party on this rank.
    """
    from mpc_spearman.network.addresses import is_loopback

    roster = Roster.of(plan, party)
    check_policy_network(plan, party)
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
    if plan.network.tls is None:
        raise PlanError(
            "network.tls is missing: without it nobody knows who is at the other end. Give ca, certificate "
            "and key (mpc-spearman certs makes some for trials), or say network.tls: insecure, with "
            "network.secret"
        )
    if plan.network.security == "insecure" and plan.network.secret is None:
        raise PlanError(
            "network.secret is missing: under network.tls: insecure the parties know each other by a file "
            "that all have: mpc-spearman secret FILE makes one, network.secret=FILE uses it"
        )
    bind = host if is_loopback(host) else ""
    agent = 0
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        agent, port = port, plan.network.port if plan.network.port != port else 0
    listen = plan.parties.coordinator.listen
    if listen is not None and roster.me.role is Role.COORDINATOR:
        bind, port = host_and_port(listen)
    return MeetingPoint(host, port, agent, bind)


def join(
    point: MeetingPoint, plan: Plan, roster: Roster, secret: bytes | None, passing: Passing, meter: Meter,
    say: Say,
) -> Sockets:  # fmt: skip
    """Meet the other parties and connect to each of them.

    Parameters
    ----------
    point : MeetingPoint
    plan : Plan
    roster : Roster
    secret : bytes, optional
        What all parties know, where there is no TLS.
    passing : Passing
    meter : Meter
        Is told how each pair is connected, and what is forwarded.
    say : callable
        Told what is worth a sentence.

    Raises
    ------
    PartyMissing
        Not all joined in time.
    Unreachable
        A party cannot reach another one where that listens.
    PeerTimeout, PeerDied
        A party that has joined does not answer or connect, or is gone.
    HandshakeError
        A second process has joined as a party; the terms differ (`PlanMismatch`).
    TlsError
        And its kinds: this party's credentials cannot be used, or a peer's are refused.
    NetworkError
        Nothing can listen where it should.
    """
    return _attend(point, plan, roster, secret, passing, meter, say, None)


def decline(
    point: MeetingPoint, plan: Plan, roster: Roster, secret: bytes | None, passing: Passing, meter: Meter,
    say: Say, error: Exception,
) -> None:  # fmt: skip
    """Tell the other parties, if they can be reached, that this one has failed and will not come."""
    if not point.host:
        return  # who has started all roles passes it on
    say(f"cannot take part, and tells the others if it can: {error}")  # now: they may not be there yet
    with suppress(NetworkError, HandshakeError, PlanError, type(error)):
        _attend(point, plan, roster, secret, passing, meter, say, error)


def _attend(
    point: MeetingPoint, plan: Plan, roster: Roster, secret: bytes | None, passing: Passing, meter: Meter,
    say: Say, fault: Exception | None,
) -> Sockets:  # fmt: skip
    # Not above: the supervisor, which needs none of it, is here too.
    from mpc_spearman.network.addresses import Address
    from mpc_spearman.network.coordinator import CoordinatorMeeting
    from mpc_spearman.network.data_party import DataPartyMeeting
    from mpc_spearman.network.meeting import Own

    network, party = plan.network, plan.party(roster.me.name)
    listen = point.listen or party.listen
    proxy = None if network.proxy is None else network.proxy.removeprefix("http://").removesuffix("/")
    own = Own(
        authentication=_authentication(plan, roster.me.name, secret),
        listen=None if listen is None else Address(*host_and_port(listen, any_address=True)),
        advertise=None if party.advertise is None else Address(*host_and_port(party.advertise)),
        proxy=None if proxy is None else Address(*host_and_port(proxy)),
        join_timeout=network.join_timeout,
        timeout=network.timeout,
        say=say,
    )

    def announce(found: Address) -> None:
        if point.agent:
            from mpc_spearman.launch.torchrun import put

            told = own.advertise or Address(point.host, found.port)
            put(point.host, point.agent, str(told), network.join_timeout, roster.coordinator)
        elif not point.host:
            passing.tell(found)

    def find(seconds: float) -> Address:
        if point.agent:
            from mpc_spearman.launch.torchrun import get

            text = get(point.host, point.agent, seconds, roster.coordinator)
            try:
                return Address(*host_and_port(text))
            except ValueError:
                raise HandshakeError("what torchrun's store says of the coordinator makes no sense") from None
        return Address(point.host, point.port) if point.host else passing.ask()

    def carried(low: int, high: int, size: int) -> None:
        meter.passed((roster.parties[low].name, roster.parties[high].name), size, size)

    if roster.me.role is Role.COORDINATOR:
        met = CoordinatorMeeting(roster, own, carried).attend(
            Address(point.bind, point.port), announce, fault
        )
    else:
        met = DataPartyMeeting(roster, own).attend(find, fault)
    meter.ways = met.ways
    for sentence in met.sentences:
        say(sentence)
    return met.sockets


def check_credentials(plan: Plan, roster: Roster) -> None:
    """See that peers would take a party's own credentials, if it has any.

    Raises
    ------
    TlsError
        Or one of its kinds: see :func:`mpc_spearman.wire.tls.check_own`.
    """
    from mpc_spearman.wire.tls import check_own

    files = credentials(plan, roster.me.name)
    if files is not None:
        check_own(files, roster.me.name)


def _authentication(plan: Plan, party: str, secret: bytes | None) -> Authentication:
    """Return how a party proves who it is."""
    from mpc_spearman.network.authentication import Secret, Tls

    files = credentials(plan, party)
    if files is not None:
        return Tls(files, plan.network.pins)
    assert secret is not None
    return Secret(secret)


def credentials(plan: Plan, party: str) -> Credentials | None:
    """Return the files of a party for TLS; None where the plan has none."""
    from mpc_spearman.wire.credentials import Credentials

    files = plan.network.tls
    if files is None or files.ca is None or files.certificate is None or files.key is None:
        return None

    def own(file: Path) -> Path:
        return Path(str(file).replace("{party}", party))

    return Credentials(own(files.ca), own(files.certificate), own(files.key))


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
