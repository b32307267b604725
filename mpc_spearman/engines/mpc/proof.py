"""Proofs that an owner's shared vectors hold possible ranks.

An owner (the *prover*) shows the two holders of its shared vectors that every element is an integer from
−(n − 1) to n − 1, as centred doubled ranks are, and that it is what the owner shared. The holders are its
peer, which has X − R modulo 2^w (the *first* verifier), and the coordinator, which has R (the *second*).
They learn nothing else. At most one of the three may cheat. docs/protocol.md ("Proved inputs") has the
argument.

Source of the method: Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, ePrint 2019/188 (one prover, verifiers
with additive shares); membership in a table: Haböck, ePrint 2022/1530; folding: the sumcheck protocol.

[·] is shared additively modulo p = 2^61 − 1 between the verifiers. The second one's share comes from a stream
that the prover has too, so all that the prover sends goes to the first verifier. The verifiers draw coins
from a key that the prover does not have. The first one releases each coin after it has received what the coin
is about.

1. Prover → first: [x] of every element, [t_v] how often each v of the table occurs, [α], [β], [γ = αβ].
2. First → prover: τ outside the table, and a seed of κ random subsets of the rows.
3. Prover → first: [h = 1/(τ − x)] of every element, and [b], the carry bits of sums over the subsets.
4. First → prover: a seed of weights s. Now f = (x, b, α), g = (s·h, s·(b − 1), s_γ·β), and
   ⟨f, g⟩ = τ·Σ s·h − Σ s + s_γ·γ says that h·(τ − x) = 1 and b·(b − 1) = 0 for every element and bit.
5. Until f and g have length 1: prover → first: [⟨f_lo, g_lo⟩], [⟨f_hi − f_lo, g_hi − g_lo⟩]; first → prover:
   r; all replace f by f_lo + r·(f_hi − f_lo), and g likewise.
6. Prover → second: a hash of all coins. First → second: its shares of f, g, the claim, and of L, a
   combination of Σ h − Σ t_v/(τ − v) and of the sums over the subsets, with weights that the prover does not
   have.
7. The second compares coins, and checks that L is 0 and f·g the claim.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, blocks, zeros
from mpc_spearman.engines.mpc.field import (
    PRIME,
    Elements,
    dot,
    drawn,
    element,
    ends_of_round,
    fold,
    minus,
    plus,
    reduced,
    times,
    total,
    valid,
)
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.engines.mpc.statement import Statement, scaled
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind

_SEED = 4  # words of a seed


@dataclass
class Coins:
    """The verifiers' coins of one proof, from their stream; `announce` releases them to the prover."""

    stream: Stream
    announce: Callable[[Elements], None]
    hashed: Any = field(default_factory=hashlib.sha256)

    def point(self, excluded: Callable[[int], bool]) -> int:
        """Draw an element that is not excluded."""
        while excluded(point := int(drawn(self.stream, 1)[0])):
            pass
        self._release(np.array([point]))
        return point

    def seed(self) -> bytes:
        """Draw the seed of a stream."""
        words = self.stream.ring((_SEED,))
        self._release(words)
        return words.tobytes()

    def _release(self, words: Elements) -> None:
        self.hashed.update(words.tobytes())
        self.announce(words)


