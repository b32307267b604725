"""The tables of a result: one form in memory, whoever made them.

So a loaded result equals a saved one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.statistics import explained
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.wire import meter

#: What names the rows of matrices, and of the intervals, which have a row for either bound.
MATRIX_ROWS = ["party", "feature"]
INTERVAL_ROWS = [*MATRIX_ROWS, "bound"]
BOUNDS = ("low", "high")
#: Columns of ``ranking.csv``, and of the strengths in ``estimators.csv``.
RANKING = ["position", "feature", "strength"]
#: What ``columns.csv`` says of each column: `mpc_spearman.statistics.columns`.
TIES = ["ties", "skewness"]
ESTIMATORS = ["tie_corrected", "paper"]
#: The first columns of ``explained.csv``: what is told; others follow from it.
TOLD = ["r2", "noise", "k"]
#: The same of ``canonical.csv``, whose rows are numbered for each source.
CANONICAL_ROWS = ["party", "number"]
CANONICAL_TOLD = ["correlation", "noise", "k_source", "k_target"]

#: Columns of `Result.cost` with their types; what they count is said at `mpc_spearman.wire.meter.PhaseCost`.
COST_COLUMNS: dict[str, type] = {
    name: str if name in ("party", "phase") else float if name.endswith("seconds") else int
    for name in meter.COLUMNS
}


def plain_matrix(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy a matrix with rows (party, feature); `ValueError` if it is none."""
    if frame.index.nlevels != 2 or not (frame.index.is_unique and frame.columns.is_unique):
        raise ValueError("a matrix has distinct rows (party, feature) and distinct columns")
    return pd.DataFrame(
        frame.to_numpy(dtype=np.float64, copy=True),
        index=pd.MultiIndex.from_tuples([tuple(map(str, key)) for key in frame.index], names=MATRIX_ROWS),
        columns=[str(name) for name in frame.columns],
    )


def interval_matrix(
    matrix: pd.DataFrame, low: NDArray[np.float64], high: NDArray[np.float64]
) -> pd.DataFrame:
    """Put the bounds of a matrix's intervals into one with two rows for each of its rows."""
    ends = np.stack([low, high], axis=1).reshape(-1, matrix.shape[1])
    index = pd.MultiIndex.from_tuples(
        [(*row, bound) for row in matrix.index for bound in BOUNDS], names=INTERVAL_ROWS
    )
    return pd.DataFrame(ends, index=index, columns=matrix.columns)


def plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy what is known of columns' ties; `ValueError` if it is none of that."""
    if list(frame.columns) != TIES or frame.index.nlevels != len(MATRIX_ROWS) or not frame.index.is_unique:
        raise ValueError(f"columns have {', '.join(TIES)}, for each party and feature once")
    index = pd.MultiIndex.from_tuples([tuple(map(str, key)) for key in frame.index], names=MATRIX_ROWS)
    try:
        words = [Ties.named(word).word for word in frame["ties"]]
    except KeyError as error:
        raise ValueError(f"{error} does not say how a column is tied") from None
    return pd.DataFrame({"ties": words, "skewness": frame["skewness"].to_numpy(np.float64)}, index=index)


def known_columns(frame: pd.DataFrame) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in frame["ties"]], dtype=np.int64)
    return Columns(classes, frame["skewness"].to_numpy())


def column_table(names: Sequence[tuple[str, str]], columns: Columns) -> pd.DataFrame:
    """Label what is known of one side's columns with their parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=MATRIX_ROWS)
    words = [Ties(value).word for value in columns.ties]
    return pd.DataFrame({"ties": words, "skewness": columns.skewness}, index=index)


def plain_series(series: pd.Series[Any], dtype: type, name: str) -> pd.Series[Any]:
    """Copy a series by feature; `ValueError` if it is none."""
    if not series.index.is_unique:
        raise ValueError(f"the {name} index repeats a feature")
    return pd.Series(
        series.to_numpy(dtype=dtype, copy=True), index=[str(key) for key in series.index], name=name
    )


def plain_ranking(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy a ranking; `ValueError` if it is none."""
    features = [str(name) for name in frame["feature"]]
    positions = [int(position) for position in frame["position"]]
    # Each has its place in the list as its position, or shares the position of the one before.
    pairs = enumerate(pairwise([1, *positions]), start=1)
    shared = all(position in (place, before) for place, (before, position) in pairs)
    if not shared or len(set(features)) != len(features):
        raise ValueError("a ranking has positions 1, 2, …, which equals share, and each feature once")
    columns: dict[str, Any] = {"position": positions, "feature": features}
    if "strength" in frame:
        columns["strength"] = frame["strength"].to_numpy(dtype=np.float64, copy=True)
    return pd.DataFrame(columns)


