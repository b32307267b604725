"""The secure multiparty protocol: CrypTen shares over three parties, and one session per source."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import zeros
from mpc_spearman.engines.computation import Computation, Contribution, Opening
from mpc_spearman.engines.mpc import sharing
from mpc_spearman.engines.mpc.order import reveal_order
from mpc_spearman.engines.mpc.proof import prove, settle, verify
from mpc_spearman.engines.mpc.session import Session
from mpc_spearman.parties import Party
from mpc_spearman.run import Run

#: A source's session, and what this party adds up to products in it.
Term = tuple[Session, np.ndarray]


def contribute(run: Run, computation: Computation, contribution: Contribution) -> NDArray[np.bool_] | None:
    """Do a data party's part: share its vectors, compute its terms, and open them re-randomised.

    Returns the order, if it is opened to this party.
    """
    if computation.operation == "differences":
        for source in run.roster.sessions:
            sharing.open_differences(run, Session(run, source, computation), contribution.vectors)
    elif computation.operation == "comparison":
        return reveal_order(run, _terms(run, computation, contribution), contribution.last)
    elif computation.summed:
        sharing.reveal_total(run, _terms(run, computation, contribution))
    else:
        for source in run.roster.sessions:
            session, term = _term(run, computation, source, contribution.vectors)
            noise = contribution.added_in(computation, source)
            sharing.reveal(run, session, term if noise is None else term + noise)
    return None


def prepare(run: Run, computation: Computation) -> Opening:
    """Multiply the masks while the others rank; the returned function receives their shares and opens."""
    sessions = [Session(run, source, computation) for source in run.roster.sources]
    if computation.operation == "differences":
        return lambda: np.vstack([sharing.square_differences(run, session) for session in sessions])
    terms = [(session, sharing.multiply_masks(run, session)) for session in sessions]
    if computation.operation == "comparison":
        return lambda: reveal_order(run, terms)
    if computation.summed:
        return lambda: sharing.reveal_total(run, terms)

    def open_each() -> NDArray[np.int64]:
        opened = []
        for session, term in terms:
            for owner in (session.source, run.roster.target) if computation.proved else ():
                settle(run, session, owner)
            opened.append(sharing.reveal(run, session, term))
        return np.vstack(opened)

    return open_each


def _terms(run: Run, computation: Computation, contribution: Contribution) -> list[Term]:
    """Compute this party's terms of sums, the first one with its noise."""
    terms = [_term(run, computation, source, contribution.vectors) for source in run.roster.sessions]
    if contribution.added is not None:
        terms[0][1][:] += contribution.added
    return terms


def _term(run: Run, computation: Computation, source: Party, vectors: np.ndarray) -> Term:
    session, me = Session(run, source, computation), run.roster.me
    bound, peer = computation.bounds.value, session.peer(me)
    if not computation.proved:
        return session, sharing.multiply_vectors(run, session, vectors, bound)
    received = zeros((session.columns(peer), computation.rows), np.int64, in_file=True)
    term = sharing.multiply_vectors(run, session, vectors, bound, received)
    for owner in (source, run.roster.target):
        if owner == me:
            prove(run, session, vectors)
        else:
            verify(run, session, peer, received)
    return session, term
