"""What each data owner's own policy makes of the shared plan: a veto, before any data moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType

from mpc_spearman.config.parties import DataParty
from mpc_spearman.config.plan import Plan
from mpc_spearman.config.scale import within
from mpc_spearman.errors import PolicyError

#: The section of ``privacy`` in which every rule is off, and the policy of an owner who agrees to that and to
#: all else: for tables that are nobody's, in comparisons, benchmarks and tests.
RULES_OFF = MappingProxyType({"min_group": 1, "min_rows_per_feature": 0, "budget": 1e6})
AGREE_TO_ALL = MappingProxyType(
    {
        "max_reveal": "differences",
        "exact": True,
        **RULES_OFF,
        "min_columns": 1,
        "min_key_bits": 256,
    }
)

_Rules = Callable[[Plan, DataParty], Iterator[str]]


def check_policy(plan: Plan, name: str) -> None:
    """Refuse a plan that goes beyond the policy of data party `name`; the coordinator has none.

    Raises
    ------
    PolicyError
        Every rule the plan breaks, one per line: the party, the rule, and what the plan asks for.
    PlanError
        No party has that name.
    """
    _refuse(plan, name, _beyond)


def check_policy_rows(plan: Plan, name: str, n: int) -> None:
    """Refuse to take part with `n` aligned rows where the owner asks for more.

    Raises
    ------
    PolicyError
        Naming the party and its rule.
    """

    def broken(plan: Plan, party: DataParty) -> Iterator[str]:
        least = party.policy.min_rows
        if least is not None and n < least:
            yield f"min_rows: {least} or more, but there are {n} rows"

    _refuse(plan, name, broken)


def check_policy_columns(plan: Plan, name: str, distinct: int) -> None:
    """Refuse strengths over so few source columns that they are next to single coefficients.

    Parameters
    ----------
    plan : Plan
    name : str
        A data party whose policy stops short of coefficients.
    distinct : int
        Source columns, of all sources together, that are neither constant nor a repetition of another one.

    Raises
    ------
    PolicyError
        Naming the party and its rule.
    """

    def broken(plan: Plan, party: DataParty) -> Iterator[str]:
        least = party.policy.min_columns
        told = any(within("coefficients", level) for level in (plan.reveal, party.policy.max_reveal))
        if not told and distinct < least:
            has = "is one" if distinct == 1 else f"are {distinct}"
            yield f"min_columns: {least} or more distinct, non-constant source columns, but there {has}"

    _refuse(plan, name, broken)


def _beyond(plan: Plan, party: DataParty) -> Iterator[str]:
    policy = party.policy
    if not within(plan.reveal, policy.max_reveal):
        yield f"max_reveal: {policy.max_reveal} at most, but the plan has reveal: {plan.reveal}"
    if plan.protocol not in policy.protocols:
        listed = ", ".join(policy.protocols) or "none"
        yield f"protocols: {listed} only, but the plan has protocol: {plan.protocol}"
    for role, grant in (("target", plan.results.target), ("sources", plan.results.sources)):
        if role not in policy.results_to and grant != "nothing":
            listed = ", ".join(policy.results_to) or "nobody"
            yield f"results_to: {listed} only, but the plan has results.{role}: {grant}"
    if plan.results.precision == "exact" and not policy.exact:
        yield "exact: false, but the plan has results.precision: exact"
    for key, floor in (
        ("min_group", policy.min_group),
        ("min_rows_per_feature", policy.min_rows_per_feature),
    ):
        if getattr(plan.privacy, key) < floor:
            yield f"{key}: {floor} or more, but the plan has privacy.{key}: {getattr(plan.privacy, key)}"
    if plan.privacy.budget > policy.budget:
        yield f"budget: {policy.budget:g} at most, but the plan has privacy.budget: {plan.privacy.budget:g}"
    he = plan.he
    if plan.protocol == "he" and he.scheme == "paillier" and he.key_bits < policy.min_key_bits:
        yield f"min_key_bits: {policy.min_key_bits} or more, but the plan has he.key_bits: {he.key_bits}"


def _refuse(plan: Plan, name: str, rules: _Rules) -> None:
    party = plan.party(name)
    if isinstance(party, DataParty):
        who = f"party {party.name} does not allow this plan: its policy."
        broken = [who + rule for rule in rules(plan, party)]
        if broken:
            raise PolicyError("\n".join(broken))
