"""Raw tables in files of many kinds, in memory and in a database: SciPy's answer on their complete rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
from scipy.stats import spearmanr

from mpc_spearman import Result, run_local
from support.databases import into_sqlite
from support.harness import fork_server
from support.plans import mapping
from support.references import DATA, SHARED

#: Writes a table in a way of its own; returns what the plan says of it, or the table to hand over.
Write = Callable[[Path, pd.DataFrame], Any]


def semicolons(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    frame.to_csv(file.with_suffix(".csv"), index=False, sep=";", decimal=",", na_rep="n/a", encoding="cp1252")
    csv = {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}
    return {"table": str(file.with_suffix(".csv")), "csv": csv}


def tabs(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    frame.to_csv(file.with_suffix(".tsv"), index=False, sep="\t")
    return {"table": str(file.with_suffix(".tsv"))}


def compressed(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    frame.to_csv(file.with_suffix(".csv.gz"), index=False)
    return {"table": str(file.with_suffix(".csv.gz"))}


def parquet(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    frame.to_parquet(file.with_suffix(".parquet"), index=False)
    return {"table": str(file.with_suffix(".parquet"))}


def folder(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    file.mkdir()
    for part in range(3):
        frame.iloc[part::3].to_parquet(file / f"part-{part}.parquet", index=False)
    return {"table": str(file)}


def feather(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame), file.with_suffix(".arrow"))
    return {"table": str(file.with_suffix(".arrow"))}


def in_polars(file: Path, frame: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(frame)


def in_pandas(file: Path, frame: pd.DataFrame) -> pd.DataFrame:
    return frame


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
    ("name", "ways"),
    [
        ("breast", {"A": semicolons, "B": parquet}),
        ("student", {"A": in_polars, "B": feather}),
        ("motor", {"A": folder, "B": compressed}),
    ],
)
def test_raw_versions_of_the_shared_tables(name: str, ways: dict[str, Write], tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    tables = {
        party: raw(shared(f"{name}_hetero_{side}"), draw) for party, side in (("A", "guest"), ("B", "host"))
    }
    check(run_on(tables, ways, tmp_path), tables)


def test_raw_versions_of_two_shared_sources_and_their_target(tmp_path: Path) -> None:
    draw = np.random.default_rng(12)
    names = {"A": "motor_hetero_host_1", "D": "motor_hetero_host_2", "B": "motor_hetero_guest"}
    tables = {party: raw(shared(name), draw) for party, name in names.items()}
    check(run_on(tables, {"A": tabs, "D": in_pandas, "B": semicolons}, tmp_path), tables)


def test_raw_versions_of_the_demo_tables_one_of_them_in_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(13)
    tables = {
        party: raw(pd.read_csv(DATA / f"{name}.csv", nrows=3000), draw)
        for party, name in (("A", "insurer"), ("B", "clinic"))
    }

    def sqlite(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
        monkeypatch.setenv("CLINIC", into_sqlite(file.with_suffix(".db"), "visits", frame))
        return {"table": {"query": "SELECT * FROM visits", "connection": "env:CLINIC"}}

    check(run_on(tables, {"A": parquet, "B": sqlite}, tmp_path), tables)
