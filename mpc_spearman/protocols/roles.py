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

import pyarrow as pa

from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Labels, Numbers
from mpc_spearman.levels import findings_of, level_of
from mpc_spearman.levels.level import column_cautions, impossible
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role
from mpc_spearman.privacy.choice import check_installed
from mpc_spearman.privacy.statements import Statements, rows_differ
from mpc_spearman.protocols.account import account, sign_and_part
from mpc_spearman.protocols.agree import agree, align
from mpc_spearman.protocols.charge import charge, start
from mpc_spearman.protocols.compute import conclude, contribute, encode, hide, prepare
from mpc_spearman.protocols.connect import connect
from mpc_spearman.protocols.describe import describe, receive_descriptions
from mpc_spearman.protocols.intersect import intersect, match, write_rows
from mpc_spearman.protocols.load import load, rank
from mpc_spearman.protocols.protect import check_columns, state
from mpc_spearman.protocols.publish import publish, receive_result
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Columns
from mpc_spearman.statistics.rank_ranges import own_correlations


def run_data_party(run: Run, frame: pa.Table | None) -> Result:
    """Parties A and B: rank columns, contribute them to the private computation, and receive the result."""
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
    describe(run, table, ranks, stated, factors)
    contribution = hide(run, contribution, shapes)
    opened = contribute(run, contribution, shapes)  # nothing, unless the order is opened to the target
    granted = receive_result(run, contribution, shapes)
    numbers, warnings = conclude(run, opened, shapes)
    result = _data_party_result(run, table, ranks, stated, shapes, {**granted, **numbers}, warnings)
    result = sign_and_part(run, result)
    return write_rows(run, table, result)


def run_coordinator(run: Run) -> Result:
    """Party C: open the computation's result, conclude, and pass on what ``results`` grants."""
    if run.plan.results.strongest is not None:
        check_installed()
    connect(run)
    if run.plan.alignment == "intersect":
        match(run)
    shapes = agree(run)
    opening = prepare(run, shapes)
    shapes = state(run, shapes)
    shapes = receive_descriptions(run, shapes)
    numbers, warnings = conclude(run, opening(), shapes)
    publish(run, numbers, shapes)
    descriptions = shapes.descriptions
    target_names = descriptions.target.names
    warnings += level_of(run.plan).weakened(shapes, target_names)
    labels = shapes.labels(descriptions.of_sources("names"), target_names)
    result = _result(run, shapes.n, {**numbers, **descriptions.nominal}, labels, warnings)
    return sign_and_part(run, result)


def _data_party_result(
    run: Run,
    table: Table,
    ranks: Ranks,
    stated: Statements,
    shapes: Shapes,
    numbers: dict[str, Any],
    warnings: list[str],
) -> Result:
    """Return a data party's result, from the numbers that it was granted or opened, and its own columns."""
    me, plan, level = run.roster.me, run.plan, level_of(run.plan)
    of_table = stated.columns
    columns = replace(Columns.of(ranks), unequal=of_table.unequal, fitted=of_table.fitted)
    numbers |= {f"{me.role.value}_{name}": values for name, values in vars(columns).items()}
    numbers[f"{me.role.value}_nominal"] = table.nominal_columns
    if rows_differ(plan):
        numbers[f"{me.role.value}_ranges"] = level.stated_ranges(stated, me.role, table.n)
    if me.role is Role.TARGET:
        labels = shapes.labels(numbers.get("source_names", ()), table.features)
        correlations = own_correlations(ranks, plan.strength) if "strengths" in numbers else None
        if correlations is not None:
            numbers["own_correlations"] = correlations
    else:
        labels = Labels([(me.name, name) for name in table.features], numbers.get("target_names", ()))
    warnings += level.weakened(shapes, labels.target)
    warnings += column_cautions(plan, table.party, table.features, ranks.tie_terms, table.n)
    if "counts" in numbers and plan.results.strongest is None:
        warnings += impossible(plan, numbers["counts"], shapes)
    return _result(run, table.n, numbers, labels, warnings)


def _result(run: Run, n: int, numbers: Mapping[str, Any], labels: Labels, warnings: Sequence[str]) -> Result:
    """Return a party's result, with costs and warnings; the coordinator's has all parties' costs."""
    me, plan, notes = run.roster.me, Plan.model_validate(run.plan.shared()), run.notes
    findings = _findings(run, Copy(plan, me.name, me.role.value, n), numbers, labels)
    sentences = [*notes.cautions, *warnings, *findings.cautions()]
    return Result(
        findings, cost=account(run), warnings=sentences, alignment=notes.alignment, offered=notes.offered
    )


@step("publish")
def _findings(run: Run, copy: Copy, numbers: Numbers, labels: Labels) -> Findings:
    """Derive tests, intervals and ranges of ranks from a party's numbers."""
    return findings_of(copy.plan, copy.role).of(copy, numbers, labels)
