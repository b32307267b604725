"""Meet the other parties of a run: from the plan and the address to the connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from mpc_spearman.config import DataParty, Plan, host_and_port
from mpc_spearman.errors import HandshakeError, NetworkError, PlanError
from mpc_spearman.identity import public_key
from mpc_spearman.launch.meeting_point import MeetingPoint, party_signer
from mpc_spearman.launch.pipe import Supervisor
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Settings
from mpc_spearman.network.connections import Sockets
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Roster
from mpc_spearman.version import __version__
from mpc_spearman.wire.meter import Meter


class Rendezvous:
    """How one party meets the others, with its key (`signer`), with which this machine allows TLS.

    `supervisor` passes on the address of a coordinator on this machine, and shows notes. `PlanError` as
    `party_signer`; `TlsError` as `Tls.check`.
    """

    def __init__(self, plan: Plan, roster: Roster, point: MeetingPoint, supervisor: Supervisor) -> None:
        self._plan, self._roster, self._point, self._supervisor = plan, roster, point, supervisor
        self.signer = party_signer(plan, roster.me.name, point.rehearsal)
        peers = {peer: public_key(self.signer.identities[peer.name]) for peer in roster.peers}
        self._tls = Tls(self.signer.identity, peers)
        self._tls.check()
        self._joins = False

    def join(self, meter: Meter, agree: Callable[[Sockets], None]) -> None:
        """Meet the other parties, and connect to each of them.

        `agree` agrees on keys with all peers over the connections. If a party is lost meanwhile, all connect
        again, and `agree` is called again; the run uses the last connections. `meter` gets how each pair is
        connected, and the bytes that are forwarded.

        Raises `NetworkError`, `HandshakeError`, `TlsError` or one of their kinds: docs/errors.md.
        """
        self._joins = True
        self._meet(meter, agree)
        self._supervisor.joined()

    def decline(self, error: Exception) -> None:
        """Send the others, if they can be reached, the notice that this party failed before it joined.

        Do nothing once `join` has been called, which sends the notice itself.
        """
        if self._joins or not self._point.host:  # the supervisor informs the others
            return
        # Note it now, since the others may not have joined yet. The error is printed when this process ends.
        self._supervisor.note(f"cannot take part ({type(error).__name__}), and tries to tell the others")
        with suppress(NetworkError, HandshakeError, PlanError, type(error)):
            self._meet(Meter(), lambda sockets: None, error)

    def _meet(self, meter: Meter, agree: Callable[[Sockets], None], fault: Exception | None = None) -> None:
        roster, names = self._roster, self._roster.names

        def agree_over(sockets: Sockets, ways: Mapping[tuple[str, str], str]) -> None:
            meter.ways = ways
            agree(sockets)

        def count_forwarded(low: int, high: int, size: int) -> None:
            meter.count_forwarded((names[low], names[high]), size)

        point, settings, supervisor = self._point, self._settings(agree_over), self._supervisor
        address = Address(point.host, point.port)
        if roster.me == roster.coordinator:
            announce = (lambda address: None) if point.host else supervisor.announce_address
            meeting = CoordinatorMeeting(settings, count_forwarded)
            meeting.attend(Address(point.bind, point.port), announce, fault)
        else:
            find = (lambda: address) if point.host else supervisor.coordinator_address
            DataPartyMeeting(settings).attend(find, fault)

    def _settings(self, agree: Callable[[Sockets, Mapping[tuple[str, str], str]], None]) -> Settings:
        network, party = self._plan.network, self._plan.party(self._roster.me.name)
        listen = party.listen if self._point.host else f"{self._point.bind}:0"
        advertise = party.advertise if isinstance(party, DataParty) else None
        proxy = None if network.proxy is None else network.proxy.removeprefix("http://").removesuffix("/")
        return Settings(
            roster=self._roster,
            tls=self._tls,
            plan=self._plan.canonical_json(),
            version=__version__,
            join_timeout=network.join_timeout,
            timeout=network.timeout,
            say=self._supervisor.note,
            agree=agree,
            patient=self._point.patient,
            listen=None if listen is None else Address(*host_and_port(listen, any_address=True)),
            advertise=None if advertise is None else Address(*host_and_port(advertise)),
            proxy=None if proxy is None else Address(*host_and_port(proxy)),
        )
