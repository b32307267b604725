"""Runs CrypTen's tensors and ``reveal`` for one source, target and coordinator, over our links and masks.

CrypTen's own masks, triples and messages are not used (docs/protocol.md, "CrypTen as it ships"). While shares
are re-randomised, compared or opened,

- CrypTen's communicator is :class:`LinkCommunicator`, which sends typed messages over our links;
- ``crypten.generators`` hold AES-256-CTR streams under the pairwise keys;
- CrypTen's ``generate_random_ring_element`` refuses any other generator, and so does what it calls for bits;
- CrypTen's AND of shared bits is :func:`_and`, whatever provider of triples it is set to.

At all other times, and in every other thread, CrypTen has neither a communicator nor a generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mpc_spearman.engines.computation import Computation
from mpc_spearman.engines.mpc import crypten_import as ct
from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.wire.integers import nearest, width_of
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind

_CPU = torch.device("cpu")


class LinkCommunicator(ct.Communicator):  # type: ignore[misc]  # CrypTen has no types
    """What CrypTen's ``reveal`` and AND need of a communicator; parties are numbered by their place."""

    def __init__(self, run: Run, parties: Sequence[Party], session: Session | None = None) -> None:
        self._links, self._parties, self._me, self._session = run.links, parties, run.roster.me, session

    def get_rank(self) -> int:
        """Return this party's number."""
        return self._parties.index(self._me)

    def get_world_size(self) -> int:
        """Return how many parties there are."""
        return len(self._parties)

    def reduce(
        self, tensor: torch.Tensor, dst: int, op: object = None, async_op: bool = False
    ) -> torch.Tensor:
        """Add the parties' shares up at `dst`, in the ring they travel in; the others only send theirs."""
        sizes = self._session.sizes(tensor.shape[1]) if self._session else {}
        if self.get_rank() != dst:
            self._links.send(self._parties[dst], Kind.SHARE, {"share": tensor.numpy()}, sizes=sizes)
            return tensor
        for party in self._parties:
            if party != self._me:
                share = self._links.receive(party, Kind.SHARE, sizes=sizes)["share"]
                tensor += torch.from_numpy(share.copy())
        return torch.from_numpy(nearest(tensor.numpy(), self._links.dimensions["ring_bytes"]))

    def isend(self, tensor: torch.Tensor, dst: int) -> SimpleNamespace:
        """Send a copy of this party's shares to the next party."""
        self.send_words(dst, tensor.reshape(-1).numpy())
        return SimpleNamespace(wait=lambda: None)

    def irecv(self, tensor: torch.Tensor, src: int) -> SimpleNamespace:
        """Receive into `tensor`, when waited for, the shares of the previous party."""

        def receive() -> None:
            share = torch.from_numpy(self.receive_words(src, tensor.numel()).copy())
            tensor.copy_(share.reshape(tensor.shape))

        return SimpleNamespace(wait=receive)

    def send_words(self, to: int, words: NDArray[np.int64]) -> None:
        """Send words of a comparison, int64 (words,)."""
        self._links.send(self._parties[to], Kind.REPLICA, {"share": words}, sizes={"words": len(words)})

    def receive_words(self, sender: int, count: int) -> NDArray[np.int64]:
        """Receive `count` words of a comparison, int64 (count,)."""
        received = self._links.receive(self._parties[sender], Kind.REPLICA, sizes={"words": count})
        share: NDArray[np.int64] = received["share"]
        return share


