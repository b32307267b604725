"""The three roles, each a flat list of steps, for every protocol.

The steps before and after the private computation are in :mod:`mpc_spearman.protocols.steps`; the computation
itself is the engine's. Each role learns what the view table lists for it (:func:`mpc_spearman.views.learnt`).

Threat model: semi-honest parties, no two of them colluding, authenticated encrypted links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mpc_spearman.estimators import products_from_differences
from mpc_spearman.protocols.answer import Answer, column_cautions, from_products, from_sums
from mpc_spearman.protocols.engine import Engine, source_operand, target_operand
from mpc_spearman.protocols.outcome import result
from mpc_spearman.protocols.steps import (
    Run,
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
from mpc_spearman.ranks import Ranks
from mpc_spearman.result import Result
from mpc_spearman.tables import Table


def run_source(run: Run, engine: Engine, frame: pd.DataFrame | None) -> Result:
    """Party A: rank its columns and give them, hidden, to the computation."""
    me = run.roster.me
    connect(run)
    table = load(run, frame)
    shape = agree(run, table)
    ranks = rank(run, table)
    align(run, table, me)
    describe(run, table, ranks)
    if run.plan.reveal == "differences":
        engine.give_differences(run, me, ranks.matrix, shape)
    else:
        engine.give_products(run, me, source_operand(run.plan, ranks), shape)
    given = receive_result(run)
    return _own_result(run, table, ranks, given, table.features, given.get("target_names", ()))


def run_target(run: Run, engine: Engine, frame: pd.DataFrame | None) -> Result:
    """Party B: rank its columns, give them, hidden, to the computation, and receive the result."""
    (source,) = run.roster.sources
    connect(run)
    table = load(run, frame)
    shape = agree(run, table)
    ranks = rank(run, table)
    align(run, table, source)
    describe(run, table, ranks)
    if run.plan.reveal == "differences":
        engine.give_differences(run, source, ranks.matrix, shape)
    else:
        engine.give_products(run, source, target_operand(run.plan, ranks, shape), shape)
    given = receive_result(run)
    return _own_result(run, table, ranks, given, given.get("source_names", ()), table.features)


def run_coordinator(run: Run, engine: Engine) -> Result:
    """Party C: open, conclude, and pass on what ``results`` grants."""
    (source,) = run.roster.sources
    connect(run)
    shape = agree(run)
    with engine.opening(run, source, shape) as opened:
        of_source = receive_description(run, source)
        of_target = receive_description(run, run.roster.target)
        integers = opened()
    if run.plan.reveal == "strengths":
        answer = from_sums(run.plan, integers[0], of_source, of_target, shape.n, shape.m_source)
    else:
        if run.plan.reveal == "differences":
            integers = products_from_differences(integers, of_source.ties, of_target.ties, shape.n)
        answer = from_products(run.plan, integers, of_source, of_target, shape.n)
    publish(run, answer, of_source, of_target)
    return result(
        run,
        shape.n,
        account(run),
        answer,
        of_source.names,
        of_target.names,
        [*run.cautions, *answer.warnings],
    )


def _own_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    given: Mapping[str, Any],
    source_names: Sequence[str],
    target_names: Sequence[str],
) -> Result:
    """Keep what a data party was given, its own costs, and cautions about its own columns."""
    cost = account(run)
    own = column_cautions(run.plan, table.party, table.features, ranks.tie_terms, table.n)
    return result(
        run, table.n, cost, Answer.received(given), source_names, target_names, [*run.cautions, *own]
    )
