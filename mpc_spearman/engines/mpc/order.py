"""Comparison: the order of sums of inner products, or which are the k greatest, and nothing else.

The sums V_q, |V_q| ≤ 2^62 - 2, of one vector of each source with each of the target's stay shared among three
parties, the coordinator (0), the target (1) and the first source (2). Let W = V where ``order`` is
descending, W = -V where it is ascending, so that the largest W comes first, and W = -(2^62 - 1) for a vector
that is to come last. For every pair of vectors q < r at once:

1. *A2B.* W_q - W_r modulo 2^64 is the sum of three shares, each known to one party, which shares it bit by
   bit by a pseudo-random XOR share of zero: no message. A carry-save step turns three numbers into two, and
   CrypTen's parallel prefix adder adds these (ABY3, ePrint 2018/403, section 5.3): eight ANDs one after the
   other, each a message to the next party, whatever the number of pairs.
2. *Most significant bit.* |W| < 2^62, so the difference reaches the sign bit only where W_q < W_r.
3. "q before r" is its complement. So equal ones come in the order they are given in, and that they are equal
   cannot be told: every bit that is opened is a function of the order.

For ``top: k`` the bits are not opened, but turned into shared integers and added up, to how many vectors come
before each; these are compared with k in the same way, and one bit a vector is opened.

Why nobody learns more (semi-honest, no two collude): every share that travels is from an AND with its fresh
share of zero (:func:`mpc_spearman.engines.mpc.session._and`), or is masked with a stream that its receiver
does not hold, so all are uniform to whoever receives them. Of an opened bit the coordinator gets two last
shares: one is uniform to it, the other is what is missing to the bit. docs/security.md has the simulation,
docs/protocol.md the references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mpc_spearman.engines.computation import LARGEST
from mpc_spearman.engines.mpc.crypten_import import BinarySharedTensor, circuit
from mpc_spearman.engines.mpc.session import LinkCommunicator, Session, crypten_uses, zero_streams
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind


@step("reveal")
def reveal_order(
    run: Run, terms: Sequence[tuple[Session, NDArray[np.int64]]], last: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_] | None:
    """Compare sums of inner products in private, and open what the plan says to whom it says.

    Collective: all parties call it. Sources but the first only give their shares.

    Parameters
    ----------
    terms : sequence of (Session, ndarray of int64, shape (1, m_B))
        This party's terms of V, of the sessions it takes part in, in roster order.
    last : ndarray of bool, shape (m_B,), optional
        At the target, its vectors that come last whatever their sums are.

    Returns
    -------
    ndarray of bool, or None
        At the party that it is opened to: under ``top`` which are the greatest, (m_B,); else "q
        before r" of every pair q < r, row by row, (m_B·(m_B - 1)/2,). Elsewhere None.
    """
    share = _gather(run, [session.rerandomised(session.shared(term)) for session, term in terms])
    if share is None:
        return None
    if run.plan.order == "ascending":
        share = -share
    if last is not None:
        share[last] -= LARGEST + 1
    compared = Comparison(run)
    bits = compared.before(share) if run.plan.top is None else compared.strongest(share, run.plan.top)
    return compared.open(bits)


def _gather(run: Run, values: Sequence[Any]) -> NDArray[np.int64] | None:
    """Bring the sum over all sources to three parties: the other sources give the coordinator their share.

    Source s sends a_s = α_s + z_s, with z_s the stream that it and the target hold and the coordinator does
    not, as where sums are opened (:func:`mpc_spearman.engines.mpc.session.reveal_sum`): uniform to the
    coordinator. The target keeps what takes the z_s off, in a share that it never sends.

    Returns this party's additive share of V, (m_B,); None at a source that is not the first.
    """
    me, (_, *others) = run.roster.me, run.roster.sources
    total: NDArray[np.int64] = sum(value.share for value in values).numpy()[0]
    if me in others:
        run.links.send(run.roster.coordinator, Kind.PADDED, {"share": total})
        return None
    if me == run.roster.coordinator:
        for source in others:
            total = total + run.links.receive(source, Kind.PADDED)["share"]
    return total


class Comparison:
    """Comparisons of shared integers by the coordinator (0), the target (1) and the first source (2)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parties = run.roster.parties[:3]
        self.mine = self._parties.index(run.roster.me)
        self._communicator = LinkCommunicator(run.links, self._parties, run.roster.me, None)
        self._zeros = zero_streams(run, self._parties, Purpose.COMPARE)
        self._masks: Stream | None = None
        if self.mine < 2:
            key = run.keys[self._parties[1 - self.mine]]
            self._masks = Stream(key.subkey(Purpose.CONVERT, self._parties[2].name))

    def before(self, share: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Compare shared values, (m,), of less than 2^62 in size.

        Returns this party's XOR share of "the value q is not less than r", of each pair q < r, row by row,
        (m·(m - 1)/2,).
        """
        q, r = np.triu_indices(len(share), 1)
        return self.not_negative(share[q] - share[r])

    def strongest(self, share: NDArray[np.int64], k: int) -> NDArray[np.uint8]:
        """Return this party's XOR share, (m,), of which are the k greatest; of equal ones the first."""
        q, r = np.triu_indices(len(share), 1)
        ones = self.integers(self.before(share))
        spare = np.zeros(len(share), dtype=np.int64)  # k - 1, less how many come before each
        np.subtract.at(spare, r, ones)
        np.add.at(spare, q, ones)  # q comes before r, or 1 - that many r before q
        if self.mine == 0:  # what is public, one party adds to its share
            spare += k - 1 - np.arange(len(share))[::-1]
        return self.not_negative(spare)

    def not_negative(self, share: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Compare shared integers with zero, all at once; `share` is additive, modulo 2^64, and is not sent.

        Returns this party's XOR share of 1 where the value is not negative, fresh from an AND: the complement
        of the sign bit, which the coordinator takes in its share.
        """
        if not share.size:
            return np.zeros(0, dtype=np.uint8)
        with crypten_uses(self._communicator, self._zeros):
            # Each party's additive share, as three XOR shares: F(prev) ^ F(next), and its own adds the value.
            a, b, c = (BinarySharedTensor(torch.from_numpy(share), src=party) for party in range(3))
            carry = ((a ^ c) & (b ^ c)) ^ c  # the majority, in one AND
            total = circuit.add(a ^ b ^ c, carry << 1)
        words: NDArray[np.int64] = total.share.numpy()
        return np.asarray(words >= 0 if self.mine == 0 else words < 0, dtype=np.uint8)

    def integers(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Turn XOR shares of bits into additive shares modulo 2^64; the target's is zero (B2A).

        With shares x_0, x_1, x_2, the coordinator sends x_0 to the target, the first source x_2 to the
        coordinator, as an AND would. Then u = x_0 ⊕ x_1 is known to the target, x_2 to both others, and

            x_0 ⊕ x_1 ⊕ x_2  =  u·(1 - 2·x_2) + x_2.

        The target sends the source u - w, with w from its key with the coordinator; the source multiplies
        that and the coordinator w, and the coordinator adds x_2 (a case of ABY3's bit injection, ePrint
        2018/403, section 5.4). u - w is uniform to the source, who does not hold w; x_0 to the target and
        x_2 to the coordinator are so from the last AND.
        """
        coordinator, target, source = self._parties
        sizes = {"words": len(bits)}
        own = bits.astype(np.int64)
        if self.mine == 0:
            self._send(target, own)
            flip = 1 - 2 * (last := self._receive(source, sizes))
            return self._mask(len(bits)) * flip + last
        if self.mine == 1:
            u = own ^ self._receive(coordinator, sizes)
            self._send(source, u - self._mask(len(bits)))
            return np.zeros_like(own)
        self._send(coordinator, own)
        return self._receive(target, sizes) * (1 - 2 * own)

    def open(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
        """Open shared bits to the party that the plan opens the order to; None elsewhere."""
        run = self._run
        receiver = self._parties[0 if run.plan.opened_to == "coordinator" else 1]
        sizes = {"packed": -(-len(bits) // 8)}
        if run.roster.me != receiver:
            run.links.send(receiver, Kind.ORDER, {"bits": np.packbits(bits).tobytes()}, sizes=sizes)
            return None
        for party in self._parties:
            if party != receiver:
                packed = run.links.receive(party, Kind.ORDER, sizes=sizes)["bits"]
                bits = bits ^ np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=len(bits))
        return bits.astype(bool)

    def _mask(self, count: int) -> NDArray[np.int64]:
        assert self._masks is not None
        return self._masks.ring((count,))

    def _send(self, peer: Party, share: NDArray[np.int64]) -> None:
        self._run.links.send(peer, Kind.REPLICA, {"share": share}, sizes={"words": len(share)})

    def _receive(self, peer: Party, sizes: dict[str, int]) -> NDArray[np.int64]:
        share: NDArray[np.int64] = self._run.links.receive(peer, Kind.REPLICA, sizes=sizes)["share"]
        return share