def plain_estimators(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy the strengths under both estimators; `ValueError` if it is none."""
    if list(frame.columns) != ESTIMATORS or not frame.index.is_unique:
        raise ValueError(f"the estimators are {', '.join(ESTIMATORS)}, for each feature once")
    index = [str(name) for name in frame.index]
    return pd.DataFrame(frame.to_numpy(dtype=np.float64, copy=True), index=index, columns=ESTIMATORS)


def plain_explained(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy what columns explain; `ValueError` if it is none of that."""
    if list(frame.columns) != TOLD or frame.index.nlevels != len(MATRIX_ROWS) or not frame.index.is_unique:
        raise ValueError(f"what is explained has {', '.join(TOLD)}, for each party and feature once")
    index = pd.MultiIndex.from_tuples([tuple(map(str, key)) for key in frame.index], names=MATRIX_ROWS)
    plain = pd.DataFrame(frame.to_numpy(np.float64, copy=True), index=index, columns=TOLD)
    return plain.astype({"k": np.int64})


def concluded(told: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add what follows: predictive R², p and q."""
    r2, s, k = told["r2"].to_numpy(), told["noise"].to_numpy(), told["k"].to_numpy()
    p = explained.pvalues(r2, s, k, n)
    return told.assign(predictive=explained.predictive(r2, k, n), p=p, q=qvalues(p))


def plain_canonical(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy canonical correlations; `ValueError` if they are none."""
    if list(frame.columns) != CANONICAL_TOLD or frame.index.nlevels != 2 or not frame.index.is_unique:
        raise ValueError(
            f"canonical correlations have {', '.join(CANONICAL_TOLD)}, for each party and number once"
        )
    index = pd.MultiIndex.from_tuples(
        [(str(party), int(at)) for party, at in frame.index], names=CANONICAL_ROWS
    )
    plain = pd.DataFrame(frame.to_numpy(np.float64, copy=True), index=index, columns=CANONICAL_TOLD)
    return plain.astype({"k_source": np.int64, "k_target": np.int64})


def concluded_canonical(told: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add what follows: what chance gives, and of each source Pillai's trace and its p-value."""
    s, k, of_target = (told[name].to_numpy() for name in CANONICAL_TOLD[1:])
    squares = np.square(told["correlation"]).groupby(level="party").transform("sum").to_numpy()
    trace = np.where(told["correlation"].isna().groupby(level="party").transform("all"), np.nan, squares)
    trace = trace - k * of_target * np.square(s)
    p = explained.pillai_pvalues(trace, s, k, of_target, n)
    return told.assign(chance=explained.edge(s, k, of_target, n), trace=trace, p=p)


def plain_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy a cost table; `ValueError` if it is none."""
    if list(frame.columns) != list(COST_COLUMNS):
        raise ValueError(f"cost columns are {', '.join(COST_COLUMNS)}")
    plain = pd.DataFrame({name: [kind(cell) for cell in frame[name]] for name, kind in COST_COLUMNS.items()})
    if plain[["seconds", "wait_seconds"]].isna().to_numpy().any():
        raise ValueError("a cost has no seconds")
    return plain


#: How each part of a result is copied.
PLAIN: dict[str, Callable[[Any], Any]] = {
    "coefficients": plain_matrix,
    "columns": plain_columns,
    "noise": plain_matrix,
    "strengths": partial(plain_series, dtype=np.float64, name="strength"),
    "counts": partial(plain_series, dtype=np.int64, name="count"),
    "errors": partial(plain_series, dtype=np.float64, name="error"),
    "ranking": plain_ranking,
    "estimators": plain_estimators,
    "explained": plain_explained,
    "canonical": plain_canonical,
}
