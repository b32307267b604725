"""The levels of ``reveal``, one module each: what parties contribute, and C opens, computes and passes on.

`level` is the contract. To add a level, write a module with a `Level`, both of the level's name, and give
that name its place in :mod:`mpc_spearman.config.scale`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mpc_spearman.config import Plan
from mpc_spearman.config.scale import PLACES
from mpc_spearman.findings.findings import Findings
from mpc_spearman.levels.level import Level

#: All levels by name: first those in one order, the most private at its head.
LEVELS: dict[str, type[Level]] = {
    name: getattr(import_module(f"mpc_spearman.levels.{name}"), name.capitalize()) for name in PLACES
}


def level_of(plan: Plan) -> Level:
    """Return the level of a plan."""
    return LEVELS[plan.reveal](plan)


def findings_of(plan: Mapping[str, Any], role: str) -> type[Findings]:
    """Return what the copy of a role holds and says, under a shared plan."""
    granted = (
        plan["reveal"]
        if role == "coordinator"
        else plan["results"]["target" if role == "target" else "sources"]
    )
    if plan.get("opened_to") == "target" and role != "target":
        granted = "nothing"
    return Findings if granted == "nothing" else LEVELS[granted].findings
