"""The connection between a party and the coordinator while they meet: small messages and keep-alives.

A message is a JSON object on a line. One thread both sends and receives, because two threads cannot share a
TLS session; a message to send wakes it up. After a while without messages it sends ``alive``, so that the
peer, and any firewall between, sees traffic.
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
from mpc_spearman.network.connections import hang_up
from mpc_spearman.parties import Party

#: Bytes of the longest message.
LONGEST = 1 << 20
# Seconds in which a peer that is still connected answers, and within which it ends its end after ours.
_ANSWER_SECONDS, _FINISH_SECONDS = 2.0, 2.0

Message = Mapping[str, Any]


class Control:
    """One end of the connection: it sends messages, and calls `on_message` with each message of the peer.

    `on_message` is called in the thread of this object, with this object and the message; it may raise an
    error. `on_lost` is called at most once, with this object and the error, if the connection ends before
    `finish`, if the peer sends nothing for `timeout` seconds, or if `on_message` raises.

    `last_received` is when bytes of the peer last arrived, and `over` whether the connection has ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        peer: Party,
        timeout: float,
        on_message: Callable[[Control, Message], None],
        on_lost: Callable[[Control, Exception], None],
    ) -> None:
        self._connection, self.peer, self._timeout = connection, peer, timeout
        self._on_message, self._on_lost = on_message, on_lost
        self._outbox: deque[bytes] = deque()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self.finishing = self.over = False
        self.last_received = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"meeting {peer.name}", daemon=True)
        self._thread.start()

    def send(self, **message: Any) -> None:
        """Queue a message for sending, and return at once."""
        self._outbox.append(json.dumps(message).encode() + b"\n")
        self._wake_thread()

    def answers(self) -> bool:
        """Return whether the peer answers within two seconds; its earlier messages have then been handled."""
        start = time.monotonic()
        self.send(probe=True)
        while self.last_received < start and not self.over and time.monotonic() < start + _ANSWER_SECONDS:
            time.sleep(0.02)
        return self.last_received >= start and not self.over

    def finish(self) -> None:
        """End the connection after all messages are sent; the peer has two seconds to end it too."""
        self.finishing = True
        self._wake_thread()

    def join(self) -> None:
        """Wait until the connection has ended; call `finish` first."""
        self._thread.join()

    def _wake_thread(self) -> None:
        with suppress(OSError):
            self._wake_sender.send(b"!")

    def _run(self) -> None:
        try:
            self._connection.settimeout(self._timeout)
            self._exchange()
        except Exception as error:  # of any kind: otherwise all would wait for a thread that has ended
            if not self.finishing:
                self._on_lost(self, self._connection_error(error) if isinstance(error, OSError) else error)
        finally:
            self.over = True
            self._connection.close()
            self._wake_sender.close()
            self._wake_receiver.close()

    def _connection_error(self, error: OSError) -> MpcSpearmanError:
        if isinstance(error, TimeoutError):
            text = f"{self.peer} sent or read nothing for {self._timeout:g} s at the meeting"
            return PeerTimeout(text, (PeerTimeout.__name__, self.peer.name, "connect"))
        text = f"the connection to {self.peer} ended at the meeting ({error.strerror or 'closed'})"
        return PeerDied(text, (PeerDied.__name__, self.peer.name, "connect"))

    def _exchange(self) -> None:
        data, interval = b"", min(5.0, self._timeout / 4)
        sent = time.monotonic()
        while True:
            if time.monotonic() - sent > interval:
                self.send(alive=True)
            finishing = self.finishing  # before the messages, the last of which `finish` follows
            while self._outbox:
                self._connection.sendall(self._outbox.popleft())
                sent = time.monotonic()
            if finishing:
                hang_up(self._connection, _FINISH_SECONDS)
                return
            if self._readable():
                part = self._connection.recv(LONGEST)
                if not part:
                    raise ConnectionResetError(None, "closed")
                data = self._handle_messages(data + part)
                self.last_received = time.monotonic()
            elif time.monotonic() - self.last_received > self._timeout:
                raise TimeoutError

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
        *lines, incomplete = data.split(b"\n")
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
        if len(incomplete) > LONGEST:
            raise unparsable(self.peer)
        return incomplete


def unparsable(peer: Party) -> HandshakeError:
    """Return the error for a message that cannot be parsed."""
    return HandshakeError(f"{peer} sent a message at the meeting that this version cannot parse")
