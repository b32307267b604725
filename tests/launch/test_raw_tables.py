"""From raw tables to a result, in processes: other rows and order, gaps, spellings of ids, kinds of files.

Every result is compared with plaintext on the rows that pandas joins.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpc_spearman import run_local
from mpc_spearman.cli.main import main
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from support.harness import ROOT, fork_server
from support.plans import everyone, mapping
from support.references import DATA, SHARED

PLAN = ROOT / "configs" / "intersect.yaml"


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without gaps whose id occurs once, by their ids."""
    ids = table.columns[0]
    return table[~table[ids].duplicated(keep=False)].dropna().set_index(ids)


def joined(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the features of the complete rows that all parties have."""
    rows = {party: complete(table) for party, table in tables.items()}
    common = reduce(pd.Index.intersection, (table.index for table in rows.values()))
    return {party: table.loc[common].reset_index(drop=True) for party, table in rows.items()}


def test_the_demo_from_raw_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command as the plan's first lines give it; and the rows that it leaves to the insurer."""
    unaligned = tmp_path / "unaligned.csv"
    settings = [f"parties.sources.A.write_unaligned={unaligned}", "--out", str(tmp_path / "out")]
    assert main(["local", str(PLAN), *settings]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    raw = {
        party: pd.read_csv(DATA / f"{name}_raw.csv", dtype={"id": str})
        for party, name in (("A", "insurer"), ("B", "clinic"))
    }
    read = {party: table.assign(id=table["id"].str.strip().str.casefold()) for party, table in raw.items()}
    rows, offered = joined(read), {party: len(complete(read[party])) for party in "BA"}
    truth, result = reference({"A": rows["A"]}, rows["B"]), Result.load(tmp_path / "out" / "C")
    assert result.n == len(rows["B"]) > 2000
    assert ((result.strengths - truth.strengths).abs() < 8 * result.errors).all()  # with noise
    assert result.offered == offered
    assert (
        f"Rows: {result.n:,}, common to all parties (of B {offered['B']:,}, A {offered['A']:,})." in printed
    )
    of_a = Result.load(tmp_path / "out" / "A")
    assert of_a.offered == {"A": offered["A"]}
    assert any(text.startswith("left out: ") for text in of_a.warnings)
    assert f"{offered['B']:,}" not in (tmp_path / "out" / "A" / "report.html").read_text()
    # Every other row is written, with all its cells as they were.
    table = pd.read_csv(DATA / "insurer_raw.csv", dtype=str)
    common = set(complete(read["A"]).index) & set(complete(read["B"]).index)
    expected = table[~read["A"]["id"].isin(common)].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_csv(unaligned, dtype=str), expected)
    assert unaligned.read_text().startswith('"id","visits",')
    assert stat.S_IMODE(unaligned.stat().st_mode) == 0o600
    assert len(expected) + result.n == len(table)


def test_unaligned_rows_of_tables_in_memory_are_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tables = {
        party: pd.DataFrame(
            {
                "id": [f"p{i}" for i in rng.permutation(range(low, low + 60))],
                "x": rng.normal(size=60),
                "y, z": 1.5,
                "note": "text",
            }
        )
        for party, low in (("A", 0), ("B", 20))
    }
    tables["A"].loc[3, "x"] = np.nan
    tables["A"] = pd.concat([tables["A"], tables["A"].head(9)], ignore_index=True)  # nine have two rows
    files = {"A": tmp_path / "a.parquet", "B": tmp_path / "b.csv"}
    content = mapping(alignment="intersect")
    for entry in everyone(content)[1:]:
        file = str(files[entry["name"]])
        entry |= {"write_unaligned": file, "missing": "drop_rows", "exclude": ["note"]}
    content["parties"]["sources"][0]["duplicates"] = {"x": "sum"}
    # The columns of text of polars are of a type that Arrow writes into no CSV file.
    result = run_local(content, {"A": tables["A"], "B": pl.from_pandas(tables["B"])}, server=fork_server())
    common = set(tables["A"].dropna()["id"]) & set(tables["B"]["id"])
    assert result.n == len(common)
    sums = tables["A"].groupby("id")["x"].sum()
    common_rows = tables["B"].set_index("id").loc[sorted(common), "x"]
    rho = common_rows.corr(sums[sorted(common)], method="spearman")
    assert result.coefficients.loc[("A", "x"), "x"] == pytest.approx(rho, abs=1e-12)
    for party, written in (("A", pq.read_table(files["A"]).to_pandas()), ("B", pd.read_csv(files["B"]))):
        expected = tables[party][~tables[party]["id"].isin(common)].reset_index(drop=True)
        pd.testing.assert_frame_equal(written, expected)


# ---- kinds of tables

#: Writes a table in its own way; returns the keys that the plan has of it, or the table to hand over.
Write = Callable[[Path, pd.DataFrame], Any]


def in_a_file(
    suffix: str, write: Callable[..., Any], csv: dict[str, str] | None = None, **options: Any
) -> Write:
    """Write by a function of the table, the path and the options."""

    def write_file(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
        write(frame, path := file.with_suffix(suffix), **options)
        return {"table": str(path), **({"csv": csv} if csv else {})}

    return write_file


def folder(file: Path, frame: pd.DataFrame) -> dict[str, Any]:
    file.mkdir()
    for part in range(3):
        frame.iloc[part::3].to_parquet(file / f"part-{part}.parquet", index=False)
    return {"table": str(file)}


to_csv, to_parquet = (partial(write, index=False) for write in (pd.DataFrame.to_csv, pd.DataFrame.to_parquet))
EUROPEAN = {"decimal": ",", "encoding": "cp1252"}
WAYS: dict[str, Write] = {
    "semicolons": in_a_file(
        ".csv", to_csv, {"delimiter": ";", **EUROPEAN}, sep=";", na_rep="n/a", **EUROPEAN
    ),
    "tabs": in_a_file(".tsv", to_csv, sep="\t"),
    "compressed": in_a_file(".csv.gz", to_csv),
    "parquet": in_a_file(".parquet", to_parquet),
    "feather": in_a_file(".arrow", pd.DataFrame.to_feather),
    "folder": folder,
    "polars": lambda file, frame: pl.from_pandas(frame),
    "arrow": lambda file, frame: pa.Table.from_pandas(frame),
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the directory shared/data is not beside the repository")
@pytest.mark.parametrize(
    "tables",
    [
        {"A": ("breast_hetero_guest", "semicolons"), "B": ("breast_hetero_host", "parquet")},
        {"A": ("student_hetero_guest", "polars"), "B": ("student_hetero_host", "feather")},
        {"A": ("motor_hetero_guest", "folder"), "B": ("motor_hetero_host", "compressed")},
        {
            "A": ("motor_hetero_host_1", "tabs"),
            "D": ("motor_hetero_host_2", "arrow"),
            "B": ("motor_hetero_guest", "semicolons"),
        },
    ],
)
def test_raw_tables_of_every_kind(tables: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    """Each party has some of the rows, in an order of its own, and gaps in two columns."""
    rng = np.random.default_rng(11)
    frames, in_memory = {}, {}
    plan = mapping(*(party for party in tables if party != "B"), alignment="intersect")
    for entry in everyone(plan)[1:]:
        party = entry["name"]
        name, way = tables[party]
        table = pd.read_csv(SHARED / f"{name}.csv")
        frame = table.iloc[rng.permutation(len(table))[: int(0.85 * len(table))]].reset_index(drop=True)
        for column in rng.choice(frame.columns[1:], 2, replace=False):
            frame[column] = frame[column].astype(float).mask(rng.random(len(frame)) < 0.04)
        frames[party], written = frame, WAYS[way](tmp_path / party, frame)
        if not isinstance(written, dict):
            in_memory[party], written = written, {}
        entry |= {"id": frame.columns[0], "missing": "drop_rows", **written}
    result = run_local(plan, in_memory, server=fork_server())
    rows = joined(frames)
    target = rows.pop("B")
    truth = reference({party: rows[party] for party in result.plan.names[2:]}, target)
    assert result.n == len(target)
    assert result.offered == {party: len(table.dropna()) for party, table in frames.items()}
    pd.testing.assert_frame_equal(result.coefficients, truth.coefficients, rtol=0, atol=1e-13)
