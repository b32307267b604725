"""Many runs in a row, in one process: nothing of a run is left in it, nor on the disk."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from memory_network import eventually
from test_faults import PLAN, SOURCE, TARGET
from test_fuzz import Meeting, assert_connected
from test_fuzz import certificates as certificates
from test_fuzz import meet as meet

from mpc_spearman import run_local
from mpc_spearman.roles import Member


def left() -> dict[str, object]:
    """What this process holds: open files and sockets, threads, child processes."""
    gc.collect()
    children = [
        child for task in Path("/proc/self/task").glob("*/children") for child in task.read_text().split()
    ]
    return {
        "files": sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in _open()),
        "threads": threading.active_count(),
        "children": sorted(children),
    }


def _open() -> list[str]:
    return [n for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_fifty_runs_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tables = {"A": SOURCE, "B": TARGET}
    first = run_local(PLAN, tables)  # imports what runs need
    before = left()
    for _ in range(50):
        result = run_local(PLAN, tables)
        assert left() == before
        assert os.listdir(tmp_path) == []
    assert result.matrix.equals(first.matrix)


def test_meetings_leave_no_socket_and_no_thread(
    meet: Callable[..., Meeting], certificates: Path, tmp_path: Path
) -> None:
    threads, before = threading.active_count(), {}
    for _ in range(10):
        run = meet(certificates)
        members: tuple[Member, ...] = tuple(run.ports)
        for member in members:
            run.come(member)
        assert_connected(run.wait())
        run.close()
        run.met.clear()
        # Threads that listened end a moment later.
        eventually(lambda: threading.active_count() == threads)
        before = before or left()
        assert left() == before
