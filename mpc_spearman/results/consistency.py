"""Whether the parts of a result fit each other and its plan, as far as that shows without anyone's tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.results.parts import Parts
from mpc_spearman.statistics import estimators, explained

_TAG = re.compile(r"[0-9a-f]{64}")
#: How far apart the same number may be after two ways to compute it.
_SAME = 1e-9


class Contradiction(ValueError):
    """Parts of a result do not go together.

    Attributes
    ----------
    part : str
        The part that does not fit, such as ``"pvalues"``.
    """

    def __init__(self, part: str, text: str) -> None:
        super().__init__(text)
        self.part = part


def check(result: Parts) -> None:
    """Hold every part of a result against the others.

    Raises
    ------
    Contradiction
        Naming the part that does not fit.
    """
    _about(result)
    held = set(result.holds)
    if not held >= {"strengths"} and held & {"coefficients", "counts", "errors", "estimators"}:
        raise Contradiction("strengths", "there are no strengths, but what takes them")
    if held & {"coefficients", "columns"}:
        _matrices(result)
    if "strengths" in held:
        _strengths(result)
    if "explained" in held:
        _explained(result)
    if "ranking" in held:
        _ranking(result)


def _about(result: Parts) -> None:
    parties = result.plan["parties"]
    names = {
        "coordinator": [parties["coordinator"]["name"]],
        "target": [parties["target"]["name"]],
        "source": [source["name"] for source in parties["sources"]],
    }
    if result.party not in names.get(result.role, ()):
        raise Contradiction("party", f"{result.party} is not the {result.role} of its plan")
    if result.n < 3:
        raise Contradiction("n", f"a run has 3 rows or more, not {result.n}")
    if result.alignment is not None and not _TAG.fullmatch(result.alignment):
        raise Contradiction("alignment", "the tag of the row ids is not 64 hexadecimal digits")
    if not set(result.offered) <= {name for some in names.values() for name in some} or any(
        rows < result.n for rows in result.offered.values()
    ):
        raise Contradiction(
            "offered", "a party that is not in the plan, or with too few rows, has rows in common"
        )
    cost = result.cost
    if not set(cost["party"]) <= {name for some in names.values() for name in some}:
        raise Contradiction("cost", "a cost is of a party that is not in the plan")
    if (cost.iloc[:, 2:] < 0).to_numpy().any():
        raise Contradiction("cost", "a cost is below 0")
    for part in result.holds:
        if not result.allowed(part):
            raise Contradiction(part, f"the plan in it does not give {part} to this party")


def _matrices(result: Parts) -> None:
    """Hold the matrix against the plan, and what goes with it against the matrix."""
    if not {"coefficients", "columns"} <= set(result.holds):
        raise Contradiction("columns", "coefficients and what is known of their columns come together")
    matrix = result.coefficients
    if list(matrix.columns) != list(result.strengths.index):
        raise Contradiction("coefficients", "the coefficients and the strengths are of other target features")
    sources = [source["name"] for source in result.plan["parties"]["sources"]]
    owners = {result.party} if result.role == "source" else set(sources)
    if not matrix.index.is_unique or not set(matrix.index.get_level_values("party")) <= owners:
        raise Contradiction("coefficients", "the coefficients' rows are not those of this party's plan")
    target = result.plan["parties"]["target"]["name"]
    if list(result.columns.index) != [*matrix.index, *((target, name) for name in matrix.columns)]:
        raise Contradiction("columns", "other columns are described than the coefficients are of")
    noise = result.noise if "noise" in result.holds else matrix.notna() * 0.0
    if not noise.index.equals(matrix.index) or not noise.columns.equals(matrix.columns):
        raise Contradiction("noise", "the noise has other rows or columns than the coefficients")
    rho, deviations = matrix.to_numpy(), noise.to_numpy()
    if not (deviations >= 0).all():
        raise Contradiction("noise", "a standard deviation of noise is negative or undefined")
    if (np.abs(rho[deviations == 0]) > 1).any():
        raise Contradiction("coefficients", "a coefficient without noise lies outside -1 to 1")


def _explained(result: Parts) -> None:
    found, sources = result.explained, [source["name"] for source in result.plan["parties"]["sources"]]
    if list(found.index.unique(0)) != ([result.party] if result.role == "source" else sources):
        raise Contradiction("explained", "what is explained is by others than the sources")
    if not ((found["k"] >= 1) & (found["k"] < result.n - 2)).all() or not (found["noise"] >= 0).all():
        raise Contradiction("explained", "a number of directions or of noise that cannot be")
    if "ranking" not in result.holds or set(result.ranking["feature"]) != set(found.index.unique(1)):
        raise Contradiction("ranking", "the ranking is of other features than what is explained")
    r2 = found["r2"].unstack()[result.ranking["feature"]].loc[found.index.unique(0)].to_numpy()
    k = found["k"].to_numpy().reshape(r2.shape)[:, 0]
    positions = explained.positions(r2, k, result.n, result.plan["order"])
    if positions.tolist() != result.ranking["position"].tolist():
        raise Contradiction("ranking", "the ranking is not in the order of what is explained")


def _strengths(result: Parts) -> None:
    mu, held = result.strengths, result.holds
    if result.plan["results"]["precision"] == "exact" and (mu.abs() > 1).any():
        raise Contradiction("strengths", "a strength lies outside -1 to 1")
    if "ranking" not in held or "strength" not in result.ranking:
        raise Contradiction("ranking", "strengths need a ranking with strengths")
    if "counts" in held:
        counts = result.counts
        if not counts.index.equals(mu.index) or (counts < 0).any():
            raise Contradiction("counts", "the counts are not those of the strengths")
        if (mu.isna() != (counts == 0)).any():
            raise Contradiction("counts", "a strength over nothing, or none over something")
    if "errors" in held and (not result.errors.index.equals(mu.index) or not (result.errors >= 0).all()):
        raise Contradiction("errors", "the standard errors are not those of the strengths")
    if "estimators" in held:
        both = result.estimators
        if not both.index.equals(mu.index) or not _equal(both[result.plan["estimator"]], mu):
            raise Contradiction("estimators", "the strengths under both estimators are not those of this run")
    alone = result.role == "source" and len(result.plan["parties"]["sources"]) > 1
    if "coefficients" in held and not alone:
        means, counted = estimators.strengths(result.coefficients.to_numpy(), result.plan["strength"])
        if not _equal(mu, means):
            raise Contradiction("strengths", "the strengths are not the means of the coefficients")
        if "counts" in held and result.counts.tolist() != counted.tolist():
            raise Contradiction("counts", "the counts are not those of the coefficients")


def _ranking(result: Parts) -> None:
    ranking = result.ranking
    scored = "strength" in ranking
    if scored != ("strengths" in result.holds):
        raise Contradiction("ranking", "the ranking has strengths and the result has none, or the reverse")
    if not scored:
        return
    mu, order = result.strengths, result.plan["order"]
    if sorted(ranking["feature"]) != sorted(mu.index):
        raise Contradiction("ranking", "the ranking is of other features than the strengths")
    published = ranking.set_index("feature")["strength"].loc[list(mu.index)].to_numpy()
    if not _equal(mu, published):
        raise Contradiction("ranking", "the ranking and the strengths differ")
    if list(ranking["feature"]) != [mu.index[q] for q in estimators.order(published, order)]:
        raise Contradiction("ranking", "the ranking is not in the order of its strengths")
    if ranking["position"].tolist() != np.sort(estimators.positions(published, order)).tolist():
        raise Contradiction("ranking", "the ranking's positions are not those of its strengths")


def _equal(one: pd.Series[Any], other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=_SAME, equal_nan=True))
