"""Numbers derived from a party's numbers, computed once, when its result is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.statistics import canonical, explained
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pvalues import pvalues, qvalues


def column_table(names: Sequence[tuple[str, str]], *sides: Columns) -> pd.DataFrame:
    """Label what is known of columns, of one side or one after the other, with parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=["party", "feature"])
    words = [Ties(value).word for columns in sides for value in columns.ties]
    skewness = np.concatenate([columns.skewness for columns in sides])
    return pd.DataFrame({"ties": words, "skewness": skewness}, index=index)


def known_columns(table: pd.DataFrame) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
    return Columns(classes, table["skewness"].to_numpy())


def evidence(
    matrix: pd.DataFrame, columns: pd.DataFrame, noise: pd.DataFrame | None, n: int, estimator: str
) -> dict[str, Any]:
    """Gather the arguments of p-values and intervals, by name."""
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
    rows = [(*row, bound) for row in matrix.index for bound in ("low", "high")]
    bounds = pd.MultiIndex.from_tuples(rows, names=["party", "feature", "bound"])
    return {
        "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
        "intervals": pd.DataFrame(ends, bounds, matrix.columns),
        "qvalues": pd.DataFrame(qvalues(p), matrix.index, matrix.columns),
    }


#: For each table with a block per source: the numbers in its columns; others are derived.
TOLD: dict[str, dict[str, str]] = {
    "explained": {
        "r2": "explained", "noise": "explained_noise", "k": "kept", "dispersion": "dispersion",
    },
    "canonical": {
        "correlation": "canonical", "noise": "canonical_noise", "k_source": "kept",
        "k_target": "kept_target", "dispersion": "dispersion",
    },
}  # fmt: skip


def told(level: str, numbers: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return a level's numbers by its table's columns, one for each source and row of its block."""
    shape = numbers[level].shape
    found = {column: numbers.get(name, np.ones(1)) for column, name in TOLD[level].items()}
    return {name: np.broadcast_to(each.reshape(len(each), -1), shape) for name, each in found.items()}


def concluded(level: str, table: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add the derived columns to such a table."""
    s, dispersion = table["noise"].to_numpy(), table["dispersion"].to_numpy()
    if level == "explained":  # predictive R², p and q
        r2, k = table["r2"].to_numpy(), table["k"].to_numpy()
        p = explained.pvalues(r2, s, k, n, dispersion)
        return table.assign(predictive=explained.predictive(r2, k, n), p=p, q=qvalues(p))
    # what chance gives, and of each source Pillai's trace and its p-value
    k, of_target = (table[name].to_numpy() for name in ("k_source", "k_target"))
    squares = np.square(table["correlation"]).groupby(level="party").transform("sum").to_numpy()
    nothing = table["correlation"].isna().groupby(level="party").transform("all")
    trace = np.where(nothing, np.nan, squares) - k * of_target * np.square(s)
    p = explained.pillai_pvalues(trace, s, k, of_target, n, dispersion)
    return table.assign(chance=canonical.largest_by_chance(s, k, of_target, n), trace=trace, p=p)
