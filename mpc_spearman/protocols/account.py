"""The last step: the data parties send the coordinator their costs of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.parties import Role, worker_name
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.meter import COLUMNS, FORWARDED, PHASES, costed


@step("account")
def hand_in(run: Run) -> list[list[NDArray[Any]]]:
    """Give this party's first worker one's own costs; return there those of all, seconds and counts."""
    return [run.team.gather(costs) or [] for costs in run.meter.table()]


@step("account")
def account(run: Run) -> pd.DataFrame:
    """Exchange costs: data parties send theirs, the coordinator has everyone's; columns ``meter.COLUMNS``.

    The exchange itself and the farewell after it are not in the table they carry.
    """
    own = dict(zip(("seconds", "counts"), map(np.stack, hand_in(run)), strict=True))
    costs = {run.roster.me: own}
    if run.roster.me.role is Role.COORDINATOR:
        costs |= {peer: run.links.receive(peer, Kind.COST) for peer in run.roster.peers}
    else:
        run.links.send(run.roster.coordinator, Kind.COST, own)
    shown = costed(run.plan.protocol, run.plan.alignment)
    rows = [
        (worker_name(party.name, shard), phase, *map(float, seconds[i]), *map(int, counts[i]))
        for party, values in sorted(costs.items(), key=lambda item: item[0].number)
        for shard, (seconds, counts) in enumerate(zip(values["seconds"], values["counts"], strict=True))
        for i, phase in enumerate(PHASES)
        if phase in shown
    ]
    forwarded = [
        (run.roster.me.name, f"{FORWARDED} {one} and {other}", 0.0, 0.0, sent, received, 0, 0, 0)
        for (one, other), (received, sent) in run.meter.forwarded.items()
    ]
    return pd.DataFrame([*rows, *forwarded], columns=list(COLUMNS))
