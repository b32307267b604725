"""Check the shared plan against a data owner's policy, before any data is sent."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from mpc_spearman.config.contradictions import contradictions
from mpc_spearman.config.levels import OUTSIDE, within
from mpc_spearman.config.parties import DataParty, Policy
from mpc_spearman.config.plan import Plan
from mpc_spearman.config.wording import dotted
from mpc_spearman.errors import PlanError, PolicyError

#: A policy that allows everything: for made-up tables, in comparisons and tests.
AGREE_TO_ALL = MappingProxyType(
    {
        "max_reveal": ["differences", *OUTSIDE],
        "exact": True,
        "min_rows": 3,
        "min_columns": 1,
        "loss": 100.0,
        "lifetime": 100.0,
        "unit": "value",
        "min_key_bits": 256,
    }
)


def check_policy(plan: Plan, name: str) -> None:
    """Raise a `PolicyError` that lists every rule of party `name`'s policy that the plan breaks, if any.

    `PlanError` if the plan contradicts itself, as one can that `load_plan` has not made.
    """
    if conflicts := [f"plan: {dotted(location)}: {text}" for location, text in contradictions(plan)]:
        raise PlanError("\n".join(conflicts))
    if policy := _policy(plan, name):
        _refuse(name, *_broken_rules(plan, name, policy))


def check_policy_rows(plan: Plan, name: str, n: int) -> None:
    """Raise a `PolicyError` if the owner requires more than `n` aligned rows."""
    policy = _policy(plan, name)
    if policy and n < policy.min_rows:
        _refuse(name, f"min_rows is {policy.min_rows:,}, but there are {n:,} rows")


def check_policy_columns(plan: Plan, name: str, defined: int, counts: str) -> None:
    """Raise a `PolicyError` if results average so few source columns that they nearly show coefficients.

    Each number averages `defined` of `counts`. Applies if an owner's policy does not allow coefficients.
    """
    policy, coordinator_has_them = _policy(plan, name), within("coefficients", plan.reveal)
    if (
        policy
        and defined < policy.min_columns
        and not (coordinator_has_them or policy.allows("coefficients"))
    ):
        rule = f"min_columns: {policy.min_columns} or more {counts}"
        _refuse(name, f"{rule}, but there {'is one' if defined == 1 else f'are {defined}'}")


def _policy(plan: Plan, name: str) -> Policy | None:
    party = plan.party(name)
    return party.policy if isinstance(party, DataParty) else None


def _refuse(name: str, *broken: str) -> None:
    if broken:
        start = f"party {name} does not allow this plan: its policy."
        raise PolicyError("\n".join(start + rule for rule in broken))


def _broken_rules(plan: Plan, name: str, policy: Policy) -> Iterator[str]:
    if not policy.allows(plan.reveal):
        most = ", ".join(policy.max_reveal) or "nothing"
        how = f"to allow that as well, name it: [{', '.join((*policy.max_reveal, plan.reveal))}]"
        yield f"max_reveal: {most} at most, but the plan has reveal: {plan.reveal}; {how}"
    if plan.protocol not in policy.protocols:
        listed = ", ".join(policy.protocols) or "none"
        yield f"protocols: {listed} only, but the plan has protocol: {plan.protocol}"
    for role, grant in (("target", plan.results.target), ("sources", plan.results.sources)):
        if role not in policy.results_to and grant != "nothing":
            listed = ", ".join(policy.results_to) or "nobody"
            yield f"results_to: {listed} only, but the plan has results.{role}: {grant}"
    if plan.results.precision == "exact" and not policy.exact:
        yield "exact: false, but the plan has results.precision: exact"
    if plan.privacy.loss > policy.loss:
        yield f"loss: {policy.loss:g} at most, but the plan has privacy.loss: {plan.privacy.loss:g}"
    if plan.privacy.unit == "value" and policy.unit == "row":
        yield "unit: row, but the plan has privacy.unit: value, with which noise hides one value, not a row"
    if policy.noise == "inputs" and plan.owner(name).noise == "results":
        yield "noise: inputs, but the plan has noise: results for this party"
    if policy.proofs and not plan.proofs:
        yield "proofs: true, but the plan has proofs: false, so nobody proves its vectors"
    he = plan.he
    if plan.protocol == "he" and he.scheme == "paillier" and he.key_bits < policy.min_key_bits:
        yield f"min_key_bits: {policy.min_key_bits} or more, but the plan has he.key_bits: {he.key_bits}"
