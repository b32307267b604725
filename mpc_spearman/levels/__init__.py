"""The levels of ``reveal``, one module each: what parties contribute, and C opens, computes and passes on.

`level` is the contract. To add a level, write a module with a `Level`, both of the level's name, and give
that name its place in :mod:`mpc_spearman.config.levels`.
"""

from importlib import import_module

from mpc_spearman.config import Plan
from mpc_spearman.config.levels import PLACES
from mpc_spearman.findings.findings import Findings, RoleName
from mpc_spearman.levels.level import Level
from mpc_spearman.parties import Role

#: All levels by name: first those in one order, the most private at its head.
LEVELS: dict[str, type[Level]] = {
    name: getattr(import_module(f"mpc_spearman.levels.{name}"), name.capitalize()) for name in PLACES
}


def level_of(plan: Plan) -> Level:
    """Return the level of a plan."""
    return LEVELS[plan.reveal](plan)


def findings_of(plan: Plan, role: RoleName) -> type[Findings]:
    """Return the class of a role's copy of the result, under a plan."""
    granted = plan.reveal if role == "coordinator" else plan.terms.granted[Role(role)]
    if plan.opened_to == "target" and role != "target":
        granted = "nothing"
    return Findings if granted == "nothing" else LEVELS[granted].findings
