"""Run one party's role in a process on this host; the other parties run theirs on their hosts.

The role runs in its own process, as under `local` (:mod:`mpc_spearman.launch.local`), so that even a crash
ends with a documented exit code and a line in ``status.json``.
"""

from __future__ import annotations

from pathlib import Path

from mpc_spearman.config import DataParty, Plan, PlanSource, check_approval, load_plan
from mpc_spearman.errors import PlanError
from mpc_spearman.launch import machine, supervisor
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.meeting_point import meeting_point, party_signer
from mpc_spearman.launch.pipe import Assignment
from mpc_spearman.launch.status import Status
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.results import run_directory
from mpc_spearman.results.result import Result


def run_party(
    plan: PlanSource,
    party: str,
    out: Path,
    *,
    earlier_ledger: Path | None = None,
    keep_ranks: Path | None = None,
    plan_name: str = "",
    watch: supervisor.Watch = lambda party, phase, done, of: None,
    note: supervisor.Note = lambda party, text: None,
) -> Result:
    """Run one party's role, with the others on their own hosts; return this party's result.

    The plan has this party's local part. The run directory is ``out/<party>``; its ``status.json`` says that
    the run goes on, or how it ended, also where there is no result. If a data party's policy names no ledger,
    the run continues `earlier_ledger`, if there is such a file. Under `keep_ranks` the owner keeps its
    table's ranks (docs/tables.md#keep-ranks-for-later-runs). `plan_name` is what its ledger calls the plan.

    Raises the `MpcSpearmanError` that ended the run for this party.
    """
    plan = load_plan(plan)
    plan.party(party)  # an unknown name is refused before its folder is made
    directory = out.absolute() / party
    with run_directory.locked(directory):
        run_directory.check_replaceable(directory)
        with Status(directory, party, plan.digest().hex()) as status:
            # An approval is for the plan as written, without the ledger that `_with_ledger` may add.
            approval = check_approval(plan, party)
            plan = _with_ledger(plan, party, earlier_ledger, note)
            point = meeting_point(plan, party)
            party_signer(plan, party, None)  # looks at the key now: the role's process takes seconds to begin
            machine.check(len(plan.names) - 1, coordinates=party == plan.names[0])
            assignment = Assignment.of(
                plan,
                party,
                point,
                directory,
                approval=approval,
                keep_ranks=keep_ranks and keep_ranks.absolute(),
                plan_name=plan_name,
            )

            def watch_phase(party: str, phase: str, done: int, of: int) -> None:
                status.watch(phase)
                watch(party, phase, done, of)

            with ForkServer() as server:
                (outcome,) = supervisor.launch(
                    [assignment], server, watch=watch_phase, note=note, measure=status.measure
                ).values()
            if outcome.error is not None:
                raise outcome.error
            return Result.load(directory)


def _with_ledger(plan: Plan, party: str, earlier: Path | None, note: supervisor.Note) -> Plan:
    """Return the plan with a ledger for a data party: its policy's, or the one of an earlier version.

    `PlanError` if there is no ledger, since a run never makes one: that would discard what earlier runs
    counted. Errors of a ledger that cannot be used are those of `Ledger.entries`.
    """
    owner = plan.party(party)
    if not isinstance(owner, DataParty):
        return plan
    if owner.policy.ledger is not None:
        Ledger(owner.policy.ledger).entries()
        return plan
    if earlier is None or not earlier.exists():
        raise PlanError(
            f"party {party} has no ledger. If earlier runs had one, restore it; otherwise make one with "
            f"`mpc-spearman ledger --begin {party}.ledger`. Then name it in its local file: `ledger`, below "
            "`policy`"
        )
    ledger = earlier.absolute()
    note(party, f"continues {ledger}, an earlier version's ledger; name it in the local file (policy.ledger)")
    policy = owner.policy.model_copy(update={"ledger": ledger})
    return plan.with_party(owner.model_copy(update={"policy": policy}))
