"""Comparison: opens the order of sums of inner products, or which are the k greatest, and nothing else.

The sums V_q, |V_q| ≤ 2^62 - 2, of one vector of each source with each of the target's stay shared among three
parties, the coordinator (0), the target (1) and the first source (2). All pairs are compared at once: each
party shares the bits of its additive share without a message, CrypTen's adder adds them up, and the topmost
bit says "less". For ``top: k`` these bits become integers, whose sums are compared with k in the same way.

docs/protocol.md ("The order alone") has the steps, their sources and why nobody learns more; docs/security.md
simulates each party's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from mpc_spearman.engines.computation import LARGEST
from mpc_spearman.engines.mpc.crypten_import import BinarySharedTensor, circuit
from mpc_spearman.engines.mpc.session import LinkCommunicator, Session, crypten_uses, zero_streams
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind


@step("reveal")
def reveal_order(
    run: Run, terms: Sequence[tuple[Session, NDArray[np.int64]]], last: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_] | None:
    """Compare sums of inner products privately, and open the outcome as the plan says.

    Collective: all parties call it. Sources other than the first only give their shares.

    `terms` are this party's terms of V, (1, m_B), in each of its sessions, in roster order; the target's
    `last` marks vectors that come last whatever their sums are. Returns None, but to the party that the order
    is opened to: under ``top``, which are the greatest, (m_B,); else "q before r" of every pair q < r, row by
    row, (m_B·(m_B - 1)/2,).
    """
    me, coordinator, (_, *further) = run.roster.me, run.roster.coordinator, run.roster.sources
    values = [session.rerandomised(session.shared(term)) for session, term in terms]
    share: NDArray[np.int64] = sum(value.share for value in values).numpy()[0]
    # Three parties hold V: all sources but the first send the coordinator their shares, re-randomised as
    # where sums are opened (`reveal_total`). The target's share, which never leaves, cancels what hides them.
    if me in further:
        run.links.send(coordinator, Kind.PADDED, {"share": share})
        return None
    for source in further if me == coordinator else ():
        share = share + run.links.receive(source, Kind.PADDED)["share"]
    if run.plan.order == "ascending":
        share = -share
    if last is not None:
        share[last] -= LARGEST + 1
    compared = Comparison(run)
    bits = compared.before(share) if run.plan.top is None else compared.strongest(share, run.plan.top)
    return compared.open(bits)


class Comparison:
    """Comparisons of shared integers by the coordinator (0), the target (1) and the first source (2)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parties = run.roster.parties[:3]
        self.number = self._parties.index(run.roster.me)
        self._communicator = LinkCommunicator(run, self._parties)
        self._zeros = zero_streams(run, self._parties, Purpose.COMPARE)

    def before(self, share: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Compare all pairs of shared values, (m,), whose absolute values are below 2^62.

        Returns this party's XOR share of "the value q is not less than r", of each pair q < r, row by row,
        (m·(m - 1)/2,).
        """
        q, r = np.triu_indices(len(share), 1)
        return self.not_negative(share[q] - share[r])

    def strongest(self, share: NDArray[np.int64], k: int) -> NDArray[np.uint8]:
        """Return this party's XOR share of which values, (m,), are the k greatest; the first of ties wins."""
        q, r = np.triu_indices(len(share), 1)
        before = self.integers(self.before(share))
        spare = np.zeros(len(share), dtype=np.int64)  # k - 1, less how many come before each
        np.subtract.at(spare, r, before)
        np.add.at(spare, q, before)  # r comes before q by 1 less `before`
        if self.number == 0:  # one party adds a public number to its share
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
            # Each party's additive share, as three XOR shares: F(prev) ^ F(next), to which its owner adds it.
            a, b, c = (BinarySharedTensor(torch.from_numpy(share), src=party) for party in range(3))
            carry = ((a ^ c) & (b ^ c)) ^ c  # the majority, in one AND
            total = circuit.add(a ^ b ^ c, carry << 1)
        words: NDArray[np.int64] = total.share.numpy()
        return np.asarray(words >= 0 if self.number == 0 else words < 0, dtype=np.uint8)

    def integers(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Turn XOR shares of bits into additive shares modulo 2^64; the target's is zero (B2A).

        x_0 ⊕ x_1 ⊕ x_2 = u·(1 - 2·x_2) + x_2 for u = x_0 ⊕ x_1 (docs/protocol.md, ``top: k``). u - w is
        uniform to the source, who does not hold the mask w; x_0 is uniform to the target and x_2 to the
        coordinator since the last AND.
        """
        coordinator, target, source = range(3)
        share, links = bits.astype(np.int64), self._communicator
        if self.number == coordinator:
            links.send_words(target, share)
            x_2 = links.receive_words(source, len(bits))
            return self._masks.ring(bits.shape) * (1 - 2 * x_2) + x_2
        if self.number == target:
            u = share ^ links.receive_words(coordinator, len(bits))
            links.send_words(source, u - self._masks.ring(bits.shape))
            return np.zeros_like(share)
        links.send_words(coordinator, share)
        return links.receive_words(target, len(bits)) * (1 - 2 * share)

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

    @cached_property
    def _masks(self) -> Stream:
        """The stream that the coordinator and the target share."""
        key = self._run.keys[self._parties[1 - self.number]]
        return Stream(key.subkey(Purpose.CONVERT, self._parties[2].name))
