"""How a connection begins, at both ends; and a listening socket that unknown callers cannot block.

A connection starts with the TLS handshake, which authenticates both ends. Then the party that connects sends

=====  ==============================================================================
bytes
=====  ==============================================================================
8      ``MPCSPEAR``
1      version of this format and of the meeting's messages, 5
1      what the connection is for: :class:`Use`
4      with ``FORWARD`` the number of the party to be connected with, big-endian
16     the attempt's token, which the coordinator sent at the meeting; zeros for ``MEET``
=====  ==============================================================================

and receives one byte, :class:`Answer`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address, ip_address, ip_network

from mpc_spearman.errors import HandshakeError, MpcSpearmanError, NetworkError, PeerTimeout
from mpc_spearman.network.addresses import Address, listen_at
from mpc_spearman.network.connections import Connection, receive_exactly
from mpc_spearman.network.tls import Closed, Tls
from mpc_spearman.parties import Party

_FORMAT = struct.Struct("!8sBBI16s")
_MAGIC, _VERSION = b"MPCSPEAR", 5
#: Bytes of a token.
TOKEN = 16
#: Seconds within which a caller must prove which party it is, and how many such callers may wait. If there
#: are more, the oldest one from the network with the most callers is dropped, so that a flood from one
#: network keeps out nobody else. A party that is dropped tries again.
CALLER_SECONDS, MOST_CALLERS = 10.0, 64


class Use(IntEnum):
    """What a connection is for."""

    MEET = 0
    SEND = 1  # what the caller sends to the other party of a pair
    RECEIVE = 2  # what it receives
    FORWARD = 3  # one of these with a third party, which the coordinator forwards


class Answer(IntEnum):
    """The called party's answer."""

    WELCOME = 0
    TAKEN = 1
    UNEXPECTED = 2


@dataclass(frozen=True)
class Greeting:
    """A caller's first bytes."""

    use: Use
    to: int = 0
    token: bytes = field(default=bytes(TOKEN), repr=False)

    def pack(self) -> bytes:
        """Return the bytes that are sent."""
        return _FORMAT.pack(_MAGIC, _VERSION, self.use, self.to, self.token)

    @classmethod
    def unpack(cls, data: memoryview) -> Greeting | None:
        """Return the greeting in these bytes; None if they are not one."""
        magic, version, use, to, token = _FORMAT.unpack(data)
        if (magic, version) != (_MAGIC, _VERSION) or use not in tuple(Use):
            return None
        return cls(Use(use), to, token)


#: Accepts or refuses, by `let_in`, the connection of a caller that has proved which party it is; stores it.
Take = Callable[[Party, Greeting, Connection], None]


def greet(raw: socket.socket, tls: Tls, peer: Party, greeting: Greeting, host: str = "") -> Connection:
    """Return a TLS connection with `peer`, begun as the caller; it is closed on failure.

    `raw` is connected, with a time-out; `host` is the name that was dialled, if any. Raises `Closed` if the
    peer is gone, dropped this caller for others, or does not expect the connection yet; `PeerTimeout`,
    `TlsError`, `HandshakeError` or `NetworkError` if it does not answer, is somebody else or does not let
    this party in.
    """
    connection: Connection = raw
    seconds = raw.gettimeout() or 0.0
    try:
        connection = tls.call(raw, peer, host)
        connection.sendall(greeting.pack())
        answer = receive_exactly(connection, 1)[0]
        if answer == Answer.TAKEN:
            raise HandshakeError("another process of this party has already joined")
        if answer != Answer.WELCOME and greeting.use is not Use.MEET:
            raise Closed(f"{peer} does not expect it")
        if answer != Answer.WELCOME:
            raise NetworkError(
                f"{peer} does not expect this party now: is {peer} in another run, or of another version?"
            )
        connection.settimeout(None)  # from now on its users have deadlines for their waits
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            about = (PeerTimeout.__name__, peer.name, "connect")
            raise PeerTimeout(f"{peer} did not answer within {seconds:.3g} s", about) from None
        if isinstance(error, OSError):
            raise tls.refused_key(error, peer) or Closed(str(error)) from None
        raise
    return connection


