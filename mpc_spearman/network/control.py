"""The connection between a party and the coordinator while they meet: small messages and keep-alives.

A message is a JSON object on a line. One thread both sends and receives, because two threads cannot share a
TLS session; a message to send wakes it up. After a while without messages it sends ``alive``, so that the
peer, and any firewall between, sees traffic. Messages come from an authenticated party, and are checked all
the same.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mpc_spearman.errors import HandshakeError, MpcSpearmanError, PeerDied, PeerTimeout
from mpc_spearman.network.sockets import hang_up
from mpc_spearman.parties import Party

#: Bytes of the longest message.
LONGEST = 1 << 20
# Seconds in which a peer that is still connected answers.
_ANSWER_SECONDS = 2.0

Message = Mapping[str, Any]


class Control:
    """One end of the connection: it sends messages, and calls `on_message` with each message of the peer.

    `on_message` is called in the thread of this object, with this object and the message; it may raise an
    error. `on_lost` is called once, with this object and an error, if the connection ends before `finish`, if
    the peer sends nothing for `timeout` seconds, or if `on_message` raises. `on_error` is called with any
    error that the peer has not caused.

    `last_received` is when bytes of the peer last arrived, and `over` whether the connection has ended. The
    coordinator notes in `departure_announced` that it has announced the peer's departure to the others.
    """

    def __init__(
        self, connection: socket.socket, peer: Party, timeout: float,
        on_message: Callable[[Control, Message], None], on_lost: Callable[[Control, MpcSpearmanError], None],
        on_error: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        self._connection, self.peer, self._timeout = connection, peer, timeout
        self._on_message, self._on_lost, self._on_error = on_message, on_lost, on_error
        self._outbox: deque[bytes] = deque()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._finish_by: float | None = None
        self._ignoring = self.over = self.departure_announced = False
        self.last_received = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"meeting {peer.name}", daemon=True)
        self._thread.start()

    def send(self, **message: Any) -> None:
        """Queue a message for sending, and return at once."""
        self._outbox.append(json.dumps(message).encode() + b"\n")
        self._wake_thread()

    def answers(self) -> bool:
        """Return whether the peer answers within two seconds; its earlier messages have then been handled."""
        began = time.monotonic()
        self.send(probe=True)
        while self.last_received < began and not self.over and time.monotonic() < began + _ANSWER_SECONDS:
            time.sleep(0.02)
        return self.last_received >= began and not self.over

    def finish(self, seconds: float = 2.0) -> None:
        """End the connection after all messages are sent; wait `seconds` at most for the peer to end it."""
        self._finish_by = time.monotonic() + seconds
        self._wake_thread()

    def join(self) -> None:
        """Wait until the connection has ended; call `finish` first."""
        self._thread.join()

    def _wake_thread(self) -> None:
        with suppress(OSError):
            self._wake_sender.send(b"!")

    def _run(self) -> None:
        try:
            try:
                self._connection.settimeout(self._timeout)
                self._exchange()
            except MpcSpearmanError as error:
                self._report_loss(error)
            except OSError as error:
                if self._finish_by is None:
                    self._report_loss(self._connection_error(error))
        except Exception as error:  # otherwise all would wait for a thread that has ended
            self._on_error(error)
        finally:
            self.over = True
            self._connection.close()
            self._wake_sender.close()
            self._wake_receiver.close()

    def _connection_error(self, error: OSError) -> MpcSpearmanError:
        if isinstance(error, TimeoutError):
            return self._silence_error(f"{self.peer} read nothing for {self._timeout:g} s at the meeting")
        return PeerDied(
            f"the connection to {self.peer} ended at the meeting ({error.strerror or 'closed'})",
            (PeerDied.__name__, self.peer.name, "connect"),
        )

    def _silence_error(self, text: str) -> MpcSpearmanError:
        return PeerTimeout(text, (PeerTimeout.__name__, self.peer.name, "connect"))

    def _report_loss(self, error: MpcSpearmanError) -> None:
        if not self._ignoring:
            self._ignoring = True
            self._on_lost(self, error)

    def _exchange(self) -> None:
        data, interval = b"", min(5.0, self._timeout / 4)
        sent = time.monotonic()
        while True:
            if time.monotonic() - sent > interval:
                self.send(alive=True)
            while self._outbox:
                self._connection.sendall(self._outbox.popleft())
                sent = time.monotonic()
            if self._finish_by is not None:
                hang_up(self._connection, self._finish_by - time.monotonic())
                return
            if self._readable():
                part = self._connection.recv(LONGEST)
                if not part:
                    raise ConnectionResetError(None, "closed")
                try:
                    data = b"" if self._ignoring else self._handle_messages(data + part)
                except MpcSpearmanError as error:
                    self._report_loss(error)  # the loop goes on, to send the messages that are queued
                self.last_received = time.monotonic()
            elif time.monotonic() - self.last_received > self._timeout:
                raise self._silence_error(f"{self.peer} sent nothing for {self._timeout:g} s at the meeting")

    def _readable(self) -> bool:
        if isinstance(self._connection, ssl.SSLSocket) and self._connection.pending():
            return True
        ready, _, _ = select.select(
            [self._connection, self._wake_receiver], [], [], min(1.0, self._timeout / 10)
        )
        if self._wake_receiver in ready:
            self._wake_receiver.recv(4096)
        return self._connection in ready

    def _handle_messages(self, data: bytes) -> bytes:
        """Handle all complete messages in `data`, and return the bytes that follow them."""
        *lines, rest = data.split(b"\n")
        for text in lines:
            try:
                message = json.loads(text)
                if not isinstance(message, dict):
                    raise ValueError
                if "probe" in message:
                    self.send(alive=True)
                elif "alive" not in message:
                    self._on_message(self, message)
            except MpcSpearmanError:
                raise
            except Exception:  # of any kind: an invalid message must end the wait for a valid one
                raise unparsable(self.peer) from None
        if len(rest) > LONGEST:
            raise unparsable(self.peer)
        return rest


def unparsable(peer: Party) -> HandshakeError:
    """Return the error for a message that cannot be parsed."""
    return HandshakeError(f"{peer} sent a message at the meeting that this version cannot parse")
