"""The connection over which a party and the coordinator meet: small messages and keep-alives.

A message is its length in four bytes and a JSON object. One thread both sends and receives, because two
threads cannot share a TLS session; a message to send wakes it up. After a while without messages it sends
``alive``, so that the peer, and any firewall between, sees traffic. Messages come from an authenticated
party, and are checked all the same.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mpc_spearman.errors import HandshakeError, MpcSpearmanError, PeerDied, PeerTimeout
from mpc_spearman.network.sockets import hang_up
from mpc_spearman.parties import Party

_LENGTH = struct.Struct("!I")
#: Bytes of the longest message.
LONGEST = 1 << 20
# Seconds in which a peer that is there answers.
_SILENT = 2.0

Message = Mapping[str, Any]


class Control:
    """One end of such a connection; `last` is when the peer was heard, `over` whether it has ended.

    After `timeout` seconds without a message the peer counts as lost. `heard` is called with this and each
    message, in this connection's thread; it may raise an error. `lost` is called once, with this and an
    error, if the connection ends before `finish` or what is heard is an error. `fail` is told of an error
    that is nobody else's doing. `left` is for its owner: whether others have been told that the peer left.
    """

    def __init__(
        self, connection: socket.socket, peer: Party, timeout: float,
        heard: Callable[[Control, Message], None], lost: Callable[[Control, MpcSpearmanError], None],
        fail: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        self._connection, self.peer, self._timeout = connection, peer, timeout
        self._heard, self._lost, self._fail = heard, lost, fail
        self._outbox: deque[bytes] = deque()
        self._wake, self._woken = socket.socketpair()
        self._finish: float | None = None
        self._deaf = self.over = self.left = False
        self.last = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"meeting {peer.name}", daemon=True)
        self._thread.start()

    def send(self, **message: Any) -> None:
        """Send a message; returns at once."""
        text = json.dumps(message).encode()
        self._outbox.append(_LENGTH.pack(len(text)) + text)
        self._ring()

    def answers(self) -> bool:
        """Return whether the peer answers within a moment; its earlier messages have then been heard."""
        asked = time.monotonic()
        self.send(probe=True)
        while self.last < asked and not self.over and time.monotonic() < asked + _SILENT:
            time.sleep(0.02)
        return self.last >= asked and not self.over

    def finish(self, seconds: float = 2.0) -> None:
        """End the connection once all is sent, and the peer has ended it too or the seconds have passed."""
        self._finish = time.monotonic() + seconds
        self._ring()

    def join(self) -> None:
        """Wait for the end, after `finish`."""
        self._thread.join()

    def _ring(self) -> None:
        with suppress(OSError):
            self._wake.send(b"!")

    def _run(self) -> None:
        try:
            try:
                self._connection.settimeout(self._timeout)
                self._exchange()
            except MpcSpearmanError as error:
                self._give_up(error)
            except OSError as error:
                if self._finish is None:
                    self._give_up(self._ended(error))
        except Exception as error:  # or all would wait for this thread, which has ended
            self._fail(error)
        finally:
            self.over = True
            self._connection.close()
            self._wake.close()
            self._woken.close()

    def _ended(self, error: OSError) -> MpcSpearmanError:
        if isinstance(error, TimeoutError):
            return self._silent(f"{self.peer} took nothing for {self._timeout:g} s at the meeting")
        return PeerDied(
            f"the connection to {self.peer} ended at the meeting ({error.strerror or 'closed'})",
            (PeerDied.__name__, self.peer.name, "connect"),
        )

    def _silent(self, text: str) -> MpcSpearmanError:
        return PeerTimeout(text, (PeerTimeout.__name__, self.peer.name, "connect"))

    def _give_up(self, error: MpcSpearmanError) -> None:
        if not self._deaf:
            self._deaf = True
            self._lost(self, error)

    def _exchange(self) -> None:
        data, interval = b"", min(5.0, self._timeout / 4)
        sent = time.monotonic()
        while True:
            if time.monotonic() - sent > interval:
                self.send(alive=True)
            while self._outbox:
                self._connection.sendall(self._outbox.popleft())
                sent = time.monotonic()
            if self._finish is not None:
                hang_up(self._connection, self._finish - time.monotonic())
                return
            if self._readable():
                part = self._connection.recv(LONGEST)
                if not part:
                    raise ConnectionResetError(None, "closed")
                try:
                    data = b"" if self._deaf else self._take(data + part)
                except MpcSpearmanError as error:
                    self._give_up(error)  # what this party has to say about that is still sent
                self.last = time.monotonic()
            elif time.monotonic() - self.last > self._timeout:
                raise self._silent(f"{self.peer} sent nothing for {self._timeout:g} s at the meeting")

    def _readable(self) -> bool:
        if isinstance(self._connection, ssl.SSLSocket) and self._connection.pending():
            return True
        ready, _, _ = select.select([self._connection, self._woken], [], [], min(1.0, self._timeout / 10))
        if self._woken in ready:
            self._woken.recv(4096)
        return self._connection in ready

    def _take(self, data: bytes) -> bytes:
        """Hand on what is whole, and return the rest."""
        while len(data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data)
            if size > LONGEST:
                raise nonsense(self.peer)
            text, rest = data[_LENGTH.size : _LENGTH.size + size], data[_LENGTH.size + size :]
            if len(text) < size:
                break
            try:
                message = json.loads(text)
                if not isinstance(message, dict):
                    raise ValueError
                if "probe" in message:
                    self.send(alive=True)
                elif "alive" not in message:
                    self._heard(self, message)
            except MpcSpearmanError:
                raise
            except Exception:  # of any kind: nobody must wait for a message that does not fit
                raise nonsense(self.peer) from None
            data = rest
        return data


def nonsense(peer: Party) -> HandshakeError:
    """Return the error for a message that cannot be parsed."""
    return HandshakeError(f"{peer} sent a message at the meeting that this version cannot parse")