def answer_call(raw: socket.socket, tls: Tls, take: Take, peer: Party | None = None) -> None:
    """Begin a connection as the called party, with `peer` or any party; it is closed on failure.

    `raw` is connected, with a time-out. Raises `MpcSpearmanError` or `OSError` if the caller has not shown
    that it is a party of this run, or is not let in.
    """
    connection: Connection = raw
    try:
        connection, caller = tls.answer(raw, peer)
        greeting = Greeting.unpack(receive_exactly(connection, _FORMAT.size))
        if greeting is None:
            let_in(connection, Answer.UNEXPECTED)
        else:
            take(caller, greeting, connection)
    except BaseException:
        connection.close()
        raise


def let_in(connection: Connection, answer: Answer) -> None:
    """Send a caller the answer; raise `Closed` unless it is WELCOME."""
    connection.sendall(bytes([answer]))
    if answer is not Answer.WELCOME:
        raise Closed("not let in")
    connection.settimeout(None)  # from now on its users have deadlines for their waits


class Listener:
    """A listening socket that accepts the parties of this run; other callers block nobody.

    Port 0 is any free port; `NetworkError` if nothing can listen there. `turned_away` is called with why a
    caller was not let in.
    """

    def __init__(
        self, where: Address, tls: Tls, take: Take, turned_away: Callable[[MpcSpearmanError], None]
    ) -> None:
        self._tls, self._take, self._turned_away = tls, take, turned_away
        try:
            self._listener = listen_at(where)
        except OSError as error:
            advice = "; see `listen`, network.address and network.port"
            why = str(error.strerror or error)
            if error.errno == errno.EADDRINUSE:
                why = os.strerror(error.errno)
                advice = (
                    f": `ss -tlnp sport = :{where.port}` shows which program has it. Take another one: at "
                    "the coordinator network.port, the same in every plan, or for one party `listen`"
                )
            host = where.host or "any address"
            problem = f"this party cannot listen on {host} port {where.port}"
            raise NetworkError(f"{problem}: {why}{advice}") from None
        self.port: int = self._listener.getsockname()[1]
        self._listener.settimeout(1.0)
        # Callers that have not proved who they are: the time at which each is dropped, and its network. The
        # key is a second handle of the connection, since TLS takes over the first one.
        self._callers: dict[socket.socket, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="listener", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and drop the callers that have not proved who they are."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._drop_callers(0)

    def _accept(self) -> None:
        while not self._closed:
            try:
                raw, origin = self._listener.accept()
                handle = raw.dup()
            except OSError:
                self._drop_callers(MOST_CALLERS)
                time.sleep(0.01)  # no caller, or it is gone, or too many files are open
                continue
            self._drop_callers(MOST_CALLERS - 1)
            with self._lock:
                self._callers[handle] = time.monotonic() + CALLER_SECONDS, network_of(origin[0])
            threading.Thread(target=self._answer, args=(raw, handle), name="caller", daemon=True).start()

    def _drop_callers(self, most: int) -> None:
        """Drop callers whose time is over, then those of the network with most, until `most` remain."""
        now = time.monotonic()
        with self._lock:
            late = [handle for handle, (end, _) in self._callers.items() if now > end]
            while late or len(self._callers) > most:
                handle = late.pop() if late else self._oldest_of_largest_network()
                del self._callers[handle]
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)

    def _oldest_of_largest_network(self) -> socket.socket:
        ((most, _),) = Counter(origin for _, origin in self._callers.values()).most_common(1)
        return next(handle for handle, (_, origin) in self._callers.items() if origin == most)

    def _answer(self, raw: socket.socket, handle: socket.socket) -> None:
        def still_waits() -> bool:
            with self._lock:
                return self._callers.pop(handle, None) is not None

        def take(caller: Party, greeting: Greeting, connection: Connection) -> None:
            if not still_waits():
                raise Closed("it was dropped")
            self._take(caller, greeting, connection)

        try:
            raw.settimeout(CALLER_SECONDS)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small messages are sent at once
            answer_call(raw, self._tls, take)
        except MpcSpearmanError as error:
            # Anyone can connect without a valid key: that must not stop the run.
            self._turned_away(error)
        except OSError:
            return
        finally:
            still_waits()
            handle.close()


def network_of(host: str) -> str:
    """Return a caller's network: its IPv4 address, or the first 64 bits of its IPv6 address."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
