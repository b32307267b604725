"""From a party's numbers to its :class:`mpc_spearman.results.result.Result`: names on rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mpc_spearman.protocols.conclude import Conclusion
from mpc_spearman.protocols.steps import Run
from mpc_spearman.results.result import Result


def result(
    run: Run,
    n: int,
    cost: pd.DataFrame,
    answer: Conclusion,
    source_names: Sequence[tuple[str, str]],
    target_names: Sequence[str],
    warnings: Sequence[str],
) -> Result:
    """Label a party's numbers.

    Parameters
    ----------
    run : Run
    n : int
    cost : DataFrame
    answer : Conclusion
        As far as this party has it.
    source_names : sequence of (str, str)
        Party and feature of each row.
    target_names : sequence of str
        Both are empty where this party does not know them, and has nothing that they would label.
    warnings : sequence of str
    """
    columns = pd.Index(list(target_names), dtype="object")
    rows = pd.MultiIndex.from_tuples(list(source_names), names=["party", "feature"])

    def matrix(values: Any) -> pd.DataFrame | None:
        return None if values is None else pd.DataFrame(values, index=rows, columns=columns)

    def series(values: Any, name: str) -> Any:
        return None if values is None else pd.Series(values, index=columns, name=name)

    ranking = None
    if answer.order is not None:
        ranking = pd.DataFrame(
            {"position": range(1, len(columns) + 1), "feature": columns[answer.order].tolist()}
        )
        if answer.strengths is not None:
            ranking["strength"] = answer.strengths[answer.order]
    return Result(
        plan=run.plan.shared(),
        party=run.roster.me.name,
        role=run.roster.me.role.value,
        n=n,
        alignment=run.alignment,
        warnings=warnings,
        cost=cost,
        coefficients=matrix(answer.coefficients),
        pvalues=matrix(answer.pvalues),
        strengths=series(answer.strengths, "strength"),
        counts=series(answer.counts, "count"),
        ranking=ranking,
        estimators=None
        if answer.both is None
        else pd.DataFrame(answer.both, index=columns, columns=["tie_corrected", "paper"]),
    )
