"""The secure multiparty protocol for the roles.

``coefficients``: S = X·Yᵀ is opened to the coordinator, one integer per pair of columns.
``strengths``: each source gives one vector in place of its columns: one integer per target column is opened,
the sum over all sources.
``ranking``: these sums stay shared, and how they compare is opened, see
:mod:`mpc_spearman.engines.mpc.order`.
``differences``: the paper's rank differences are opened, see :mod:`mpc_spearman.engines.mpc.differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpc_spearman.config import within
from mpc_spearman.engines.engine import Engine
from mpc_spearman.engines.mpc.differences import open_differences, square_differences
from mpc_spearman.engines.mpc.order import reveal_order
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.engines.mpc.sharing import (
    agree_on_ring,
    multiply_masks,
    multiply_own,
    reveal,
    reveal_total,
)
from mpc_spearman.levels.encoding import encoded_rows, encoding_of
from mpc_spearman.levels.products import Products
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.run import Run


class Mpc(Engine):
    """CrypTen shares over three parties and replicated multiplication, one session per source."""

    gives = "share"

    def give_differences(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Share the ranks, shuffled, and open the basis of differences."""
        agree_on_ring(run, shapes)
        for source in run.roster.sessions:
            session = Session(run, source, shapes.of(source))
            open_differences(run, session, source, own, shapes.of(source))

    def give_products(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Share the ranks, compute this party's term of the product, and open it re-randomised."""
        agree_on_ring(run, shapes)
        for source in run.roster.sessions:
            session, other = Session(run, source, shapes.of(source)), shapes.features[source]
            if run.roster.me == source:
                other = shapes.m_target
            bound = Products(shapes.n).value_bound
            reveal(run, session, multiply_own(run, session, source, own, other, bound))

    def give_sums(self, run: Run, own: np.ndarray, shapes: Shapes) -> None:
        """Share the vectors, compute this party's term of each product, and open the sum of all."""
        reveal_total(run, self._terms(run, own, shapes))

    def give_order(
        self, run: Run, own: np.ndarray, undefined: np.ndarray | None, shapes: Shapes
    ) -> np.ndarray | None:
        """Share the vectors, compute this party's term of each product, and compare the sums of all."""
        return reveal_order(run, self._terms(run, own, shapes), undefined)

    def _terms(self, run: Run, own: np.ndarray, shapes: Shapes) -> list[tuple[Session, np.ndarray]]:
        agree_on_ring(run, shapes)
        bound = encoding_of(run.plan, shapes).value_bound
        terms = []
        for source in run.roster.sessions:
            session = Session(run, source, shapes.of(source))
            other = shapes.m_target if run.roster.me == source else 1
            terms.append((session, multiply_own(run, session, source, own, other, bound)))
        return terms

    @contextmanager
    def opening(self, run: Run, shapes: Shapes) -> Iterator[Callable[[Shapes], Any]]:
        """Multiply the masks while the others rank; then receive the others' shares and open."""
        sessions = {source: Session(run, source, shapes.of(source)) for source in run.roster.sources}
        together = not within("coefficients", run.plan.reveal)
        if not together:
            agree_on_ring(run, shapes)
        if run.plan.reveal == "differences":
            yield lambda _: np.vstack(
                [
                    square_differences(run, session, source, shapes.of(source))
                    for source, session in sessions.items()
                ]
            )
            return
        vectors = dict.fromkeys(sessions, 1) if together else shapes.features
        rows = encoded_rows(shapes.n, run.plan.estimator) if together else shapes.n
        terms = [
            (session, multiply_masks(run, session, source, rows, vectors[source], shapes.m_target))
            for source, session in sessions.items()
        ]
        if run.plan.reveal == "ranking":
            yield lambda _: reveal_order(run, terms)
        elif together:

            def strengths(told: Shapes) -> np.ndarray:
                agree_on_ring(run, told)
                return reveal_total(run, terms)

            yield strengths
        else:
            yield lambda _: np.vstack([reveal(run, session, term) for session, term in terms])
