"""What a result says, in sentences and lines that the page and the terminal share.

Names are other parties' text: what is returned here is printable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mpc_spearman.results import charts, evidence
from mpc_spearman.results.charts import number
from mpc_spearman.results.evidence import Pair
from mpc_spearman.statistics import estimators, explained, reading, result_warnings
from mpc_spearman.statistics.intervals import INTERVAL_ROWS
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result


#: Below such a p-value tables have something in common.
_FOUND = 0.05


@dataclass(frozen=True)
class Share:
    """What one source's columns explain of one feature; `chance` exceeds it once in 20 where nothing does."""

    position: int
    feature: str
    source: str
    r2: float
    predictive: float
    chance: float
    q: float


def shares(result: Result) -> list[Share]:
    """List what is explained of each feature, by the ranking; empty if this copy does not have it."""
    found = getattr(result, "explained", None)
    if found is None:
        return []
    place = dict(zip(result.ranking["feature"], result.ranking["position"], strict=True))
    limits = explained.chance(found["noise"].to_numpy(), found["k"].to_numpy(), result.n)
    lines = [
        Share(place[feature], printable(feature), printable(source), row.r2, row.predictive, limit, row.q)
        for (source, feature), row, limit in zip(found.index, found.itertuples(), limits, strict=True)
    ]
    return sorted(lines, key=lambda line: line.position)


STRENGTHS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}


@dataclass(frozen=True)
class Line:
    """One feature of the ranking; NaN and None for what is undefined or not known."""

    position: int
    feature: str
    strength: float
    other: float  # mean |rho|, or mean rho where the strength is mean |rho|
    count: int | None
    error: float = math.nan  # standard error of the strength
    close: bool = False  # whether that does not tell it apart from the line before


def ranking_lines(result: Result) -> list[Line]:
    """Join the ranking with what else is known of each feature; empty if the ranking was not revealed."""
    ranking = getattr(result, "ranking", None)
    if ranking is None:
        return []
    matrix, counts = getattr(result, "coefficients", None), getattr(result, "counts", None)
    other: Mapping[Any, float] = {}
    if matrix is not None and not own_rows(result):
        compared = matrix if result.plan.get("strength") == "mean_abs" else matrix.abs()
        other = compared.mean().to_dict()
    strengths = np.full(len(ranking), math.nan)
    if "strength" in ranking:
        strengths[:] = ranking["strength"]
    errors = [math.nan] * len(ranking)
    close = [False] * len(ranking)
    # Ties shift eq. 2 by unequal amounts: a standard error around 0 says nothing of its strengths.
    if result.withheld("errors") is None and result.plan["estimator"] != "paper":
        of_each = result.errors[ranking["feature"]].to_numpy()
        close[1:] = reading.unresolved(strengths, of_each).tolist()
        errors = of_each.tolist()
    return [
        Line(
            int(position),
            printable(feature),
            float(strength),
            other.get(feature, math.nan),
            None if counts is None else int(counts[feature]),
            error,
            near and not math.isnan(strength),
        )
        for position, feature, strength, error, near in zip(
            ranking["position"], ranking["feature"], strengths, errors, close, strict=True
        )
    ]


def own_rows(result: Result) -> bool:
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


def headline(result: Result, pairs: Sequence[Sequence[Pair]]) -> str:
    """Say in one sentence what came out: the strongest pair, or, without coefficients, the ranking."""
    best = next(iter(evidence.strongest(pairs, 1)), None)
    if best is None:
        return first(result)
    names = f"{charts.shorten(best.source, 40)} × {charts.shorten(best.target, 40)}"
    count = sum(len(row) for row in pairs)
    which = f"strongest of {count:,} pairs" if count > 1 else "only pair"
    return f"The {which} is {names}, with ρ = {number(best.rho)}"


def in_common(result: Result) -> list[str]:
    """Say of each source whether its columns and the target's have anything in common."""
    found = getattr(result, "canonical", None)
    if found is None:
        return []
    target, said = printable(result.plan["parties"]["target"]["name"]), []
    for source, rows in found.groupby(level="party", sort=False):
        top = rows.iloc[0]
        most = int(min(top["k_source"], top["k_target"]))
        tables = f"the tables of {printable(str(source))} and {target}"
        if math.isnan(top["p"]):
            said.append(f"{tables}: what was opened cannot be canonical correlations")
            continue
        much = "have little in common" if top["p"] > _FOUND else "have something in common"
        said.append(
            f"{tables} {much}: Pillai's trace is {number(max(top['trace'], 0))} of {most} "
            f"(p-value {evidence.chance(top['p'])}), the largest canonical correlation "
            f"{number(top['correlation'])}, where chance gives up to about {number(top['chance'])}"
        )
    return said


def canonical_lines(result: Result) -> list[tuple[str, int, float, float]]:
    """List the canonical correlations: source, number, correlation, and what chance gives."""
    found = getattr(result, "canonical", None)
    if found is None:
        return []
    known = found.dropna(subset="correlation")
    return [
        (printable(str(party)), int(at), float(row.correlation), float(row.chance))
        for (party, at), row in zip(known.index, known.itertuples(), strict=True)
    ]


