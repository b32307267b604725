"""A sweep: real runs, interrupted and continued; what of an earlier one is kept, and what is refused."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import Result, compare
from mpc_spearman.comparison import RUN, TIDY
from mpc_spearman.comparison.data import tables
from mpc_spearman.comparison.variants import Size
from mpc_spearman.wire.meter import COLUMNS, costed
from support.harness import ROOT
from support.plans import plan
from support.processes import EVER, TAG, eventually, new_tag, processes
from support.server import Command, hooked
from support.sweeps import CONFIGS

# --- real runs, interrupted and continued -----------------------------------------------------------------

# The second run of the first command is the one that is interrupted: under HE it hangs.
FIRST, SECOND = (["mpc.yaml", "he.yaml", "--rows", "40"], ["mpc.yaml", "strengths.yaml", "--rows", "40"])


def command(arguments: list[str], out: Path, environment: dict[str, str], tag: str) -> Command:
    everything = ["compare", *arguments, "--features", "2x3", "--out", str(out)]
    return Command(everything, folder=CONFIGS, environment=environment, name=tag)


def run_folders(out: Path) -> dict[str, int]:
    """Finished runs, and when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (out / "runs").glob("[!.]*/C")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A sweep by the command, interrupted by Ctrl-C in its second run, and another that continues it."""
    out = tmp_path_factory.mktemp("compare") / "sweep"
    tag = new_tag()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **tag, "COLUMNS": "120"}
    mark = out.with_name("hangs")
    hang = {"party": "A", "phase": "keys", "act": "sleep", "seconds": 2 * EVER, "mark": str(mark)}
    first = command(FIRST, out, environment | hooked("faults:on_phase", **hang), tag[TAG])
    eventually(lambda: mark.exists() or first.poll() is not None)
    first.send_signal(signal.SIGINT)
    _, complaint = first.communicate()
    before = run_folders(out)
    # A role that was just being started ends by itself: its lifeline is cut.
    eventually(lambda: not processes(tag[TAG]))
    parts = [path.name for path in out.rglob("*.part")]
    second = command(SECOND, out, environment, tag[TAG])
    second.communicate()
    return {"out": out, "interrupted": (first.returncode, complaint, before, parts), "second": second}


def test_an_interrupted_sweep_keeps_what_had_ended(swept: dict[str, Any]) -> None:
    code, complaint, before, parts = swept["interrupted"]
    assert code == 130
    assert "\ninterrupted: finished runs are in " in complaint
    assert len(before) == 1
    assert parts == []


def test_a_further_command_goes_on(swept: dict[str, Any]) -> None:
    second, before = swept["second"], swept["interrupted"][2]
    shown, told = second.communicate()
    assert second.returncode == 0, told
    after = run_folders(swept["out"])
    assert len(after) == 2
    assert {name: after[name] for name in before} == before  # not run again
    started = re.findall(r"compare: run \d of 2: (.+)", told)
    assert started == ["MPC, strengths, tie_corrected, 40 rows, 2 × 3 columns"]
    lines = [line for line in shown.splitlines() if line.startswith("MPC ")]
    assert [line.split()[1:5] for line in lines] == [
        [level, "tie_corrected", "40", "2x3"] for level in ("coefficients", "strengths")
    ]


def test_the_table_is_the_sum_of_the_runs_costs(swept: dict[str, Any]) -> None:
    table = pd.read_csv(swept["out"] / "comparison.csv")
    assert list(table.columns) == TIDY
    figures = dict(
        zip(
            ("seconds", "wait", "bytes", "received", "messages", "rounds", "memory"), COLUMNS[2:], strict=True
        )
    )
    rows = 0
    for run, part in table.groupby(RUN, sort=False):
        _, scheme, level, estimator, n, m_a, m_b, repeat = run
        name = f"{scheme.lower()}-{level}-{estimator}-{n}-{m_a}x{m_b}-{repeat}"
        (folder,) = (swept["out"] / "runs").glob(f"{name}-*")
        for party, own in part.groupby("party"):
            # each party's own copy, not only the coordinator's
            cost = pd.read_csv(folder / str(party) / "cost.csv")
            cost = cost[cost["party"] == party].set_index("phase")
            for ours, theirs in figures.items():
                assert own.set_index("phase")[ours].to_dict() == cost[theirs].to_dict()
            rows += len(cost)
    assert rows == len(table) == 2 * 3 * len(costed("mpc"))


def test_python_reads_the_same_sweep(swept: dict[str, Any]) -> None:
    told: list[str] = []
    plans = [CONFIGS / "mpc.yaml", CONFIGS / "strengths.yaml"]
    table = compare(plans, [(40, 2, 3)], out=swept["out"], note=lambda _, text: told.append(text))
    assert told == []
    pd.testing.assert_frame_equal(table, pd.read_csv(swept["out"] / "comparison.csv"))
    (folder,) = (swept["out"] / "runs").glob("mpc-coefficients-tie_corrected-40-2x3-1-*")
    matrix = Result.load(folder / "C").coefficients
    made = tables(plan(), Size(40, 2, 3))
    pooled = pd.concat([made["A"], made["B"]], axis=1).drop(columns="id").corr("spearman").iloc[:2, 2:]
    np.testing.assert_allclose(matrix.to_numpy(), pooled.to_numpy(), atol=1e-14)
