"""The steps in which a data party reads its own table, before it meets the others, and ranks it."""

from __future__ import annotations

from mpc_spearman.config import Plan, Query, TargetParty, check_policy, check_policy_rows
from mpc_spearman.data.aligned import check_places, take_aligned
from mpc_spearman.data.ids import alignment_tag
from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.kept import KeptRanks
from mpc_spearman.data.ranking import Place
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.sources import ArrowTable
from mpc_spearman.data.tables import Table, read_table
from mpc_spearman.errors import PlanError, TableError
from mpc_spearman.protocols.charge import ledger_of, told
from mpc_spearman.run import Run, step

# Cells of a table to rank before meeting the others, so that a caution comes early: a fraction of a second,
# for which nobody has to wait.
_AT_ONCE = 1_000_000


def own_table(plan: Plan, name: str, frame: ArrowTable | None = None) -> Table:
    """Read and check the table of data party `name`: `frame`, or the plan's file or query."""
    me = plan.owner(name)
    source = me.table if frame is None else frame
    if source is None:
        raise TableError(f"party {name} has no table: give `table` in its plan, or --table FILE")
    table = read_table(name, source, me, rows=plan.rows, normalise=plan.normalise)
    if me.aligned is not None:
        return take_aligned(table, me.aligned)
    if plan.alignment == "ids":
        raise PlanError(
            f"party {name} has no file of ids, which alignment: ids needs: give `aligned` in its plan"
        )
    return table


@step("load")
def load(run: Run, frame: ArrowTable | None) -> tuple[Table, Ranks | None, KeptRanks | None]:
    """Check the owner's policy, then read and check its table, before the party meets the others.

    `frame` is the table if it is not a file. Returns ranks if the table is small and its rows are already
    known; otherwise the step `rank` makes them. With ``--keep-ranks`` also returns where they are kept, but
    not for a table in memory, which cannot be recognised.
    """
    me = run.plan.owner(run.roster.me.name)
    check_policy(run.plan, me.name)
    ledger = ledger_of(run)
    if ledger is not None:
        ledger.check(me.name, told(run.plan, run.roster), me.policy.lifetime, run.approval)
    kept = None
    if run.keep_ranks is not None and frame is None:
        kept = KeptRanks(run.keep_ranks, me, run.plan.rows)
    table = own_table(run.plan, me.name, frame)
    run.opened.callback(table.close)
    check_places(me.write_aligned, me.write_unaligned)
    check_policy_rows(run.plan, me.name, table.n)
    ranks, cautions = None, list(table.cautions)
    if table.n * table.m <= _AT_ONCE:
        ranks = table.ranks(workers=run.threads)
        cautions += row_cautions(ranks, table.features)
    for caution in cautions:
        run.say(caution)
    run.notes.cautions += cautions
    if run.plan.alignment == "intersect":
        ranks = None  # of all rows, not of the common ones
    tag(run, table)
    return table, ranks, kept


def tag(run: Run, table: Table) -> None:
    """Tag the target's rows for merging, if it has an `alignment_key`."""
    me = run.plan.party(run.roster.me.name)
    if isinstance(me, TargetParty) and me.alignment_key is not None:
        run.notes.alignment = alignment_tag(me.alignment_key, table.ids)


@step("rank")
def rank(run: Run, table: Table, ranks: Ranks | None, kept: KeptRanks | None) -> Ranks:
    """Rank a party's own columns (paper: rank vectors), if the step `load` has not done so already."""
    own, ranked = run.plan.owner(run.roster.me.name), 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, table.m)

    def make(its: Table, place: Place) -> Ranks:
        return its.ranks(workers=run.threads, tick=tick, place=place)

    def say(text: str) -> None:
        run.say(text)
        if isinstance(own.table, Query):  # nothing tells whether it has changed
            run.notes.cautions.append(text)

    if kept is not None:
        ranks = kept.ranks(table, make, say)
    elif ranks is None:
        ranks = table.ranks(workers=run.threads, tick=tick)
    table.close()
    return ranks
