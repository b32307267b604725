"""One party's role as a process on this host, all others on theirs; how it ended.

The role runs in its own process, as under `local` (:mod:`mpc_spearman.launch.local`), so that even a crash
ends with a documented exit code and a line in ``status.json``.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mpc_spearman.config import Approval, DataParty, Plan, check_approval
from mpc_spearman.errors import MpcSpearmanError, OutputError, PlanError
from mpc_spearman.files import write_whole
from mpc_spearman.launch import supervisor
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.pipe import Assignment
from mpc_spearman.launch.rendezvous import meeting_point
from mpc_spearman.privacy.ledger import Ledger, check_used
from mpc_spearman.results import run_directory
from mpc_spearman.results.result import Result


def run_party(
    plan: Plan,
    party: str,
    out: Path,
    *,
    earlier_ledger: Path | None = None,
    keep_ranks: Path | None = None,
    watch: supervisor.Watch = lambda party, phase, done, of: None,
    note: supervisor.Note = lambda party, text: None,
) -> Result:
    """Run one party's role and meet the others, each started on its own host; return its own result.

    The plan has this party's local part. The run directory is ``out/<party>``; its ``status.json`` says how
    the run ended, also where there is no result. If a data party's policy names no ledger, the run continues
    `earlier_ledger`, if there is such a file. Under `keep_ranks` the owner keeps its table's ranks
    (docs/tables.md#keep-ranks-for-later-runs).

    Raises the `MpcSpearmanError` that ended the run for this party.
    """
    plan.party(party)  # refuses one that the plan does not have, before there is a folder of its name
    directory = out.absolute() / party
    phase, started, ending = "start", datetime.now(timezone.utc), None

    def watch_phase(party: str, now: str, done: int, of: int) -> None:
        nonlocal phase
        phase = now
        watch(party, now, done, of)

    with run_directory.locked(directory):
        run_directory.check_replaceable(directory)
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise OutputError(f"cannot make the run directory {directory}: {error.strerror}") from None
        try:
            approval = check_approval(plan, party)  # of the plan as it is written
            plan = _with_ledger(plan, party, earlier_ledger, note)
            if approval is not None:
                _check_runs(approval, plan, party)
            point = meeting_point(plan, party)
            assignment = Assignment.of(
                plan, party, point, directory, approval=approval, keep_ranks=keep_ranks
            )
            with ForkServer() as server:
                (outcome,) = supervisor.launch(
                    [assignment], {}, server, watch=watch_phase, note=note
                ).values()
            if outcome.error is not None:
                raise outcome.error
            return Result.load(directory)
        except BaseException as error:
            ending = error
            raise
        finally:
            _write_status(directory, plan, party, started, phase, ending)


def _with_ledger(plan: Plan, party: str, earlier: Path | None, note: supervisor.Note) -> Plan:
    """Return the plan with a ledger for a data party: its policy's, or one that an earlier version has made.

    `PlanError` if there is none. A run never begins one: it would forget what another has counted.
    """
    own = plan.party(party)
    if not isinstance(own, DataParty) or own.policy.ledger is not None:
        return plan
    if earlier is None or not earlier.exists():
        raise PlanError(
            f"party {party} has no ledger. If earlier runs had one, restore it; otherwise make one with "
            f"`mpc-spearman ledger --begin {party}.ledger`. Then name it in its local file: `ledger`, below "
            "`policy`"
        )
    ledger = earlier.absolute()
    note(party, f"continues {ledger}, an earlier version's ledger; name it in the local file (policy.ledger)")
    policy = own.policy.model_copy(update={"ledger": ledger})
    return plan.with_party(own.model_copy(update={"policy": policy}))


def _check_runs(approval: Approval, plan: Plan, party: str) -> None:
    """See before anyone is met that an approval is not used up; the ledger counts a run before it sends."""
    own = plan.party(party)
    if isinstance(own, DataParty) and own.policy.ledger is not None:
        check_used(approval, Ledger(own.policy.ledger).entries())


def _write_status(
    directory: Path, plan: Plan, party: str, started: datetime, phase: str, ending: BaseException | None
) -> None:
    """Write how the run ended; what launches this process may show every failure as 1."""
    ended = datetime.now(timezone.utc)
    kept = (directory / "result.json").exists()
    status: dict[str, Any] = {
        "schema_version": run_directory.SCHEMA_VERSION,
        "party": party,
        "plan": plan.digest().hex(),
        "exit_code": _exit_code(ending),
        "error": None if ending is None else type(ending).__name__,
        "message": None if ending is None else str(ending),
        "phase": phase,
        "started": started.isoformat(timespec="milliseconds"),
        "ended": ended.isoformat(timespec="milliseconds"),
        "result": "none" if not kept else "here" if ending is None else "of an earlier run",
    }
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(directory / "status.json", (json.dumps(status, indent=2) + "\n").encode())
    except OSError as error:
        if ending is None:
            raise OutputError(f"cannot write {directory / 'status.json'}: {error.strerror}") from None


def _exit_code(ending: BaseException | None) -> int:
    if isinstance(ending, MpcSpearmanError):
        return ending.exit_code
    if isinstance(ending, SystemExit) and isinstance(ending.code, int):
        return ending.code
    return 0 if ending is None else 130 if isinstance(ending, KeyboardInterrupt) else 1
