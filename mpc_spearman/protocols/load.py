"""The steps in which a data party reads its own table, before it meets the others, and ranks it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan, Query, TargetParty, check_policy, check_policy_rows
from mpc_spearman.data.adjusted import Adjusted, adjusted, check_left
from mpc_spearman.data.aligned import check_places, take_aligned
from mpc_spearman.data.ids import alignment_tag
from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.kept import KeptRanks
from mpc_spearman.data.ranking import Place
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import listed
from mpc_spearman.data.sources import ArrowTable
from mpc_spearman.data.tables import MIN_ROWS, Table, Tick, read_table
from mpc_spearman.errors import PlanError, TableError
from mpc_spearman.levels import level_of
from mpc_spearman.privacy.statements import Statements, rows_differ
from mpc_spearman.protocols.charge import ledger_of, partner_losses
from mpc_spearman.run import Run, step

# Cells of a table to rank before meeting the others, so that a caution comes early: a fraction of a second,
# for which nobody has to wait.
_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Tables:
    """A party's table with all its rows, and the table of the rows of a run, as far as these are known."""

    whole: Table
    used: Table
    #: Of the whole table, if it was ranked at once.
    ranks: Ranks | None = None
    #: Where its ranks are kept (``--keep-ranks``).
    kept: KeptRanks | None = None


def own_tables(
    plan: Plan, name: str, frame: ArrowTable | None = None, tick: Tick = lambda done, of: None
) -> Tables:
    """Read and check the table of data party `name`: `frame`, or the plan's file or query.

    Statements come from the whole table. So of a table of which a run uses the first `rows`, the others are
    read as well; not if nothing is stated of them, as without noise. `tick` is as for `read_table`.
    """
    me = plan.owner(name)
    source = me.table if frame is None else frame
    if source is None:
        raise TableError(
            f"party {name} has no table: give `table` below its name or in its local file, or --table FILE"
        )
    # Rows that become one (duplicates) do so before anything else.
    first = None if rows_differ(plan) or isinstance(me.duplicates, dict) else plan.rows
    whole = used = read_table(
        name,
        source,
        me,
        rows=first,
        normalise=plan.normalise,
        adjust=me.adjust,
        fewest=me.policy.min_rows,
        whole=me.write_unaligned is not None,
        tick=tick,
    )
    if first is None and plan.rows is not None:
        places = np.arange(whole.n) if whole.rows is None else whole.rows
        used = whole.take(np.flatnonzero(places < plan.rows))
        if used.n < MIN_ROWS:
            raise TableError(
                f"{name}: of its first {plan.rows:,} rows {used.n:,} can be used, and a run needs {MIN_ROWS}"
            )
    if me.aligned is not None:
        used = take_aligned(used, me.aligned)
    elif plan.alignment == "ids":
        raise PlanError(
            f"party {name} has no file of ids, which alignment: ids needs: write "
            "`aligned` below its name or in its local file"
        )
    if missing := [column for column in me.policy.range if column not in whole.features]:
        raise PlanError(f"party {name}: policy.range: {listed(missing)} is no feature of its table")
    return Tables(whole, used)


def range_factors(plan: Plan, table: Table) -> NDArray[np.float64]:
    """Return by which factor an owner states each column's range larger, (m,).

    It is that of ``policy.range``, times `value_factors`.
    """
    more = plan.owner(table.party).policy.range
    return np.array([more.get(name, 1.0) for name in table.features]) * value_factors(plan, table)


def value_factors(plan: Plan, table: Table) -> NDArray[np.float64]:
    """Return how many times a vector's range is stated since a value shows in others as well, (m,).

    It matters with ``privacy.unit: value``, where two people exchange one column's values. Two flags of a
    column change: √2 covers both. If one of the two values is missing, a feature that says so changes as well
    (``missing_flags``): another √2, for that and for the column.
    """
    if plan.privacy.unit != "value":
        return np.ones(table.m)
    flags = Counter(table.nominal_columns)
    place_of = dict(zip(table.features, table.places, strict=False))
    with_gaps = {place_of[name] for name in table.flags}
    return np.array(
        [
            math.sqrt((2 if column and flags[column] > 1 else 1) * (2 if place_of[name] in with_gaps else 1))
            for name, column in zip(table.features, table.nominal_columns, strict=True)
        ]
    )


