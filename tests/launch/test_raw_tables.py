"""From raw tables to a result, in processes: different rows and order, gaps, different spellings of ids.

Every result is compared with plaintext on the rows that pandas joins.
"""

from __future__ import annotations

import stat
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow.parquet as pq
import pytest

from mpc_spearman import run_local
from mpc_spearman.cli.main import main
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from support.harness import ROOT, fork_server
from support.plans import mapping
from support.references import DATA

PLAN = ROOT / "configs" / "intersect.yaml"


def raw(name: str) -> pd.DataFrame:
    table = pd.read_csv(DATA / f"{name}_raw.csv", dtype={"id": str})
    return table.assign(id=table["id"].str.strip().str.casefold())


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that a party has in full and once."""
    return table[~table["id"].duplicated(keep=False)].dropna()


def joined(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """The features of the complete rows that all have."""
    whole = [complete(table).set_index("id") for table in tables]
    common = reduce(pd.Index.intersection, (table.index for table in whole))
    return [table.loc[common].reset_index(drop=True) for table in whole]


def test_the_demo_from_raw_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command as the plan's first lines give it; and what it leaves to the insurer to complete."""
    rest = tmp_path / "rest.csv"
    code = main(
        ["local", str(PLAN), "--out", str(tmp_path / "out"), f"parties.sources.A.write_unaligned={rest}"]
    )
    said = capsys.readouterr().out
    assert code == 0
    insurer, clinic = joined(raw("insurer"), raw("clinic"))
    truth, result = reference({"A": insurer}, clinic), Result.load(tmp_path / "out" / "C")
    assert result.n == len(clinic) > 2000
    assert ((result.strengths - truth.strengths).abs() < 8 * result.errors).all()  # with noise
    assert result.offered == {"B": len(complete(raw("clinic"))), "A": len(complete(raw("insurer")))}
    of = f"(of B {result.offered['B']:,}, A {result.offered['A']:,})"
    assert f"Rows: {result.n:,}, common to all parties {of}." in " ".join(said.split())
    own = Result.load(tmp_path / "out" / "A")
    assert own.offered == {"A": result.offered["A"]}
    assert any(text.startswith("left out: ") for text in own.warnings)
    assert f"{result.offered['B']:,}" not in (tmp_path / "out" / "A" / "report.html").read_text()
    # what is left is every other row, with all its cells as they were
    left, table = pd.read_csv(rest, dtype=str), pd.read_csv(DATA / "insurer_raw.csv", dtype=str)
    common = set(raw("insurer").pipe(complete)["id"]) & set(raw("clinic").pipe(complete)["id"])
    expected = table[~table["id"].isin(common)].reset_index(drop=True)
    pd.testing.assert_frame_equal(left, expected)
    assert rest.read_text().startswith('"id","visits",')
    assert stat.S_IMODE(rest.stat().st_mode) == 0o600
    assert len(left) + result.n == len(table)


def test_tables_in_memory_leave_their_rest_too(tmp_path: Path) -> None:
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
    for place, party in (("target", "B"), ("sources", "A")):
        its = content["parties"][place] if party == "B" else content["parties"][place][0]
        its |= {"write_unaligned": str(files[party]), "missing": "drop_rows", "exclude": ["note"]}
        its |= {"duplicates": {"x": "sum"}} if party == "A" else {}
    # The columns of text of polars are of a type that Arrow writes into no CSV file.
    result = run_local(
        content, {"A": tables["A"], "B": polars.from_pandas(tables["B"])}, server=fork_server()
    )
    common = set(tables["A"].dropna()["id"]) & set(tables["B"]["id"])
    assert result.n == len(common)
    sums = tables["A"].groupby("id")["x"].sum()
    both = tables["B"].set_index("id").loc[sorted(common), "x"]
    rho = both.corr(sums[sorted(common)], method="spearman")
    assert result.coefficients.loc[("A", "x"), "x"] == pytest.approx(rho, abs=1e-12)
    for party, left in (("A", pq.read_table(files["A"]).to_pandas()), ("B", pd.read_csv(files["B"]))):
        expected = tables[party][~tables[party]["id"].isin(common)].reset_index(drop=True)
        pd.testing.assert_frame_equal(left, expected)
