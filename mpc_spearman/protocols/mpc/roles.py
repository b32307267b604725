"""The three roles of the secure multiparty protocol, each a flat list of steps.

``coefficients``: S = X·Yᵀ is opened to the coordinator, one integer per pair of columns.
``strengths``: the source puts one vector in place of its columns, so one integer per target column is opened.
``differences``: the paper's rank differences are opened, see :mod:`mpc_spearman.protocols.mpc.differences`.

Threat model: semi-honest parties, no two of them colluding, authenticated encrypted links.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.estimators import products_from_differences
from mpc_spearman.keys import Stream
from mpc_spearman.protocols.answer import Answer, column_cautions, from_products, from_sums
from mpc_spearman.protocols.mpc.differences import open_differences, square_differences
from mpc_spearman.protocols.mpc.session import crypten_session
from mpc_spearman.protocols.mpc.sharing import multiply_masks, multiply_own, reveal
from mpc_spearman.protocols.outcome import result
from mpc_spearman.protocols.steps import (
    Run,
    Shape,
    account,
    agree,
    align,
    connect,
    describe,
    load,
    publish,
    rank,
    receive_description,
    receive_result,
)
from mpc_spearman.ranks import Ranks, strength_vector
from mpc_spearman.result import Result
from mpc_spearman.tables import Table


def run_source(run: Run, frame: pd.DataFrame | None) -> Result:
    """Party A: rank, share, multiply, and open to the coordinator.

    Learns what the view table lists for a source; see :func:`mpc_spearman.views.learnt`.
    """
    me = run.roster.me
    connect(run)
    table = load(run, frame)
    shape = agree(run, table)
    ranks = rank(run, table)
    align(run, table, me)
    describe(run, table, ranks)
    with crypten_session(run.links, run.roster, me, run.keys) as session:
        if run.plan.reveal == "differences":
            open_differences(run, session, me, ranks.matrix, shape)
        else:
            own, bound = _source_input(run, ranks)
            term = multiply_own(run, session, me, own, shape.m_target, bound)
            reveal(run, session, term + _source_ties(run, ranks))
    given = receive_result(run)
    return _data_party_result(run, table, ranks, given, table.features, given.get("target_names", ()))


def run_target(run: Run, frame: pd.DataFrame | None) -> Result:
    """Party B: rank, share, multiply, open to the coordinator, and receive the result.

    Learns what the view table lists for the target; see :func:`mpc_spearman.views.learnt`.
    """
    (source,) = run.roster.sources
    connect(run)
    table = load(run, frame)
    shape = agree(run, table)
    ranks = rank(run, table)
    align(run, table, source)
    describe(run, table, ranks)
    with crypten_session(run.links, run.roster, source, run.keys) as session:
        if run.plan.reveal == "differences":
            open_differences(run, session, source, ranks.matrix, shape)
        else:
            columns = _source_vectors(run, shape)
            term = multiply_own(run, session, source, ranks.matrix, columns, shape.n - 1)
            reveal(run, session, term + _target_ties(run, ranks, shape))
    given = receive_result(run)
    return _data_party_result(run, table, ranks, given, given.get("source_names", ()), table.features)


def run_coordinator(run: Run) -> Result:
    """Party C: hold the masks' other half, open, conclude, and pass on what ``results`` grants.

    Learns what the view table lists for the coordinator; see :func:`mpc_spearman.views.learnt`.
    """
    (source,) = run.roster.sources
    connect(run)
    shape = agree(run)
    with crypten_session(run.links, run.roster, source, run.keys) as session:
        if run.plan.reveal == "differences":
            of_source, of_target = (
                receive_description(run, source),
                receive_description(run, run.roster.target),
            )
            squares = square_differences(run, session, source, shape)
            products = products_from_differences(squares, of_source.ties, of_target.ties, shape.n)
            answer = from_products(run.plan, products, of_source, of_target, shape.n)
        else:
            term = multiply_masks(run, session, source, shape.n, _source_vectors(run, shape), shape.m_target)
            of_source, of_target = (
                receive_description(run, source),
                receive_description(run, run.roster.target),
            )
            opened = reveal(run, session, term)
            if run.plan.reveal == "coefficients":
                answer = from_products(run.plan, opened, of_source, of_target, shape.n)
            else:
                answer = from_sums(run.plan, opened[0], of_source, of_target, shape.n, shape.m_source)
    publish(run, answer, of_source, of_target)
    return result(run, shape.n, account(run), answer, of_source.names, of_target.names, answer.warnings)


def _source_vectors(run: Run, shape: Shape) -> int:
    """How many vectors the source shares: its columns, or at ``strengths`` one."""
    return 1 if run.plan.reveal == "strengths" else shape.m_source


def _source_input(run: Run, ranks: Ranks) -> tuple[np.ndarray, int | None]:
    """Return what the source shares, (m, n), and the bound on its values where they are small."""
    if run.plan.reveal != "strengths":
        return ranks.matrix, ranks.n - 1
    # Its own randomness, for rounding only: known to nobody else, so a fresh key does.
    rounding = Stream(os.urandom(32))
    vector = strength_vector(ranks, run.plan.estimator, defined=ranks.defined, random=rounding.uniform)
    return vector[None, :], None


def _source_ties(run: Run, ranks: Ranks) -> int:
    """At ``strengths`` under ``paper`` the source adds Σ_p T_p/2 to its own shares (DESIGN 1.3)."""
    return sum(ranks.tie_terms) // 2 if _shares_ties(run) else 0


def _target_ties(run: Run, ranks: Ranks, shape: Shape) -> Any:
    """… and the target m_A·T_q/2 to its share of feature q."""
    terms = np.array([shape.m_source * (term // 2) for term in ranks.tie_terms], dtype=np.int64)
    return terms[None, :] if _shares_ties(run) else 0


def _shares_ties(run: Run) -> bool:
    return run.plan.reveal == "strengths" and run.plan.estimator == "paper"


def _data_party_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    given: Mapping[str, Any],
    source_names: Sequence[str],
    target_names: Sequence[str],
) -> Result:
    """Keep what the party was given, its own costs, and cautions about its own columns."""
    cost = account(run)
    warnings = column_cautions(run.plan, table.party, table.features, ranks.tie_terms, table.n)
    return result(run, table.n, cost, Answer.received(given), source_names, target_names, warnings)
