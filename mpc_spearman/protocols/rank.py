"""The step in which a data party ranks its own columns."""

from __future__ import annotations

from functools import partial

import numpy as np

from mpc_spearman.arrays import room
from mpc_spearman.config import Query
from mpc_spearman.data.ranks import Place, Ranks
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
        return its.ranks(workers=run.workers, tick=tick, place=place)

    def say(text: str) -> None:
        run.say(text)
        if isinstance(own.table, Query) and own.table.path is None:  # nothing tells whether it has changed
            run.cautions.append(text)

    if run.kept is not None:
        ranks = run.kept.ranks(table, make, say)
    elif ranks is None:
        ranks = make(table, partial(room, kind=np.int32, in_file=isinstance(own.table, Query)))
    table.close()
    return ranks
