"""Run real roles as real processes and see how each of them ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mpc_spearman.config import Plan
from mpc_spearman.launch.local import arrow, assignments
from mpc_spearman.launch.supervisor import Outcome, launch
from mpc_spearman.results.result import Result

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


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
    """Run the three roles of a plan, in real processes.

    Parameters
    ----------
    plan
        One plan, or for tests of unequal plans one per party.
    frames
        Tables by party.
    staging
        An empty directory; each party writes to ``staging/<party>``.
    hook, arguments
        ``module:function`` in this folder, and what it is called with; see child.py.
    """
    plans = plan if isinstance(plan, Mapping) else dict.fromkeys(plan.names, plan)
    wanted = [
        order for name, its in plans.items() for order in assignments(its, staging) if order.party == name
    ]
    command = [sys.executable, "-m", "mpc_spearman.launch.role_process"]
    if hook is not None:
        command = [sys.executable, str(HERE / "child.py"), hook, json.dumps(dict(arguments or {}))]
    streams = {party: arrow(party, frame) for party, frame in frames.items()}
    return Roles(launch(wanted, streams, watch=watch, command=command), staging)
