"""The paper's rank differences, opened to the coordinator (paper, steps 2 and 3).

The parties open a basis of m_A + m_B − 1 vectors, {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, in shuffled rows. It
reveals exactly what all pairs reveal (docs/protocol.md, "Differences").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mpc_spearman.arrays import parts
from mpc_spearman.engines.differences import Squares, dealt
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.engines.mpc.sharing import mask_stream, shared_masks
from mpc_spearman.run import Run, step


@step("share")
def open_differences(run: Run, session: Session, own: np.ndarray) -> None:
    """Share a data party's ranks, int32 (m, n), shuffled, and open the basis of differences."""
    source, shape = session.source, session.shape
    is_source = run.roster.me == source
    own = dealt(run, source, own, shape.all_rows)
    masks = mask_stream(run, run.roster.coordinator, source)
    other_columns = shape.m_target if is_source else shape.m_source
    for rows, values in parts(own, session.rows(shape.m_source + shape.m_target - 1)):
        mine = session.shared(values - masks.ring(values.shape))
        theirs = session.absent(other_columns, values.shape[1])
        x, y = (mine, theirs) if is_source else (theirs, mine)
        with run.meter.phase("reveal"):
            session.reveal(basis(session, x, y))
        run.tick(rows.stop, shape.n)


@step("reveal")
def square_differences(run: Run, session: Session) -> np.ndarray | None:
    """Open the basis at the coordinator, block by block; return Σ (x_p − y_q)², Python int (m_A, m_B).

    The first worker returns sums over all workers' rows, the others None.
    """
    shape = session.shape
    squares = Squares(shape.m_source, shape.m_target, shape.all_rows)
    for rows, x, y in shared_masks(run, session, shape.m_source + shape.m_target - 1):
        opened = session.reveal(basis(session, x, y))
        with run.meter.phase("multiply"):
            squares.add_basis(opened)
        run.tick(rows.stop, shape.n)
    return squares.of(run.team)


def basis(session: Session, x: Any, y: Any) -> Any:
    """Turn shares of X (m_A, rows) and Y (m_B, rows) into those of the m_A + m_B − 1 basis differences."""
    first = y[:1]
    return session.shared(torch.cat([(x - first).share, (y[1:] - first).share]).numpy())
