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
from functools import partial
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
    times,
    total,
    valid,
)
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.engines.mpc.statement import Statement
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose, Stream
from mpc_spearman.wire.kinds import Kind

_SEED = 4  # words of a seed


@step("prove")
def prove(run: Run, session: Session, vectors: NDArray[np.signedinteger[Any]]) -> None:
    """Prove this party's vectors, (columns, rows), to the peer and the coordinator.

    `ProtocolViolation` for coins that no honest verifier draws.
    """
    me, hub = run.roster.me, run.roster.coordinator
    peer, masks = session.peer(me), session.masks(hub)
    statement, hashed = Statement.of(run, session, me), hashlib.sha256()
    stream = Stream(run.keys[hub].subkey(Purpose.PROOF, session.source.name))
    depth = run.meter.depth

    def share(elements: Elements) -> None:
        shares = minus(elements, drawn(stream, len(elements)))
        for part in blocks(len(shares), BLOCK):
            sizes = {"words": part.stop - part.start}
            run.links.send(peer, Kind.PROOF_SHARES, {"shares": shares[part]}, sizes=sizes, depth=depth)

    def coins(count: int) -> Elements:
        words: Elements = run.links.receive(peer, Kind.PROOF_COINS, sizes={"words": count})["coins"]
        hashed.update(words.tobytes())
        return words

    def point(excluded: Callable[[int], bool]) -> int:
        word = coins(1)
        if not valid(word) or excluded(int(word[0])):
            raise ProtocolViolation(f"{peer} sent a coin that is no coin of a proof")
        return int(word[0])

    def masked_and_masks(rows: slice, cells: slice) -> NDArray[np.int64]:
        mask = masks.ring((statement.columns, rows.stop - rows.start))
        return np.vstack([vectors[:, rows] - mask, mask])

    # 1: the elements, how often each legal one occurs, and a mask
    f, g = (zeros((statement.length,), np.int64, in_file=True) for _ in range(2))
    counts = np.zeros(2 * statement.rows - 1, dtype=np.int64)
    for rows, cells in statement.blocks():
        f[cells] = element(vectors[:, rows].ravel())
        counts += occurrences(statement, vectors[:, rows].ravel())
        share(f[cells])
        run.tick(rows.stop, statement.rows)
    share(counts)
    alpha, beta = secrets.randbelow(PRIME), secrets.randbelow(PRIME)
    share(np.array([alpha, beta, alpha * beta % PRIME]))
    # 2: a point outside the table, and random subsets
    tau, seed = point(statement.is_legal), coins(_SEED).tobytes()
    # 3: inverses, and carries of sums over the subsets
    depth = run.meter.depth
    inverse = statement.inverses(tau)
    for rows, cells in statement.blocks():
        g[cells] = inverses_at(statement, inverse, vectors[:, rows].ravel())
        share(g[cells])
    masked, of_masks = np.split(statement.subset_sums(seed, masked_and_masks), 2, axis=1)
    bits = statement.carries(masked, of_masks).ravel()
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