@step("prove")
def prove(run: Run, session: Session, vectors: NDArray[np.signedinteger[Any]], masks: Stream) -> None:
    """Prove this party's vectors, (columns, rows), to the peer and the coordinator.

    `masks` is the stream of masks under which they were shared, from its beginning. `ProtocolViolation` for
    coins that no honest verifier draws.
    """
    me, hub = run.roster.me, run.roster.coordinator
    peer = run.roster.target if me == session.source else session.source
    statement, hashed = Statement.of(run, session, me), hashlib.sha256()
    stream = Stream(run.keys[hub].subkey(Purpose.PROOF, session.source.name))
    depth = run.meter.depth

    def share(elements: Elements) -> None:
        for part in blocks(len(elements), BLOCK):
            words = minus(elements[part], drawn(stream, part.stop - part.start))
            sizes = {"words": len(words)}
            run.links.send(peer, Kind.PROOF_SHARES, {"shares": words}, sizes=sizes, depth=depth)

    def coins(count: int) -> Elements:
        words: Elements = run.links.receive(peer, Kind.PROOF_COINS, sizes={"words": count})["coins"]
        hashed.update(words.tobytes())
        return words

    def point(excluded: Callable[[int], bool]) -> int:
        word = coins(1)
        if not valid(word) or excluded(int(word[0])):
            raise ProtocolViolation(f"{peer} sent a coin that is no coin of a proof")
        return int(word[0])

    # 1: the elements, how often each legal one occurs, and a mask
    f, g = (zeros((statement.length,), np.int64, in_file=True) for _ in range(2))
    for rows, cells in statement.blocks():
        f[cells] = element(vectors[:, rows].ravel())
        share(f[cells])
        run.tick(rows.stop, statement.rows)
    share(occurrences(statement, vectors))
    alpha, beta = secrets.randbelow(PRIME), secrets.randbelow(PRIME)
    share(np.array([alpha, beta, alpha * beta % PRIME]))
    # 2: a point outside the table, and random subsets
    tau, seed = point(lambda value: _legal(value, statement.rows)), coins(_SEED).tobytes()
    # 3: inverses, and carries of sums over the subsets
    depth = run.meter.depth
    inverse = statement.inverses(tau)
    for rows, cells in statement.blocks():
        g[cells] = inverses_at(statement, inverse, vectors[:, rows].ravel())
        share(g[cells])
    of_values = statement.subset_sums(seed, lambda rows, cells: vectors[:, rows].astype(np.int64))
    of_masks = statement.subset_sums(
        seed, lambda rows, cells: masks.ring((statement.columns, rows.stop - rows.start))
    )
    bits = statement.carries(of_values - of_masks, of_masks).ravel()
    share(bits)
    # 4: weights
    weights = Stream(coins(_SEED).tobytes())
    f[statement.elements :] = [*bits, alpha]
    g[statement.elements :] = [*element(bits - 1), beta]
    _weigh(statement, g, weights)
    # 5: folding
    while len(f) > 1:
        depth = run.meter.depth
        share(np.array(ends_of_round(f, g)))
        r = point(lambda value: value < 2)
        f, g = fold(f, r), fold(g, r)
    # 6: a hash of all coins
    run.links.send(hub, Kind.PROOF_HASH, {"coins": hashed.digest()})


