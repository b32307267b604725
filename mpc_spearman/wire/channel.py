"""One link to one peer, as frames: a thread that sends them and a thread that receives them.

========  =====  ==============================================================
offset    bytes  meaning
========  =====  ==============================================================
0         2      ``MS``
2         1      format version, 1
3         1      kind (:class:`mpc_spearman.wire.kinds.Kind`)
4         4      depth: length of the longest chain of messages this one depends on
8         8      number: 0, 1, 2, … per direction
16        8      length of the payload
24        …      the payload
========  =====  ==============================================================

All integers are big-endian. A frame costs ``HEADER + length`` bytes, and that is what the meter counts.

The sending thread sends a keep-alive whenever it has had nothing to send for a while, so that a party that
computes for long still gives signs of life. The receiving thread checks each header before it reads the
payload, and queues the frames. Both report failures to the owner (:class:`mpc_spearman.wire.links.Links`).
"""

from __future__ import annotations

import queue
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from mpc_spearman.errors import MpcSpearmanError, PeerDied, ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import MAX_PAYLOAD
from mpc_spearman.wire.meter import Meter

_FORMAT = struct.Struct("!2sBBIQQ")
_MAGIC, _VERSION = b"MS", 1
#: Bytes of a header.
HEADER = _FORMAT.size
#: How many received frames may wait to be taken. Then the thread stops reading and the peer's sends block:
#: memory stays bounded whatever a peer sends.
MAX_QUEUED = 16
# Seconds within which all connections of a party close when its process has ended.
_BLAME_SECONDS = 1.0


class Header(NamedTuple):
    """A frame's header."""

    kind: Kind
    depth: int
    number: int
    length: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return HEADER + self.length

    def pack(self) -> bytes:
        """Return the 24 bytes."""
        return _FORMAT.pack(_MAGIC, _VERSION, *self)

    @classmethod
    def unpack(cls, raw: bytes | memoryview, number: int) -> Header:
        """Read a header, which must have this number; `ProtocolViolation` if it is invalid.

        The caller must check its length before allocating anything.
        """
        magic, version, kind, depth, received_number, length = _FORMAT.unpack(raw)
        if magic != _MAGIC:
            raise ProtocolViolation("the bytes that arrived are not a frame of this protocol")
        if version != _VERSION:
            raise ProtocolViolation(
                f"a frame of format version {version} arrived; this party uses version {_VERSION}"
            )
        if kind not in Kind.__members__.values():
            raise ProtocolViolation(f"a message of unknown kind {kind} arrived")
        if received_number != number:
            raise ProtocolViolation(f"message number {received_number} arrived where number {number} was due")
        return cls(Kind(kind), depth, number, length)