class Session:
    """Shares of one source's and the target's values, and their opening to the coordinator."""

    def __init__(self, run: Run, source: Party, computation: Computation) -> None:
        self.source, self.n = source, computation.rows
        self.m_source, self.m_target = computation.source_vectors[source], computation.target_vectors
        self._basis = self.m_source + self.m_target - 1
        run.links.dimensions["ring_bytes"] = width_of(computation.bounds.result)  # the same at all parties
        differences = computation.operation == "differences"
        columns = self._basis if differences else max(self.m_source, self.m_target)
        #: How many rows a block has.
        self.cut = max(1, run.block_bytes // (8 * columns))
        self._run = run
        parties = (run.roster.coordinator, run.roster.target, source)
        self._communicator = LinkCommunicator(run, parties, self)
        self._zeros = zero_streams(run, parties, Purpose.ZERO)
        self._mask_keys: dict[Party, bytes] = {}

    def peer(self, owner: Party) -> Party:
        """Return the other data party."""
        return self._run.roster.target if owner == self.source else self.source

    def columns(self, owner: Party) -> int:
        """Return how many vectors a data party has."""
        return self.m_source if owner == self.source else self.m_target

    def sizes(self, rows: int) -> dict[str, int]:
        """Return the values of the symbols in the sizes of messages about a block of `rows`."""
        return {"m_source": self.m_source, "basis": self._basis, "rows": rows}

    def masks(self, peer: Party) -> Stream:
        """Return the stream of masks shared with a peer, from its beginning: a proof draws them again."""
        if peer not in self._mask_keys:
            self._mask_keys[peer] = self._run.keys[peer].subkey(Purpose.MASK, self.source.name)
        return Stream(self._mask_keys[peer])

    def shared(self, share: np.ndarray) -> Any:
        """Wrap this party's additive share mod 2^64 as CrypTen's ``ArithmeticSharedTensor``."""
        return ct.ArithmeticSharedTensor.from_shares(torch.from_numpy(share), precision=0)

    def share_of_peer_block(self, owner: Party, rows: int) -> Any:
        """Return this party's share, zero, of a block of another party's values."""
        zero = torch.zeros(1, dtype=torch.int64).expand(self.columns(owner), rows)  # stored once
        return ct.ArithmeticSharedTensor.from_shares(zero, precision=0)

    def rerandomised(self, value: Any) -> Any:
        """Return a value plus a pseudo-random share of zero, F(prev) − F(next).

        So the coordinator receives shares from source and target that are uniform but for their sum
        (docs/protocol.md, "Zero shares").
        """
        with crypten_uses(self._communicator, self._zeros):
            zero = ct.ArithmeticSharedTensor.PRZS(value.size())
            zero.encoder = value.encoder  # integers on both sides: CrypTen would rescale otherwise
            return value + zero

    def reveal(self, value: Any) -> np.ndarray:
        """Open a shared value to the coordinator, re-randomised; elsewhere return this party's share."""
        return opened(self.rerandomised(value), self._communicator)


def zero_streams(run: Run, parties: Sequence[Party], purpose: Purpose) -> dict[str, Stream]:
    """Return the streams of zero shares among coordinator, target and a source, under CrypTen's names."""
    place, source = parties.index(run.roster.me), parties[2]
    return {
        name: Stream(run.keys[parties[(place + step) % 3]].subkey(purpose, source.name))
        for name, step in (("prev", -1), ("next", 1))
    }


def opened(value: Any, communicator: LinkCommunicator) -> np.ndarray:
    """Open a re-randomised value to the communicator's first party; elsewhere return this party's share."""
    with crypten_uses(communicator, {}):
        total: torch.Tensor = value.reveal(dst=0)
        return total.numpy()


#: What CrypTen may use at the moment, in this thread: a communicator, and streams by its generators' names.
_in_use: ContextVar[tuple[LinkCommunicator, Mapping[str, Stream]]] = ContextVar("in_use")


@contextmanager
def crypten_uses(communicator: LinkCommunicator, generators: Mapping[str, Stream]) -> Iterator[None]:
    """Have CrypTen use a communicator and streams while the block runs."""
    token = _in_use.set((communicator, generators))
    try:
        yield
    finally:
        _in_use.reset(token)


def _ring_element(
    size: torch.Size, ring_size: int = 2**64, generator: object = None, **_: object
) -> torch.Tensor:
    """Stand in for CrypTen's ``generate_random_ring_element``: cipher streams only, called by name."""
    _, streams = _in_use.get()
    stream = streams.get(generator) if isinstance(generator, str) else None
    if stream is None or ring_size != 2**64:
        raise RuntimeError("CrypTen asked for random ring elements that no cipher stream gives")
    return torch.from_numpy(stream.ring(tuple(size)))


def _and(x: Any, y: Any) -> Any:
    """Stand in for CrypTen's AND of two shared bit vectors: its replicated one, with a fresh share of zero.

    Without the zero, the share of the result would be a function of shares of which the next party, which
    receives it, has most (docs/protocol.md, "The order alone").
    """
    z = ct.replicated.AND(x, y)
    z.share = z.share ^ ct.BinarySharedTensor.PRZS(z.size()).share
    return z


ct.communicator.get = lambda: _in_use.get()[0]
ct.arithmetic.generate_random_ring_element = _ring_element
ct.binary.generate_kbit_random_tensor = _ring_element
ct.beaver.AND = _and
for _name in ("prev", "next"):
    ct.crypten.generators[_name][_CPU] = _name
