"""The steps that keep an owner's ledger: a run starts, is charged, and perhaps fails.

The plan decides what the ledger counts.
"""

from __future__ import annotations

from dataclasses import replace

from mpc_spearman.config import DataParty, Plan, Policy, check_policy_columns
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import MpcSpearmanError, PlanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.privacy.charges import COMMON_ROWS, SIZES, ChargedRun, Ended, Told, balances
from mpc_spearman.privacy.ledger import Ledger, now
from mpc_spearman.privacy.statements import Statements
from mpc_spearman.run import Run, step
from mpc_spearman.wire.aborts import notice
from mpc_spearman.wire.kinds import Kind


@step("protect")
def check_columns(run: Run, shapes: Shapes, stated: Statements) -> None:
    """Refuse what this owner's columns make impossible, or its policy does not allow, before it is charged.

    Others state later how many of their columns are not constant: here they count as if none were. Raises
    `PolicyError` and `BoundError`.
    """
    me, level = run.roster.me, level_of(run.plan)
    count = stated.defined
    level.admit_own(me, count, shapes)
    at_most = {**shapes.features, run.roster.target: shapes.m_target, me: count}
    check_policy_columns(run.plan, me.name, level.behind(replace(shapes, defined=at_most)), level.counts)


def told(plan: Plan, roster: Roster) -> dict[str, Told]:
    """Return what a run of a plan reveals to each other party; only noisy numbers have a loss that counts."""
    exact, told_to = plan.results.precision == "exact", dict[str, Told]()
    for peer in roster.peers:
        is_c = peer.role is Role.COORDINATOR
        what = plan.reveal if is_c and plan.opened_to == "coordinator" else plan.terms.granted[peer.role]
        results, on_inputs = what != "nothing", plan.owner(roster.me.name).noise == "inputs"
        states = on_inputs and _states_inputs(plan, roster.me, peer)
        counted = states or (results and (level_of(plan).owners_add or on_inputs or not is_c))
        told_to[peer.name] = Told(
            what="statements" if states and not results else what,
            loss=0.0 if not (results or states) else plan.privacy.loss if counted and not exact else None,
            counted=counted,
            unit=plan.privacy.unit if counted else "row",
            identity=plan.party(peer.name).identity or "",
        )
    return told_to


def _states_inputs(plan: Plan, me: Party, peer: Party) -> bool:
    """Return whether a peer is told of vectors with noise on inputs, which is a noisy number too."""
    fields = VIEW.fields(plan.terms, Kind.COLUMNS, me.role, peer.role) or ()
    return any(field.inputs is not None for field in fields)


def ledger_of(run: Run) -> Ledger | None:
    """Return the owner's ledger, if it keeps one."""
    me = run.plan.party(run.roster.me.name)
    return Ledger(me.policy.ledger) if isinstance(me, DataParty) and me.policy.ledger else None


def ledger_state(plan: Plan, name: str) -> tuple[str, MpcSpearmanError | None]:
    """Return a sentence on where an owner's ledger is and what it has used, and why it would refuse a run."""
    policy, to_each = plan.owner(name).policy, told(plan, plan.roster(name))
    if policy.ledger is None:
        return "the policy names no ledger (policy.ledger); `join` needs one", None
    ledger, refusal = Ledger(policy.ledger), None
    try:
        known = balances(ledger.entries())
    except (PlanError, PolicyError) as error:
        return f"the ledger {ledger.path} cannot be used", error
    try:
        ledger.check(name, to_each, policy.lifetime)
    except PolicyError as error:
        refusal = error
    parts = []
    for partner, one in to_each.items():
        if one.counted and one.loss is not None:
            used = sum(getattr(balance, one.unit) for balance in known if balance.is_of(partner, one))
            parts.append(f"{partner} has used {used:g} of {policy.lifetime:g}, this run adds {one.loss:g}")
    if refusal is not None:
        parts.append("so this run will be refused")
    return f"the ledger is {ledger.path}: {'; '.join(parts) or 'this run adds no loss'}", refusal


@step("connect")
def start(run: Run, table: Table) -> None:
    """Write into the owner's ledger that a run starts, before anything about its table is sent.

    So a run that ends before it is charged has a line too, and so has what `intersect` tells.
    """
    if (ledger := ledger_of(run)) is not None:
        intersects = run.plan.alignment == "intersect"
        told_before = {
            peer.name: Told(
                what=COMMON_ROWS if intersects and peer.role is not Role.COORDINATOR else SIZES,
                loss=0.0,
                counted=False,
                identity=run.plan.party(peer.name).identity or "",
            )
            for peer in run.roster.peers
        }
        ledger.start(_entry(run, table, told_before), run.approval)
        run.notes.in_ledger = True


@step("protect")
def charge(run: Run, table: Table) -> None:
    """Write the run into the owner's ledger, or refuse it because of what a partner learnt in earlier runs.

    This is the last step before anything computed from an owner's columns leaves. The entry is then on the
    disk, and is never removed; only `end` may take it back.
    """
    if (ledger := ledger_of(run)) is not None:
        entry = _entry(run, table, told(run.plan, run.roster))
        remarks = ledger.charge(entry, _policy(run).lifetime, run.approval)
        run.notes.charged = True
        for remark in remarks:
            run.say(remark)


def end(run: Run, error: BaseException) -> None:
    """Write into the owner's ledger, if the run is in it, how it failed. Raises nothing.

    A charge is taken back if nothing has left that depends on the rows of the run, but their number. A
    process that is killed writes nothing, so that its run stays charged.
    """
    ledger = ledger_of(run)
    if ledger is None or not run.notes.in_ledger:
        return
    what, whose, phase = notice(error, run.roster.me.name, run.meter.current)
    entry = Ended(
        time=now(),
        ended=run.links.run.hex(),
        error=what,
        party=whose,
        phase=phase,
        rows=run.notes.common,
        taken_back=run.notes.charged and not _has_told(run),
    )
    try:
        ledger.end(entry)
    except MpcSpearmanError as problem:
        run.say(f"the ledger does not say how this run ended: {problem}")


def _has_told(run: Run) -> bool:
    """Return whether a charged run has sent something that depends on which rows it is about.

    Statements do not, which are of the whole table, except without noise or with noise on inputs; nor do
    masked columns by themselves. An owner's own term, or ciphertext, does, and so does what the coordinator
    is told where it makes exact coefficients. A message counts from when it is queued.
    """
    level, phases = level_of(run.plan), ["encrypt", "evaluate", "reveal"]
    phases += ["describe"] * (not (level.noisy and level.owners_add))
    phases += ["protect"] * (not level.noisy or level.adds_to_inputs(run.roster.me))
    return any(run.meter.costs[phase].messages for phase in phases)


def _policy(run: Run) -> Policy:
    return run.plan.owner(run.roster.me.name).policy


def _entry(run: Run, table: Table, to_each: dict[str, Told]) -> ChargedRun:
    return ChargedRun(
        party=run.roster.me.name,
        plan=run.plan.digest().hex(),
        rows=table.n,
        columns=table.m,
        told=to_each,
        id=run.links.run.hex(),
        name=run.plan_name,
        purpose=run.plan.purpose or "",
        limit=_policy(run).lifetime,
    )
