"""What each data owner's own policy makes of the shared plan: a veto, before any data moves."""

from __future__ import annotations

from collections.abc import Iterator

from mpc_spearman.config.plan import Plan
from mpc_spearman.config.sections import DataParty, Reveal
from mpc_spearman.errors import PolicyError

#: Levels from the least that the coordinator learns to the most.
_LEVELS: tuple[Reveal, ...] = ("ranking", "strengths", "coefficients", "differences")


def check_policy(plan: Plan, name: str) -> None:
    """Refuse a plan that goes beyond the policy of data party `name`; the coordinator has none.

    Raises
    ------
    PolicyError
        Every rule the plan breaks, one per line: the party, the rule, and what the plan asks for.
    PlanError
        No party has that name.
    """
    party = plan.party(name)
    if isinstance(party, DataParty):
        _refuse(party, _beyond(plan, party))


def check_policy_rows(plan: Plan, name: str, n: int) -> None:
    """Refuse to take part with `n` aligned rows where the owner asks for more.

    Raises
    ------
    PolicyError
        Naming the party and its rule.
    PlanError
        No party has that name.
    """
    party = plan.party(name)
    if isinstance(party, DataParty) and party.policy.min_rows is not None and n < party.policy.min_rows:
        _refuse(party, [f"min_rows: {party.policy.min_rows} or more, but this run has {n}"])


def check_policy_columns(plan: Plan, name: str, columns: int) -> None:
    """Refuse ``strengths`` over a single column where the owner's policy stops short of coefficients.

    A mean over one coefficient is that coefficient. An owner asks with what it knows: the target with the
    columns of all sources, a single source with its columns that are not constant, one of several sources
    with those of all sources, which the coordinator tells it. (Under ``paper`` constant columns count.)

    Raises
    ------
    PolicyError
        Naming the party and its rule.
    PlanError
        No party has that name.
    """
    party = plan.party(name)
    if (
        isinstance(party, DataParty)
        and plan.reveal == "strengths"
        and columns == 1
        and _LEVELS.index(party.policy.max_reveal) < _LEVELS.index("coefficients")
    ):
        rule = f"max_reveal: {party.policy.max_reveal} at most"
        _refuse(party, [f"{rule}, but with a single source column each strength is its coefficient"])


def _beyond(plan: Plan, party: DataParty) -> Iterator[str]:
    policy = party.policy
    if _LEVELS.index(plan.reveal) > _LEVELS.index(policy.max_reveal):
        yield f"max_reveal: {policy.max_reveal} at most, but the plan has reveal: {plan.reveal}"
    if plan.protocol not in policy.protocols:
        listed = ", ".join(policy.protocols) or "none"
        yield f"protocols: {listed} only, but the plan has protocol: {plan.protocol}"
    for role, grant in (("target", plan.results.target), ("sources", plan.results.sources)):
        if role not in policy.results_to and grant != "nothing":
            listed = ", ".join(policy.results_to) or "nobody"
            yield f"results_to: {listed} only, but the plan has results.{role}: {grant}"
    if policy.min_group is not None and plan.privacy.min_group < policy.min_group:
        asked = f"the plan has privacy.min_group: {plan.privacy.min_group}"
        yield f"min_group: {policy.min_group} or more, but {asked}"


def _refuse(party: DataParty, rules: Iterator[str] | list[str]) -> None:
    broken = [f"party {party.name} does not allow this plan: its policy.{rule}" for rule in rules]
    if broken:
        raise PolicyError("\n".join(broken))
