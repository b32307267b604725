"""How a connection begins, at both ends; and a listening socket that strangers cannot block.

A connection starts with the TLS handshake, which authenticates both ends. Then the party that connects sends

=====  ==============================================================================
bytes
=====  ==============================================================================
8      ``MPCSPEAR``
1      version of this format, 3
1      what the connection is for: :class:`Use`
4      with ``FORWARD`` the number of the party to be connected with, big-endian
16     the token that this party was given for it; zeros for ``MEET``
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
from mpc_spearman.network.addresses import Address, dial, listening
from mpc_spearman.network.tls import Closed, Connection, Tls
from mpc_spearman.parties import Party

_FORMAT = struct.Struct("!8sBBI16s")
_MAGIC, _VERSION = b"MPCSPEAR", 3
#: Bytes of a token.
TOKEN = 16
#: Seconds within which a caller must prove who it is, and how many such callers may wait. Of more, the
#: oldest from the network with the most callers is dropped, so that a flood from one network keeps out
#: nobody else. A party that is dropped tries again.
PATIENCE, MOST = 10.0, 64
_AGAIN = 0.2


class Use(IntEnum):
    """What a connection is for."""

    MEET = 0
    SEND = 1  # what the caller sends to the other party of a pair
    RECEIVE = 2  # what it receives
    FORWARD = 3  # one of these with a third party, by way of the coordinator


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
        """Return its bytes."""
        return _FORMAT.pack(_MAGIC, _VERSION, self.use, self.to, self.token)

    @classmethod
    def unpack(cls, said: bytes) -> Greeting | None:
        """Read it; None if that is not what it is."""
        magic, version, use, to, token = _FORMAT.unpack(said)
        if (magic, version) != (_MAGIC, _VERSION) or use not in tuple(Use):
            return None
        return cls(Use(use), to, token)


#: Takes over the connection of a caller that has proved who it is: answers by `let_in`, and keeps it.
Take = Callable[[Party, Greeting, Connection], None]


def enter(raw: socket.socket, tls: Tls, peer: Party, greeting: Greeting, host: str = "") -> Connection:
    """Begin a connection with `peer` as the caller, and be let in; it is closed on failure.

    `raw` is connected, with a time-out; `host` is what was dialled, if anything. Raises `Closed` if the other
    end had to make room, or is gone; `PeerTimeout`, `TlsError`, `HandshakeError` or `NetworkError` if it does
    not answer, is somebody else or does not let this party in.
    """
    connection: socket.socket | Connection = raw
    seconds = raw.gettimeout() or 0.0
    try:
        _prompt(raw)
        connection = tls.call(raw, peer, host)
        connection.sendall(greeting.pack())
        answer = _exactly(connection, 1)
        if answer == bytes([Answer.TAKEN]):
            raise HandshakeError("another process of this party has already joined")
        if answer != bytes([Answer.WELCOME]):
            raise NetworkError(
                f"{peer} does not expect this party now: is {peer} in another run, or of another version?"
            )
        connection.settimeout(None)  # from now on waits have the deadlines of who uses it
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            about = (PeerTimeout.__name__, peer.name, "connect")
            raise PeerTimeout(f"{peer} did not answer within {seconds:.3g} s", about) from None
        if isinstance(error, OSError):
            raise tls.refused(error, peer) or Closed(str(error)) from None
        raise
    return connection


def call(
    address: Address, seconds: float, tls: Tls, peer: Party, greeting: Greeting,
    proxy: Address | None = None, over: Callable[[], bool] = lambda: False,
) -> Connection:  # fmt: skip
    """Dial a party and enter; try again if it had no room, until `over` returns True.

    Raises as `dial` and `enter`; `Closed` if it never lets this party in.
    """
    end = time.monotonic() + seconds
    while True:
        raw = dial(address, max(0.05, end - time.monotonic()), proxy)
        try:
            return enter(raw, tls, peer, greeting, address.host)
        except Closed:
            if over() or time.monotonic() + _AGAIN > end:
                raise
            time.sleep(_AGAIN)


def admit(
    raw: socket.socket, tls: Tls, take: Take, peer: Party | None = None,
    still: Callable[[], bool] = lambda: True,
) -> None:  # fmt: skip
    """Begin a connection as the called party, with `peer` or any party; it is closed on failure.

    `still` is called once the caller has proved who it is: whether the connection is still wanted. Raises
    `MpcSpearmanError` or `OSError` if the caller has not shown that it is a party of this run.
    """
    connection: socket.socket | Connection = raw
    try:
        _prompt(raw)
        connection, caller = tls.answer(raw, peer)
        greeting = Greeting.unpack(_exactly(connection, _FORMAT.size))
        if not still():
            raise Closed("too late")
        if greeting is None:
            let_in(connection, Answer.UNEXPECTED)
        else:
            take(caller, greeting, connection)
    except BaseException:
        connection.close()
        raise


def let_in(connection: Connection, answer: Answer) -> None:
    """Answer a caller; `Closed` if it is not let in."""
    connection.sendall(bytes([answer]))
    if answer is not Answer.WELCOME:
        raise Closed("not let in")
    connection.settimeout(None)  # from now on waits have the deadlines of who uses it


class Listener:
    """A listening socket: it lets authenticated parties in, and others block nobody.

    Port 0 is any free port; `NetworkError` if nothing can listen there. `turned_away` is called with why a
    caller was not let in; a caller has `patience` seconds.
    """

    def __init__(
        self, where: Address, tls: Tls, take: Take, turned_away: Callable[[MpcSpearmanError], None],
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self._tls, self._take = tls, take
        self._turned_away, self._patience = turned_away, patience
        try:
            self._listener = listening(where)
        except OSError as error:
            todo = "; see `listen`, network.address and network.port"
            why = str(error.strerror or error)
            if error.errno == errno.EADDRINUSE:
                why = os.strerror(error.errno)
                todo = (
                    f": `ss -tlnp sport = :{where.port}` shows which program has it. Take another one: at "
                    "the coordinator network.port, the same in every plan, or for one party `listen`"
                )
            host = where.host or "any address"
            raise NetworkError(f"this party cannot listen on {host} port {where.port}: {why}{todo}") from None
        self.port: int = self._listener.getsockname()[1]
        self._listener.settimeout(1.0)
        # Each with the time at which it is dropped, and where it comes from; what is held is a second handle
        # of the connection, since TLS takes the first one away.
        self._knocking: dict[socket.socket, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="listener", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and drop those who are not in yet."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._make_room(0)

    def _accept(self) -> None:
        while not self._closed:
            try:
                raw, origin = self._listener.accept()
                handle = raw.dup()
            except OSError:
                self._make_room(MOST)
                time.sleep(0.01)  # nobody has come, that caller is gone, or files are short
                continue
            self._make_room(MOST - 1)
            with self._lock:
                self._knocking[handle] = time.monotonic() + self._patience, network_of(origin[0])
            threading.Thread(target=self._admit, args=(raw, handle), name="caller", daemon=True).start()

    def _make_room(self, left: int) -> None:
        """Drop callers whose time is over, then those of the largest crowd, until so many are left."""
        now = time.monotonic()
        with self._lock:
            late = [handle for handle, (end, _) in self._knocking.items() if now > end]
            while late or len(self._knocking) > left:
                handle = late.pop() if late else self._oldest_of_most()
                del self._knocking[handle]
                _drop(handle)

    def _oldest_of_most(self) -> socket.socket:
        ((most, _),) = Counter(origin for _, origin in self._knocking.values()).most_common(1)
        return next(handle for handle, (_, origin) in self._knocking.items() if origin == most)

    def _admit(self, raw: socket.socket, handle: socket.socket) -> None:
        def still() -> bool:
            with self._lock:
                return self._knocking.pop(handle, None) is not None

        try:
            raw.settimeout(self._patience)
            admit(raw, self._tls, self._take, still=still)
        except MpcSpearmanError as error:
            # Anyone can connect and show nothing: that must not stop the run.
            self._turned_away(error)
        except OSError:
            return
        finally:
            still()
            handle.close()


def network_of(host: str) -> str:
    """Return the part of an address that one machine cannot change: of IPv6 all but the last 64 bits."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def _drop(raw: socket.socket) -> None:
    with suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)


def _exactly(connection: Connection, size: int) -> bytes:
    """Receive so many bytes; raise `Closed` if they do not come."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise Closed("closed by the other end")
        data += part
    return data


def _prompt(raw: socket.socket) -> None:
    """Let small messages leave at once: a greeting waited 40 ms until the handshake was acknowledged."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
