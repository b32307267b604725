"""The secure multiparty protocol for the roles: one session per source."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.computation import Computation, Contribution
from mpc_spearman.engines.engine import Engine, Opening, stacked
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
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step


class Mpc(Engine):
    """CrypTen shares over three parties and replicated multiplication."""

    def differences(self, run: Run, computation: Computation, own: np.ndarray) -> None:
        """Share the vectors, shuffled, and open the basis of differences."""
        agree_on_ring(run, computation.bounds)
        for source in run.roster.sessions:
            open_differences(run, Session(run, source, computation), own)

    def inner_products(self, run: Run, computation: Computation, own: Contribution) -> None:
        """Share the vectors, compute this party's term of each product, and open them re-randomised."""
        agree_on_ring(run, computation.bounds)
        if computation.summed:
            if terms := self._terms(run, computation, own):
                reveal_total(run, terms)
            return
        for source in run.roster.sessions:
            for session, term in _of_all(run, [self._term(run, computation, source, own.vectors)]):
                noise = own.added_in(computation, source)
                reveal(run, session, term if noise is None else term + noise)

    def comparison(self, run: Run, computation: Computation, own: Contribution) -> NDArray[np.bool_] | None:
        """Share the vectors, compute this party's term of each product, and compare the sums of all."""
        agree_on_ring(run, computation.bounds)
        terms = self._terms(run, computation, own)
        return reveal_order(run, terms, own.last) if terms else None

    def _terms(
        self, run: Run, computation: Computation, own: Contribution
    ) -> list[tuple[Session, np.ndarray]]:
        """Compute this party's terms of sums; the first one includes its noise.

        The first worker returns the terms of all workers, the others None.
        """
        terms = [self._term(run, computation, source, own.vectors) for source in run.roster.sessions]
        terms = _of_all(run, terms)
        if own.added is not None:
            terms[0][1][:] += own.added
        return terms

    def _term(
        self, run: Run, computation: Computation, source: Party, own: np.ndarray
    ) -> tuple[Session, np.ndarray]:
        session = Session(run, source, computation)
        return session, multiply_own(run, session, own, computation.bounds.value)

    def prepare(self, run: Run, computation: Computation) -> Opening:
        """Multiply the masks while the others rank; then receive the others' shares and open."""
        agree_on_ring(run, computation.bounds)
        sessions = [Session(run, source, computation) for source in run.roster.sources]
        if computation.operation == "differences":
            return lambda: stacked(square_differences(run, session) for session in sessions)
        terms = [(session, multiply_masks(run, session)) for session in sessions]

        def open_terms() -> np.ndarray | None:
            of_all = _of_all(run, terms)
            if not of_all:
                return None
            if computation.operation == "comparison":
                return reveal_order(run, of_all)
            if computation.summed:
                return reveal_total(run, of_all)
            return np.vstack([reveal(run, session, term) for session, term in of_all])

        return open_terms


@step("multiply")
def _of_all(run: Run, terms: list[tuple[Session, np.ndarray]]) -> list[tuple[Session, np.ndarray]]:
    """Add up the terms of all this party's workers, at the first worker; None at the others."""
    totals = [(session, run.team.total(term)) for session, term in terms]
    return [(session, term) for session, term in totals if term is not None]
