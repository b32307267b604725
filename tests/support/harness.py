"""Run real roles as real processes and see how each of them ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.config import DataParty, Plan
from mpc_spearman.launch.local import arrow, assignments
from mpc_spearman.launch.rendezvous import Rehearsal
from mpc_spearman.launch.supervisor import Outcome, launch
from mpc_spearman.results.result import Result
from support.processes import EVER
from support.server import fork_server, hooked

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Roles:
    """What came of a run: each role's outcome, and the directory its files are in."""

    outcomes: Mapping[str, Outcome]
    staging: Path

    def result(self, party: str) -> Result:
        return Result.load(self.staging / party)


def run_roles(
    plan: Plan | Mapping[str, Plan],
    frames: Mapping[str, pd.DataFrame],
    staging: Path,
    hook: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    watch: Callable[[str, str, int, int], None] = lambda party, phase, done, of: None,
) -> Roles:
    """Run the roles of a plan in real processes; each party writes to ``staging/<party>``.

    `hook` and `arguments` are as in server.py. Roles that do not end by themselves are hardly ever ended.
    """
    plans = plan if isinstance(plan, Mapping) else dict.fromkeys(plan.names, plan)
    keys = Rehearsal.of(tuple(plans))  # one for each, whatever their plans
    hooks = hooked(hook, **(arguments or {}))
    assigned = [
        replace(one, rehearsal=asdict(keys[name]), environment={**one.environment, **hooks})
        for name, its in plans.items()
        for one in assignments(its, staging)
        if one.party == name
    ]
    streams = {}
    for party, frame in frames.items():
        own = plans[party].party(party)
        assert isinstance(own, DataParty)
        streams[party] = arrow(party, frame, own)
    return Roles(launch(assigned, streams, fork_server(), grace=EVER, watch=watch), staging)
