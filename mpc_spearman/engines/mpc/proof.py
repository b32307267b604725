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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, blocks, room
from mpc_spearman.engines import ring
from mpc_spearman.engines.mpc.field import (
    PRIME,
    Elements,
    dot,
    drawn,
    element,
    ends_of_round,
    fold,
    inverses,
    minus,
    plus,
    reduced,
    times,
    total,
    valid,
)
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind

#: κ, random subsets of the rows: an element that is not what was shared passes each with probability 1/2.
SUBSETS = 48
_SEED = 4  # words of a seed
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
        shape = session.shape
        columns = shape.m_source if owner == session.source else shape.m_target
        cut = session.rows(max(shape.m_source, shape.m_target))
        return cls(shape.n, columns, cut, 8 * run.links.dimensions["ring_bytes"])

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

    def inverses(self, tau: int) -> Elements:
        """Return 1/(τ − v) for each legal element v."""
        return inverses(minus(np.full(len(self.table), tau), element(self.table)))

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield the rows of each block, and where its elements are among all: feature by feature."""
        for rows in blocks(self.rows, self.cut):
            yield rows, slice(rows.start * self.columns, rows.stop * self.columns)

    def block_of(self, values: NDArray[Any], cells: slice) -> NDArray[Any]:
        """Return a block of elements, (columns, rows of the block)."""
        block: NDArray[Any] = values[cells].reshape(self.columns, -1)
        return block

    def subset_sums(
        self, seed: bytes, block: Callable[[slice, slice], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Add up blocks of (vectors, rows) over each random subset, modulo 2^64: (κ, vectors)."""
        subsets, sums = Stream(seed), np.zeros((SUBSETS, 1), dtype=np.int64)
        for rows, cells in self.blocks():
            chosen = _bits(subsets.ring((rows.stop - rows.start,)), SUBSETS)
            sums = sums + ring.matmul(chosen, block(rows, cells), bound=1)
        return sums

    def carries(self, masked: NDArray[np.int64], masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bits, shape `bits`, of sums of masked elements and of masks, each (κ, columns)."""
        first, second = self.known(masked + self.offset), self.known(masks)
        if self.limbs == 1:
            return (first + second >> self.width)[None]
        low = (first & _LOW) + (second & _LOW) >> 32
        high = (first >> 32 & _LOW) + (second >> 32 & _LOW) + low
        return np.stack([low, high >> 32, *(high >> j & 1 for j in range(self.high_bits))])

    def known(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reduce sums modulo 2^w; int64 with all 64 bits in use if w is 64."""
        return sums if self.limbs == 2 else sums & ((1 << self.width) - 1)

    def residuals(self, sums: Elements, bits: Elements, known: NDArray[np.int64]) -> Elements:
        """Return a verifier's shares, (limbs, κ, columns), of what is 0 if all sums are those of its ring.

        `sums` are its shares of the sums of elements, `bits` of the bits, `known` the sums in its ring.
        """
        if self.limbs == 1:
            return plus(minus(sums, known), _scaled(bits[0], 1 << self.width))[None]
        high = np.zeros_like(sums)
        for j, bit in enumerate(bits[2:]):
            high = plus(high, _scaled(bit, 1 << j))
        low = minus(plus(minus(sums, known & _LOW), _scaled(bits[0], 1 << 32)), _scaled(high, 1 << 32))
        return np.stack(
            [low, plus(minus(minus(high, known >> 32 & _LOW), bits[0]), _scaled(bits[1], 1 << 32))]
        )


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
    """Prove one's own vectors, (columns, rows), to the peer and the coordinator.

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
    f, g = (room((statement.length,), np.int64, in_file=True) for _ in range(2))
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
        g[cells] = looked_up(statement, inverse, vectors[:, rows].ravel())
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
    # 6: what coins these were
    run.links.send(hub, Kind.PROOF_HASH, {"coins": hashed.digest()})


def occurrences(statement: Statement, vectors: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Count how often each legal element occurs in vectors, (columns, rows)."""
    counts = np.zeros(len(statement.table), dtype=np.int64)
    for rows, _ in statement.blocks():
        places = vectors[:, rows].ravel().astype(np.int64) + (statement.rows - 1)
        counts += np.bincount(places, minlength=len(counts))
    return counts


def looked_up(statement: Statement, inverse: Elements, values: NDArray[np.signedinteger[Any]]) -> Elements:
    """Return 1/(τ − x) of elements from those of all legal ones."""
    of_values: Elements = inverse[values + (statement.rows - 1)]
    return of_values


@step("prove")
def verify(run: Run, session: Session, owner: Party, masked: NDArray[np.int64]) -> None:
    """Verify the peer's vectors as the first verifier, who has their elements masked, (columns, rows).

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

    def of_masks(rows: slice, cells: slice) -> NDArray[np.int64]:
        return masks.ring((statement.columns, rows.stop - rows.start))

    own = _shares(run, statement, take, coins, secret, of_masks, first=False)
    same_coins = run.links.receive(owner, Kind.PROOF_HASH)["coins"] == coins.hashed.digest()
    others = run.links.receive(verifier, Kind.PROOF_END)["shares"]
    f, g, claim, checks = (sum(pair) % PRIME for pair in zip(own, map(int, others), strict=True))
    if not (valid(others) and same_coins and checks == 0 and f * g % PRIME == claim):
        raise ProtocolViolation(
            f"the proof of {owner}'s vectors failed: {owner}, or {verifier}, which verifies it, does not "
            "follow the protocol. Which of the two cannot be told. Nothing was passed on"
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

    `take` gives the next shares, `ring_block` this verifier's shares of a block in the ring. Constants are
    the first verifier's.
    """
    # 1
    f, g = (room((statement.length,), np.int64, in_file=True) for _ in range(2))
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
    of_ring = statement.subset_sums(seed, ring_block)
    in_ring = statement.known(of_ring + (statement.offset if first else 0))
    sums = _field_sums(statement, seed, f)
    sums = plus(sums, statement.offset) if first else sums
    residuals = statement.residuals(sums, bits.reshape(statement.bits), in_ring).ravel()
    weight, *weights = drawn(secret, 1 + len(residuals)).tolist()
    checks = weight * lookup + dot(np.array(weights, dtype=np.int64), residuals)
    # 4
    f[statement.elements :] = [*bits, alpha]
    g[statement.elements :] = [*(minus(bits, 1) if first else bits), beta]
    ones, last = _weigh(statement, g, Stream(coins.seed()))
    claim = tau * total(g[: statement.elements]) + last * gamma - (ones if first else 0)
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
    ones = 0
    for part in (
        *(cells for _, cells in statement.blocks()),
        slice(statement.elements, statement.length - 1),
    ):
        for inner in blocks(part.stop - part.start, BLOCK):
            at = slice(part.start + inner.start, part.start + inner.stop)
            weights = drawn(stream, at.stop - at.start)
            g[at] = times(g[at], weights)
            ones += total(weights) if at.start < statement.elements else 0
    while (last := int(drawn(stream, 1)[0])) == 0:
        pass
    g[-1] = int(g[-1]) * last % PRIME
    return ones, last


def _field_sums(statement: Statement, seed: bytes, f: Elements) -> Elements:
    """Add up shares of elements over each random subset: (κ, columns)."""

    def halves(rows: slice, cells: slice) -> NDArray[np.int64]:
        block = statement.block_of(f, cells)
        return np.vstack([block & ((1 << 31) - 1), block >> 31])

    sums = statement.subset_sums(seed, halves)  # below 2^62: no sum wraps
    low, high = reduced(sums[:, : statement.columns]), reduced(sums[:, statement.columns :])
    return plus(low, _scaled(high, 1 << 31))


def _bits(words: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the lowest bits of words, (count, words)."""
    raw = words.astype("<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(np.unpackbits(raw, axis=1, count=count, bitorder="little").T, dtype=np.int64)


def _scaled(values: Elements, factor: int) -> Elements:
    return times(values.ravel(), factor).reshape(values.shape)


def _legal(value: int, rows: int) -> bool:
    """Return whether an element of the field stands for a rank."""
    return value < rows or value > PRIME - rows
