"""The step in which a data party ranks its own columns."""

from __future__ import annotations

from functools import partial

import numpy as np

from mpc_spearman.arrays import room
from mpc_spearman.config import Query
from mpc_spearman.data.ranks import Place, Ranks, rank_columns
from mpc_spearman.data.tables import Table
from mpc_spearman.run import Run, step


@step("rank")
def rank(run: Run, table: Table, ranks: Ranks | None) -> Ranks:
    """Rank a party's own columns (paper: rank vectors), if the step `load` has not done so already."""
    own, ranked = run.plan.owner(run.roster.me.name), 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, table.m)

    def make(its: Table, place: Place) -> Ranks:
        return rank_columns(map(its.column, range(its.m)), its.m, workers=run.workers, tick=tick, place=place)

    def say(text: str) -> None:
        run.say(text)
        if isinstance(own.table, Query):  # of which nothing tells whether its values are still the same
            run.cautions.append(text)

    if run.kept is not None:
        return run.kept.ranks(table, make, say)
    return ranks or make(table, partial(room, kind=np.int32, in_file=isinstance(own.table, Query)))
