"""What an owner finds out alone about its own table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.errors import PlanError, PolicyError, TableError
from support.harness import ROOT

PLAN = str(ROOT / "configs" / "mpc.yaml")
N = 400


def table_of(folder: Path, **columns: Any) -> str:
    path = folder / "mine.csv"
    ids = [f"r{row:03d}" for row in range(N)]
    pd.DataFrame({"id": ids} | columns).to_csv(path, index=False)
    return str(path)


def check(capsys: pytest.CaptureFixture[str], arguments: str) -> tuple[int, str]:
    other_columns = [] if "--other" in arguments else ["--other", "6"]
    code = main(["check", PLAN, *arguments.split(), *other_columns])
    return code, capsys.readouterr().out


def test_check_asks_for_the_peers_column_count_where_there_is_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", PLAN, "--party", "A"]) == PlanError.exit_code
    assert "how many features does the other side have?" in capsys.readouterr().err
    exact = ["results.precision=exact", "parties.sources.A.policy.exact=true"]
    assert main(["check", PLAN, "--party", "A", *exact]) == 0


def test_a_table_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = check(capsys, "--party A --other 6 results.target=coefficients")
    assert code == 0
    assert "this table and its policy fit the plan" in printed
    assert "outpatient" in printed
    assert "rows needed, so that noise is no larger than chance variation: 4 × 6 columns about" in printed
    head = printed.splitlines()[0]
    for name in ("values", "outside", "noise", "seen from"):
        assert (name in head, f"\n{name}: " in printed) == (True, True)


def test_check_states_the_noise_and_refuses_no_table_for_its_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    table = table_of(tmp_path, age=rng.random(N), same=np.ones(N), rare=(np.arange(N) < 4) * 1)
    code, printed = check(capsys, f"--party A --table {table} --other 60 results.target=coefficients")
    assert code == 0
    rows = {line.split()[0]: line.split() for line in printed.splitlines()[1:4]}
    assert float(rows["rare"][-2]) > 3 * float(rows["age"][-2])
    assert 0 < float(rows["age"][-1]) < 1
    assert "too few rows for these columns" in printed
    exact_settings = "results.precision=exact parties.sources.A.policy.exact=true"
    exact = check(capsys, f"--party A --table {table} {exact_settings}")
    assert "results would be exact, without noise" in exact[1]


def test_check_says_what_only_a_run_over_common_rows_can_find_out(capsys: pytest.CaptureFixture[str]) -> None:
    same, intersected = (
        check(capsys, f"--party A alignment={alignment}")[1] for alignment in ("same", "intersect")
    )
    assert "common to all" not in same
    assert "Only a run shows how many are common" in intersected


def test_check_refuses_a_plan_beyond_the_owners_policy(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = check(capsys, "--party A reveal=differences")
    assert code == PolicyError.exit_code
    assert "policy.max_reveal: coefficients at most, but the plan has reveal: differences" in printed


def test_a_coordinator_or_a_missing_table_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", PLAN, "--party", "C"]) == PlanError.exit_code
    assert "C is the coordinator" in capsys.readouterr().err
    nowhere = str(tmp_path / "none.csv")
    assert main(["check", PLAN, "--party", "A", "--table", nowhere, "--other", "6"]) == TableError.exit_code


def test_check_says_what_the_owner_should_know_about_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age = np.arange(N) % 50 + 20.0
    age[:5] = -999
    table = table_of(tmp_path, age=age, gaps=np.where(np.arange(N) < 3, np.nan, np.arange(N)))
    settings = "alignment=intersect parties.sources.A.missing=drop_rows"
    _, printed = check(capsys, f"--party A --table {table} {settings}")
    assert "left out: 3 of 400 rows" in printed
    assert "'age': -999 (5 cells) at an end of its values: it may be a code" in printed


def test_check_warns_of_more_ids_than_a_similar_partner_would_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(tmp_path, x=np.arange(N), y=np.arange(N)[::-1])
    settings = f"--party A --table {table} alignment=intersect parties.sources.A.policy.max_ids="
    assert "A offers 400 ids" in check(capsys, f"{settings}399")[1]
    assert "offers" not in check(capsys, f"{settings}400")[1]