def first(result: Result) -> str:
    """Say what ranks first, by what criterion, or what tables have in common."""
    if common := in_common(result):
        return "; ".join([common[0][0].upper() + common[0][1:], *common[1:]])
    lines, found = ranking_lines(result), [share for share in shares(result) if share.position == 1]
    if found:
        best = max(found, key=lambda share: share.predictive)
        name = f"{charts.shorten(best.feature, 60)} ranks first of {len(lines)} features"
        if math.isnan(best.r2):
            return f"None of the {len(lines)} features has a defined R²"
        return (
            f"{name}: {best.source} explains {max(best.r2, 0):.0%} of the variance of its ranks, "
            f"{max(best.predictive, 0):.0%} expected of new rows"
        )
    if result.plan["reveal"] == "canonical":
        return str(result.withheld("canonical")).removesuffix(".")
    if not lines:
        return f"This copy of {printable(result.party)} ({result.role}) holds no ranking"
    top, m = lines[0], len(lines)
    name = charts.shorten(top.feature, 60)
    place = f"{name} ranks first of {m} features" if m > 1 else f"{name} is the only feature"
    if "strength" not in result.ranking:
        together = sum(line.position == 1 for line in lines)
        return place if together == 1 else f"{together} of {m} features rank first, in no order"
    if math.isnan(top.strength):
        return (
            f"{place}, but no strength is defined"
            if m == 1
            else f"None of the {m} features has a defined strength"
        )
    level = sum(line.strength == top.strength for line in lines) - 1
    with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
    under = " by the paper's eq. 2" if result.plan["estimator"] == "paper" else ""
    by = "" if m == 1 else f" by {STRENGTHS[result.plan['strength']]}, {result.plan['order']}"
    size = number(top.strength) + ("" if math.isnan(top.error) else f" ± {number(top.error)}")
    return f"{place}{by}, with strength {size}{under}{with_it}"


def resolution(lines: Sequence[Line]) -> str | None:
    """Say what standard errors are and which neighbours they do not tell apart; None where none are known."""
    if not lines or math.isnan(lines[0].error):
        return None
    close = sum(line.close for line in lines)
    return (
        "± is the standard error of a strength whose feature is independent of all source columns. "
        + (
            f"~ marks {close} of {len(lines)} features that it does not tell apart from the one above"
            if close
            else "It tells all neighbours apart"
        )
        + " (by 1.96 standard errors of a difference)."
    )


def by_size(result: Result) -> str | None:
    """Say which feature is the strongest in size, where signs put another first."""
    if result.plan["strength"] != "mean":
        return None
    best = strongest(ranking_lines(result))
    if best is None:
        return None
    return (
        f"The ranking goes by sign, {result.plan['order']}; the strongest in size is "
        f"{best.feature}, at position {best.position}, with a mean |ρ| of {number(best.other, 4)}."
    )


def unseen(result: Result) -> str | None:
    """Say what a mean cannot show, where a copy has nothing else."""
    if {"coefficients", "explained", "canonical"} & set(result.holds) or "ranking" not in result.holds:
        return None
    return (
        "A strength is a mean over all source columns: one strong pair among many weak ones hardly moves it, "
        "and positive and negative ones cancel. Only coefficients show which pairs are strong."
    )


def detectable(result: Result, pairs: Sequence[Sequence[Pair]]) -> str | None:
    """Say which coefficients so many rows can show, where there are any."""
    count = sum(not math.isnan(pair.p) for row in pairs for pair in row)
    if not count or result.n < INTERVAL_ROWS:
        return None
    noise = float(np.median(result.noise)) if "noise" in result.holds else 0.0
    least, over_all = (reading.detectable(result.n, tests, noise) for tests in (1, count))
    several = f", {number(over_all)} in a test of all {count:,} pairs at once" if count > 1 else ""
    with_noise = " and the noise in them" if noise else ""
    return (
        f"{result.n:,} rows{with_noise} show a coefficient of {number(least)} or more in four of five "
        f"samples{several} (5 %)."
    )


def eq2(result: Result) -> str | None:
    """Say what the paper's eq. 2 makes of this run's ties, where the plan asks for it and it matters."""
    if result.plan["estimator"] != "paper" or result.withheld("estimators") is not None:
        return None
    both = result.estimators
    corrected, paper = both.to_numpy().T
    sentences = result_warnings.eq2(
        [str(name) for name in both.index], corrected, paper, result.plan["order"]
    )
    return printable(sentences[0]) if sentences else None


def both_estimators(result: Result) -> list[tuple[str, float, int, float, int]]:
    """Feature, then strength and position under either estimator, in ranking order; empty if unknown."""
    if eq2(result) is None:
        return []
    features = list(result.estimators.index)
    corrected, paper = result.estimators.to_numpy().T
    true, wrong = (estimators.order(mu, result.plan["order"]) for mu in (corrected, paper))
    return [
        (printable(features[q]), corrected[q], true.index(q) + 1, paper[q], wrong.index(q) + 1) for q in wrong
    ]


def rows(result: Result) -> str:
    """Say how many rows there were, and of how many, as far as this copy knows."""
    of = ", ".join(f"{printable(name)} {rows:,}" for name, rows in result.offered.items())
    return f"{result.n:,}" + (f", common to all parties (of {of})" if of else "")


def precision(result: Result) -> str:
    """Say how exact the numbers of this copy are."""
    if result.plan["reveal"] == "ranking":
        return "an order; how close strengths may be is among the warnings"
    if result.plan["results"]["precision"] == "exact":
        return "exact"
    if result.role == "coordinator" and result.withheld("coefficients") is None:
        return "exact in this copy alone; with noise in what is passed on"
    privacy = result.plan["privacy"]
    return f"with noise, for privacy.loss {privacy['loss']:g} and unit {privacy['unit']}"
