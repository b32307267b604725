"""The paper's rank differences, opened to the coordinator (paper, steps 2 and 3).

Opened is a basis of m_A + m_B − 1 vectors, {a_p − b_1} ∪ {b_q − b_1, q ≥ 2}, which tells the coordinator
exactly what all pairs tell it, in rows that are shuffled (docs/protocol.md, "Differences").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mpc_spearman.arrays import blocks, parts
from mpc_spearman.engines.computation import Shape
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.engines.mpc.sharing import mask_stream
from mpc_spearman.engines.shuffle import dealt
from mpc_spearman.engines.squared_differences import Squares
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step


@step("share")
def open_differences(
    run: Run, session: Session, source: Party, own: np.ndarray, shape: Shape, all_rows: int
) -> None:
    """Share a data party's ranks, int32 (m, n), shuffled, and open the basis of differences."""
    is_source = run.roster.me == source
    own = dealt(run, source, own, all_rows)
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
def square_differences(
    run: Run, session: Session, source: Party, shape: Shape, all_rows: int
) -> np.ndarray | None:
    """Open the basis at the coordinator, block by block; return Σ (x_p − y_q)², Python int (m_A, m_B).

    Its first worker has those over all workers' rows, `all_rows`, the others none.
    """
    masks = [mask_stream(run, owner, source) for owner in (source, run.roster.target)]
    columns = (shape.m_source, shape.m_target)
    squares = Squares(shape.m_source, shape.m_target, all_rows)
    for rows in blocks(shape.n, session.rows(shape.m_source + shape.m_target - 1)):
        x, y = (
            session.shared(stream.ring((m, rows.stop - rows.start)))
            for stream, m in zip(masks, columns, strict=True)
        )
        opened = session.reveal(basis(session, x, y))
        with run.meter.phase("multiply"):
            squares.add_basis(opened)
        run.tick(rows.stop, shape.n)
    return squares.of(run.team)


def basis(session: Session, x: Any, y: Any) -> Any:
    """Turn shares of X (m_A, rows) and Y (m_B, rows) into those of the m_A + m_B − 1 basis differences."""
    first = y[:1]
    return session.shared(torch.cat([(x - first).share, (y[1:] - first).share]).numpy())
