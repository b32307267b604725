"""One link to one peer: a thread that sends and a thread that receives.

The sending thread sends a keep-alive whenever it has had nothing to send for a while, so that a party deep
in a computation is still heard. The receiving thread takes frames off the wire as they come, checks their
headers, and queues them. Both report trouble to the owner (:class:`mpc_spearman.wire.links.Links`).
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from mpc_spearman.errors import MpcSpearmanError, PeerDied, ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.wire.frames import HEADER, Frame, Header
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import MAX_PAYLOAD
from mpc_spearman.wire.meter import Meter

#: Frames received but not yet asked for. When as many wait, the thread stops reading and the peer's sends
#: block: memory stays bounded whatever a peer sends.
MAX_QUEUED = 16
_KEEPALIVE = "keep-alive"
# Seconds within which all connections of a party show that it ended.
_MOMENT = 1.0


class Transport(Protocol):
    """What carries the bytes. It raises OSError if a connection is gone."""

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        """Send a frame."""

    def receive(self, number: int, size: int, heard: Callable[[], None]) -> memoryview:
        """Receive exactly so many bytes, calling `heard` whenever some arrive."""

    def hurry(self, seconds: float) -> None:
        """From now on let a connection fail if its other end takes no byte for so many seconds."""

    def close(self) -> None:
        """Close all connections."""


class Channel:
    """The link to one peer.

    `changed` is notified whenever a frame arrives, a frame has left, or the link fails. A keep-alive is sent
    after `interval` seconds without a frame. `limit` says how long a payload of a kind the peer may send, and
    raises for what it may not send; `read_abort` turns its ABORT into the error to fail with.
    """

    def __init__(
        self,
        peer: Party,
        transport: Transport,
        meter: Meter,
        changed: threading.Condition,
        interval: float,
        *,
        limit: Callable[[Kind], int],
        read_abort: Callable[[memoryview], MpcSpearmanError],
    ) -> None:
        self.peer = peer
        self.failure: MpcSpearmanError | None = None  # why the link is unusable
        #: The link to the party whose host forwards this one's bytes: if both end, that party is gone.
        self.by_way_of: Channel | None = None
        self._transport, self._meter, self._changed, self._interval = transport, meter, changed, interval
        self._limit, self._read_abort = limit, read_abort
        self._outbox: queue.Queue[tuple[Kind, int, bytes] | None] = queue.Queue()
        self._unsent = 0
        self._parted = False
        self._inbox: deque[Frame] = deque()
        self._heard = time.monotonic()
        self._full = False
        self._over = False
        self._threads = [
            threading.Thread(target=self._run, args=(loop,), name=f"{name} {peer.name}", daemon=True)
            for loop, name in ((self._send_frames, "to"), (self._receive_frames, "from"))
        ]

    def start(self) -> None:
        """Start sending and receiving."""
        self._heard = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def silence(self) -> float:
        """Seconds since the peer was last heard; 0 while our own queue is full."""
        return 0.0 if self._full or self._over else time.monotonic() - self._heard

    def put(self, kind: Kind, depth: int, payload: bytes, phase: str) -> None:
        """Queue a message for sending; it is counted now, so that a party's costs do not depend on timing."""
        self._meter.sent(phase, HEADER + len(payload))
        with self._changed:
            self._unsent += 1
        self._outbox.put((kind, depth, payload))

    def backlog(self) -> int:
        """How many queued messages have not left; those behind a farewell or an abort never do."""
        return 0 if self._parted else self._unsent

    @property
    def settled(self) -> bool:
        """Whether a received frame waits to be taken, or none will come."""
        return bool(self._inbox) or self.failure is not None

    def take(self) -> Frame | None:
        """Take the oldest received frame, if any. Call with `changed` held."""
        if not self._inbox:
            return None
        self._changed.notify_all()
        return self._inbox.popleft()

    def fail(self, error: MpcSpearmanError) -> None:
        """Mark the link as failed; the first reason stays."""
        with self._changed:
            if self.failure is None and not self._over:
                self.failure = error
                self._outbox.put(None)  # nothing follows
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until both threads have ended."""
        for thread in self._threads:
            thread.join(seconds)

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except ProtocolViolation as error:
            self.fail(ProtocolViolation(f"on the link with {self.peer}: {error}"))
        except MpcSpearmanError as error:
            self.fail(error)
        except OSError as error:
            self.fail(self._blamed() or self._gone(error))

    def _blamed(self) -> MpcSpearmanError | None:
        """Return what happened to the party whose host forwards, if that ended this link."""
        other = self.by_way_of
        if other is not None:
            with self._changed:
                self._changed.wait_for(lambda: other.failure is not None or self.failure is not None, _MOMENT)
        return None if other is None else other.failure

    def _gone(self, error: OSError) -> MpcSpearmanError:
        reason = error.strerror or str(error) or "closed"
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            reason = "it ended without a farewell"
        elif isinstance(error, ssl.SSLError):
            return ProtocolViolation(
                f"on the link with {self.peer}: what arrived fails TLS's authentication ({error.reason}): "
                "it was altered on the way"
            )
        way = f", which the host of {self.by_way_of.peer} forwards," if self.by_way_of else ""
        return PeerDied(
            f"the connection to {self.peer}{way} is gone ({reason})",
            (PeerDied.__name__, self.peer.name, self._meter.current),
        )

    def _send_frames(self) -> None:
        number = 0
        while True:
            try:
                message = self._outbox.get(timeout=self._interval)
                if message is None:
                    return
                kind, depth, payload = message
            except queue.Empty:
                kind, depth, payload = Kind.KEEPALIVE, 0, b""
                self._meter.sent(_KEEPALIVE, HEADER)
            header = Header(kind, depth, number, len(payload)).pack()
            self._transport.send(self.peer.number, header, payload)
            number += 1
            if kind is not Kind.KEEPALIVE:
                with self._changed:
                    self._unsent -= 1
                    self._parted = kind in (Kind.FAREWELL, Kind.ABORT)  # nothing follows
                    self._changed.notify_all()
            if self._parted:
                return

    def _receive_frames(self) -> None:
        number = 0
        receive = partial(self._transport.receive, self.peer.number, heard=self._hear)
        while True:
            header = Header.unpack(bytes(receive(HEADER)), number)
            if header.length > self._limit(header.kind):
                raise ProtocolViolation(
                    f"a {header.kind.name} message of {header.length} bytes was announced, "
                    f"more than the protocol allows"
                )
            payload = receive(header.length) if header.length else memoryview(b"")
            number += 1
            frame = Frame(header, payload)
            self._accept(frame)
            if header.kind is Kind.FAREWELL:
                return

    def _hear(self) -> None:
        self._heard = time.monotonic()

    def _accept(self, frame: Frame) -> None:
        """Queue a frame, waiting while the queue is full; keep-alives only count, an abort is an error."""
        if frame.header.kind in (Kind.KEEPALIVE, Kind.ABORT):
            self._meter.received(_KEEPALIVE, frame.size)
            if frame.header.kind is Kind.ABORT:
                raise self._read_abort(frame.payload)
            return
        with self._changed:
            self._full = not self._has_room()
            self._changed.wait_for(self._has_room)
            self._full = False
            self._hear()
            self._over = frame.header.kind is Kind.FAREWELL
            self._inbox.append(frame)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._inbox) < MAX_QUEUED and sum(frame.size for frame in self._inbox) < MAX_PAYLOAD
