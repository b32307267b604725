"""The steps in which a data party reads its own table, before it meets the others, and ranks it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Plan, Query, TargetParty, check_policy, check_policy_rows
from mpc_spearman.data.adjusted import Adjusted, adjusted, check_explained
from mpc_spearman.data.aligned import check_places, take_aligned
from mpc_spearman.data.ids import alignment_tag
from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.kept import KeptRanks
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import listed
from mpc_spearman.data.sources import ArrowTable
from mpc_spearman.data.tables import MIN_ROWS, Table, Tick, read_table
from mpc_spearman.errors import PlanError, TableError
from mpc_spearman.levels import level_of
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.privacy.statements import Statements, rows_differ
from mpc_spearman.protocols.charge import partner_losses
from mpc_spearman.run import Run, step

#: A table of at most so many cells is ranked before the party meets the others, which takes a fraction of a
#: second: a caution about its rows, or a refusal, then comes early.
_FEW_CELLS = 1_000_000


@dataclass(frozen=True)
class Tables:
    """A party's whole table, and the part of it that has the rows of the run, as far as these are known."""

    whole: Table
    of_run: Table
    #: The ranks of the whole table, if it was ranked at once.
    ranks: Ranks | None = None
    #: Where ranks are kept for later runs (``--keep-ranks``).
    kept_ranks: KeptRanks | None = None


def own_tables(
    plan: Plan, name: str, frame: ArrowTable | None = None, tick: Tick = lambda done, of: None
) -> Tables:
    """Read and check a data party's table: `frame`, or the plan's file or query.

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
    whole = of_run = read_table(
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
        of_run = whole.take(np.flatnonzero(places < plan.rows))
        if of_run.n < MIN_ROWS:
            usable = f"of its first {plan.rows:,} rows {of_run.n:,} can be used"
            raise TableError(f"{name}: {usable}, and a run needs {MIN_ROWS}")
    if me.aligned is not None:
        of_run = take_aligned(of_run, me.aligned)
    elif plan.alignment == "ids":
        raise PlanError(
            f"party {name} has no file of ids, which alignment: ids needs: write "
            "`aligned` below its name or in its local file"
        )
    if missing := [column for column in me.policy.range if column not in whole.features]:
        raise PlanError(f"party {name}: policy.range: {listed(missing)} is no feature of its table")
    return Tables(whole, of_run)


def value_factors(plan: Plan, table: Table) -> NDArray[np.float64]:
    """Return the factor, (m,), of each feature's stated range that allows for a value in several features.

    It matters with ``privacy.unit: value``, where two people exchange one column's values. Two flags of a
    column change: √2 covers both. If one of the two values is missing, a feature that says so changes as well
    (``missing_flags``): another √2, for that and for the column.
    """
    if plan.privacy.unit != "value":
        return np.ones(table.m)
    flags = Counter(table.nominal_columns)
    with_gaps = {column.place for column in table.ranked if column.marks_missing}
    return np.array(
        [
            math.sqrt((2 if flags[nominal] > 1 and nominal else 1) * (2 if column.place in with_gaps else 1))
            for column, nominal in zip(table.ranked, table.nominal_columns, strict=False)
        ]
    )


@step("load")
def load(run: Run, frame: ArrowTable | None) -> Tables:
    """Check the owner's policy, then read and check its table, before the party meets the others.

    `frame` is the table if it is not a file. Ranks of a table in memory are not kept, since it cannot be
    recognised.
    """
    me = run.plan.owner(run.roster.me.name)
    check_policy(run.plan, me.name)
    if me.policy.ledger is not None:
        losses = partner_losses(run.plan, run.roster)
        Ledger(me.policy.ledger).check(me.name, losses, me.policy.lifetime, run.approval)
    kept_ranks = None
    if run.keep_ranks is not None and frame is None:
        kept_ranks = KeptRanks(run.keep_ranks, me, run.plan.rows)
    tables = own_tables(run.plan, me.name, frame, partial(run.progress, run.meter.current))
    check_places(me.write_aligned, me.write_unaligned)
    check_policy_rows(run.plan, me.name, tables.of_run.n)
    ranks, cautions = None, [*tables.whole.cautions, *many_ids(run.plan, me.name, tables.of_run.n)]
    if tables.whole.n * len(tables.whole.columns) <= _FEW_CELLS:
        ranks = tables.whole.ranks(workers=run.threads)
        cautions += row_cautions(ranks, tables.whole.columns)
        if tables.of_run is tables.whole or rows_differ(run.plan):
            _adjusted(tables.whole, ranks)  # which may refuse the table
    for caution in cautions:
        run.say(caution)
    run.notes.cautions += cautions
    tag(run, tables.of_run)
    return replace(tables, ranks=ranks, kept_ranks=kept_ranks)


def many_ids(plan: Plan, name: str, ids: int) -> list[str]:
    """Warn of more ids than this owner's own limit: a partner with the same limit would refuse them."""
    most = plan.owner(name).policy.max_ids
    if plan.alignment != "intersect" or ids <= most:
        return []
    return [
        f"{name} offers {ids:,} ids. A partner with the same policy.max_ids, {most:,}, refuses them once all "
        "have met: agree on this limit first, and raise it on both sides"
    ]


