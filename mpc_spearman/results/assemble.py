"""A party's numbers, labelled, with what follows from them: its `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.config import Plan
from mpc_spearman.levels.level import Numbers
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.results.dataframes import CANONICAL_ROWS, ESTIMATORS, MATRIX_ROWS, column_table
from mpc_spearman.results.result import Result
from mpc_spearman.statistics import explained, pvalues, result_warnings
from mpc_spearman.statistics.columns import Columns
from mpc_spearman.statistics.intervals import intervals


@dataclass(frozen=True)
class Labels:
    """The names of the matrix's rows and columns, as far as a party knows them.

    Attributes
    ----------
    sources : sequence of (str, str)
        Party and feature of each row.
    target : sequence of str
    """

    sources: Sequence[tuple[str, str]]
    target: Sequence[str]

    @classmethod
    def of(cls, shapes: Shapes, sources: Sequence[str], target: Sequence[str]) -> Labels:
        """Say whose the sources' features are: their rows are stacked in roster order."""
        owners = [party.name for party, features in shapes.features.items() for _ in range(features)]
        return cls(list(zip(owners, sources, strict=True)) if sources else [], target)


def _explained(plan: Plan, me: Party, numbers: Numbers, target: Sequence[str]) -> pd.DataFrame:
    """Label what each source's columns explain of each of the target's features."""
    r2, s = numbers["explained"], numbers["explained_noise"]
    index = pd.MultiIndex.from_product([_sources(plan, me), list(target)], names=MATRIX_ROWS)
    k = np.repeat(numbers["kept"], len(target))
    return pd.DataFrame({"r2": r2.ravel(), "noise": s.ravel(), "k": k}, index=index)


def _canonical(plan: Plan, me: Party, numbers: Numbers) -> pd.DataFrame:
    """Label the canonical correlations of each source's columns with the target's."""
    found = numbers["canonical"]
    count = range(1, found.shape[1] + 1)
    return pd.DataFrame(
        {
            "correlation": found.ravel(),
            "noise": np.repeat(numbers["canonical_noise"], len(count)),
            "k_source": np.repeat(numbers["kept"], len(count)),
            "k_target": int(numbers["kept_target"][0]),
        },
        index=pd.MultiIndex.from_product([_sources(plan, me), count], names=CANONICAL_ROWS),
    )


def _sources(plan: Plan, me: Party) -> list[str]:
    return [me.name] if me.role is Role.SOURCE else [source.name for source in plan.parties.sources]


def assemble(
    plan: Plan,
    me: Party,
    n: int,
    numbers: Numbers,
    labels: Labels,
    warnings: Sequence[str],
    **about: Any,
) -> Result:
    """Label a party's numbers, and compute what follows from those that it has.

    Those are p-values and confidence intervals, which so tell it nothing more.

    Parameters
    ----------
    n : int
        Aligned rows.
    numbers : Numbers
        As far as this party has them.
    warnings : sequence of str
    **about
        The other arguments of `Result`: what the run cost, and what else is known of it.
    """
    columns = pd.Index(list(labels.target), dtype="object")
    rows = pd.MultiIndex.from_tuples(list(labels.sources), names=MATRIX_ROWS)

    def matrix(values: NDArray[np.float64]) -> pd.DataFrame:
        return pd.DataFrame(values, index=rows, columns=columns)

    def series(values: NDArray[Any] | None, name: str) -> pd.Series[Any] | None:
        return None if values is None else pd.Series(values, index=columns, name=name)

    matrices: dict[str, Any] = {}
    if "coefficients" in numbers:
        source = Columns(numbers["source_ties"], numbers["source_skewness"])
        target = Columns(numbers["target_ties"], numbers["target_skewness"])
        names = [(plan.parties.target.name, name) for name in labels.target]
        sides = [column_table(labels.sources, source), column_table(names, target)]
        matrices = {"coefficients": matrix(numbers["coefficients"]), "columns": pd.concat(sides)}
        pairs: dict[str, Any] = {
            "n": n,
            "source": source.rows,
            "target": target,
            "estimator": plan.estimator,
            "noise": numbers.get("noise", 0.0),
        }
        if "noise" in numbers:
            matrices["noise"] = matrix(numbers["noise"])
        rho = numbers["coefficients"]
        low, _ = intervals(rho, confidence=plan.confidence, **pairs)
        testable = pvalues.testable(source.rows, target, plan.estimator) & ~np.isnan(rho)
        warnings = [
            *warnings,
            *result_warnings.pvalues(**pairs),
            *result_warnings.intervals(low, testable, n),
            *result_warnings.noise("coefficients", np.asarray(numbers.get("noise", 0.0)), 1 / np.sqrt(n - 1)),
        ]
    ranking = None
    if "explained" in numbers:
        told = _explained(plan, me, numbers, labels.target)
        positions = explained.positions(numbers["explained"], numbers["kept"], n, plan.order)
        numbers, matrices = {**numbers, "positions": positions}, {"explained": told}
        warnings = [
            *warnings,
            *result_warnings.explained(
                explained.spread(numbers["explained_noise"], numbers["kept"][:, None], n).max(),
                len(numbers["kept"]),
            ),
        ]
    if "canonical" in numbers:
        told = _canonical(plan, me, numbers)
        matrices = {"canonical": told}
        warnings = [*warnings, *result_warnings.joint(len(numbers["kept"]))]
    if "positions" in numbers:
        order = np.argsort(numbers["positions"], kind="stable")  # equals in the table's order
        ranking = pd.DataFrame({"position": numbers["positions"][order], "feature": columns[order].tolist()})
        if "strengths" in numbers:
            ranking["strength"] = numbers["strengths"][order]
    errors = numbers.get("errors")
    if errors is not None and "strengths_noise" in numbers:
        warnings = [*warnings, *result_warnings.noise("strengths", numbers["strengths_noise"], errors)]
        errors = np.hypot(errors, numbers["strengths_noise"])
    both = numbers.get("estimators")
    return Result(
        plan=plan.shared(),
        party=me.name,
        role=me.role.value,
        n=n,
        warnings=warnings,
        **matrices,
        strengths=series(numbers.get("strengths"), "strength"),
        counts=series(numbers.get("counts"), "count"),
        errors=series(errors, "error"),
        ranking=ranking,
        estimators=None if both is None else pd.DataFrame(both, index=columns, columns=ESTIMATORS),
        **about,
    )
