"""Run one role of a plan in this process; every process of a role calls `run_role`."""

from __future__ import annotations

import pyarrow as pa

from mpc_spearman.parties import Role
from mpc_spearman.protocols.charge import end
from mpc_spearman.protocols.roles import run_coordinator, run_data_party
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run


def run_role(run: Run, frame: pa.Table | None) -> Result:
    """Run one party's role from its key and table to the farewell; return its result, with its costs.

    When this returns, every party has finished. If this party fails, even before the meeting, the others get
    the error's class, and no more. `frame` is this party's table, if that is not a file.
    """
    try:
        run.signer = run.meeting.ready()
        if run.roster.me.role is Role.COORDINATOR:
            return run_coordinator(run)
        return run_data_party(run, frame)
    except BaseException as error:
        run.stop(error)
        end(run, error)
        raise