def tag(run: Run, table: Table) -> None:
    """Compute the tag of the target's rows that merging compares, if the target has an `alignment_key`."""
    me = run.plan.party(run.roster.me.name)
    if isinstance(me, TargetParty) and me.alignment_key is not None:
        run.notes.alignment = alignment_tag(me.alignment_key, table.ids)


@step("rank")
def rank(run: Run, tables: Tables) -> tuple[Ranks, Statements]:
    """Rank a party's own columns (paper: rank vectors), and compute its statements about them.

    Returns ranks of the rows of the run, or their residuals (`own_vectors`). Statements are of the whole
    table; without noise of the rows of the run.
    """
    owner, progress = run.plan.owner(run.roster.me.name), count(1)

    def tick() -> None:
        run.tick(next(progress), len(tables.of_run.columns))

    def say(text: str) -> None:
        run.say(text)
        if isinstance(owner.table, Query):  # nothing shows whether it has changed
            run.notes.cautions.append(text)

    rank_table = partial(Table.ranks, workers=run.threads, tick=tick)

    def ranks_of(table: Table) -> Ranks:
        if tables.kept_ranks is not None:
            return tables.kept_ranks.ranks(table, rank_table, say)
        return (tables.ranks if table is tables.whole else None) or rank_table(table)

    return own_vectors(run.plan, tables, ranks_of)


def own_vectors(plan: Plan, tables: Tables, ranks_of: Callable[[Table], Ranks]) -> tuple[Ranks, Statements]:
    """Return the ranks of the run's rows, adjusted for covariates, and the statements about them.

    Where a run can use other rows than all, ranks are adjusted in the whole table. Without noise they are
    adjusted in the rows of the run, as all else is of these. `TableError` names features that covariates
    determine.
    """
    whole, of_run = tables.whole, tables.of_run
    level, role = level_of(plan), plan.roster(whole.party).me.role
    larger = plan.owner(whole.party).policy.range
    factors = np.array([larger.get(name, 1.0) for name in whole.features]) * value_factors(plan, whole)
    if of_run is whole or not rows_differ(plan):
        ranks = _adjusted(of_run, ranks_of(of_run))
        return ranks, level.statements(ranks, role, factors)
    of_whole = _adjusted(whole, ranks_of(whole))
    stated = level.statements(of_whole, role, factors)
    if isinstance(of_whole, Adjusted):
        return of_whole.of_rows(of_run.rows_in(whole)), stated
    return ranks_of(of_run), stated


def _adjusted(table: Table, ranks: Ranks) -> Ranks:
    """Return a table's ranks, without what its covariates explain."""
    if not table.covariates:
        return ranks
    residuals = adjusted(ranks, len(table.covariates))
    check_explained(table.party, table.features, residuals)
    return residuals
