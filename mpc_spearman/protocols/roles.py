"""The three roles, each a flat list of steps, for every protocol.

The steps before and after the private computation are in :mod:`mpc_spearman.protocols.steps` and
:mod:`mpc_spearman.protocols.publish`; the computation itself is the engine's. Each role learns what the view
table lists for it (:func:`mpc_spearman.wire.disclosure.learnt`).

Threat model: semi-honest parties, no two of them colluding, authenticated encrypted links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.protocols.conclude import (
    Conclusion,
    Description,
    column_cautions,
    from_products,
    from_sums,
    impossible,
)
from mpc_spearman.protocols.encoding import encoding_of
from mpc_spearman.protocols.engine import Engine
from mpc_spearman.protocols.outcome import result
from mpc_spearman.protocols.publish import (
    describe,
    publish,
    receive_description,
    receive_result,
    tell_columns,
)
from mpc_spearman.protocols.steps import Run, Shapes, account, agree, align, connect, load, rank, step
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.estimators import products_from_differences


def run_source(run: Run, engine: Engine, frame: pd.DataFrame | None) -> Result:
    """Party A: rank its columns and give them, hidden, to the computation."""
    me = run.roster.me
    connect(run)
    table = load(run, frame)
    shapes = agree(run, table)
    ranks = rank(run, table)
    align(run, table, me)
    shapes = tell_columns(run, shapes, ranks)
    describe(run, table, ranks)
    if run.plan.reveal == "differences":
        engine.give_differences(run, ranks.matrix, shapes)
    elif run.plan.reveal == "coefficients":
        engine.give_products(run, ranks.matrix, shapes)
    else:
        engine.give_sums(run, encoding_of(run.plan, shapes).source_vector(ranks, me.name), shapes)
    given = receive_result(run, shapes)
    rows = [(me.name, name) for name in table.features]
    return _own_result(run, table, ranks, shapes, given, rows, given.get("target_names", ()))


def run_target(run: Run, engine: Engine, frame: pd.DataFrame | None) -> Result:
    """Party B: rank its columns, give them, hidden, to the computation, and receive the result."""
    connect(run)
    table = load(run, frame)
    shapes = agree(run, table)
    ranks = rank(run, table)
    for source in run.roster.sources:
        align(run, table, source)
    shapes = tell_columns(run, shapes, ranks)
    describe(run, table, ranks)
    if run.plan.reveal == "differences":
        engine.give_differences(run, ranks.matrix, shapes)
    elif run.plan.reveal == "coefficients":
        engine.give_products(run, ranks.matrix, shapes)
    else:
        engine.give_sums(run, encoding_of(run.plan, shapes).target_vectors(ranks, table.party), shapes)
    given = receive_result(run, shapes)
    rows = _rows(shapes, given.get("source_names", ()))
    return _own_result(run, table, ranks, shapes, given, rows, table.features)


def run_coordinator(run: Run, engine: Engine) -> Result:
    """Party C: open, conclude, and pass on what ``results`` grants."""
    connect(run)
    shapes = agree(run)
    with engine.opening(run, shapes) as opened:
        shapes = tell_columns(run, shapes)
        of_sources = [receive_description(run, source, shapes) for source in run.roster.sources]
        of_target = receive_description(run, run.roster.target, shapes)
        integers = opened(shapes)
    answer = conclude(run, integers, of_sources, of_target, shapes)
    source_names = [name for source in of_sources for name in source.names]
    publish(run, answer, source_names, of_target.names, shapes)
    return result(
        run,
        shapes.n,
        account(run),
        answer,
        _rows(shapes, source_names),
        of_target.names,
        [*run.cautions, *answer.warnings],
    )


@step("publish")
def conclude(
    run: Run, integers: Any, of_sources: Sequence[Description], of_target: Description, shapes: Shapes
) -> Conclusion:
    """Compute from the opened integers what the level gives (paper, step 3 and definition 2)."""
    if run.plan.reveal == "strengths":
        return from_sums(run.plan, integers[0], of_target, shapes)
    if run.plan.reveal == "differences":
        source_ties = [term for source in of_sources for term in source.ties]
        integers = products_from_differences(integers, source_ties, of_target.ties, shapes.n)
    return from_products(run.plan, integers, of_sources, of_target, shapes)


def _rows(shapes: Shapes, names: Sequence[str]) -> list[tuple[str, str]]:
    """Label the matrix's rows, if their names are known: party and feature."""
    owners = [source.name for source, features in shapes.features.items() for _ in range(features)]
    return list(zip(owners, names, strict=True)) if names else []


def _own_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    shapes: Shapes,
    given: Mapping[str, Any],
    rows: Sequence[tuple[str, str]],
    target_names: Sequence[str],
) -> Result:
    """Keep what a data party was given, its own costs, and cautions about that and its own columns."""
    cost, answer = account(run), Conclusion.received(given)
    warnings = [
        *run.cautions,
        *column_cautions(run.plan, table.party, table.features, ranks.tie_terms, table.n),
        *(impossible(run.plan, answer.counts, shapes) if answer.counts is not None else ()),
    ]
    return result(run, table.n, cost, answer, rows, target_names, warnings)
