"""The three roles, each a flat list of steps, for every protocol.

The steps before and after the private computation are in the modules
named after their phases; the computation itself is the engine's. Each role learns what the view table lists
for it (:func:`mpc_spearman.wire.disclosure.learnt`).

Threat model: semi-honest parties, no two of them colluding, authenticated encrypted links.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.engines import engine_for
from mpc_spearman.levels.precision import Precision
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.protocols.account import account
from mpc_spearman.protocols.agree import agree
from mpc_spearman.protocols.align import align
from mpc_spearman.protocols.conclude import (
    Conclusion,
    Description,
    Labels,
    column_cautions,
    from_opened,
    impossible,
    repeated_columns,
)
from mpc_spearman.protocols.connect import connect
from mpc_spearman.protocols.describe import describe, receive_description
from mpc_spearman.protocols.intersect import intersect, match
from mpc_spearman.protocols.load import load
from mpc_spearman.protocols.protect import charge, count_columns, protect
from mpc_spearman.protocols.publish import publish, receive_result
from mpc_spearman.protocols.rank import rank
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.inference import ties
from mpc_spearman.wire import disclosure


def run_source(run: Run, frame: pa.Table | None) -> Result:
    """Party A: rank its columns and give them, hidden, to the computation."""
    me = run.roster.me
    table = load(run, frame)
    connect(run)
    if run.plan.alignment == "intersect":
        table = intersect(run, table)
    shapes = agree(run, table)
    ranks = rank(run, table)
    shapes, stated = count_columns(run, shapes, table, ranks)
    protect(run, table, ranks, shapes, stated)
    align(run, table, me)
    charge(run, table, ranks, shapes, stated)
    describe(run, table, ranks)
    engine_for(run.plan.protocol).give(run, table, ranks, shapes)
    given = receive_result(run, shapes)
    labels = Labels([(me.name, name) for name in table.features], given.get("target_names", ()))
    return _own_result(run, table, ranks, shapes, given, labels)


def run_target(run: Run, frame: pa.Table | None) -> Result:
    """Party B: rank its columns, give them, hidden, to the computation, and receive the result."""
    table = load(run, frame)
    connect(run)
    if run.plan.alignment == "intersect":
        table = intersect(run, table)
    shapes = agree(run, table)
    ranks = rank(run, table)
    shapes, stated = count_columns(run, shapes, table, ranks)
    protect(run, table, ranks, shapes, stated)
    for source in run.roster.sources:
        align(run, table, source)
    charge(run, table, ranks, shapes, stated)
    describe(run, table, ranks)
    opened = engine_for(run.plan.protocol).give(run, table, ranks, shapes)
    given = receive_result(run, shapes)
    labels = Labels.of(shapes, given.get("source_names", ()), table.features)
    conclusion = conclude(run, opened, [], Description(), shapes) if opened is not None else None
    return _own_result(run, table, ranks, shapes, given, labels, conclusion)


def run_coordinator(run: Run) -> Result:
    """Party C: open, conclude, and pass on what ``results`` grants."""
    connect(run)
    if run.plan.alignment == "intersect":
        match(run)
    shapes = agree(run)
    with engine_for(run.plan.protocol).opening(run, shapes) as opened:
        shapes, _ = count_columns(run, shapes)
        of_sources = [receive_description(run, source, shapes) for source in run.roster.sources]
        of_target = receive_description(run, run.roster.target, shapes)
        conclusion = conclude(run, opened(shapes), of_sources, of_target, shapes)
    source_names = [name for source in of_sources for name in source.names]
    publish(run, conclusion, source_names, of_target.names, shapes)
    # Its ranking is the one that the target is given, for whom the list is made.
    precision = Precision.of(run.plan, shapes.n, shapes.distinct_sources)
    grant = "coefficients" if run.plan.results.target == "coefficients" else "strengths"
    return conclusion.result(
        run,
        shapes.n,
        account(run),
        Labels.of(shapes, source_names, of_target.names),
        [*run.cautions, *conclusion.warnings],
        precision.steps(grant) if conclusion.strengths is not None else {},
        precision.published(conclusion, run.plan, shapes.n, grant),
    )


@step("publish")
def conclude(
    run: Run, opened: Any | None, of_sources: list[Description], of_target: Description, shapes: Shapes
) -> Conclusion:
    """Compute from the opened integers what the level gives."""
    return from_opened(run.plan, opened, of_sources, of_target, shapes)


def _own_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    shapes: Shapes,
    given: Mapping[str, Any],
    labels: Labels,
    opened: Conclusion | None = None,
) -> Result:
    """Keep what a data party was given or opened, its own costs, and warnings about that and its columns."""
    mine = "target_ties" if run.roster.me == run.roster.target else "source_ties"
    own = {mine: ties(ranks.tie_terms, ranks.n)}
    cost, conclusion = account(run), opened or Conclusion.received({**given, **own})
    warnings = [
        *run.cautions,
        *conclusion.warnings,
        *column_cautions(run.plan, table.party, table.features, ranks.tie_terms, table.n),
        *(repeated_columns(table.party, table.features, ranks) if mine == "source_ties" else ()),
        *(impossible(run.plan, conclusion.counts, shapes) if conclusion.counts is not None else ()),
    ]
    grant = disclosure.grant(run.plan.shared(), run.roster.me.role)
    steps = Precision.of(run.plan, shapes.n, shapes.distinct_sources).steps(grant)
    return conclusion.result(run, table.n, cost, labels, warnings, steps)