@step("load")
def load(run: Run, frame: ArrowTable | None) -> Tables:
    """Check the owner's policy, then read and check its table, before the party meets the others.

    `frame` is the table if it is not a file. A small table is ranked as well. Ranks of a table in memory are
    not kept, since it cannot be recognised.
    """
    me = run.plan.owner(run.roster.me.name)
    check_policy(run.plan, me.name)
    ledger = ledger_of(run)
    if ledger is not None:
        ledger.check(me.name, partner_losses(run.plan, run.roster), me.policy.lifetime, run.approval)
    kept = None
    if run.keep_ranks is not None and frame is None:
        kept = KeptRanks(run.keep_ranks, me, run.plan.rows)
    tables = own_tables(run.plan, me.name, frame, partial(run.progress, run.meter.current))
    table = tables.whole
    check_places(me.write_aligned, me.write_unaligned)
    check_policy_rows(run.plan, me.name, tables.used.n)
    ranks, cautions = None, [*table.cautions, *many_ids(run.plan, me.name, tables.used.n)]
    if table.n * len(table.columns) <= _AT_ONCE:
        ranks = table.ranks(workers=run.threads)
        cautions += row_cautions(ranks, table.columns)
        if tables.used is table or rows_differ(run.plan):
            _adjusted(table, ranks)  # so that what it refuses is refused before the parties meet
    for caution in cautions:
        run.say(caution)
    run.notes.cautions += cautions
    tag(run, tables.used)
    return replace(tables, ranks=ranks, kept=kept)


def many_ids(plan: Plan, name: str, ids: int) -> list[str]:
    """Warn of more ids than this owner itself would take, since others refuse them once all have met."""
    most = plan.owner(name).policy.max_ids
    if plan.alignment != "intersect" or ids <= most:
        return []
    return [
        f"{name} offers {ids:,} ids. A partner with the same policy.max_ids, {most:,}, refuses them once all "
        "have met: agree on this limit first, and raise it on both sides"
    ]


def tag(run: Run, table: Table) -> None:
    """Tag the target's rows for merging, if it has an `alignment_key`."""
    me = run.plan.party(run.roster.me.name)
    if isinstance(me, TargetParty) and me.alignment_key is not None:
        run.notes.alignment = alignment_tag(me.alignment_key, table.ids)


@step("rank")
def rank(run: Run, tables: Tables) -> tuple[Ranks, Statements]:
    """Rank a party's own columns (paper: rank vectors), and compute what it states about them.

    Returns ranks of the rows of the run, or their residuals (`own_vectors`). Statements are of the whole
    table; without noise of the rows of the run.
    """
    owner, ranked = run.plan.owner(run.roster.me.name), 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, len(tables.used.columns))

    def make(its: Table, place: Place) -> Ranks:
        return its.ranks(workers=run.threads, tick=tick, place=place)

    def say(text: str) -> None:
        run.say(text)
        if isinstance(owner.table, Query):  # nothing tells whether it has changed
            run.notes.cautions.append(text)

    def ranks_of(table: Table) -> Ranks:
        if tables.kept is not None:
            return tables.kept.ranks(table, make, say)
        known = tables.ranks if table is tables.whole else None
        return known or table.ranks(workers=run.threads, tick=tick)

    return own_vectors(run.plan, tables, ranks_of)


def own_vectors(plan: Plan, tables: Tables, ranks_of: Callable[[Table], Ranks]) -> tuple[Ranks, Statements]:
    """Return ranks of the rows of a run, adjusted for covariates, and what is stated about them.

    Where a run can use other rows than all, ranks are adjusted in the whole table. Without noise they are
    adjusted in the rows of the run, as all else is of these. `TableError` names features that covariates
    determine.
    """
    whole, used = tables.whole, tables.used
    level, role, factors = level_of(plan), plan.roster(whole.party).me.role, range_factors(plan, whole)
    if used is whole or not rows_differ(plan):
        ranks = _adjusted(used, ranks_of(used))
        return ranks, level.statements(ranks, role, factors)
    of_whole = _adjusted(whole, ranks_of(whole))
    stated = level.statements(of_whole, role, factors)
    return of_whole.of_rows(used.rows_in(whole)) if isinstance(of_whole, Adjusted) else ranks_of(used), stated


def _adjusted(table: Table, ranks: Ranks) -> Ranks:
    """Return a table's ranks, without what its covariates explain."""
    if not table.covariates:
        return ranks
    residuals = adjusted(ranks, len(table.covariates))
    check_left(table.party, table.features, residuals)
    return residuals
