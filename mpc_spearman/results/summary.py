"""What a result says, in sentences and lines that the page and the terminal share.

Names are other parties' text: what is returned here is printable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpc_spearman.results import charts
from mpc_spearman.results.charts import number
from mpc_spearman.results.parts import Parts
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.units import printable

STRENGTHS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}


@dataclass(frozen=True)
class Line:
    """One feature of the ranking; NaN and None for what is undefined or not known."""

    position: int
    feature: str
    strength: float
    other: float  # mean |rho|, or mean rho where the strength is mean |rho|
    count: int | None


def ranking_lines(result: Parts) -> list[Line]:
    """Join the ranking with what else is known of each feature; empty if the ranking was not revealed."""
    ranking = getattr(result, "ranking", None)
    if ranking is None:
        return []
    matrix, counts = getattr(result, "coefficients", None), getattr(result, "counts", None)
    other: Mapping[Any, float] = {}
    if matrix is not None and not own_rows(result):
        compared = matrix if result.plan.get("strength") == "mean_abs" else matrix.abs()
        other = compared.mean().to_dict()
    strengths = ranking["strength"] if "strength" in ranking else [math.nan] * len(ranking)
    return [
        Line(
            int(position),
            printable(feature),
            float(strength),
            other.get(feature, math.nan),
            None if counts is None else int(counts[feature]),
        )
        for position, feature, strength in zip(
            ranking["position"], ranking["feature"], strengths, strict=True
        )
    ]


def own_rows(result: Parts) -> bool:
    """Tell whether a matrix in this copy has one source's rows only, while strengths are over several's."""
    return result.role == "source" and len(result.plan["parties"]["sources"]) > 1


def strongest(lines: Sequence[Line]) -> Line | None:
    """Return the feature of the largest mean |rho|, where another ranks first: signs decide the order."""
    known = [line for line in lines if not math.isnan(line.other)]
    best = max(known, key=lambda line: line.other, default=None)
    return None if best is None or best.position == lines[0].position else best


def why_undefined(lines: Sequence[Line]) -> str:
    """Say why a feature of the ranking has no strength."""
    if all(math.isnan(line.strength) for line in lines):
        return "it, or every source feature, is constant: no rank correlation"
    return "a constant column has no rank correlation"


def headline(result: Parts) -> str:
    """Say in one sentence what came out."""
    lines = ranking_lines(result)
    if not lines:
        return f"This copy of {printable(result.party)} ({result.role}) holds no ranking"
    first, m = lines[0], len(lines)
    name = charts.shorten(first.feature, 60)
    place = f"{name} ranks first of {m} features" if m > 1 else f"{name} is the only feature"
    if "strength" not in result.ranking:
        together = sum(line.position == 1 for line in lines)
        return place if together == 1 else f"{together} of {m} features rank first, in no order"
    if math.isnan(first.strength):
        return (
            f"{place}, but no strength is defined"
            if m == 1
            else f"None of the {m} features has a defined strength"
        )
    level = sum(line.strength == first.strength for line in lines) - 1
    with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
    under = " by the paper's eq. 2" if result.plan["estimator"] == "paper" else ""
    return f"{place}, with strength {number(first.strength)}{under}{with_it}"


def eq2(result: Parts) -> str | None:
    """Say what the paper's eq. 2 makes of this run's ties, where this copy knows and it matters."""
    if result.withheld("estimators") is not None:
        return None
    both = result.estimators
    corrected, paper = both.to_numpy().T
    sentences = result_warnings.eq2(
        [str(name) for name in both.index], corrected, paper, result.plan["order"]
    )
    return printable(sentences[0]) if sentences else None


def both_estimators(result: Parts) -> list[tuple[str, float, int, float, int]]:
    """Feature, then strength and position under either estimator, in ranking order; empty if unknown."""
    if eq2(result) is None:
        return []
    features = list(result.estimators.index)
    corrected, paper = result.estimators.to_numpy().T
    true, wrong = (estimators.order(mu, result.plan["order"]) for mu in (corrected, paper))
    return [
        (printable(features[q]), corrected[q], true.index(q) + 1, paper[q], wrong.index(q) + 1)
        for q in (wrong if result.plan["estimator"] == "paper" else true)
    ]


def rows(result: Parts) -> str:
    """Say how many rows there were, and of how many, as far as this copy knows."""
    of = ", ".join(f"{printable(name)} {rows:,}" for name, rows in result.offered.items())
    return f"{result.n:,}" + (f", common to all parties (of {of})" if of else "")


def precision(result: Parts) -> str:
    """Say how exact the numbers of this copy are."""
    if result.plan["reveal"] == "ranking":
        return "an order; how close strengths may be is among the warnings"
    if result.plan["results"]["precision"] == "exact":
        return "exact"
    if not result.precision:
        order = result.withheld("ranking") is None
        return "the order of strengths as they are published" if order else "nothing was published"
    steps = ", ".join(f"{part} in steps of {step:g}" for part, step in result.precision.items())
    return f"published {steps}" + (
        "; this copy rounds its ranking only" if result.role == "coordinator" else ""
    )
