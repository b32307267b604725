"""The step in which a data party ranks its own columns."""

from __future__ import annotations

from mpc_spearman.data.ranks import Ranks, rank_columns
from mpc_spearman.data.tables import Table
from mpc_spearman.privacy.groups import check_groups
from mpc_spearman.run import Run, step


@step("rank")
def rank(run: Run, table: Table, ranks: Ranks | None) -> Ranks:
    """Rank a party's own columns (paper: rank vectors) and refuse those that would give single rows away.

    Parameters
    ----------
    ranks : Ranks, optional
        Where the step `load` has done so already.

    Raises
    ------
    DisclosureError
        A column where fewer than ``privacy.min_group`` rows lie outside its largest group.
    """
    ranked = 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, table.m)

    if ranks is None:
        ranks = rank_columns(map(table.column, range(table.m)), table.m, workers=run.workers, tick=tick)
        check_groups(ranks, table.features, table.party, run.plan.privacy.min_group)
    return ranks
