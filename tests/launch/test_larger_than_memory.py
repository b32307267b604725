"""Ranks that are larger than the memory that a run may take, which a control group of the kernel limits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from mpc_spearman.results.result import Result
from support.harness import ROOT
from support.processes import control_group

ROWS, COLUMNS, LIMIT = 1_000_000, 200, 700 << 20
PLAN = """
parties:
  coordinator: {name: C}
  target: {name: B, table: B.parquet}
  sources: [{name: A, table: A.parquet}]
"""


def columns(party: str) -> Iterator[np.ndarray]:
    common = np.random.default_rng(26).integers(0, 1 << 28, ROWS)
    rng = np.random.default_rng(ord(party))
    for _ in range(COLUMNS if party == "A" else 3):
        yield (rng.integers(0, 1 << 28, ROWS) + common).astype(np.int32)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """The command, of which all processes together may take `LIMIT` bytes, in a folder with its tables."""
    with control_group(LIMIT) as group:
        for party in "AB":
            table = {"id": np.arange(ROWS)} | {
                f"{party}{i}": values for i, values in enumerate(columns(party))
            }
            pq.write_table(
                pa.table(table), tmp_path / f"{party}.parquet", compression="none", use_dictionary=False
            )
        (tmp_path / "plan.yaml").write_text(PLAN)

        def local(*arguments: str) -> int:
            command = [sys.executable, "-m", "mpc_spearman", "local", "plan.yaml", "--out", "out", *arguments]
            limited = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
            return subprocess.run(limited, cwd=tmp_path, env=environment, capture_output=True).returncode

        yield local


@pytest.mark.long
def test_ranks_larger_than_the_memory_allowed(run: Callable[..., int], tmp_path: Path) -> None:
    """The run is right with unnamed files for its ranks, with one that is kept, and when it is used again."""
    assert 4 * ROWS * COLUMNS > LIMIT
    keep = ("--keep-ranks", "ranks")
    for arguments in ((), keep, keep):
        assert run(*arguments) == 0
        coefficients = Result.load(tmp_path / "out" / "C").coefficients
        for i in (0, COLUMNS - 1):
            a, b = (list(columns(party))[k] for party, k in (("A", i), ("B", 1)))
            assert coefficients.iloc[i, 1] == pytest.approx(spearmanr(a, b).statistic, rel=1e-12)
    assert len(list((tmp_path / "ranks").glob("*.ranks"))) == 2
