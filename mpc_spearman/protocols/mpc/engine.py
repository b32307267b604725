"""The secure multiparty protocol for the roles.

``coefficients``: S = X·Yᵀ is opened to the coordinator, one integer per pair of columns.
``strengths``: the source gives one vector in place of its columns: one integer per target column is opened.
``differences``: the paper's rank differences are opened, see :mod:`mpc_spearman.protocols.mpc.differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpc_spearman.protocols.engine import Operand, source_vectors
from mpc_spearman.protocols.mpc.differences import open_differences, square_differences
from mpc_spearman.protocols.mpc.session import crypten_session
from mpc_spearman.protocols.mpc.sharing import multiply_masks, multiply_own, reveal
from mpc_spearman.protocols.steps import Run, Shape
from mpc_spearman.roles import Member


class Mpc:
    """CrypTen shares over three parties and replicated multiplication."""

    def give_differences(self, run: Run, source: Member, own: np.ndarray, shape: Shape) -> None:
        """Share the ranks, shuffled, and open the basis of differences."""
        with crypten_session(run.links, run.roster, source, run.keys) as session:
            open_differences(run, session, source, own, shape)

    def give_products(self, run: Run, source: Member, own: Operand, shape: Shape) -> None:
        """Share the operand, compute this party's term of the product, and open it re-randomised."""
        other = shape.m_target if run.roster.me == source else source_vectors(run.plan, shape)
        with crypten_session(run.links, run.roster, source, run.keys) as session:
            term = multiply_own(run, session, source, own.values, other, own.bound)
            reveal(run, session, term + own.offset)

    @contextmanager
    def opening(self, run: Run, source: Member, shape: Shape) -> Iterator[Callable[[], Any]]:
        """Multiply the masks while the others rank; then receive the others' shares and open."""
        with crypten_session(run.links, run.roster, source, run.keys) as session:
            if run.plan.reveal == "differences":
                yield lambda: square_differences(run, session, source, shape)
            else:
                vectors = source_vectors(run.plan, shape)
                term = multiply_masks(run, session, source, shape.n, vectors, shape.m_target)
                yield lambda: reveal(run, session, term)