class Transport(Protocol):
    """The connections that carry frames; their methods raise `OSError` if a connection is lost."""

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        """Send a frame to the party of this number."""

    def receive(self, number: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        """Return exactly `size` received bytes; call `on_arrival` whenever some arrive."""

    def set_send_timeout(self, seconds: float) -> None:
        """From now on, fail a connection whose other end reads no byte for `seconds`."""

    def close(self) -> None:
        """Close all connections."""


class Channel:
    """The link to one peer.

    `changed` is notified whenever a frame arrives, a frame has left, or the link fails. A keep-alive is sent
    after `interval` seconds without a frame. `limit` returns the longest payload of a kind that the peer may
    send, and raises for a kind that it may not send; `read_abort` turns an ABORT into this party's error.
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
        #: The link to the party whose host forwards this link's bytes: if both end, that party is lost.
        self.forwarder: Channel | None = None
        self._transport, self._meter, self._changed, self._interval = transport, meter, changed, interval
        self._limit, self._read_abort = limit, read_abort
        self._outbox: queue.Queue[tuple[Kind, int, bytes] | None] = queue.Queue()
        self._unsent = 0
        self._sent_last_frame = False
        self._inbox: deque[tuple[Header, memoryview]] = deque()
        self._last_arrival = time.monotonic()
        self._queue_full = False
        self._received_farewell = False
        self._threads = [
            threading.Thread(target=self._run, args=(loop,), name=f"{name} {peer.name}", daemon=True)
            for loop, name in ((self._send_frames, "to"), (self._receive_frames, "from"))
        ]

    def start(self) -> None:
        """Start sending and receiving."""
        self._last_arrival = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def silence(self) -> float:
        """Seconds since bytes of the peer last arrived; 0 while our own queue is full."""
        return 0.0 if self._queue_full or self._received_farewell else time.monotonic() - self._last_arrival

    def put(self, kind: Kind, depth: int, payload: bytes) -> None:
        """Queue a message for sending; it is counted now, so that a party's costs do not depend on timing."""
        self._meter.count_sent(kind.phase, HEADER + len(payload))
        with self._changed:
            self._unsent += 1
        self._outbox.put((kind, depth, payload))

    def backlog(self) -> int:
        """Return how many queued messages are still to be sent; none are after a farewell or an abort."""
        return 0 if self._sent_last_frame else self._unsent

    def has_frame(self) -> bool:
        """Return whether a received frame waits to be taken."""
        return bool(self._inbox)

    def settled(self) -> bool:
        """Return whether a received frame waits to be taken, or no further frame will arrive."""
        return self.has_frame() or self.failure is not None

    def take(self) -> tuple[Header, memoryview]:
        """Remove and return the oldest received frame, if there is one. Call with `changed` held."""
        self._changed.notify_all()
        return self._inbox.popleft()

    def fail(self, error: MpcSpearmanError) -> None:
        """Mark the link as failed; only the first error counts."""
        with self._changed:
            if self.failure is None and not self._received_farewell:
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
            self.fail(self._forwarder_failure() or self._connection_error(error))

    def _forwarder_failure(self) -> MpcSpearmanError | None:
        """Return the failure of the link to the forwarding party, if that ended this link."""
        forwarder = self.forwarder
        if forwarder is None:
            return None
        with self._changed:
            self._changed.wait_for(
                lambda: forwarder.failure is not None or self.failure is not None, _BLAME_SECONDS
            )
        return forwarder.failure

    def _connection_error(self, error: OSError) -> MpcSpearmanError:
        reason = error.strerror or str(error) or "closed"
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            reason = "it ended without a farewell"
        elif isinstance(error, ssl.SSLError):
            return ProtocolViolation(
                f"on the link with {self.peer}: what arrived fails TLS's authentication ({error.reason}): "
                "it was altered on the way"
            )
        way = f", which the host of {self.forwarder.peer} forwards," if self.forwarder else ""
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
                self._meter.count_sent(kind.phase, HEADER)
            header = Header(kind, depth, number, len(payload)).pack()
            self._transport.send(self.peer.number, header, payload)
            number += 1
            if kind is not Kind.KEEPALIVE:
                with self._changed:
                    self._unsent -= 1
                    self._sent_last_frame = kind in (Kind.FAREWELL, Kind.ABORT)  # nothing follows
                    self._changed.notify_all()
            if self._sent_last_frame:
                return

    def _receive_frames(self) -> None:
        number = 0
        receive = partial(self._transport.receive, self.peer.number, on_arrival=self._note_arrival)
        while not self._received_farewell:
            header = Header.unpack(receive(HEADER), number)
            if header.length > self._limit(header.kind):
                raise ProtocolViolation(
                    f"a {header.kind.name} message of {header.length} bytes was announced, "
                    "more than the protocol allows"
                )
            self._accept(header, receive(header.length) if header.length else memoryview(b""))
            number += 1

    def _note_arrival(self) -> None:
        self._last_arrival = time.monotonic()

    def _accept(self, header: Header, payload: memoryview) -> None:
        """Queue a frame, waiting while the queue is full; keep-alives only count, an abort is an error."""
        if header.kind in (Kind.KEEPALIVE, Kind.ABORT):
            self._meter.count_received(header.kind.phase, header.size)
            if header.kind is Kind.ABORT:
                raise self._read_abort(payload)
            return
        with self._changed:
            self._queue_full = not self._queue_has_space()
            self._changed.wait_for(self._queue_has_space)
            self._queue_full = False
            self._note_arrival()
            self._received_farewell = header.kind is Kind.FAREWELL
            self._inbox.append((header, payload))
            self._changed.notify_all()

    def _queue_has_space(self) -> bool:
        return len(self._inbox) < MAX_QUEUED and sum(header.size for header, _ in self._inbox) < MAX_PAYLOAD