def occurrences(statement: Statement, values: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Count how often each legal element occurs among `values`."""
    return np.bincount(values.astype(np.int64) + (statement.rows - 1), minlength=2 * statement.rows - 1)


def inverses_at(statement: Statement, inverse: Elements, values: NDArray[np.signedinteger[Any]]) -> Elements:
    """Return 1/(τ − x) for each element x of `values`; `inverse` has it for each legal element."""
    return np.take(inverse, values + (statement.rows - 1))


@step("prove")
def verify(run: Run, session: Session, owner: Party, masked: NDArray[np.int64]) -> None:
    """Verify the peer's vectors as the first verifier, who has them masked, (columns, rows).

    `ProtocolViolation` for shares that are no elements of the field, before the next coin is released.
    """

    def take(count: int) -> Elements:
        shares = np.empty(count, dtype=np.int64)
        for part in blocks(count, BLOCK):
            sizes = {"words": part.stop - part.start}
            shares[part] = run.links.receive(owner, Kind.PROOF_SHARES, sizes=sizes)["shares"]
        if not valid(shares):
            raise ProtocolViolation(f"{owner} sent a share that is no element of the field")
        return shares

    shares, _ = _follow(run, session, owner, take, lambda rows, cells: masked[:, rows])
    run.links.send(run.roster.coordinator, Kind.PROOF_END, {"shares": np.array(shares)})


@step("prove")
def settle(run: Run, session: Session, owner: Party) -> None:
    """Verify an owner's vectors as the second verifier, the coordinator, who draws their masks.

    `ProtocolViolation` if the proof fails. That depends on the owner's vectors and on coins alone, never on
    what is opened.
    """
    verifier, masks = session.peer(owner), session.masks(owner)
    stream = Stream(run.keys[owner].subkey(Purpose.PROOF, session.source.name))

    def mask_block(rows: slice, cells: slice) -> NDArray[np.int64]:
        return masks.ring((session.columns(owner), rows.stop - rows.start))

    second, coins = _follow(run, session, owner, partial(drawn, stream), mask_block)
    same_coins = run.links.receive(owner, Kind.PROOF_HASH)["coins"] == coins
    first = run.links.receive(verifier, Kind.PROOF_END)["shares"]
    f, g, claim, checks = (sum(pair) % PRIME for pair in zip(map(int, first), second, strict=True))
    if not (valid(first) and same_coins and checks == 0 and f * g % PRIME == claim):
        raise ProtocolViolation(
            f"the proof of {owner}'s vectors failed: {owner}, or {verifier}, which verifies it, does not "
            "follow the protocol. Nobody can know which of the two. Nothing was passed on"
        )


def _follow(
    run: Run,
    session: Session,
    owner: Party,
    take: Callable[[int], Elements],
    ring_block: Callable[[slice, slice], NDArray[np.int64]],
) -> tuple[Sequence[int], bytes]:
    """Follow the proof as one verifier.

    `take` returns the next shares, `ring_block` this verifier's shares of a block in the ring. The share of a
    public constant is the constant at the first verifier, and 0 at the second. Returns this verifier's shares
    of the last f, g, the claim, and of the checks; and a hash of all coins.
    """
    statement, hub = Statement.of(run, session, owner), run.roster.coordinator
    first = run.roster.me != hub
    key = run.keys[hub if first else session.peer(owner)]
    coins, hashed = Stream(key.subkey(Purpose.COINS, session.source.name)), hashlib.sha256()
    secret = Stream(key.subkey(Purpose.WEIGHTS, session.source.name))

    def released(words: Elements) -> Elements:
        hashed.update(words.tobytes())
        if first:
            run.links.send(owner, Kind.PROOF_COINS, {"coins": words}, sizes={"words": len(words)})
        return words

    def point(excluded: Callable[[int], bool]) -> int:
        while excluded(coin := int(drawn(coins, 1)[0])):
            pass
        return int(released(np.array([coin]))[0])

    def seed() -> bytes:
        return released(coins.ring((_SEED,))).tobytes()

    # 1
    f, g = (zeros((statement.length,), np.int64, in_file=True) for _ in range(2))
    for rows, cells in statement.blocks():
        f[cells] = take(cells.stop - cells.start)
        run.tick(rows.stop, statement.rows)
    counts = take(len(statement.table))
    alpha, beta, gamma = map(int, take(3))
    # 2
    tau, of_subsets = point(statement.is_legal), seed()
    # 3
    for _, cells in statement.blocks():
        g[cells] = take(cells.stop - cells.start)
    bits = take(int(np.prod(statement.bits)))
    # what the coordinator checks besides f·g: multiplicities, and sums over the subsets
    lookup = total(g[: statement.elements]) - dot(counts, statement.inverses(tau))
    offset = statement.offset if first else 0
    ring_sums = statement.in_ring(statement.subset_sums(of_subsets, ring_block) + offset)
    sums = plus(statement.field_sums(of_subsets, f), offset)
    disagreements = statement.disagreements(sums, bits.reshape(statement.bits), ring_sums).ravel()
    weight, *weights = drawn(secret, 1 + len(disagreements)).tolist()
    checks = weight * lookup + dot(np.array(weights, dtype=np.int64), disagreements)
    # 4
    f[statement.elements :] = [*bits, alpha]
    g[statement.elements :] = [*(minus(bits, 1) if first else bits), beta]
    weight_sum, last = _weigh(statement, g, Stream(seed()))
    claim = tau * total(g[: statement.elements]) + last * gamma - (weight_sum if first else 0)
    # 5
    while len(f) > 1:
        at_zero, leading = map(int, take(2))
        r = point(lambda value: value < 2)
        claim = (at_zero + r * (claim - 2 * at_zero - leading) + r * r * leading) % PRIME
        f, g = fold(f, r), fold(g, r)
    # 6
    return (int(f[0]), int(g[0]), claim % PRIME, checks % PRIME), hashed.digest()


def _weigh(statement: Statement, g: Elements, stream: Stream) -> tuple[int, int]:
    """Multiply g by random weights, in place; return the sum of the elements' weights, and the mask's."""
    weight_sum = 0
    for part in blocks(statement.length - 1, BLOCK):
        weights = drawn(stream, part.stop - part.start)
        g[part] = times(g[part], weights)
        weight_sum += total(weights[: max(0, statement.elements - part.start)])
    while (last := int(drawn(stream, 1)[0])) == 0:
        pass
    g[-1] = int(g[-1]) * last % PRIME
    return weight_sum, last
