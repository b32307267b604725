"""The steps that write an owner's ledger: when a run starts, is charged, and fails.

The plan decides what the ledger counts.
"""

from __future__ import annotations

from mpc_spearman.config import Plan, Policy
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import MpcSpearmanError, PlanError, PolicyError
from mpc_spearman.levels import level_of
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Role, Roster
from mpc_spearman.privacy.charges import COMMON_ROWS, SIZES, ChargedRun, Ended, PartnerLoss, balances
from mpc_spearman.privacy.ledger import Ledger, now
from mpc_spearman.run import Run, step
from mpc_spearman.wire.aborts import notice
from mpc_spearman.wire.kinds import Kind


def partner_losses(plan: Plan, roster: Roster) -> dict[str, PartnerLoss]:
    """Return what a run of a plan reveals to each other party; only noisy numbers have a loss that counts."""
    me, exact, losses = roster.me, plan.results.precision == "exact", dict[str, PartnerLoss]()
    on_inputs = plan.owner(me.name).noise == "inputs"
    for peer in roster.peers:
        is_coordinator = peer.role is Role.COORDINATOR
        opened = is_coordinator and plan.opened_to == "coordinator"
        grant = plan.reveal if opened else plan.terms.granted[peer.role]
        results = grant != "nothing"
        # Statements about vectors with noise on inputs are noisy numbers too.
        fields = VIEW.fields(plan.terms, Kind.COLUMNS, me.role, peer.role) or ()
        statements = on_inputs and any(field.inputs is not None for field in fields)
        noisy = level_of(plan).owners_add or on_inputs or not is_coordinator
        counted = statements or (results and noisy)
        losses[peer.name] = PartnerLoss(
            what="statements" if statements and not results else grant,
            loss=0.0 if not (results or statements) else plan.privacy.loss if counted and not exact else None,
            counted=counted,
            unit=plan.privacy.unit if counted else "row",
            identity=plan.party(peer.name).identity or "",
        )
    return losses


def ledger_state(plan: Plan, name: str) -> tuple[str, MpcSpearmanError | None]:
    """Describe an owner's ledger: its file, and what partners have used; also return an error, or None.

    It is the error with which the ledger would refuse a run of the plan.
    """
    policy, losses = plan.owner(name).policy, partner_losses(plan, plan.roster(name))
    if policy.ledger is None:
        return "the policy names no ledger (policy.ledger); `join` needs one", None
    ledger, refusal = Ledger(policy.ledger), None
    try:
        partners = balances(ledger.entries())
    except (PlanError, PolicyError) as error:
        return f"the ledger {ledger.path} cannot be used", error
    clauses = []
    for partner, loss in losses.items():
        if loss.counted and loss.loss is not None:
            spent = sum(getattr(balance, loss.unit) for balance in partners if balance.is_of(partner, loss))
            clauses.append(
                f"{partner} has used {spent:g} of {policy.lifetime:g}, this run adds {loss.loss:g}"
            )
    try:
        ledger.check(name, losses, policy.lifetime)
    except PolicyError as error:
        refusal = error
        clauses.append("so this run will be refused")
    return f"the ledger is {ledger.path}: {'; '.join(clauses) or 'this run adds no loss'}", refusal


@step("connect")
def start(run: Run, table: Table) -> None:
    """Write into the owner's ledger that a run starts, before anything about its table is sent.

    So a run that ends before it is charged has a line too, which says if `intersect` may show common rows.
    """
    path = _policy(run).ledger
    if path is None:
        return
    matched = run.plan.alignment == "intersect"
    losses = {
        peer.name: PartnerLoss(
            what=COMMON_ROWS if matched and peer.role is not Role.COORDINATOR else SIZES,
            loss=0.0,
            counted=False,
            identity=run.plan.party(peer.name).identity or "",
        )
        for peer in run.roster.peers
    }
    ledger = Ledger(path)
    ledger.start(_ledger_entry(run, table, losses), run.approval)
    run.notes.ledger = ledger


@step("protect")
def charge(run: Run, table: Table) -> None:
    """Write the run's loss into the owner's ledger, or refuse the run because of losses in earlier runs.

    This is the last step before anything computed from an owner's columns is sent. The entry is then on the
    disk, and is never removed; only `end` may take the charge back.
    """
    if run.notes.ledger is not None:
        entry = _ledger_entry(run, table, partner_losses(run.plan, run.roster))
        remarks = run.notes.ledger.charge(entry, _policy(run).lifetime, run.approval)
        run.notes.charged = True
        for remark in remarks:
            run.say(remark)


def end(run: Run, error: BaseException) -> None:
    """Write how the run failed into the owner's ledger, if the run is there. Raises nothing.

    A charge is taken back if nothing was sent that depends on the rows of the run, except their number. A
    process that is killed writes nothing, so that its run stays charged.
    """
    if run.notes.ledger is None:
        return
    error_class, party, phase = notice(error, run.roster.me.name, run.meter.current)
    entry = Ended(
        time=now(),
        ended=run.links.run.hex(),
        error=error_class,
        party=party,
        phase=phase,
        rows=run.notes.common,
        taken_back=run.notes.charged and not _rows_affected_a_message(run),
    )
    try:
        run.notes.ledger.end(entry)
    except MpcSpearmanError as problem:
        run.say(f"the ledger does not say how this run ended: {problem}")


def _rows_affected_a_message(run: Run) -> bool:
    """Return whether this party has sent a message that depends on which rows the run has.

    An owner's term, or ciphertext, does, and so do descriptions of columns if the coordinator computes exact
    coefficients. Statements are about the whole table, except without noise or with noise on inputs; and
    masked columns alone reveal nothing. A message counts once it is queued.
    """
    level, phases = level_of(run.plan), ["encrypt", "evaluate", "reveal"]
    phases += ["describe"] * (not (level.noisy and level.owners_add))
    phases += ["protect"] * (not level.noisy or level.adds_to_inputs(run.roster.me))
    return any(run.meter.costs[phase].messages for phase in phases)


def _policy(run: Run) -> Policy:
    return run.plan.owner(run.roster.me.name).policy


def _ledger_entry(run: Run, table: Table, losses: dict[str, PartnerLoss]) -> ChargedRun:
    return ChargedRun(
        party=run.roster.me.name,
        plan=run.plan.digest().hex(),
        rows=table.n,
        columns=table.m,
        told=losses,
        id=run.links.run.hex(),
        name=run.plan_name,
        purpose=run.plan.purpose or "",
        limit=_policy(run).lifetime,
    )
