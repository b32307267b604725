"""The last step: the data parties send the coordinator their costs of the run."""

from __future__ import annotations

import pandas as pd

from mpc_spearman.parties import Role
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.meter import COLUMNS, FORWARDED, PHASES, costed


@step("account")
def account(run: Run) -> pd.DataFrame:
    """Exchange costs: data parties send theirs, the coordinator has everyone's; columns ``meter.COLUMNS``.

    The exchange itself and the farewell after it are not in the table they carry.
    """
    seconds, counts = run.meter.table()
    costs = {run.roster.me: (seconds, counts)}
    if run.roster.me.role is Role.COORDINATOR:
        for peer in run.roster.peers:
            values = run.links.receive(peer, Kind.COST)
            costs[peer] = (values["seconds"], values["counts"])
    else:
        run.links.send(run.roster.coordinator, Kind.COST, {"seconds": seconds, "counts": counts})
    shown = costed(run.plan.protocol, run.plan.alignment)
    rows = [
        (party.name, phase, *(float(x) for x in seconds[i]), *(int(x) for x in counts[i]))
        for party, (seconds, counts) in sorted(costs.items(), key=lambda item: item[0].number)
        for i, phase in enumerate(PHASES)
        if phase in shown
    ]
    forwarded = [
        (run.roster.me.name, f"{FORWARDED} {one} and {other}", 0.0, 0.0, sent, received, 0, 0, 0)
        for (one, other), (received, sent) in run.meter.forwarded.items()
    ]
    return pd.DataFrame([*rows, *forwarded], columns=list(COLUMNS))
