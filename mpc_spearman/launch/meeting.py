"""From a plan to the connections with all other parties: where to meet and listen, with which credentials."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mpc_spearman.config import Plan, check_policy_network, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.parties import Roster
from mpc_spearman.wire.addresses import is_loopback, own_address

if TYPE_CHECKING:
    from mpc_spearman.wire.sockets import Sockets
    from mpc_spearman.wire.tls import Credentials

# Seconds that a party that cannot take part waits for the meeting point, to tell the others.
_TELL = 5.0


@dataclass(frozen=True)
class MeetingPoint:
    """Where the parties of a run find each other.

    Attributes
    ----------
    folder : str
        On one machine: one that only this user can read. Otherwise empty.
    host, port
        Among several machines: the coordinator's.
    hosting : bool
        Whether this process provides it there. Under torchrun its agent does.
    """

    folder: str = ""
    host: str = ""
    port: int = 0
    hosting: bool = False


def meeting_point(plan: Plan, party: str, environment: Mapping[str, str] = os.environ) -> MeetingPoint:
    """Find out where a party of a plan meets the others, when each starts on a host of its own.

    Parameters
    ----------
    plan : Plan
    party : str
    environment : mapping
        ``MASTER_ADDR`` and ``MASTER_PORT`` come before the plan's ``network.address`` and ``network.port``;
        ``RANK`` and ``WORLD_SIZE``, if set, must be what the plan says.

    Raises
    ------
    PlanError
        Nothing says where; or the hosts are not one machine and the plan does not say how they are protected.
    HandshakeError
        The environment puts another party on this rank.
    """
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
    listen = plan.party(party).listen
    hosts = [host] if listen is None else [host, host_and_port(listen)[0]]
    outside = [each for each in hosts if not is_loopback(each)]
    if plan.network.tls is None and outside:
        raise PlanError(
            f"network.tls is missing: {outside[0]} can be reached from other machines, and without TLS "
            "nobody knows who is at the other end. Give ca, certificate and key (mpc-spearman certs makes "
            "some for trials), or say network.tls: insecure"
        )
    by_torchrun = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return MeetingPoint(host=host, port=port, hosting=rank == 0 and not by_torchrun)


def join(point: MeetingPoint, plan: Plan, roster: Roster, say: Callable[[str], None]) -> Sockets:
    """Meet the other parties and connect to each of them.

    Raises
    ------
    NetworkError
        And its kinds: see :func:`mpc_spearman.wire.rendezvous.meet`.
    """
    return _meet(point, plan, roster, None, say)


def decline(
    point: MeetingPoint, plan: Plan, roster: Roster, error: Exception, say: Callable[[str], None]
) -> None:
    """Tell the other parties, if they can be reached, that this one has failed and will not come."""
    if not point.folder:
        say(f"cannot take part, and tells the others: {error}")  # now: they may not be there yet
    with suppress(NetworkError, type(error)):
        _meet(point, plan, roster, error, say)


def _meet(
    point: MeetingPoint,
    plan: Plan,
    roster: Roster,
    fault: Exception | None,
    say: Callable[[str], None],
) -> Sockets:
    from mpc_spearman.wire import rendezvous  # not above: the supervisor, which needs no TLS, is here too

    network, me = plan.network, roster.me.name
    store: rendezvous.Store
    if point.folder:
        store = rendezvous.FolderStore(Path(point.folder))
    else:
        from mpc_spearman.wire.tcp_store import tcp_store  # it imports torch

        try:
            store = tcp_store(
                point.host,
                point.port,
                roster.coordinator,
                hosting=point.hosting,
                join_timeout=network.join_timeout if fault is None else min(_TELL, network.join_timeout),
                timeout=network.timeout,
                say=say,
            )
        except NetworkError as error:
            raise fault or error from None
    return rendezvous.meet(
        store,
        roster,
        rendezvous.Terms(len(roster.parties), network.security or ""),
        _listen(point, plan, me),
        credentials(plan, me),
        fault=fault,
        # Under torchrun the store is its agent's, which ends with the coordinator's role.
        last=roster.me == roster.coordinator and not point.folder,
        join_timeout=network.join_timeout,
        timeout=network.timeout,
        say=say,
    )


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


def credentials(plan: Plan, party: str) -> Credentials | None:
    """Return the files of a party for TLS; None where the plan has none."""
    from mpc_spearman.wire.tls import Credentials

    files = plan.network.tls
    if files is None or files.ca is None or files.certificate is None or files.key is None:
        return None

    def own(file: Path) -> Path:
        return Path(str(file).replace("{party}", party))

    return Credentials(own(files.ca), own(files.certificate), own(files.key))


def _listen(point: MeetingPoint, plan: Plan, party: str) -> tuple[str, int]:
    if point.folder:
        return "127.0.0.1", 0
    listen = plan.party(party).listen
    if listen is not None:
        return host_and_port(listen)
    try:
        return own_address(point.host, point.port), 0
    except OSError as error:
        raise NetworkError(
            f"{point.host}, where the parties meet, has no address that this machine can reach "
            f"({error.strerror or error})"
        ) from None


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise PlanError(f"the environment's {name} is {text[:20]!r}, not a number")
    return int(text) if text else default
