"""Which plans an owner's policy allows."""

from __future__ import annotations

from typing import Any

import pytest

from mpc_spearman.config import AGREE_TO_ALL, check_policy, check_policy_columns, check_policy_rows, load_plan
from mpc_spearman.errors import PlanError, PolicyError
from support.plans import plan_with

# ---- policies --------------------------------------------------------------------------------------

START = "party A does not allow this plan: its policy."


VALUE = {"privacy": {"unit": "value"}, "results": {"target": "coefficients"}}
SHORT = {"protocol": "he", "he": {"key_bits": 512, "insecure": True}}


@pytest.mark.parametrize(
    ("policy", "plan", "rule"),
    [
        ({}, {"reveal": "differences"}, "max_reveal: coefficients at most"),
        ({"max_reveal": "strengths"}, {}, "max_reveal: strengths at most"),
        ({"max_reveal": "ranking"}, {"reveal": "strengths"}, "max_reveal: ranking at most"),
        ({"protocols": ["he"]}, {}, "protocols: he only"),
        ({"protocols": []}, {}, "protocols: none only"),
        ({"results_to": ["sources"]}, {}, "results_to: sources only"),
        ({"results_to": ["target"]}, {"results": {"sources": "ranking"}}, "results_to: target only"),
        ({"loss": 1}, {}, "loss: 1 at most, but the plan has privacy.loss: 2"),
        ({}, {"privacy": {"loss": 2.5}}, "loss: 2 at most, but the plan has privacy.loss: 2.5"),
        ({}, VALUE, "unit: row"),
        ({"noise": "inputs"}, {}, "noise: inputs, but the plan has noise: results for this party"),
        ({}, {"results": {"precision": "exact"}}, "exact: false"),
        ({}, SHORT, "min_key_bits: 3072 or more"),
    ],
)
def test_a_plan_beyond_one_owners_policy(policy: dict[str, Any], plan: dict[str, Any], rule: str) -> None:
    loaded = load_plan(
        plan_with({"parties.sources.0.policy": policy, "parties.target.policy": dict(AGREE_TO_ALL)}, **plan)
    )
    with pytest.raises(PolicyError) as caught:
        check_policy(loaded, "A")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(START + rule)
    check_policy(loaded, "B")
    check_policy(loaded, "C")


def test_a_plan_within_the_policy() -> None:
    policy = {"max_reveal": "strengths", "protocols": ["mpc"], "loss": 2, "results_to": [], "min_rows": 10}
    plan = load_plan(
        plan_with({"parties.sources.0.policy": policy}, reveal="strengths", results={"target": "nothing"})
    )
    check_policy(plan, "A")
    check_policy_rows(plan, "A", 10)
    check_policy_rows(plan, "B", 30)
    check_policy_rows(plan, "C", 3)
    with pytest.raises(PolicyError, match="min_rows is 30, but there are 29 rows"):
        check_policy_rows(plan, "B", 29)
    with pytest.raises(PolicyError) as caught:
        check_policy_rows(plan, "A", 9)
    assert str(caught.value) == f"{START}min_rows is 10, but there are 9 rows"


def test_every_broken_rule_is_named_and_unknown_parties_are_refused() -> None:
    policy = {"max_reveal": "strengths", "protocols": ["he"], "loss": 1, "results_to": []}
    plan = load_plan(plan_with({"parties.sources.0.policy": policy}))
    with pytest.raises(PolicyError) as caught:
        check_policy(plan, "A")
    rules = [line.removeprefix(START).partition(":")[0] for line in str(caught.value).splitlines()]
    assert rules == ["max_reveal", "protocols", "results_to", "loss"]
    for check in (lambda: check_policy(plan, "X"), lambda: check_policy_rows(plan, "X", 9)):
        with pytest.raises(PlanError, match="no party 'X'"):
            check()


@pytest.mark.parametrize(
    ("policy", "reveal", "counts", "enough"),
    [
        ({"max_reveal": "strengths"}, "strengths", "columns", 2),
        ({"max_reveal": "ranking"}, "strengths", "columns", 2),
        ({"max_reveal": "ranking", "min_columns": 5}, "strengths", "columns", 5),
        ({"max_reveal": "ranking", "min_columns": 5}, "explained", "directions", 5),
        ({}, "strengths", "columns", 1),
    ],
)
def test_a_mean_over_few_columns_needs_consent_to_coefficients(
    policy: dict[str, Any], reveal: str, counts: str, enough: int
) -> None:
    plan = load_plan(plan_with({"reveal": reveal, "parties.target": {"name": "B", "policy": policy}}))
    check_policy_columns(plan, "B", enough, counts)
    check_policy_columns(plan, "C", 1, counts)
    if enough > 1:
        with pytest.raises(PolicyError, match=f"min_columns: {enough} or more {counts}, but there"):
            check_policy_columns(plan, "B", enough - 1, counts)
