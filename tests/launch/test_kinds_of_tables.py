"""Raw tables in files of many kinds and in memory: SciPy's answer on their complete rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

from mpc_spearman import Result, run_local
from support.harness import fork_server
from support.plans import mapping
from support.references import SHARED

#: Writes a table in a way of its own; returns what the plan says of it, or the table to hand over.
Write = Callable[[Path, pd.DataFrame], Any]


def in_a_file(
    suffix: str, write: Callable[..., Any], csv: dict[str, str] | None = None, **options: Any
) -> Write:
    """Write by a function of the table, the path and the options."""

    def way(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
        write(frame, path := file.with_suffix(suffix), **options)
        return {"table": str(path), **({"csv": csv} if csv else {})}

    return way


to_csv, to_parquet = (partial(write, index=False) for write in (pd.DataFrame.to_csv, pd.DataFrame.to_parquet))
EUROPEAN = {"decimal": ",", "encoding": "cp1252"}
semicolons = in_a_file(".csv", to_csv, {"delimiter": ";", **EUROPEAN}, sep=";", na_rep="n/a", **EUROPEAN)
tabs = in_a_file(".tsv", to_csv, sep="\t")
compressed = in_a_file(".csv.gz", to_csv)
parquet = in_a_file(".parquet", to_parquet)
feather = in_a_file(".arrow", pd.DataFrame.to_feather)


def folder(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    file.mkdir()
    for part in range(3):
        frame.iloc[part::3].to_parquet(file / f"part-{part}.parquet", index=False)
    return {"table": str(file)}


def in_polars(file: Path, frame: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(frame)


def in_arrow(file: Path, frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame)


def raw(frame: pd.DataFrame, draw: np.random.Generator) -> pd.DataFrame:
    """Take some of the rows, in an order of their own, and leave cells out."""
    kept = frame.iloc[draw.permutation(len(frame))[: int(0.85 * len(frame))]].reset_index(drop=True)
    for name in draw.choice(kept.columns[1:], 2, replace=False):
        kept[name] = kept[name].astype(float).mask(draw.random(len(kept)) < 0.04)
    return kept


def run_on(tables: dict[str, pd.DataFrame], ways: dict[str, Write], folder: Path, **settings: Any) -> Result:
    plan = mapping(*(party for party in tables if party != "B"), alignment="intersect", **settings)
    handed = {}
    for entry in (plan["parties"]["target"], *plan["parties"]["sources"]):
        party = entry["name"]
        said = ways[party](folder / party, tables[party])
        if not isinstance(said, dict):
            handed[party], said = said, {}
        entry |= {"id": tables[party].columns[0], "missing": "drop_rows", **said}
    return run_local(plan, handed, server=fork_server())


def joined(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The features of each, of the complete rows that all have."""
    complete = {party: table.dropna().set_index(table.columns[0]) for party, table in tables.items()}
    common = reduce(lambda one, other: one.intersection(other), (one.index for one in complete.values()))
    return {party: table.loc[common] for party, table in complete.items()}


def check(result: Result, tables: dict[str, pd.DataFrame]) -> None:
    rows = joined(tables)
    target = rows.pop("B")
    sources = pd.concat(rows, axis=1)
    together = spearmanr(pd.concat([sources, target], axis=1).to_numpy()).statistic
    truth = together[: sources.shape[1], sources.shape[1] :]
    assert result.n == len(target)
    assert result.offered == {party: len(table.dropna()) for party, table in tables.items()}
    assert list(result.coefficients.columns) == list(target.columns)
    assert list(result.coefficients.index) == list(sources.columns)
    np.testing.assert_allclose(result.coefficients.to_numpy(), truth, rtol=0, atol=1e-13)


def shared(name: str) -> pd.DataFrame:
    if not SHARED.is_dir():
        pytest.skip("the directory shared/data is not beside the repository")
    return pd.read_csv(SHARED / f"{name}.csv")


@pytest.mark.parametrize(
    ("names", "ways"),
    [
        ({"A": "breast_hetero_guest", "B": "breast_hetero_host"}, {"A": semicolons, "B": parquet}),
        ({"A": "student_hetero_guest", "B": "student_hetero_host"}, {"A": in_polars, "B": feather}),
        ({"A": "motor_hetero_guest", "B": "motor_hetero_host"}, {"A": folder, "B": compressed}),
        (
            {"A": "motor_hetero_host_1", "D": "motor_hetero_host_2", "B": "motor_hetero_guest"},
            {"A": tabs, "D": in_arrow, "B": semicolons},
        ),
    ],
)
def test_raw_versions_of_the_shared_tables(
    names: dict[str, str], ways: dict[str, Write], tmp_path: Path
) -> None:
    draw = np.random.default_rng(11)
    tables = {party: raw(shared(name), draw) for party, name in names.items()}
    check(run_on(tables, ways, tmp_path), tables)
