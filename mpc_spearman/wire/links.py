"""All links of one party: typed messages in and out, with a deadline on every wait.

Errors always name who waits for whom. Four things end a wait, each an error of :mod:`mpc_spearman.errors`:

- the peer's connection is gone: `PeerDied`;
- nothing came from the peer, not even a keep-alive, for ``network.timeout`` seconds: `PeerTimeout`.
  A separate thread sends keep-alives during the computation, so hours of honest computing are no time-out;
- keep-alives arrive, but the peer sends or reads no message for ``network.message_timeout`` seconds:
  `PeerTimeout` too;
- a party stopped and sent a notice: `PeerFailed`, or the class in the notice if it concerns all parties.

An error on any link ends the run for this party, also while it computes: loops call :meth:`Links.check`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mpc_spearman.errors import MpcSpearmanError, PeerTimeout, ProtocolViolation
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire.aborts import distance_from_cause, from_notice, notice
from mpc_spearman.wire.channel import Channel, Transport
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.kinds import Field, Kind
from mpc_spearman.wire.messages import decode, encode, largest
from mpc_spearman.wire.meter import FORWARDED, Meter

# How many messages may wait to leave before a send blocks: enough to keep the link busy.
_MAX_UNSENT = 2
# Seconds that all wait at the end for a peer that is connected but sends no farewell.
_FAREWELL_SECONDS = 60.0
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


class Links:
    """The links from one party to all others.

    `view` is `ViewTable.fields` under the run's plan. `timeout` and `longest` are ``network.timeout`` and
    ``network.message_timeout``; a party that fails tries for `abort_seconds` to send its notice to the
    others.

    `dimensions` has the values of those symbols in message shapes that are fixed during the run, filled in by
    the ``agree`` step; `keys` are those shared with each peer, and `run` is the run's id, filled in by
    :func:`mpc_spearman.protocols.connect.agree_keys`.
    """

    def __init__(
        self,
        view: Callable[[Kind, Role, Role], tuple[Field, ...] | None],
        roster: Roster,
        transport: Transport,
        meter: Meter,
        timeout: float,
        abort_seconds: float = 2.0,
        longest: float = 86_400.0,
    ) -> None:
        self.dimensions: dict[str, int] = {}
        self.keys: dict[Party, PairKey] = {}
        self.run = b""
        self._view, self._roster, self._meter = view, roster, meter
        self._timeout, self._longest = timeout, longest
        self._abort_seconds, self._farewell_timeout = abort_seconds, _FAREWELL_SECONDS
        self._transport, self._changed = transport, threading.Condition()
        interval = min(5.0, timeout / 4)
        self._channels = {
            peer: Channel(
                peer,
                transport,
                meter,
                self._changed,
                interval,
                limit=partial(self._limit, peer),
                read_abort=partial(self._read_abort, peer),
            )
            for peer in roster.peers
        }
        for peer, channel in self._channels.items():
            pairs = ((roster.me.name, peer.name), (peer.name, roster.me.name))
            if any(meter.ways.get(pair) == FORWARDED for pair in pairs):
                channel.forwarder = self._channels[roster.coordinator]
            channel.start()

    def send(
        self,
        peer: Party,
        kind: Kind,
        values: Mapping[str, Any],
        *,
        sizes: Mapping[str, int] = _NO_SIZES,
        depth: int | None = None,
    ) -> bytes:
        """Send one message; return its payload once it is queued and the link is not far behind.

        `values` are the message's fields, as the view table lists them for this plan; `sizes` has the other
        symbols in their shapes. `depth` is the length of the longest chain of messages that this one depends
        on, if it does not depend on all that this party has received. `NetworkError` if a link failed.
        """
        fields = self._fields(kind, self._roster.me, peer)
        channel = self._channels[peer]
        payload = encode(fields, {**self.dimensions, **sizes}, values)
        channel.put(kind, self._meter.depth if depth is None else depth, payload)
        with self._meter.waiting(), self._changed:
            self._wait_until(
                lambda: channel.backlog() <= _MAX_UNSENT, f"sending to {peer}", peer, f"taken {kind.name}"
            )
        return payload

    def receive(self, peer: Party, kind: Kind, *, sizes: Mapping[str, int] = _NO_SIZES) -> dict[str, Any]:
        """Wait for a peer's next message, which must be of this kind; return its fields, arrays read-only.

        `NetworkError` if a link failed, or the peer was silent for too long; `ProtocolViolation` for another
        kind of message, or one that does not match the view table.
        """
        fields, channel = self._fields(kind, peer, self._roster.me), self._channels[peer]
        with self._meter.waiting(peer.name), self._changed:
            # Frames that arrived before a failure are still read: they often explain it.
            self._wait_until(
                channel.has_frame, f"waiting for {kind.name} from {peer}", peer, f"sent {kind.name}"
            )
            header, payload = channel.take()
        self._meter.count_received(header.kind.phase, header.size)
        if header.kind is not kind:
            raise ProtocolViolation(
                f"{peer} sent {header.kind.name} while {self._roster.me} waited for {kind.name} "
                f"in phase {self._meter.current}"
            )
        try:
            values = decode(fields, {**self.dimensions, **sizes}, payload)
        except ProtocolViolation as error:
            raise ProtocolViolation(
                f"{peer} sent an invalid {kind.name} message in phase {self._meter.current}: {error}"
            ) from None
        self._meter.count_round(header.depth)
        return values

    def check(self) -> None:
        """Raise the error of a failed link, if any has failed."""
        with self._changed:
            self._raise_failure("computing")

    def abort(self, error: BaseException) -> None:
        """Send the notice of an error (its class, party and phase) to every peer that is still connected."""
        about = notice(error, self._roster.me.name, self._meter.current)
        values = dict(zip(("error", "party", "phase"), about, strict=True))
        payload = encode(self._fields(Kind.ABORT, self._roster.me, self._roster.me), {}, values)
        connected = [channel for channel in self._channels.values() if channel.failure is None]
        for channel in connected:
            channel.put(Kind.ABORT, 0, payload)
        with self._changed:
            self._changed.wait_for(
                lambda: all(channel.backlog() == 0 or channel.failure for channel in connected),
                self._abort_seconds,
            )

    def close(self, signature: bytes = bytes(64)) -> dict[str, bytes]:
        """Send a farewell to every peer, wait for all farewells, and end all links; return all signatures.

        Signatures, by party, are of the run's record; a party without one sends zeros. When this returns,
        every party has finished, unless it is connected but sends no farewell within a minute: nobody waits
        longer for its signature, or loses a result for it. The minute begins when all messages have been
        sent. Until then a peer is lost if it reads no byte for a minute; over a slow link it reads some.
        """
        self.check()  # a failure up to now still stops the run
        self._transport.set_send_timeout(self._farewell_timeout)
        for peer in self._roster.peers:
            self.send(peer, Kind.FAREWELL, {"signature": signature})
        until, signatures = time.monotonic() + self._farewell_timeout, {self._roster.me.name: signature}
        for peer, channel in self._channels.items():
            with self._meter.waiting(peer.name), self._changed:
                while not channel.settled() and time.monotonic() < until:
                    self._raise_failure(f"parting from {peer}")
                    self._changed.wait(min(1.0, max(0.0, until - time.monotonic())))
            signatures[peer.name] = (
                self.receive(peer, Kind.FAREWELL)["signature"] if channel.settled() else bytes(len(signature))
            )
        for channel in self._channels.values():
            channel.join(until - time.monotonic())
        self._transport.close()
        return signatures

    def _fields(self, kind: Kind, sender: Party, receiver: Party) -> tuple[Field, ...]:
        fields = self._view(kind, sender.role, receiver.role)
        if fields is None:
            raise ProtocolViolation(f"{kind.name} from {sender} to {receiver} is not in the view table")
        return fields

    def _limit(self, peer: Party, kind: Kind) -> int:
        """Return the longest payload of a kind that a peer may send; raise if it may send none."""
        return largest(self._fields(kind, peer, self._roster.me), self.dimensions)

    def _wait_until(self, done: Callable[[], bool], doing: str, peer: Party, progress: str) -> None:
        """Wait, with `changed` held, until `done`; raise an error that ends this, or if `peer` is stuck."""
        start = time.monotonic()
        while not done():
            self._raise_failure(doing)
            if time.monotonic() - start > self._longest:
                raise PeerTimeout(
                    f"{peer} sends signs of life, but has not {progress} for {self._longest:g} s "
                    "(network.message_timeout): it, or a party it waits for, is stuck "
                    f"[{self._roster.me}, in phase {self._meter.current}]",
                    (PeerTimeout.__name__, peer.name, self._meter.current),
                )
            self._changed.wait(1.0)

    def _raise_failure(self, doing: str) -> None:
        self._fail_silent()
        failures = [channel.failure for channel in self._channels.values() if channel.failure is not None]
        if failures:
            error = min(failures, key=distance_from_cause)
            where = f"{self._roster.me}, {doing} in phase {self._meter.current}"
            raise type(error)(f"{error} [{where}]", error.about, heard=error.heard)

    def _fail_silent(self) -> None:
        """Fail links whose peer is silent for too long."""
        for channel in self._channels.values():
            forwarder = channel.forwarder
            if forwarder is not None and forwarder.silence > self._timeout / 2:
                continue  # the forwarder is the silent party, or something of it will soon arrive
            if channel.silence > self._timeout:
                text = f"{channel.peer} sent nothing for {self._timeout:g} s, not even a keep-alive"
                about = (PeerTimeout.__name__, channel.peer.name, self._meter.current)
                channel.fail(PeerTimeout(text, about))

    def _read_abort(self, peer: Party, payload: memoryview) -> MpcSpearmanError:
        error, party, phase = decode(self._fields(Kind.ABORT, peer, self._roster.me), {}, payload).values()
        return from_notice(error, party, phase, sender=str(peer), parties=self._roster.names)