def occurrences(statement: Statement, vectors: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Count how often each legal element occurs in vectors, (columns, rows)."""
    counts = np.zeros(len(statement.table), dtype=np.int64)
    for rows, _ in statement.blocks():
        places = vectors[:, rows].ravel().astype(np.int64) + (statement.rows - 1)
        counts += np.bincount(places, minlength=len(counts))
    return counts


def inverses_at(statement: Statement, inverse: Elements, values: NDArray[np.signedinteger[Any]]) -> Elements:
    """Return 1/(τ − x) for each element x of `values`; `inverse` has it for each legal element."""
    selected: Elements = inverse[values + (statement.rows - 1)]
    return selected


@step("prove")
def verify(run: Run, session: Session, owner: Party, masked: NDArray[np.int64]) -> None:
    """Verify the peer's vectors as the first verifier, who has them masked, (columns, rows).

    `ProtocolViolation` for shares that are no elements of the field, before the next coin is released.
    """
    hub, statement = run.roster.coordinator, Statement.of(run, session, owner)

    def take(count: int) -> Elements:
        taken = np.empty(count, dtype=np.int64)
        for part in blocks(count, BLOCK):
            sizes = {"words": part.stop - part.start}
            taken[part] = run.links.receive(owner, Kind.PROOF_SHARES, sizes=sizes)["shares"]
        if not valid(taken):
            raise ProtocolViolation(f"{owner} sent a share that is no element of the field")
        return taken

    def announce(words: Elements) -> None:
        run.links.send(owner, Kind.PROOF_COINS, {"coins": words}, sizes={"words": len(words)})

    coins = Coins(Stream(run.keys[hub].subkey(Purpose.COINS, session.source.name)), announce)
    secret = Stream(run.keys[hub].subkey(Purpose.WEIGHTS, session.source.name))
    shares = _shares(run, statement, take, coins, secret, lambda rows, cells: masked[:, rows], first=True)
    run.links.send(hub, Kind.PROOF_END, {"shares": np.array(shares)})


@step("prove")
def settle(run: Run, session: Session, owner: Party, masks: Stream) -> None:
    """Verify an owner's vectors as the second verifier, the coordinator, who draws their masks.

    `ProtocolViolation` if the proof fails. That depends on the owner's vectors and on coins alone, never on
    what is opened.
    """
    verifier = run.roster.target if owner == session.source else session.source
    statement = Statement.of(run, session, owner)
    stream = Stream(run.keys[owner].subkey(Purpose.PROOF, session.source.name))
    coins = Coins(Stream(run.keys[verifier].subkey(Purpose.COINS, session.source.name)), lambda words: None)
    secret = Stream(run.keys[verifier].subkey(Purpose.WEIGHTS, session.source.name))

    def take(count: int) -> Elements:
        parts = [drawn(stream, part.stop - part.start) for part in blocks(count, BLOCK)]
        return np.concatenate(parts)

    def mask_block(rows: slice, cells: slice) -> NDArray[np.int64]:
        return masks.ring((statement.columns, rows.stop - rows.start))

    own_shares = _shares(run, statement, take, coins, secret, mask_block, first=False)
    same_coins = run.links.receive(owner, Kind.PROOF_HASH)["coins"] == coins.hashed.digest()
    other_shares = run.links.receive(verifier, Kind.PROOF_END)["shares"]
    f, g, claim, checks = (sum(pair) % PRIME for pair in zip(own_shares, map(int, other_shares), strict=True))
    if not (valid(other_shares) and same_coins and checks == 0 and f * g % PRIME == claim):
        raise ProtocolViolation(
            f"the proof of {owner}'s vectors failed: {owner}, or {verifier}, which verifies it, does not "
            "follow the protocol. Nobody can know which of the two. Nothing was passed on"
        )


def _shares(
    run: Run,
    statement: Statement,
    take: Callable[[int], Elements],
    coins: Coins,
    secret: Stream,
    ring_block: Callable[[slice, slice], NDArray[np.int64]],
    *,
    first: bool,
) -> Sequence[int]:
    """Follow the proof as one verifier; return its shares of the last f, g, the claim, and of the checks.

    `take` returns the next shares, `ring_block` this verifier's shares of a block in the ring. The share of a
    public constant is the constant at the first verifier, and 0 at the second.
    """
    # 1
    f, g = (zeros((statement.length,), np.int64, in_file=True) for _ in range(2))
    for rows, cells in statement.blocks():
        f[cells] = take(cells.stop - cells.start)
        run.tick(rows.stop, statement.rows)
    counts = take(len(statement.table))
    alpha, beta, gamma = map(int, take(3))
    # 2
    tau, seed = coins.point(lambda value: _legal(value, statement.rows)), coins.seed()
    # 3
    for _, cells in statement.blocks():
        g[cells] = take(cells.stop - cells.start)
    bits = take(int(np.prod(statement.bits)))
    # what the coordinator checks besides f·g: multiplicities, and sums over the subsets
    lookup = total(g[: statement.elements]) - dot(counts, statement.inverses(tau))
    offset = statement.offset if first else 0
    ring_sums = statement.in_ring(statement.subset_sums(seed, ring_block) + offset)
    sums = plus(_field_sums(statement, seed, f), offset)
    residuals = statement.residuals(sums, bits.reshape(statement.bits), ring_sums).ravel()
    weight, *weights = drawn(secret, 1 + len(residuals)).tolist()
    checks = weight * lookup + dot(np.array(weights, dtype=np.int64), residuals)
    # 4
    f[statement.elements :] = [*bits, alpha]
    g[statement.elements :] = [*(minus(bits, 1) if first else bits), beta]
    weight_sum, last = _weigh(statement, g, Stream(coins.seed()))
    claim = tau * total(g[: statement.elements]) + last * gamma - (weight_sum if first else 0)
    # 5
    while len(f) > 1:
        at_zero, leading = map(int, take(2))
        r = coins.point(lambda value: value < 2)
        claim = (at_zero + r * (claim - 2 * at_zero - leading) + r * r * leading) % PRIME
        f, g = fold(f, r), fold(g, r)
    # 6
    return int(f[0]), int(g[0]), claim % PRIME, checks % PRIME


def _weigh(statement: Statement, g: Elements, stream: Stream) -> tuple[int, int]:
    """Multiply g by weights, in place; return the sum of the elements' weights, and the mask's, not 0."""
    weight_sum = 0
    for part in (
        *(cells for _, cells in statement.blocks()),
        slice(statement.elements, statement.length - 1),
    ):
        for inner in blocks(part.stop - part.start, BLOCK):
            at = slice(part.start + inner.start, part.start + inner.stop)
            weights = drawn(stream, at.stop - at.start)
            g[at] = times(g[at], weights)
            weight_sum += total(weights) if at.start < statement.elements else 0
    while (last := int(drawn(stream, 1)[0])) == 0:
        pass
    g[-1] = int(g[-1]) * last % PRIME
    return weight_sum, last


def _field_sums(statement: Statement, seed: bytes, f: Elements) -> Elements:
    """Add up shares of elements over each random subset: (κ, columns)."""

    def halves(rows: slice, cells: slice) -> NDArray[np.int64]:
        block = statement.block_of(f, cells)
        return np.vstack([block & ((1 << 31) - 1), block >> 31])

    sums = statement.subset_sums(seed, halves)  # below 2^62: no sum wraps
    low, high = reduced(sums[:, : statement.columns]), reduced(sums[:, statement.columns :])
    return plus(low, scaled(high, 1 << 31))


def _legal(value: int, rows: int) -> bool:
    """Return whether an element of the field stands for a rank."""
    return value < rows or value > PRIME - rows
