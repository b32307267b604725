"""A run's own folders: no other run removes them while it runs, and those of killed runs are removed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman import run_local
from mpc_spearman.files import private_folder
from support.harness import ROOT
from support.plans import LIGHT, files, mapping
from support.references import normal_tables

LEFT = "mpc-spearman-[run]-0123456789abcdef"  # a user's folder of results may be named like a pattern


def test_only_files_of_killed_runs_are_swept(temporary: Path) -> None:
    for name in (LEFT, LEFT[:-1], f"{LEFT}0", "mpc-spearman-test-0123456789abcdef", "mine"):
        (temporary / name / "C").mkdir(parents=True)
    (temporary / LEFT.replace("0", "1")).write_text("a file")
    (temporary / LEFT.replace("0", "2")).symlink_to(temporary / "mine")
    before = files(temporary)
    with private_folder(temporary, LEFT[:-16]) as private:
        assert private.stat().st_mode & 0o777 == 0o700
        assert files(temporary) == sorted([*(name for name in before if name != LEFT), private.name])
    assert files(temporary) == [name for name in before if name != LEFT]
    assert files(temporary / "mine") == ["C"]


def test_many_that_begin_at_once_keep_theirs(temporary: Path) -> None:
    gone: list[Path] = []

    def begin() -> None:
        for _ in range(100):
            with private_folder(temporary, LEFT[:-16]) as private:
                (private / "C").mkdir()
                if not (private / "C").is_dir():
                    gone.append(private)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gone == []
    assert files(temporary) == []


#: A kernel in which a run goes on, and which says when it does; the run does not end before it is told to.
KERNEL = """
import json, sys
import pandas as pd
import pytest
from mpc_spearman import run_local
tables = {party: pd.read_csv(f"{party}.csv", dtype={"id": str}) for party in "AB"}
def watch(party, phase, done, of):
    print(phase, flush=True)
    if phase == "connect":
        sys.stdin.read()
run_local(json.load(open("plan.json")), tables, watch=watch)
"""


@pytest.mark.usefixtures("warm")
def test_a_kernel_that_is_killed_leaves_nothing_for_long(tmp_path: Path, temporary: Path) -> None:
    plan, tables = mapping(**LIGHT), normal_tables()
    for party, table in tables.items():
        table.to_csv(tmp_path / f"{party}.csv", index=False)
    pd.Series(plan).to_json(tmp_path / "plan.json")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", KERNEL]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as kernel:
        assert kernel.stdout is not None
        while kernel.stdout.readline() != "connect\n":
            assert kernel.poll() is None
        kernel.kill()
    assert files(temporary) != []
    assert run_local(plan, tables).n == 40
    assert files(temporary) == []
