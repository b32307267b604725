"""CrypTen for one source, the target and the coordinator: its tensors and its reveal, our links and masks.

Stock CrypTen draws masks from Mersenne Twisters, lets rank 0 make the triples, opens products without
re-randomising them and pickles what it sends. None of that is used here. While a session is open,

- CrypTen's communicator is :class:`_Communicator`, which sends typed messages over our links;
- ``crypten.generators`` hold AES-256-CTR streams under the pairwise keys, so that CrypTen's own
  pseudo-random zero sharing (Cramer, Damgård and Ishai, TCC 2005) is computationally hiding;
- CrypTen's ``generate_random_ring_element`` refuses any other generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from mpc_spearman.keys import PairKey, Purpose, Stream
from mpc_spearman.network.links import Links
from mpc_spearman.protocols.mpc.crypten_import import (
    ArithmeticSharedTensor,
    Communicator,
    arithmetic,
    communicator,
    crypten,
)
from mpc_spearman.roles import Member, Roster
from mpc_spearman.views import Kind

_CPU = torch.device("cpu")


class _Communicator(Communicator):  # type: ignore[misc]
    """What CrypTen's ``reveal`` needs of a communicator, over typed messages.

    CrypTen numbers the parties of a session 0 (coordinator), 1 (target), 2 (source).
    """

    def __init__(self, links: Links, members: tuple[Member, ...], me: Member) -> None:
        self._links, self._members, self._me = links, members, me

    def get_rank(self) -> int:
        return self._members.index(self._me)

    def get_world_size(self) -> int:
        return len(self._members)

    def reduce(
        self, tensor: torch.Tensor, dst: int, op: object = None, async_op: bool = False
    ) -> torch.Tensor:
        """Add the parties' shares up at `dst`; the others only send theirs."""
        rows = tensor.shape[1]
        if self.get_rank() != dst:
            self._links.send(self._members[dst], Kind.SHARE, {"share": tensor.numpy()}, rows=rows)
            return tensor
        for member in self._members:
            if member != self._me:
                share = self._links.receive(member, Kind.SHARE, rows=rows)["share"]
                tensor += torch.from_numpy(share.copy())
        return tensor


class Session:
    """Shares of one source's and the target's values, and their opening to the coordinator."""

    #: CrypTen's number of the party to which results are opened.
    COORDINATOR = 0

    def shared(self, share: np.ndarray) -> Any:
        """Make the ``ArithmeticSharedTensor`` of which this party's additive share is `share`.

        Parameters
        ----------
        share : ndarray of int64, shape (columns, rows)
            One additive share modulo 2^64; the three parties' shares add up to the value.
        """
        return ArithmeticSharedTensor.from_shares(torch.from_numpy(share), precision=0)

    def absent(self, columns: int, rows: int) -> Any:
        """Make the tensor of a value of which this party's additive share is zero (stored once)."""
        zero = torch.zeros(1, dtype=torch.int64).expand(columns, rows)
        return ArithmeticSharedTensor.from_shares(zero, precision=0)

    def reveal(self, value: Any) -> np.ndarray:
        """Open a shared value to the coordinator, re-randomised.

        Each share gets a fresh pseudo-random share of zero before it leaves, ``F(prev) − F(next)`` as in
        Araki et al. (ePrint 2016/768, section 3). What the coordinator receives from source and target is
        then uniform up to their sum, also to one who knows the coordinator's two keys, because source and
        target mask each other's share with the key that only they hold.

        Returns
        -------
        ndarray of int64, shape (columns, rows)
            At the coordinator the opened value; elsewhere this party's re-randomised share.
        """
        zero = ArithmeticSharedTensor.PRZS(value.size())
        zero.encoder = value.encoder  # integers on both sides: CrypTen would rescale otherwise
        opened: torch.Tensor = (value + zero).reveal(dst=self.COORDINATOR)
        return opened.numpy()


@contextmanager
def crypten_session(
    links: Links, roster: Roster, source: Member, keys: Mapping[Member, PairKey]
) -> Iterator[Session]:
    """Open a CrypTen session of this party with the other two of one source's session.

    Parameters
    ----------
    links : Links
    roster : Roster
    source : Member
        The source whose session it is; its name separates the streams.
    keys : mapping of Member to PairKey
    """
    members = (roster.coordinator, roster.target, source)
    mine = members.index(roster.me)
    streams = {
        name: Stream(keys[members[(mine + step) % 3]].subkey(Purpose.ZERO, source.name))
        for name, step in (("prev", -1), ("next", 1))
    }
    saved = (communicator.get, arithmetic.generate_random_ring_element)
    ours = _Communicator(links, members, roster.me)
    communicator.get = lambda: ours
    arithmetic.generate_random_ring_element = _ring_element
    for name, stream in streams.items():
        crypten.generators[name][_CPU] = stream
    try:
        yield Session()
    finally:
        communicator.get, arithmetic.generate_random_ring_element = saved
        for name in streams:
            del crypten.generators[name][_CPU]


def _ring_element(
    size: torch.Size, ring_size: int = 2**64, generator: object = None, **_: object
) -> torch.Tensor:
    """Stand in for CrypTen's ``generate_random_ring_element``: cipher streams only."""
    if not isinstance(generator, Stream) or ring_size != 2**64:
        raise RuntimeError("CrypTen asked for random ring elements that no cipher stream gives")
    return torch.from_numpy(generator.ring(tuple(size)))
