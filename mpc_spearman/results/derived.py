"""What follows from a party's numbers, computed once, where its result is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.statistics import explained
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pvalues import pvalues, qvalues


def column_table(names: Sequence[tuple[str, str]], columns: Columns) -> pd.DataFrame:
    """Label what is known of one side's columns with their parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=["party", "feature"])
    words = [Ties(value).word for value in columns.ties]
    return pd.DataFrame({"ties": words, "skewness": columns.skewness}, index=index)


def known_columns(table: pd.DataFrame) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
    return Columns(classes, table["skewness"].to_numpy())


def evidence(
    matrix: pd.DataFrame, columns: pd.DataFrame, noise: pd.DataFrame | None, n: int, estimator: str
) -> dict[str, Any]:
    """Gather what p-values and intervals are made from, by the names of their arguments."""
    return {
        "n": n,
        "source": known_columns(columns[: len(matrix)]).rows,
        "target": known_columns(columns[len(matrix) :]),
        "estimator": estimator,
        "noise": 0.0 if noise is None else noise.to_numpy(),
    }


def inferences(matrix: pd.DataFrame, pairs: dict[str, Any], confidence: float) -> dict[str, pd.DataFrame]:
    """Compute p-values, intervals and q-values of coefficients; `pairs` is from `evidence`."""
    rho = matrix.to_numpy()
    p = pvalues(rho, **pairs)
    ends = np.stack(intervals(rho, confidence=confidence, **pairs), axis=1).reshape(-1, matrix.shape[1])
    bounds = pd.MultiIndex.from_tuples([(*row, bound) for row in matrix.index for bound in ("low", "high")])
    return {
        "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
        "intervals": pd.DataFrame(ends, bounds, matrix.columns),
        "qvalues": pd.DataFrame(qvalues(p), matrix.index, matrix.columns),
    }


def concluded(told: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add to what is explained what follows: predictive R², p and q."""
    r2, s, k, dispersion = (told[name].to_numpy() for name in ("r2", "noise", "k", "dispersion"))
    p = explained.pvalues(r2, s, k, n, dispersion)
    return told.assign(predictive=explained.predictive(r2, k, n), p=p, q=qvalues(p))


def concluded_canonical(told: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add to canonical correlations what chance gives, and of each source Pillai's trace and its p-value."""
    s, k, of_target = (told[name].to_numpy() for name in ("noise", "k_source", "k_target"))
    squares = np.square(told["correlation"]).groupby(level="party").transform("sum").to_numpy()
    trace = np.where(told["correlation"].isna().groupby(level="party").transform("all"), np.nan, squares)
    trace = trace - k * of_target * np.square(s)
    p = explained.pillai_pvalues(trace, s, k, of_target, n, told["dispersion"].to_numpy())
    return told.assign(chance=explained.edge(s, k, of_target, n), trace=trace, p=p)
