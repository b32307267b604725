"""The store in which parties on several hosts find each other: a TCP service of torch.distributed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from mpc_spearman.errors import NetworkError, PartyMissing, PeerDied, PeerTimeout
from mpc_spearman.parties import Party
from mpc_spearman.wire.addresses import is_loopback

# Seconds between two lines about who is missing.
_SAY = 10.0
_T = TypeVar("_T")


class TcpStore:
    """A store in which each key is written once: see :class:`mpc_spearman.wire.rendezvous.Store`.

    Parameters
    ----------
    store : torch.distributed.Store
    coordinator : Party
        Whose host provides it.
    timeout : float
        Seconds to wait for an answer.

    Raises
    ------
    PeerTimeout
        By each method: it does not answer.
    PeerDied
        By each method: it is gone.
    """

    def __init__(self, store: Any, coordinator: Party, timeout: float) -> None:
        self._store, self._coordinator, self._timeout = store, coordinator, timeout

    def has(self, *keys: str) -> bool:
        """Tell whether all of these are written."""
        return bool(self._ask(lambda: self._store.check(list(keys))))

    def read(self, key: str) -> bytes:
        """Read what is written."""
        return bytes(self._ask(lambda: self._store.get(key)))

    def write(self, key: str, text: str) -> bytes:
        """Write, unless it is written already; return what is then."""
        return bytes(self._ask(lambda: self._store.compare_set(key, "", text)))

    def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return _answer(question, self._timeout, self._coordinator)
        except RuntimeError as error:  # torch's stores raise nothing else
            raise PeerDied(
                f"the meeting point is gone ({str(error).splitlines()[0]})",
                (PeerDied.__name__, self._coordinator.name, "connect"),
            ) from None


def tcp_store(
    host: str,
    port: int,
    coordinator: Party,
    *,
    hosting: bool,
    join_timeout: float,
    timeout: float,
    say: Callable[[str], None],
) -> TcpStore:
    """Open the store.

    Parameters
    ----------
    host, port
        Where the coordinator's host has it, or under torchrun its agent.
    coordinator : Party
    hosting : bool
        Whether this process is the one to provide it.
    join_timeout, timeout : float
        Seconds to wait until someone does; then for an answer.
    say : callable

    Raises
    ------
    PartyMissing
        Nobody provides it in time.
    PeerTimeout
        Who provides it does not answer.
    NetworkError
        This process cannot.
    """
    try:
        if hosting:
            # On a loopback address nothing listens on any other: torch by itself would listen on all.
            listen = host if is_loopback(host) else ""
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((listen, port), family=family)
            store = _tcp(host if listen else "localhost", port, timeout, listener.detach())
        else:
            _wait_for_service(host, port, join_timeout, coordinator, say)
            store = _answer(lambda: _tcp(host, port, timeout), timeout, coordinator)
    except (OSError, RuntimeError) as error:
        doing = "provide the meeting point at" if hosting else "use the meeting point at"
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise NetworkError(
            f"cannot {doing} {host} port {port}: {reason}; see network.address and network.port"
        ) from None
    return TcpStore(store, coordinator, timeout)


def _tcp(host: str, port: int, timeout: float, listener: int | None = None) -> Any:
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        None,
        listener is not None,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
        master_listen_fd=listener,
    )


def _answer(question: Callable[[], _T], seconds: float, coordinator: Party) -> _T:
    """Ask the store something, with a deadline: torch waits for ever if its host is frozen or cut off."""
    answer: Future[_T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="meeting point", daemon=True).start()
    try:
        return answer.result(seconds)
    except NoAnswer:
        raise PeerTimeout(
            f"the meeting point, which {coordinator} provides, did not answer within {seconds:g} s",
            (PeerTimeout.__name__, coordinator.name, "connect"),
        ) from None


def _wait_for_service(
    host: str, port: int, seconds: float, coordinator: Party, say: Callable[[str], None]
) -> None:
    """Wait until someone listens; TCPStore's own retries print a stack trace each."""
    end, next_line = time.monotonic() + seconds, time.monotonic() + 1
    while True:
        try:
            left = end - time.monotonic()
            socket.create_connection((host, port), timeout=min(5.0, max(0.1, left))).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise PartyMissing(
                    f"nobody provides the meeting point at {host} port {port} ({error.strerror or error}) "
                    f"within {seconds:g} s: is {coordinator} running, its port open, network.address right?",
                    (PartyMissing.__name__, coordinator.name, "connect"),
                ) from None
        if time.monotonic() > next_line:
            say(f"waiting for {coordinator} at {host} port {port}")
            next_line += _SAY
        time.sleep(0.5)
