"""What a proof says about one owner's vectors: their elements, sums over subsets of the rows, and carries.

:mod:`mpc_spearman.engines.mpc.proof` has the proof itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import blocks
from mpc_spearman.engines import ring
from mpc_spearman.engines.mpc.field import PRIME, Elements, element, inverses, minus, plus, reduced, times
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.wire.keys import Stream

#: κ, random subsets of the rows: an element that is not what was shared passes each with probability 1/2.
SUBSETS = 48
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class Statement:
    """What is proved about one owner's vectors; the same at all three parties.

    `cut` is how many rows a block has, `width` is w, the bits of the ring in which shares travel.
    """

    rows: int
    columns: int
    cut: int
    width: int

    @classmethod
    def of(cls, run: Run, session: Session, owner: Party) -> Statement:
        """Return what is proved about an owner's vectors in a source's session."""
        width = 8 * run.links.dimensions["ring_bytes"]
        return cls(session.n, session.columns(owner), session.cut, width)

    @property
    def elements(self) -> int:
        """How many elements the vectors have together."""
        return self.rows * self.columns

    @property
    def offset(self) -> int:
        """B, a power of two above every sum over a subset."""
        return 1 << (self.rows * (self.rows - 1)).bit_length()

    @property
    def limbs(self) -> int:
        """How many limbs sums over subsets have: with a carry, those of 64 bits do not fit the field."""
        return 1 if self.width < 64 else 2

    @property
    def high_bits(self) -> int:
        """How many bits the upper limb of a sum needs."""
        return max(0, self.offset.bit_length() - 32) if self.limbs == 2 else 0

    @property
    def bits(self) -> tuple[int, int, int]:
        """How many bits are proved, (for each sum, subsets, columns): carries, then the upper limb's."""
        return self.limbs + self.high_bits, SUBSETS, self.columns

    @property
    def length(self) -> int:
        """How long f and g are: elements, bits, and the mask."""
        return self.elements + int(np.prod(self.bits)) + 1

    @property
    def table(self) -> Elements:
        """The legal elements, (2n − 1,)."""
        return np.arange(1 - self.rows, self.rows, dtype=np.int64)

    def is_legal(self, value: int) -> bool:
        """Return whether an element of the field stands for a legal element."""
        return value < self.rows or value > PRIME - self.rows

    def inverses(self, tau: int) -> Elements:
        """Return 1/(τ − v) for each legal element v."""
        return inverses(minus(np.full(len(self.table), tau), element(self.table)))

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield the rows of each block, and where its elements are among all: feature by feature."""
        for rows in blocks(self.rows, self.cut):
            yield rows, slice(rows.start * self.columns, rows.stop * self.columns)

    def subset_sums(
        self, seed: bytes, block: Callable[[slice, slice], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Add up blocks of (vectors, rows) over each random subset, modulo 2^64: (κ, vectors)."""
        subsets, sums = Stream(seed), np.zeros((SUBSETS, 1), dtype=np.int64)
        for rows, cells in self.blocks():
            chosen = _bits(subsets.ring((rows.stop - rows.start,)), SUBSETS)
            sums = sums + ring.matmul(chosen, block(rows, cells), bound=1)
        return sums

    def field_sums(self, seed: bytes, shares: Elements) -> Elements:
        """Add up shares of all elements over each random subset, in the field: (κ, columns)."""

        def halves(rows: slice, cells: slice) -> NDArray[np.int64]:
            block = shares[cells].reshape(self.columns, -1)
            return np.vstack([block & ((1 << 31) - 1), block >> 31])

        sums = self.subset_sums(seed, halves)  # below 2^62: no sum wraps
        low, high = reduced(sums[:, : self.columns]), reduced(sums[:, self.columns :])
        return plus(low, times(high, 1 << 31))

    def carries(self, masked: NDArray[np.int64], masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bits to prove, shape `bits`, from sums of masked elements and of masks, (κ, columns)."""
        first, second = self.in_ring(masked + self.offset), self.in_ring(masks)
        if self.limbs == 1:
            return (first + second >> self.width)[None]
        low = (first & _LOW) + (second & _LOW) >> 32
        high = (first >> 32 & _LOW) + (second >> 32 & _LOW) + low
        return np.stack([low, high >> 32, *(high >> j & 1 for j in range(self.high_bits))])

    def in_ring(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reduce sums modulo 2^w; int64 with all 64 bits in use if w is 64."""
        return sums if self.limbs == 2 else sums & ((1 << self.width) - 1)

    def disagreements(self, sums: Elements, bits: Elements, ring_sums: NDArray[np.int64]) -> Elements:
        """Return a verifier's shares, (limbs, κ, columns), of values that are 0 if the sums agree.

        `sums` are its shares of the sums of elements in the field, `bits` its shares of the bits, and
        `ring_sums` the sums of its shares in the ring.
        """
        if self.limbs == 1:
            return plus(minus(sums, ring_sums), times(bits[0], 1 << self.width))[None]
        high = np.zeros_like(sums)
        for j, bit in enumerate(bits[2:]):
            high = plus(high, times(bit, 1 << j))
        low = minus(plus(minus(sums, ring_sums & _LOW), times(bits[0], 1 << 32)), times(high, 1 << 32))
        return np.stack(
            [low, plus(minus(minus(high, ring_sums >> 32 & _LOW), bits[0]), times(bits[1], 1 << 32))]
        )


def _bits(words: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the lowest bits of words, (count, words)."""
    raw = words.astype("<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(np.unpackbits(raw, axis=1, count=count, bitorder="little").T, dtype=np.int64)
