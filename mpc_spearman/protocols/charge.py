"""The steps that charge a run to an owner's ledger, once all that the owner knows alone allows the run.

The plan decides what the ledger counts.
"""

from __future__ import annotations

from dataclasses import replace

from mpc_spearman.config import DataParty, Plan, check_policy_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.tables import Table
from mpc_spearman.engines.computation import Contribution
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.charges import ChargedRun, Told
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import grant


@step("protect")
def check_columns(run: Run, shapes: Shapes, ranks: Ranks, own: Contribution) -> None:
    """Refuse what this owner's columns make impossible, or its policy does not allow, before it is charged.

    Others state later how many of their columns are not constant: here they count as if none were. Raises
    `PolicyError` and `BoundError`.
    """
    me, level = run.roster.me, level_of(run.plan)
    count = level.counted(own, ranks, me.role)
    level.admit_own(me, count, shapes)
    at_most = {**shapes.features, run.roster.target: shapes.m_target, me: count}
    check_policy_columns(run.plan, me.name, level.behind(replace(shapes, defined=at_most)), level.counts)


def told(plan: Plan, roster: Roster) -> dict[str, Told]:
    """Return what a run of a plan reveals to each other party that gets a result."""
    exact, found = plan.results.precision == "exact", dict[str, Told]()
    for peer in roster.peers:
        is_c = peer.role is Role.COORDINATOR
        what = grant(plan.shared(), peer.role)
        if is_c and plan.opened_to == "coordinator":
            what = plan.reveal
        if what != "nothing":
            counted = level_of(plan).owners_add or not is_c
            found[peer.name] = Told(
                what=what,
                loss=plan.privacy.loss if counted and not exact else None,
                counted=counted,
                unit=plan.privacy.unit if counted else "row",
                identity=plan.party(peer.name).identity or "",
            )
    return found


def ledger_of(run: Run) -> Ledger | None:
    """Return the owner's ledger, if it keeps one."""
    me = run.plan.party(run.roster.me.name)
    return Ledger(me.policy.ledger) if isinstance(me, DataParty) and me.policy.ledger else None


@step("protect")
def charge(run: Run, table: Table) -> None:
    """Write the run into the owner's ledger, or refuse it because of what a partner learnt in earlier runs.

    This is the last step before anything computed from an owner's columns leaves. The entry is then on the
    disk, and is never removed.
    """
    ledger, me = ledger_of(run), run.plan.party(run.roster.me.name)
    if ledger is None or not isinstance(me, DataParty):
        return
    digest, to_each = run.plan.digest().hex(), told(run.plan, run.roster)
    entry = ChargedRun(party=me.name, plan=digest, rows=table.n, columns=table.m, told=to_each)
    for remark in ledger.charge(entry, me.policy.lifetime, run.approval):
        run.say(remark)
