"""``status.json`` says that a run goes on, then how it ended, and never how an earlier one did."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman import run_local
from mpc_spearman.errors import AlignmentError, OutputError, TableError
from mpc_spearman.launch import status
from mpc_spearman.launch.supervisor import Usage
from mpc_spearman.results import run_directory
from support.members import Members
from support.plans import LIGHT, mapping
from support.processes import eventually, full_disk
from support.references import normal_tables


def wait_for_connect(folder: Path, after: int) -> None:
    """Wait until a later process than the one of that number is at the meeting."""
    eventually(lambda: read(folder)["process"] != after and read(folder)["phase"] == "connect")


ENDED = {"exit_code": 4, "error": "TableError", "message": "no", "phase": "rank", "result": "none"}


def read(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "status.json").read_text()))


def test_status_says_running_with_usage_and_then_how_the_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_WRITE_INTERVAL", 0.01)
    folder = tmp_path / "A"
    with suppress(TableError), status.Status(folder, "A", "00ff") as running_status:
        first = read(folder)
        assert first["state"] == "running"
        assert (first["process"], first["party"], first["plan"]) == (os.getpid(), "A", "00ff")
        assert [first[key] for key in ("exit_code", "error", "message", "ended")] == [None] * 4
        running_status.watch("rank")
        running_status.measure(Usage(memory=10, sent=20, received=30, waits_for=""))
        eventually(lambda: read(folder)["bytes_received"] == 30)
        assert {"phase": "rank", "memory_bytes": 10, "bytes_sent": 20}.items() <= read(folder).items()
        first_update = read(folder)["updated"]
        eventually(lambda: read(folder)["updated"] > first_update)
        raise TableError("no")
    last = read(folder)
    assert last["state"] == "ended"
    assert ENDED.items() <= last.items()
    assert [path.name for path in tmp_path.rglob("*")] == ["A", "status.json"]


def test_a_full_disk_is_named_at_the_beginning_and_ends_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_WRITE_INTERVAL", 0.01)
    with full_disk(), pytest.raises(OutputError, match=r"cannot write .*status\.json"):
        status.Status(tmp_path / "A", "A", "").__enter__()
    with status.Status(tmp_path / "A", "A", ""):
        with full_disk():
            time.sleep(0.05)  # what was being written is there
            written = read(tmp_path / "A")["updated"]
            time.sleep(0.05)
            assert read(tmp_path / "A")["updated"] == written
        eventually(lambda: read(tmp_path / "A")["updated"] > written)
    assert read(tmp_path / "A")["state"] == "ended"


def test_a_part_that_a_killed_run_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".A.status.part").write_text("{")
    run_directory.write_status(tmp_path / "A", "{}", first=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["A", "status.json"]


def test_a_run_killed_or_stopped_in_an_earlier_runs_folder(tmp_path: Path) -> None:
    """A ends well, is killed, and is ended by SIGTERM, always with its earlier result in the same folder."""
    folder = tmp_path / "out" / "A" / "A"
    with Members(tmp_path) as run:
        for name in "CBA":
            run.start(name)
        run.wait("CBA")
    latest = done = read(folder)
    assert (done["state"], done["exit_code"], done["result"]) == ("ended", 0, "here")
    assert done["bytes_sent"] > 0
    assert done["memory_bytes"] > 0
    for number, state, error, code in (
        (signal.SIGKILL, "running", None, None),
        (signal.SIGTERM, "ended", "SIGTERM", 143),
    ):
        again = tmp_path / number.name
        again.mkdir()
        with Members(again) as run:
            run.plan["network"]["join_timeout"] = 60
            run.start("A", own=["--out", str(tmp_path / "out" / "A")])
            wait_for_connect(folder, after=latest["process"])
            os.kill(run.parties["A"].pid, number)
            assert run.parties["A"].wait() == (code or -number)
        latest = read(folder)
        assert (latest["state"], latest["error"], latest["exit_code"]) == (state, error, code)
        assert latest["result"] == "of an earlier run"
        assert latest["process"] != done["process"]
        age = datetime.now(timezone.utc) - datetime.fromisoformat(latest["updated"])
        assert age < timedelta(minutes=1)


@pytest.mark.usefixtures("warm")
def test_a_failed_run_on_this_machine_marks_the_earlier_result(tmp_path: Path) -> None:
    tables, out = normal_tables(), tmp_path / "out"
    run_local(mapping(**LIGHT), tables, out=out)
    assert not list(out.glob("*/status.json"))
    unfit = {**tables, "A": tables["A"].assign(id=range(1000, 1000 + len(tables["A"])))}
    with pytest.raises(AlignmentError):
        run_local(mapping(**LIGHT), unfit, out=out)
    marks = [read(out / name) for name in "CBA"]
    assert {(mark["state"], mark["error"], mark["result"]) for mark in marks} == {
        ("ended", "AlignmentError", "of an earlier run")
    }
    run_local(mapping(**LIGHT), tables, out=out)
    marks = [read(out / name) for name in "CBA"]
    assert {(mark["state"], mark["error"], mark["result"]) for mark in marks} == {("ended", None, "here")}
