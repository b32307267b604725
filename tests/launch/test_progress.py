"""What a run shows and logs while it goes on."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path

import pytest
from rich.console import Console

from mpc_spearman.cli.main import main
from mpc_spearman.errors import OutputError
from mpc_spearman.launch import log, progress
from support.log_lines import timeless


def test_a_terminal_shows_a_live_line_for_every_party() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with progress.shown(["C", "B"], console=console) as display:
        display.watch("B", "connect", 0, 0)
        display.watch("B", "rank", 0, 0)
        display.watch("B", "rank", 3, 7)
        display.note("B", "this will take [about] an hour")
        display.watch("B", "align", 0, 0)
        display._bars.refresh()  # type: ignore[attr-defined]
    assert "B: this will take [about] an hour" in shown.getvalue()
    assert "align" in shown.getvalue()


def test_a_log_has_one_line_for_a_long_phase_now_and_then(tmp_path: Path) -> None:
    with log.attached(tmp_path / "log", as_json=False, stderr=False), progress.shown(["C", "B"]) as display:
        display.watch("B", "rank", 0, 0)
        for done in (40, 80):
            phase, start, logged = display._work["B"]
            display._work["B"] = phase, start - 30, logged - 30  # as if so many seconds were over
            for _ in range(3):
                display.watch("B", "rank", done, 1000)
        display.watch("B", "share", 0, 0)
        for _ in range(2):
            display.note("B", "a long sentence\nstays on one line")
    first, begins, *more, share, note = timeless((tmp_path / "log").read_text()).splitlines()
    assert (first, begins, share) == ("running: C, B", "B rank: begins", "B share: begins")
    assert len(more) == 2
    assert all(re.match(r"B rank: [48]0 of 1,000, about 1\d min", line) for line in more), more
    assert note == "B share: a long sentence stays on one line"


def test_a_log_is_continued_and_can_be_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an error, the party and phase are those of the last line, if only one party has spoken."""
    file = tmp_path / "log"
    for as_json in (False, True):
        with log.attached(file, as_json=as_json, stderr=True), progress.shown(["B"], quiet=True) as display:
            display.watch("B", "load", 0, 0)
            display.note("B", "12 rows")
            log.write("error: no", level=logging.ERROR)
    lines = file.read_text().splitlines()
    assert timeless("\n".join(lines[:4])).splitlines() == [
        "running: B", "B load: begins", "B load: 12 rows", "B load: error: no"
    ]  # fmt: skip
    logged = [json.loads(line) for line in lines[4:]]
    assert [set(record) for record in logged] == [{"time", "level", "party", "phase", "text"}] * 4
    assert logged[-1] | {"time": ""} == {
        "time": "", "level": "error", "party": "B", "phase": "load", "text": "error: no"
    }  # fmt: skip
    shown = capsys.readouterr().err.splitlines()
    assert timeless("\n".join(shown[:2])).splitlines() == ["running: B", "B load: 12 rows"]
    assert [json.loads(line)["text"] for line in shown[2:]] == ["running: B", "12 rows", "error: no"]
    assert log.LOGGER.handlers[1:] == []


def test_a_log_that_cannot_be_written_is_named_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["local", "no-plan.yaml", "--log", str(tmp_path / "none" / "log")]
    assert main(arguments) == OutputError.exit_code
    assert (
        capsys.readouterr().err == f"error: cannot write the log {arguments[-1]}: No such file or directory\n"
    )
