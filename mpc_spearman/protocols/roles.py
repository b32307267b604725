"""The roles, each a flat list of steps, for every protocol and every level.

The steps before and after the private computation are in the modules beside this one; the engine does the
computation itself, and the level decides its inputs and the meaning of its output. Each role learns what the
view table lists for it (:func:`mpc_spearman.levels.view.learnt`).

Threat model: semi-honest parties, no two of them colluding, authenticated encrypted links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.tables import Labels, Numbers
from mpc_spearman.levels import findings_of, level_of
from mpc_spearman.levels.descriptions import Descriptions
from mpc_spearman.levels.level import column_cautions, impossible
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.privacy.choice import check_installed
from mpc_spearman.privacy.statements import Statements, rows_differ
from mpc_spearman.protocols.account import account, sign_and_part
from mpc_spearman.protocols.agree import agree, align
from mpc_spearman.protocols.charge import charge, check_columns, start
from mpc_spearman.protocols.compute import conclude, contribute, encode, hide, prepare
from mpc_spearman.protocols.connect import connect
from mpc_spearman.protocols.describe import describe, receive_descriptions
from mpc_spearman.protocols.intersect import intersect, match, write_rows
from mpc_spearman.protocols.load import load, rank
from mpc_spearman.protocols.protect import advise, state
from mpc_spearman.protocols.publish import publish, receive_result
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Columns
from mpc_spearman.statistics.rank_ranges import own_correlations


def run_data_party(run: Run, frame: pa.Table | None) -> Result:
    """Parties A and B: rank columns, put them hidden into the computation, and receive the result."""
    tables = load(run, frame)
    connect(run)
    start(run, tables.of_run)
    if run.plan.alignment == "intersect":
        tables = replace(tables, of_run=intersect(run, tables.of_run))
    table = tables.of_run
    shapes = agree(run, table)
    for source in run.roster.sessions:
        align(run, table, source)
    ranks, stated = rank(run, tables)
    check_columns(run, shapes, stated)
    contribution, factors = encode(run, table, ranks, stated, shapes)
    charge(run, table)  # nothing that is computed from columns leaves before
    shapes = state(run, shapes, stated, contribution)
    advise(run, stated, shapes)
    describe(run, table, ranks, stated, factors)
    contribution = hide(run, contribution, shapes)
    opened = contribute(run, contribution, shapes)  # nothing, unless the order is opened to the target
    given = receive_result(run, contribution, shapes)
    numbers, warnings = conclude(run, opened, Descriptions(), shapes)
    result = _own_result(run, table, ranks, stated, shapes, {**given, **numbers}, warnings)
    result = sign_and_part(run, result)
    return write_rows(run, table, result)


def run_coordinator(run: Run) -> Result:
    """Party C: open, conclude, and pass on what ``results`` grants."""
    if run.plan.results.strongest is not None:
        check_installed()
    connect(run)
    if run.plan.alignment == "intersect":
        match(run)
    shapes = agree(run)
    opening = prepare(run, shapes)
    shapes = state(run, shapes)
    descriptions = receive_descriptions(run, shapes)
    numbers, warnings = conclude(run, opening(), descriptions, shapes)
    names = descriptions.of_sources("names"), descriptions.target.names
    publish(run, numbers, descriptions, shapes)
    warnings = [*warnings, *level_of(run.plan).weakened(shapes, descriptions.target.names)]
    known: dict[str, Any] = {**numbers, **descriptions.nominal}
    result = _result(run, shapes.n, known, shapes.labels(*names), warnings)
    return sign_and_part(run, result)


def _own_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    stated: Statements,
    shapes: Shapes,
    known: Mapping[str, Any],
    warnings: Sequence[str],
) -> Result:
    """Assemble a data party's result: what it was given or opened, its costs, and warnings."""
    me, plan, columns = run.roster.me, run.plan, Columns.of(ranks)
    if me.role is Role.TARGET:
        labels = shapes.labels(known.get("source_names", ()), table.features)
        if "strengths" in known and (own_related := own_correlations(ranks, plan.strength)) is not None:
            known = {**known, "own_correlations": own_related}
    else:
        labels = Labels([(me.name, name) for name in table.features], known.get("target_names", ()))
    columns = replace(columns, unequal=stated.unequal, fitted=np.full(ranks.m, stated.fitted))
    known = {**known, **{f"{me.role.value}_{what}": array for what, array in vars(columns).items()}}
    known[f"{me.role.value}_nominal"] = table.nominal_columns
    if rows_differ(plan):
        known[f"{me.role.value}_ranges"] = level_of(plan).stated_ranges(stated, me.role, table.n)
    counted = "counts" in known and plan.results.strongest is None
    warnings = [
        *warnings,
        *level_of(plan).weakened(shapes, labels.target),
        *column_cautions(plan, table.party, table.features, ranks.tie_terms, table.n),
        *(impossible(plan, known["counts"], shapes) if counted else ()),
    ]
    return _result(run, table.n, known, labels, warnings)


def _result(run: Run, n: int, numbers: Numbers, labels: Labels, warnings: Sequence[str]) -> Result:
    """Put together what this party keeps, and its costs."""
    me, plan, notes = run.roster.me, Plan.of_checked(run.plan.shared()), run.notes
    copy = Copy(plan, me.name, me.role.value, n)
    findings = _findings(run, copy, numbers, labels)
    said = [*notes.cautions, *warnings, *findings.cautions()]
    more: dict[str, Any] = {"alignment": notes.alignment, "offered": notes.offered}
    return Result(findings, cost=account(run), warnings=said, **more)


@step("publish")
def _findings(run: Run, copy: Copy, numbers: Numbers, labels: Labels) -> Findings:
    """Compute what follows from a party's numbers: tests, intervals, ranges of ranks."""
    return findings_of(copy.plan, copy.role).of(copy, numbers, labels)
