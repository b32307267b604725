"""Runs with tables in databases: the same results as with files, and no part of an address in any output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import Result, load_plan, run_local
from mpc_spearman.errors import AlignmentError, TableError
from mpc_spearman.launch.join import run_party
from mpc_spearman.launch.local import assignments
from support.databases import PASSWORD, into_postgresql, into_sqlite, postgresql
from support.plans import LIGHT, mapping, with_keys

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def frames() -> dict[str, pd.DataFrame]:
    draw = np.random.default_rng(5)
    ids = [f"k{i:03}" for i in draw.permutation(200)]
    columns = {"A": ("age", "income"), "B": ("visits", "cost")}
    return {
        party: pd.DataFrame({"id": ids, **{name: draw.integers(0, 50, 200) for name in names}})
        for party, names in columns.items()
    }


def asking(**tables: tuple[str, str]) -> dict[str, Any]:
    """A plan of A and B whose tables are queries on environment variables."""
    content = mapping()
    for party, (query, variable) in tables.items():
        entry = content["parties"]["target"] if party == "B" else content["parties"]["sources"][0]
        entry["table"] = {"query": query, "connection": f"env:{variable}", "order_by": "id"}
    return content


def test_a_run_on_two_databases_is_that_on_the_tables_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: dict[str, pd.DataFrame]
) -> None:
    plan = asking(
        A=("SELECT id, income, age FROM people", "INSURER"),
        B=("SELECT id, visits::numeric(9, 2) AS visits, cost FROM visits", "CLINIC"),
    )
    with postgresql() as address:
        into_postgresql(address, "visits", frames["B"])
        monkeypatch.setenv("CLINIC", address)
        monkeypatch.setenv("INSURER", into_sqlite(tmp_path / "people.db", "people", frames["A"]))
        result = run_local(plan, out=tmp_path / "out")
    ordered = {party: frame.sort_values("id") for party, frame in frames.items()}
    ordered["A"] = ordered["A"][["id", "income", "age"]]
    assert result.coefficients.equals(run_local(mapping(), ordered).coefficients)
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.parent.name for path in written} == {"A", "B", "C"}
    for path in written:
        content = path.read_bytes()
        assert not any(word in content for word in (PASSWORD.encode(), b"hunter", b"people.db", b"SELECT"))
    assert Result.load(tmp_path / "out" / "B").party == "B"


def test_a_run_that_fails_leaves_nothing_where_an_engine_puts_rows_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: dict[str, pd.DataFrame]
) -> None:
    (tmp_path / "spilled").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spilled"))
    frames["B"].assign(id=range(200)).to_parquet(tmp_path / "b.parquet")
    content = mapping(**LIGHT, alignment="intersect")
    content["parties"]["target"]["table"] = {"query": f"SELECT * FROM '{tmp_path}/b.parquet'"}
    with pytest.raises(AlignmentError):
        run_local(content, {"A": frames["A"]})
    assert not [*(tmp_path / "spilled").iterdir()]


def test_each_process_gets_the_address_of_its_own_database_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INSURER", "sqlite:hunter-a.db")
    monkeypatch.setenv("CLINIC", "postgresql://owner:hunter-b@h/d")
    plan = load_plan(asking(A=("SELECT 1 AS id", "INSURER"), B=("SELECT 1 AS id", "CLINIC")))
    assigned = {assignment.party: assignment for assignment in assignments(plan, tmp_path)}
    secrets = {
        party: [word for word in ("hunter-a", "hunter-b") if word in json.dumps(assignment.environment)]
        for party, assignment in assigned.items()
    }
    assert secrets == {"C": [], "B": ["hunter-b"], "A": ["hunter-a"]}
    assert not any("hunter" in repr(assignment) for assignment in assigned.values())
    assert assigned["B"].environment["PATH"]


def test_a_database_that_cannot_be_reached_ends_a_run_at_its_party(
    monkeypatch: pytest.MonkeyPatch, frames: dict[str, pd.DataFrame]
) -> None:
    monkeypatch.setenv("CLINIC", "postgresql://owner:hunter@127.0.0.1:1/d")
    with pytest.raises(TableError) as caught:
        run_local(asking(B=("SELECT id, visits FROM visits", "CLINIC")), {"A": frames["A"]})
    assert str(caught.value) == (
        "B: the database of env:CLINIC: postgres: it cannot be reached: nothing listens there"
    )


def test_a_party_alone_writes_no_address_into_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINIC", "postgresql://owner:hunter@127.0.0.1:1/d")
    content = with_keys(asking(B=("SELECT id, visits FROM visits", "CLINIC")) | LIGHT, tmp_path)
    plan = load_plan(content, ["network.address=127.0.0.1", "network.port=1"])
    with pytest.raises(TableError) as caught:
        run_party(plan, "B", tmp_path / "out")
    written = (tmp_path / "out" / "B" / "status.json").read_text()
    status = json.loads(written)
    assert (status["error"], status["exit_code"]) == ("TableError", TableError.exit_code)
    assert status["message"] == str(caught.value)
    assert "hunter" not in written
