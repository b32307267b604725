"""The step in which a data party ranks its own columns."""

from __future__ import annotations

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.run import Run, step


@step("rank")
def rank(run: Run, table: Table, ranks: Ranks | None) -> Ranks:
    """Rank a party's own columns (paper: rank vectors), if the step `load` has not done so already."""
    ranked = 0

    def tick() -> None:
        nonlocal ranked
        ranked += 1
        run.tick(ranked, table.m)

    if ranks is None:
        ranks = table.ranks(workers=run.workers, tick=tick)
    table.close()
    return ranks
