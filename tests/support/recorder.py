"""Writes down all that a role sees, in a process or in a thread: a hook around ``run_role``.

A recorded role leaves in ``DIRECTORY/<party>``, at once, as a role's process ends without an orderly exit:

- ``from-<number>.bin``, ``to-<number>.bin``: every byte from, or to, that party, as on the wire;
- ``read.jsonl``: what it made of the messages it read: the sender's number, kind, values;
- ``keys.jsonl``: the X25519 shared secret with each peer, and every subkey asked for;
- ``share-<number>.npy``, ``opening-<number>.npy``: every share put into a CrypTen tensor, and every one given
  to CrypTen's ``reveal``, in order; while :func:`watched_tensors` lasts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpc_spearman.engines.mpc.crypten_import import ArithmeticSharedTensor
from mpc_spearman.parties import Party
from mpc_spearman.results.result import Result
from mpc_spearman.run import BLOCK_BYTES, Run
from mpc_spearman.wire.channel import Transport
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.faults import Around, Role, with_transport

#: Where the role in this thread writes its tensors: path of one, by what it is.
_tensors: ContextVar[Callable[[str], Path]] = ContextVar("tensors")


def record(role: Role, run: Run, frame: Any, *, directory: str, block_bytes: int = BLOCK_BYTES) -> Result:
    """Run a role and record it."""
    place, numbers = Path(directory, run.roster.me.name), itertools.count()
    place.mkdir(parents=True)
    _tensors.set(lambda kind: place / f"{kind}-{next(numbers):04d}.npy")
    recorded = with_transport(run, lambda transport: _Tap(transport, place))
    return role(replace(recorded, make_links=partial(_Links, place), block_bytes=block_bytes), frame)


class _Tap(Around):
    """A transport that writes down all bytes."""

    def __init__(self, transport: Transport, place: Path) -> None:
        super().__init__(transport)
        self._place = place

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        _append(self._place / f"to-{number}.bin", header + payload)
        self.inner.send(number, header, payload)

    def receive(self, number: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        data = self.inner.receive(number, size, on_arrival)
        _append(self._place / f"from-{number}.bin", bytes(data))
        return data


class _Keys(dict[Party, PairKey]):
    """The keys of a party, which write down each subkey that is derived from them."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place

    def __setitem__(self, peer: Party, key: PairKey) -> None:
        note, derive = partial(_note, self._place, number=peer.number), key.subkey
        note(purpose="", session="", key=key._secret.hex())

        def subkey(purpose: Any, session: str) -> bytes:
            derived = derive(purpose, session)
            note(purpose=purpose.value, session=session, key=derived.hex())
            return derived

        key.subkey = subkey  # type: ignore[method-assign]
        super().__setitem__(peer, key)


class _Links(Links):
    """Links that write down what the role reads, and its keys."""

    def __init__(self, place: Path, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._place = place
        self.keys = _Keys(place / "keys.jsonl")

    def receive(self, peer: Party, kind: Kind, **more: Any) -> dict[str, Any]:
        values = super().receive(peer, kind, **more)
        _note(self._place / "read.jsonl", number=peer.number, kind=kind.name, values=plain(values))
        return values


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's values as JSON can have them: texts, and all else in hexadecimal."""
    plain_values = {}
    for name, value in values.items():
        value = value.tobytes() if isinstance(value, np.ndarray) else value
        plain_values[name] = bytes(value).hex() if isinstance(value, (bytes, memoryview)) else value
    return plain_values


@contextmanager
def watched_tensors() -> Iterator[None]:
    """Write down the tensors of recorded roles meanwhile."""
    from_shares, reveal = ArithmeticSharedTensor.from_shares, ArithmeticSharedTensor.reveal

    def save(kind: str, share: Any) -> None:
        path = _tensors.get(None)
        if path is not None:
            np.save(path(kind), share.numpy())

    def watched_from_shares(share: Any, *arguments: Any, **more: Any) -> Any:
        save("share", share)
        return from_shares(share, *arguments, **more)

    def watched_reveal(self: Any, *arguments: Any, **more: Any) -> Any:
        save("opening", self.share)
        return reveal(self, *arguments, **more)

    ArithmeticSharedTensor.from_shares = staticmethod(watched_from_shares)
    ArithmeticSharedTensor.reveal = watched_reveal
    try:
        yield
    finally:
        ArithmeticSharedTensor.from_shares = staticmethod(from_shares)
        ArithmeticSharedTensor.reveal = reveal


def _append(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


def _note(path: Path, **fields: object) -> None:
    _append(path, json.dumps(fields).encode() + b"\n")
