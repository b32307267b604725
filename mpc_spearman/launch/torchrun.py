"""How the parties find the coordinator under torchrun: its agent has a store that all of them reach.

The store holds where the coordinator listens and nothing else, and is not trusted: whoever can write to it
can send a party elsewhere, where nobody can show that it is the coordinator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from datetime import timedelta
from typing import Any

from mpc_spearman.errors import PartyMissing
from mpc_spearman.parties import Party

_KEY = "mpc_spearman/coordinator"
# Longest text that is read as an address.
_LONGEST = 300


def put(host: str, port: int, address: str, seconds: float, coordinator: Party) -> None:
    """Write where the coordinator listens; `PartyMissing` if the store does not answer in time."""
    _ask(host, port, seconds, coordinator, lambda store: store.set(_KEY, address))


def get(host: str, port: int, seconds: float, coordinator: Party) -> str:
    """Wait for what `put` has written, and return it; raises as `put`."""
    found = _ask(host, port, seconds, coordinator, lambda store: store.get(_KEY))
    return bytes(found)[:_LONGEST].decode(errors="replace")


def _ask(host: str, port: int, seconds: float, coordinator: Party, question: Callable[[Any], Any]) -> Any:
    import torch.distributed as dist

    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            waits = timedelta(seconds=seconds)
            # torch's stubs do not have what a build without distributed lacks.
            store = dist.TCPStore(host, port, None, False, waits, wait_for_workers=False)  # type: ignore[attr-defined]
            answer.set_result(question(store))
        except Exception as error:
            answer.set_exception(error)

    # In a thread: torch waits for ever if its host is frozen or cut off.
    threading.Thread(target=ask, name="agent", daemon=True).start()
    try:
        return answer.result(seconds)
    except (NoAnswer, RuntimeError) as error:  # torch's stores raise nothing else
        reason = str(error).splitlines()[0] if str(error) else "no answer"
        raise PartyMissing(
            f"the store of torchrun's agent at {host} port {port} does not say where {coordinator} is "
            f"({reason})",
            (PartyMissing.__name__, coordinator.name, "connect"),
        ) from None
