"""Shares of the two tables, and their product or differences.

    X = (X − R) [source] + 0 [target] + R [coordinator],    R from the source–coordinator mask key
    Y = 0 [source] + (Y − U) [target] + U [coordinator],    U from the target–coordinator mask key

    source X·(Y − U)ᵀ  +  target (X − R)·Uᵀ  +  coordinator R·Uᵀ  =  X·Yᵀ   (mod 2^64)

Only X − R travels to the target, Y − U to the source, as their lowest bytes, and the three terms are opened:
docs/protocol.md, "Product", has the security and the sources. Where differences are opened (paper, steps 2
and 3), nothing is sent but shares of a basis of m_A + m_B − 1 vectors, {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, in
shuffled rows. It reveals exactly what all pairs reveal (docs/protocol.md, "Differences").

Tables are held feature by feature, (m, n), and go through here in blocks of rows, so that messages stay
small and the ends of a link work at the same time. Both holders of a mask key draw from it block by block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from mpc_spearman.arrays import blocks, parts
from mpc_spearman.engines import ring
from mpc_spearman.engines.differences import Squares, shuffled
from mpc_spearman.engines.mpc.session import LinkCommunicator, Session, opened
from mpc_spearman.run import Run, step
from mpc_spearman.wire.channel import MAX_QUEUED
from mpc_spearman.wire.keys import Stream
from mpc_spearman.wire.kinds import Kind

# Blocks shared before the peer's first is used, so that a slow link is never idle: 8 MB in a round trip, at
# 40 ms 1.6 Gbit/s. Fewer than a link queues: both ends may be this far ahead without either waiting for the
# other.
_AHEAD = MAX_QUEUED // 2


@step("multiply")
def multiply_vectors(
    run: Run, session: Session, vectors: np.ndarray, bound: int, received: np.ndarray | None = None
) -> np.ndarray:
    """Compute a data party's term of X·Yᵀ: X·(Y − U)ᵀ at the source, (X − R)·Uᵀ at the target.

    `vectors` are the party's, int32 or int64 (m, n), at the source at most `bound` in size. Returns int64
    (m_A, m_B), modulo 2^64. The peer's masked values are kept in `received`, if it is given.
    """
    is_source, peer = run.roster.me == session.source, session.peer(run.roster.me)
    masks = session.masks(run.roster.coordinator)
    total = np.zeros((session.m_source, session.m_target), dtype=np.int64)
    sent: deque[tuple[np.ndarray, np.ndarray]] = deque()
    unsent, depth = parts(vectors, session.cut), run.meter.depth
    for rows in blocks(session.n, session.cut):
        for _, values in islice(unsent, _AHEAD - len(sent)):
            sent.append((values, share_block(run, session, values, masks, depth)))
        values, mask = sent.popleft()
        zero = session.share_of_peer_block(peer, rows.stop - rows.start)
        masked = zero.share.numpy() + receive_block(run, session, rows.stop - rows.start)
        if received is not None:
            received[:, rows] = masked
        total += ring.matmul(values, masked, bound) if is_source else ring.matmul(masked, mask)
        run.tick(rows.stop, session.n)
    return total


@step("share")
def share_block(run: Run, session: Session, values: np.ndarray, masks: Stream, depth: int) -> np.ndarray:
    """Share a block of this party's values and send the peer its copy; returns the mask, (m, rows)."""
    mask = masks.ring(values.shape)
    block, sizes = session.shared(values - mask).share.numpy(), session.sizes(values.shape[1])
    # A masked block depends on no block of the peer, so all of them together count as one round: `depth`.
    run.links.send(session.peer(run.roster.me), Kind.MASKED, {"block": block}, sizes=sizes, depth=depth)
    return mask


@step("share")
def receive_block(run: Run, session: Session, rows: int) -> np.ndarray:
    """Receive the peer's masked block: the copy that replication needs."""
    sizes, peer = session.sizes(rows), session.peer(run.roster.me)
    block: np.ndarray = run.links.receive(peer, Kind.MASKED, sizes=sizes)["block"]
    return block


@step("multiply")
def multiply_masks(run: Run, session: Session) -> np.ndarray:
    """Compute the coordinator's term, R·Uᵀ: it needs no message, so it runs while the others rank."""
    total = np.zeros((session.m_source, session.m_target), dtype=np.int64)
    for rows, x, y in shared_masks(run, session):
        total += ring.matmul(x.share.numpy(), y.share.numpy())
        run.tick(rows.stop, session.n)
    return total


def shared_masks(run: Run, session: Session) -> Iterator[tuple[slice, Any, Any]]:
    """Yield the rows of each block, and the coordinator's shares of X and Y in them."""
    owners = (session.source, run.roster.target)
    masks = [(session.masks(owner), session.columns(owner)) for owner in owners]
    for rows in blocks(session.n, session.cut):
        x, y = (session.shared(stream.ring((m, rows.stop - rows.start))) for stream, m in masks)
        yield rows, x, y


@step("share")
def open_differences(run: Run, session: Session, vectors: np.ndarray) -> None:
    """Share a data party's ranks, int32 (m, n), shuffled, and open the basis of differences."""
    me, masks = run.roster.me, session.masks(run.roster.coordinator)
    for rows, values in parts(shuffled(run, session.source, vectors), session.cut):
        x = session.shared(values - masks.ring(values.shape))
        y = session.share_of_peer_block(session.peer(me), values.shape[1])
        if me != session.source:
            x, y = y, x
        with run.meter.phase("reveal"):
            session.reveal(_basis(session, x, y))
        run.tick(rows.stop, session.n)


@step("reveal")
def square_differences(run: Run, session: Session) -> np.ndarray:
    """Open the basis at the coordinator, block by block; return Σ (x_p − y_q)², Python int (m_A, m_B)."""
    squares = Squares(session.m_source, session.m_target, session.n)
    for rows, x, y in shared_masks(run, session):
        opened = session.reveal(_basis(session, x, y))
        with run.meter.phase("multiply"):
            squares.add_basis(opened)
        run.tick(rows.stop, session.n)
    return squares.total


def _basis(session: Session, x: Any, y: Any) -> Any:
    """Turn shares of X (m_A, rows) and Y (m_B, rows) into those of the m_A + m_B − 1 basis differences."""
    first = y[:1]
    return session.shared(torch.cat([(x - first).share, (y[1:] - first).share]).numpy())


@step("reveal")
def reveal(run: Run, session: Session, term: np.ndarray) -> np.ndarray:
    """Open the sum of the three parties' terms to the coordinator; ignore the result at other parties."""
    return session.reveal(session.shared(term))


@step("reveal")
def reveal_total(run: Run, terms: Sequence[tuple[Session, np.ndarray]]) -> np.ndarray:
    """Open the sum over all sources' sessions to the coordinator, but no single session's sum.

    `terms` are this party's, of the sessions it takes part in. The coordinator could simulate all that it
    receives, given the total alone (docs/protocol.md, "Several sources").
    """
    values = [session.rerandomised(session.shared(term)) for session, term in terms]
    return opened(sum(values[1:], values[0]), LinkCommunicator(run, run.roster.parties))
