"""The tables of a result: one form in memory, whoever made them, and how they are read back from disk.

So a loaded result equals a saved one.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.results import run_directory
from mpc_spearman.wire import meter

#: Columns of ``ranking.csv``, and of the strengths in ``estimators.csv``.
RANKING = ["position", "feature", "strength"]
ESTIMATORS = ["tie_corrected", "paper"]

#: Columns of `Result.cost` with their types; what they count is said at `mpc_spearman.wire.meter.PhaseCost`.
COST_COLUMNS: dict[str, type] = {
    name: str if name in ("party", "phase") else float if name.endswith("seconds") else int
    for name in meter.COLUMNS
}


# --- in memory ------------------------------------------------------------------------------------


def plain_matrix(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy a matrix with rows (party, feature) and distinct columns; `ValueError` if it is none."""
    if frame.index.nlevels != 2 or not frame.columns.is_unique:
        raise ValueError("a matrix has rows (party, feature) and distinct columns")
    index = pd.MultiIndex.from_tuples([(str(p), str(f)) for p, f in frame.index], names=["party", "feature"])
    return pd.DataFrame(
        frame.to_numpy(dtype=np.float64, copy=True),
        index=index,
        columns=[str(name) for name in frame.columns],
    )


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


def plain_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy a cost table; `ValueError` if it is none."""
    if list(frame.columns) != list(COST_COLUMNS):
        raise ValueError(f"cost columns are {', '.join(COST_COLUMNS)}")
    plain = pd.DataFrame({name: [kind(cell) for cell in frame[name]] for name, kind in COST_COLUMNS.items()})
    if plain[["seconds", "wait_seconds"]].isna().to_numpy().any():
        raise ValueError("a cost has no seconds")
    return plain


# --- from disk ------------------------------------------------------------------------------------


def read_matrix(path: Path) -> pd.DataFrame:
    """Read ``matrix.csv`` or ``pvalues.csv``; `OutputError` if it is damaged."""
    header, rows = run_directory.read_csv(path, ["party", "feature"])
    cells = [[run_directory.to_float(path, text) for text in row[2:]] for row in rows]
    index = pd.MultiIndex.from_tuples([(row[0], row[1]) for row in rows])
    return pd.DataFrame(np.array(cells).reshape(len(rows), -1), index=index, columns=header[2:])


def read_ranking(path: Path, strengths: bool) -> pd.DataFrame:
    """Read ``ranking.csv``, with strengths if it has any; `OutputError` if it is damaged."""
    _, rows = run_directory.read_csv(path, RANKING)
    positions = [run_directory.to_int(path, row[0]) for row in rows]
    frame = pd.DataFrame({"position": positions, "feature": [row[1] for row in rows]})
    if strengths:
        frame["strength"] = [run_directory.to_float(path, row[2]) for row in rows]
    return frame


def read_estimators(path: Path) -> pd.DataFrame:
    """Read ``estimators.csv``; `OutputError` if it is damaged."""
    _, rows = run_directory.read_csv(path, ["feature", *ESTIMATORS])
    cells = [[run_directory.to_float(path, text) for text in row[1:]] for row in rows]
    return pd.DataFrame(np.array(cells).reshape(len(rows), 2), [row[0] for row in rows], ESTIMATORS)


def read_cost(path: Path) -> pd.DataFrame:
    """Read ``cost.csv``; `OutputError` if it is damaged."""
    _, rows = run_directory.read_csv(path, list(COST_COLUMNS))
    read = {str: lambda _, text: text, float: run_directory.to_float, int: run_directory.to_int}
    kinds = list(COST_COLUMNS.values())
    cells = [[read[kind](path, text) for kind, text in zip(kinds, row, strict=True)] for row in rows]
    return pd.DataFrame(cells, columns=list(COST_COLUMNS))
