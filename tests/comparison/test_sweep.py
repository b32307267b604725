"""A sweep: real runs, interrupted by Ctrl-C; sweeps without processes, and what is refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman import compare
from mpc_spearman.cli.main import main
from mpc_spearman.comparison import RUN, TIDY, per_run
from mpc_spearman.errors import BoundError, OutputError, PlanError
from mpc_spearman.wire.meter import cost_phases
from support.harness import ROOT
from support.plans import plan
from support.processes import EVER, TAG, eventually, new_tag, processes
from support.server import Command, hooked
from support.sweeps import CONFIGS, LEVELS, FakeRuns


def test_an_interrupted_sweep_keeps_what_finished_runs_cost(tmp_path: Path) -> None:
    tag, mark, out = new_tag(), tmp_path / "hangs", tmp_path / "costs.csv"
    # Under HE, in the second run, a party hangs.
    hang = {"party": "A", "phase": "keys", "act": "sleep", "seconds": 2 * EVER, "mark": str(mark)}
    sweep = Command(
        ["compare", "mpc.yaml", "he.yaml", "--rows", "40", "--features", "2x3", "--out", str(out)],
        folder=CONFIGS,
        environment={**os.environ, "PYTHONPATH": str(ROOT), **tag} | hooked("faults:on_phase", **hang),
        name=tag[TAG],
    )
    eventually(lambda: mark.exists() or sweep.poll() is not None)
    sweep.send_signal(signal.SIGINT)
    _, complaint = sweep.communicate()
    assert sweep.returncode == 130
    assert f"\ninterrupted: the costs of finished runs are in {out}" in complaint
    # A role that was just being started ends by itself: its lifeline is cut.
    eventually(lambda: not processes(tag[TAG]))
    assert list(tmp_path.rglob("*.part")) == []
    table = pd.read_csv(out)
    assert list(table.columns) == TIDY
    assert set(table["scheme"]) == {"MPC"}
    assert len(table) == 3 * len(cost_phases("mpc"))
    ends = table[table["phase"] != "keep-alive"].groupby("phase")[["bytes", "received"]].sum().sum()
    assert ends["bytes"] == ends["received"] > 0


def test_the_smallest_is_run_first_and_every_run_is_in_the_table(
    fake_runs: FakeRuns, tmp_path: Path, temporary: Path
) -> None:
    table = compare(LEVELS, [(50, 2, 2), (40, 2, 2)], repeats=2, out=tmp_path / "costs.csv")
    assert fake_runs.done == [(level, n) for n in (40, 50) for level in ("coefficients", "strengths") * 2]
    assert len(table) == 8 * 3 * len(cost_phases("mpc"))
    assert len(table.drop_duplicates(RUN)) == len(per_run(table)) == 8
    pd.testing.assert_frame_equal(table, pd.read_csv(tmp_path / "costs.csv"))
    assert list(temporary.iterdir()) == []


def test_a_run_that_fails_is_named(fake_runs: FakeRuns) -> None:
    fake_runs.error = BoundError("too large")
    with pytest.raises(
        BoundError, match=r"^MPC, coefficients, tie_corrected, 40 rows, 2 × 2 columns: too large"
    ):
        compare(LEVELS, [(40, 2, 2)])


@pytest.mark.parametrize(
    "arguments",
    [
        {"plans": []},
        {"plans": [plan(), plan(network={"timeout": 5.0})]},
        {"sizes": []},
        {"sizes": [(2, 2, 2)]},
        {"sizes": [(40, 2)]},
        {"sizes": (40, 2, 2)},
        {"sizes": [(40, 0, 2)]},
        {"repeats": 0},
        {"out": CONFIGS},
        {"out": CONFIGS / "missing" / "costs.csv"},
    ],
    ids=str,
)
def test_wrong_plans_sizes_repeats_and_files_are_refused(
    fake_runs: FakeRuns, arguments: dict[str, Any]
) -> None:
    with pytest.raises(OutputError if "out" in arguments else PlanError):
        compare(**{"plans": LEVELS, "sizes": [(40, 2, 2)], **arguments})
    assert fake_runs.done == []


def test_the_command_takes_no_settings(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rows", "40", "--features", "2x3", "--out", "costs.csv"]
    assert main(["compare", "mpc.yaml", "reveal=strengths", *arguments]) == PlanError.exit_code
    assert "copy the plan" in capsys.readouterr().err
