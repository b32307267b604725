"""What the workers of one party say to each other, over links of their own.

With ``shards: k`` a party is k processes. Its first worker, the *lead*, does all that the protocol asks of
the party. The others compute on the rows that the lead deals them, with the other parties' workers of the
same shard. Rows are dealt in turn: each worker's number of rows follows from the total, and no shard is a
meaningful part of the table, such as a year.

A worker gives its part to its lead and nobody else. The lead adds up the parts, then adds noise and its share
of zero. So other parties see one share of the sum, as from one process (docs/protocol.md, "Shards").
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import beside, parts, room
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire.kinds import Field, Kind
from mpc_spearman.wire.links import Links

_FIELDS = (Field("what", "text"), Field("data", "blob"))
_ANY_TIME = {
    Kind.KEEPALIVE: (),
    Kind.ABORT: (Field("error", "text"), Field("party", "text"), Field("phase", "text")),
    Kind.FAREWELL: (Field("signature", "bytes", (64,)),),
}
# Bytes of one message.
_CHUNK = 1 << 22


def fields(kind: Kind, sender: Role, receiver: Role) -> tuple[Field, ...] | None:
    """Return the fields of a message between two workers of a party; None for a kind that they never send."""
    return _FIELDS if kind in (Kind.TASK, Kind.PART) else _ANY_TIME.get(kind)


class Team:
    """The workers of this party, as one of them sees them; with one shard there is only itself."""

    def __init__(self, roster: Roster, links: Links | None = None) -> None:
        self._lead, *self._others = roster.parties
        self._links = links
        self.shard, self.shards = roster.me.number, len(roster.parties)

    @property
    def leads(self) -> bool:
        """Whether this is the party's first worker."""
        return self.shard == 0

    def rows(self, n: int) -> int:
        """Return how many of n rows this worker has."""
        return len(range(self.shard, n, self.shards))

    def tell(self, what: Mapping[str, Any], data: bytes = b"") -> None:
        """Lead: send all others a kind of message, with a few bytes."""
        for worker in self._others:
            self._send(worker, Kind.TASK, what, data)

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """Wait for a message of the lead."""
        return self._receive(self._lead, Kind.TASK)

    def scatter(self, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
        """Lead: give each worker its part, and return the first, its own."""
        own, *others = parts
        for worker, part in zip(self._others, others, strict=True):
            self._give(worker, Kind.TASK, part)
        return own

    def part(self, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Take the part that the lead gives, of any length where the shape has None."""
        return self._take(self._lead, Kind.TASK, dtype, shape)

    def gather(self, part: NDArray[Any], others: Sequence[int | None] = ()) -> list[NDArray[Any]] | None:
        """Bring every worker's part to the lead, which gets all, its own first; the others get None.

        All must have the type and shape of the lead's, but for the lengths of the `others`, where these are
        given; None is any length.
        """
        if not self.leads:
            self._give(self._lead, Kind.PART, part)
            return None
        theirs = zip(self._others, others or [len(part)] * len(self._others), strict=True)
        dtype, rest = part.dtype.str, part.shape[1:]
        return [part, *(self._take(worker, Kind.PART, dtype, (length, *rest)) for worker, length in theirs)]

    def total(self, part: NDArray[Any]) -> NDArray[Any] | None:
        """Add up every worker's part, at the lead; None at the others. Integers wrap as those of the ring."""
        parts = self.gather(part)
        return None if parts is None else sum(parts[1:], parts[0])

    def deal(self, vectors: NDArray[Any], block: int) -> NDArray[Any]:
        """Lead: deal the rows of vectors, (m, n), in blocks of about so many bytes; return one's own."""
        if not self._others:
            return vectors
        m, n = vectors.shape
        rows = self.shards * max(1, block // (vectors.itemsize * max(1, m)))
        own = beside(vectors, (m, self.rows(n)), vectors.dtype.type)
        for at, dealt in parts(vectors, rows):
            first = at.start // self.shards
            mine = dealt[:, :: self.shards]
            own[:, first : first + mine.shape[1]] = mine
            for worker in self._others[: dealt.shape[1] - 1]:  # the last block may have none for some
                self._give(worker, Kind.TASK, dealt[:, worker.number :: self.shards])
        return own

    def dealt(self, m: int, n: int, dtype: str, *, in_file: bool = False) -> NDArray[Any]:
        """Take one's rows of n, (m, rows), as the lead deals them."""
        vectors = room((m, self.rows(n)), np.dtype(dtype).type, in_file=in_file)
        filled = 0
        while filled < vectors.shape[1]:
            block = self.part(dtype, (m, None))
            if not 0 < block.shape[1] <= vectors.shape[1] - filled:
                raise _nonsense(self._lead, Kind.TASK)
            vectors[:, filled : filled + block.shape[1]] = block
            filled += block.shape[1]
        return vectors

    def close(self) -> None:
        """Close the links to the other workers at the end; until then they carry errors."""
        if self._links is not None:
            if self.leads:
                self.tell({})
            self._links.close()

    def _give(self, worker: Party, kind: Kind, array: NDArray[Any]) -> None:
        what = {"type": array.dtype.str, "shape": array.shape}
        raw = np.ascontiguousarray(array).tobytes()
        for start in range(0, max(1, len(raw)), _CHUNK):
            self._send(worker, kind, what, raw[start : start + _CHUNK])

    def _take(self, worker: Party, kind: Kind, dtype: str, expected: tuple[int | None, ...]) -> NDArray[Any]:
        what, data = self._receive(worker, kind)
        parts, got = [data], len(data)
        try:
            shape = what["shape"]
            lengths = zip(shape, expected, strict=True)
            fits = [one >= 0 if length is None else one == length for one, length in lengths]
            if what["type"] != dtype or not all(fits):
                raise ValueError
            size = math.prod(shape) * np.dtype(dtype).itemsize
            while len(parts[-1]) == _CHUNK and got < size:
                parts.append(self._receive(worker, kind)[1])
                got += len(parts[-1])
            return np.frombuffer(b"".join(parts), dtype).reshape(shape)
        except (LookupError, OverflowError, TypeError, ValueError):
            raise _nonsense(worker, kind) from None

    def _send(self, worker: Party, kind: Kind, what: Mapping[str, Any], data: bytes) -> None:
        assert self._links is not None
        self._links.send(worker, kind, {"what": json.dumps(what), "data": data})

    def _receive(self, worker: Party, kind: Kind) -> tuple[dict[str, Any], bytes]:
        assert self._links is not None
        said = self._links.receive(worker, kind)
        try:
            what = json.loads(said["what"])
        except (RecursionError, ValueError):
            raise _nonsense(worker, kind) from None
        if not isinstance(what, dict):
            raise _nonsense(worker, kind)
        return what, said["data"]


def _nonsense(worker: Party, kind: Kind) -> ProtocolViolation:
    return ProtocolViolation(f"{worker} sent a {kind.name} that this version cannot parse")


def cut(ordered: NDArray[np.bytes_], shards: int) -> Sequence[NDArray[np.bytes_]]:
    """Cut ascending byte strings into ranges by their first four bytes, one for each shard."""
    ends = [(2**32 * shard // shards).to_bytes(4, "big") for shard in range(1, shards)]
    return np.split(ordered, np.searchsorted(ordered, np.array(ends, ordered.dtype)))
