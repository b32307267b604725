"""What a plan measures, in the words of the comparison's tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mpc_spearman.config import AGREE_TO_ALL, HeSettings, Plan, PlanSource, load_plan
from mpc_spearman.errors import PlanError


class Size(NamedTuple):
    """Rows, columns of each source, columns of the target."""

    n: int
    m_A: int
    m_B: int

    def __str__(self) -> str:
        return f"{self.n:,} rows, {self.m_A} × {self.m_B} columns"


@dataclass(frozen=True)
class Variant:
    """One way to compute: a plan on made-up tables, and its name.

    ``scheme`` is one of "MPC", "HE BFV", "HE Paillier literal" (the paper's protocol), "HE Paillier packed"
    and "HE Paillier short" (short randomness), followed by whatever else in the plan changes what is
    computed.
    """

    scheme: str
    plan: Plan

    def __str__(self) -> str:
        return f"{self.scheme}, {self.plan.reveal}, {self.plan.estimator}"


def variants(plans: PlanSource | Iterable[PlanSource]) -> list[Variant]:
    """Return each plan under its name in tables and figures, without tables of its own.

    `PlanError` if there is none, one cannot be run, or two would have the same name in tables.
    """
    if isinstance(plans, (str, Path, Mapping, Plan)):
        plans = [plans]
    variants: dict[str, Variant] = {}
    for source in plans:
        variant = _variant(load_plan(source))
        if str(variant) in variants:
            raise PlanError(
                f"two plans are both {variant}: let them differ in protocol, scheme, reveal or estimator"
            )
        variants[str(variant)] = variant
    if not variants:
        raise PlanError("there is no plan to compare; give at least one")
    return list(variants.values())


def _variant(plan: Plan) -> Variant:
    scheme = _scheme(plan.he) if plan.protocol == "he" else "MPC"
    if plan.top is not None:
        scheme += f", top={plan.top}"
    if plan.opened_to == "target":
        scheme += ", opened_to=target"
    return Variant(scheme, _on_made_up_tables(plan))


def _scheme(he: HeSettings) -> str:
    if he.scheme == "bfv":
        name, usual = "HE BFV", HeSettings(scheme="bfv")
    elif he.form == "literal":
        name, usual = "HE Paillier literal", HeSettings(form="literal")
    elif he.randomness == "short":
        name, usual = "HE Paillier short", HeSettings(randomness="short")
    else:
        name, usual = "HE Paillier packed", HeSettings()
    return ", ".join([name, *(f"{key}={value}" for key, value in he if value != getattr(usual, key))])


def _on_made_up_tables(plan: Plan) -> Plan:
    content = {**plan.shared(), "rows": None}
    content["he"] = {**content["he"], "workers": plan.he.workers}
    parties = content["parties"]
    for owner in (parties["target"], *parties["sources"]):
        owner["policy"] = dict(AGREE_TO_ALL)
    return load_plan(content)
