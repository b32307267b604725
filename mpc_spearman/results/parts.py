"""The parts of a result: what each takes, why a party lacks one, and which go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from mpc_spearman.config import GRANTS, LEVELS, within

RoleName = Literal["coordinator", "target", "source"]
Part = Literal[
    "coefficients",
    "columns",
    "noise",
    "pvalues",
    "intervals",
    "qvalues",
    "strengths",
    "counts",
    "errors",
    "ranking",
    "estimators",
    "explained",
    "canonical",
]

#: The level of ``reveal``, and grant of ``results``, that each part takes, where it is not `coefficients`.
_NEEDS = {
    "strengths": "strengths",
    "counts": "strengths",
    "errors": "strengths",
    "ranking": "ranking",
    "explained": "explained",
    "canonical": "canonical",
}
#: Parts that follow from the coefficients and what goes with them.
DERIVED: tuple[Part, ...] = ("pvalues", "intervals", "qvalues")
IN_WORDS = {
    "columns": "columns' ties",
    "errors": "standard errors of the strengths",
    "pvalues": "p-values",
    "intervals": "confidence intervals",
    "qvalues": "q-values",
    "estimators": "strengths under both estimators",
    "explained": "shares that are explained",
    "canonical": "canonical correlations",
}


def _within(need: str, level: str) -> bool:
    return within(need, level) or (need == "ranking" and level == "explained")


def beyond(part: Part, plan: Mapping[str, Any], role: RoleName) -> str | None:
    """Say what keeps the plan from giving this party a part; None if nothing does."""
    need, level = _NEEDS.get(part, "coefficients"), str(plan.get("reveal"))
    if plan.get("opened_to") == "target" and role != "target":
        return "not in this result: the order was opened to the target alone (opened_to)"
    if level in LEVELS and not _within(need, level):
        return f"not in this result: the run revealed no more than {level!r} (reveal)"
    if role == "coordinator":
        return None
    if part == "estimators":
        return "the coordinator's alone: they reveal all ties"
    key = "target" if role == "target" else "sources"
    grant = str((plan.get("results") or {}).get(key))
    if grant in GRANTS and not _within(need, grant):
        return f"not in this result: the coordinator passes {grant!r} on to the {key} (results.{key})"
    return None


def check(plan: Mapping[str, Any], party: str, role: RoleName, parts: Mapping[str, Any]) -> None:
    """Refuse labels that do not go together, and what the plan does not give this party; `ValueError`."""
    parties = plan["parties"]
    sources = [source["name"] for source in parties["sources"]]
    names = sources if role == "source" else [parties[role]["name"]]
    if party not in names:
        raise ValueError(f"{party} is not the {role} of its plan")
    for part in get_args(Part):
        if part in parts and beyond(part, plan, role) is not None:
            raise ValueError(f"the plan in it does not give {part} to this party")
    for part in parts.keys() & {"explained", "canonical"}:
        if list(parts[part].index.unique(0)) != ([party] if role == "source" else sources):
            raise ValueError(f"what is {part} is of others than the sources")
    if "explained" in parts:
        found = parts["explained"].index
        if "ranking" not in parts or set(parts["ranking"]["feature"]) != set(found.unique(1)):
            raise ValueError("the ranking is of other features than what is explained")
    if "strengths" not in parts:
        if parts.keys() - {"ranking", "explained", "canonical"} or "strength" in parts.get("ranking", ()):
            raise ValueError("there are no strengths, but parts that need them")
        return
    features = parts["strengths"].index
    for name in parts.keys() & {"counts", "errors", "estimators"}:
        if not parts[name].index.equals(features):
            raise ValueError(f"the {name} are not those of the strengths")
    ranking = parts.get("ranking", {})
    if "strength" not in ranking or sorted(ranking["feature"]) != sorted(features):
        raise ValueError("strengths need a ranking with strengths, of the same features")
    if ("coefficients" in parts) != ("columns" in parts):
        raise ValueError("there are coefficients without a description of their columns, or the reverse")
    if "coefficients" in parts:
        matrix, target = parts["coefficients"], parties["target"]["name"]
        if not set(matrix.index.get_level_values("party")) <= set(sources):
            raise ValueError("the coefficients' rows are not those of this plan's sources")
        if not matrix.columns.equals(features):
            raise ValueError("the coefficients and the strengths have different target features")
        if list(parts["columns"].index) != [*matrix.index, *((target, name) for name in features)]:
            raise ValueError("the columns described are not those of the coefficients")
        noise = parts.get("noise", matrix)
        if not (noise.index.equals(matrix.index) and noise.columns.equals(features)):
            raise ValueError("the noise has other rows or columns than the coefficients")
