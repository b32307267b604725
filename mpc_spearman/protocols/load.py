"""The steps in which a data party reads its own table, before it meets the others, and ranks it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan, Query, TargetParty, check_policy, check_policy_rows
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
    """Return by which factor an owner states each column's range larger, (m,): ``policy.range``.

    With ``privacy.unit: value``, where two people exchange one column's values, two flags of a column change:
    √2 covers both.
    """
    more, flags = plan.owner(table.party).policy.range, Counter(table.nominal_columns)
    of_pair = math.sqrt(2) if plan.privacy.unit == "value" else 1.0
    return np.array(
        [
            more.get(name, 1.0) * (of_pair if column and flags[column] > 1 else 1.0)
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
    if table.n * table.m <= _AT_ONCE:
        ranks = table.ranks(workers=run.threads)
        cautions += row_cautions(ranks, table.features)
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

    Returns ranks of the rows of the run. Statements are of the whole table; without noise of the rows of the
    run.
    """
    owner, level, ranked = run.plan.owner(run.roster.me.name), level_of(run.plan), 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, tables.used.m)

    def make(its: Table, place: Place) -> Ranks:
        return its.ranks(workers=run.threads, tick=tick, place=place)

    def say(text: str) -> None:
        run.say(text)
        if isinstance(owner.table, Query):  # nothing tells whether it has changed
            run.notes.cautions.append(text)

    def ranks_of(table: Table, known: Ranks | None = None) -> Ranks:
        if tables.kept is not None:
            return tables.kept.ranks(table, make, say)
        return known or table.ranks(workers=run.threads, tick=tick)

    whole, used = tables.whole, tables.used
    factors, role = range_factors(run.plan, whole), run.roster.me.role
    if used is not whole and rows_differ(run.plan):
        stated = level.statements(ranks_of(whole, tables.ranks), role, factors)
        ranks = ranks_of(used)
    else:
        ranks = ranks_of(used, tables.ranks if used is whole else None)
        stated = level.statements(ranks, role, factors)
    return ranks, stated
