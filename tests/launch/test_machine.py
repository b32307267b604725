"""What a machine lacks is named before anyone is met, and what the kernel has ended is called that."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.errors import OutputError, SetupError
from mpc_spearman.launch import machine
from mpc_spearman.privacy.charges import balances
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.results.run_directory import ReservedSpace
from support.harness import do
from support.members import Members
from support.plans import LIGHT, mapping
from support.processes import full_disk

#: A user without rights, who may execute an interpreter in root's folder.
NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"),
    reason="takes root, setpriv and unshare",
)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Any]:
    """Return what runs C by a command, for a moment, and returns its exit code, errors and status."""
    with Members(tmp_path, mapping(**LIGHT)) as run:
        run.plan["network"]["join_timeout"] = 1
        arguments = run.options("C", "C")
        (tmp_path / "out" / "C").mkdir(parents=True)
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, 65534, 65534)

        def join(*before: str, **environment: str) -> tuple[int, str, dict[str, Any]]:
            command = [*before, sys.executable, "-m", "mpc_spearman", "join", *arguments]
            ending = subprocess.run(
                command, cwd="/", env=run.environment | environment, capture_output=True, text=True
            )
            status = tmp_path / "out" / "C" / "C" / "status.json"
            return ending.returncode, ending.stderr, json.loads(status.read_text())

        yield join
        assert run.processes() == []


def assert_named(ending: tuple[int, str, dict[str, Any]], error: type[Exception], text: str) -> None:
    code, shown, status = ending
    assert (code, shown.count("error: "), shown.count("Traceback")) == (error.exit_code, 1, 0), shown  # type: ignore[attr-defined]
    assert text in shown
    assert (status["state"], status["error"], status["exit_code"]) == ("ended", error.__name__, code)


@root
@pytest.mark.parametrize("limit", ["--nproc=30", pytest.param("--nproc=4", marks=pytest.mark.long)])
def test_too_few_processes_are_named(alone: Any, limit: str) -> None:
    ending = alone("prlimit", limit, *NOBODY)
    assert_named(ending, SetupError, "raise the limit of processes (ulimit -u; TasksMax of a service;")


def test_too_few_files_are_named(alone: Any) -> None:
    assert_named(
        alone("prlimit", "--nofile=60"), SetupError, "this process may open 60 files, and the run needs"
    )


@root
@pytest.mark.long
def test_a_root_that_cannot_be_written_needs_a_tmpdir(alone: Any, tmp_path: Path) -> None:
    mounts = f'mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro / && exec "$@"'
    read_only = ("unshare", "--mount", "sh", "-c", mounts, "sh")
    assert_named(
        alone(*read_only, TMPDIR=""), OutputError, "no folder for temporary files can be written: set TMPDIR"
    )
    code, shown, _ = alone(*read_only, TMPDIR=str(tmp_path))
    assert "did not join within 1 s" in shown
    assert code == 18


def test_room_is_kept_for_results_and_given_back(tmp_path: Path) -> None:
    space = ReservedSpace(tmp_path / "out" / "C")
    with full_disk(), pytest.raises(OutputError, match=r"the results need up to 16\.8 MB$"):
        space.reserve()
    space.reserve(coefficients=1_000_000)
    assert space._file is not None
    assert os.fstat(space._file).st_blocks * 512 >= 150_000_000
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]
    space.release()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@root
@pytest.mark.parametrize("size", [pytest.param("2m", marks=pytest.mark.long), "20m"])
def test_a_disk_without_room_for_the_result_ends_a_run_early(tmp_path: Path, size: str) -> None:
    """What any result needs is reserved before all have met, more once the numbers of columns are known."""
    rng, met = np.random.default_rng(3), size == "20m"
    with small_disk(tmp_path / "out" / "C", size), Members(tmp_path, mapping(reveal="coefficients")) as run:
        run.plan["network"]["join_timeout"] = 60 if met else 5
        for name in "AB":
            table = pd.DataFrame(
                rng.normal(size=(40, 300)), columns=[f"{name}{column}" for column in range(300)]
            )
            run.tables[name] = tmp_path / f"{name}.csv"
            table.rename_axis("id").to_csv(run.tables[name])
        for name in "CBA":
            run.start(name)
        endings = run.wait("CBA")
        error_of_others = "PeerFailed" if met else "PartyMissing"
        assert {name: end.error for name, end in endings.items()} == {
            "C": "OutputError",
            "B": error_of_others,
            "A": error_of_others,
        }
        need = "54.6 MB" if met else "16.8 MB"
        assert f"No space left on device; the results need up to {need}" in endings["C"].printed
        for name in "AB" if not met else "":
            assert balances(Ledger(tmp_path / f"{name}.ledger").entries()) == []


#: In a role's process: a control group with 64 MB, in which it takes more.
GREEDY = """
from pathlib import Path
Path({group!r}, "cgroup.procs").write_text(str(os.getpid()))
phase("rank")
kept = [b"x" * (1 << 20) for _ in range(4096)]
"""


@pytest.fixture
def group() -> Iterator[Path]:
    parents = {"memory.limit_in_bytes": Path("/sys/fs/cgroup/memory"), "memory.max": Path("/sys/fs/cgroup")}
    for limit, parent in parents.items():
        created = parent / f"mpcs-{secrets.token_hex(4)}"
        try:
            created.mkdir()
            (created / limit).write_text(str(1 << 26))
        except OSError:
            continue
        yield created
        created.rmdir()
        return
    pytest.skip("no control group of memory can be made here")


def test_a_kill_for_memory_is_called_out_of_memory(group: Path, tmp_path: Path) -> None:
    before = machine.oom_kills()
    outcome = do(tmp_path, {"B": GREEDY.format(group=str(group))})["B"]
    assert machine.oom_kills() > before
    assert "ended by signal SIGKILL, perhaps out of memory: the kernel has killed" in str(outcome.error)


def test_another_kill_is_not_called_out_of_memory(tmp_path: Path) -> None:
    outcome = do(tmp_path, {"B": "os.kill(os.getpid(), signal.SIGKILL)"})["B"]
    assert "memory" not in str(outcome.error)
