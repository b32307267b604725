"""The command ``local``: what it prints and returns, and that nothing survives it however it ends."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import Result, errors
from support.harness import ROOT
from support.log_lines import timeless
from support.plans import INPUTS, files, write_inputs
from support.processes import EVER, TAG, eventually, new_tag, processes
from support.server import Command, hooked

COMMAND = [sys.executable, "-W", "error", "-m", "mpc_spearman"]


#: Settings with which few rows are no matter; and those of runs in new processes, which need no PyTorch.
LIGHT = ("protocol=he", "he.key_bits=512", "he.insecure=true", "he.randomness=short")
LIGHT += ("parties.target.policy.min_key_bits=512", "parties.sources.A.policy.min_key_bits=512")
EXACT = ("results.precision=exact", "parties.target.policy.exact=true", "parties.sources.A.policy.exact=true")


def expected(folder: Path) -> np.ndarray:
    a, b = pd.read_csv(folder / "a.csv"), pd.read_csv(folder / "b.csv")
    pooled = pd.concat([a, b], axis=1).drop(columns="id").corr("spearman")
    return pooled.loc[["a", "b"], ["x", "y", "z"]].to_numpy()


@pytest.fixture
def environment() -> dict[str, str]:
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    return {key: value for key, value in os.environ.items() if key not in unwanted} | {
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        **new_tag(),
    }


Start = Callable[..., Any]


@pytest.fixture
def mark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that a role makes before it hangs."""
    return tmp_path_factory.mktemp("mark") / "hangs"


@pytest.fixture
def start(folder: Path, environment: Mapping[str, str], mark: Path) -> Iterator[Start]:
    """Start the command in the folder, leading a session of its own: forked, if nothing is between."""
    started: list[Any] = []

    def start(
        *arguments: str, hangs_in: str = "", through: Sequence[str] = (), terminal: int | None = None
    ) -> Any:
        environ, hang = dict(environment), {"act": "sleep", "seconds": 2 * EVER, "mark": str(mark)}
        if hangs_in:
            party, _, phase = hangs_in.rpartition(":")
            environ |= hooked("faults:on_phase", party=party or "A", phase=phase, **hang)
        if through:
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            command = [*through, *COMMAND, *arguments]
            result: Any = subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True, **pipes)
        else:
            result = Command(
                arguments, folder=folder, environment=environ, name=environment[TAG], terminal=terminal
            )
        started.append(result)
        return result

    yield start
    for process in started:
        process.kill()
        process.communicate()


def processes_left(environment: Mapping[str, str]) -> list[int]:
    """Processes of this test that are there."""
    return processes(environment[TAG])


# ---- a run


def test_in_a_pipe_it_prints_plain_lines_and_keeps_the_results(
    start: Start, folder: Path, environment: Mapping[str, str]
) -> None:
    settings = ("order=ascending", *EXACT, *LIGHT)
    process = start(
        "local", "plan.yaml", "--out", "deep/out", "--table", "A=a.csv", *settings, through=["env"]
    )
    out, err = process.communicate()
    assert (process.returncode, timeless(err)) == (0, "running: C, B, A\n")
    assert timeless(err) != err
    assert not set(out) & set("\x1b\r\x08\x07")
    lines = out.splitlines()
    assert lines[0].startswith("No pair differs from chance (smallest q ")
    assert lines[-1] == "Report: deep/out/C/report.html"
    assert processes_left(environment) == []
    assert files(folder) == ["a.csv", "b.csv", "deep", "plan.yaml"]
    assert files(folder / "deep") == ["out"]
    assert files(folder / "deep" / "out") == ["A", "B", "C"]
    result = Result.load(folder / "deep" / "out" / "C")
    np.testing.assert_allclose(result.coefficients.to_numpy(), expected(folder), rtol=1e-14)
    assert result.plan.order == "ascending"


def test_ranks_are_kept_and_used_by_a_later_run(start: Start, folder: Path) -> None:
    coefficients, written = [], []
    for _ in range(2):
        process = start("local", "plan.yaml", "--out", "out", "--keep-ranks", "ranks", *EXACT)
        process.communicate()
        assert process.returncode == 0
        coefficients.append(Result.load(folder / "out" / "C").coefficients)
        written.append({path.name: path.stat().st_mtime_ns for path in (folder / "ranks").iterdir()})
    assert len(written[0]) == 4
    assert written[0] == written[1]
    pd.testing.assert_frame_equal(*coefficients, check_exact=True)
    (folder / "ranks").chmod(0o755)
    process = start("local", "plan.yaml", "--keep-ranks", "ranks")
    process.communicate()
    assert process.returncode == errors.PlanError.exit_code


def test_an_error_in_a_role_is_one_line_and_nothing_is_left(
    start: Start, folder: Path, environment: Mapping[str, str]
) -> None:
    (folder / "a.csv").write_text((folder / "a.csv").read_text().replace("p7,", "p6,", 1))
    process = start("local", "plan.yaml", "--quiet")
    out, err = process.communicate()
    assert process.returncode == errors.TableError.exit_code
    assert err.startswith("error: A: ")
    assert "a.csv" in err
    assert "id" in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert files(folder) == INPUTS
    assert processes_left(environment) == []


def test_two_runs_at_once_do_not_disturb_each_other(start: Start, folder: Path) -> None:
    second_folder = folder / "other"
    second_folder.mkdir()
    write_inputs(second_folder, seed=4)
    # Without --out: both choose a place under runs/, in the same second.
    runs = [start("local", plan, "--quiet") for plan in ("plan.yaml", "other/plan.yaml")]
    reports = []
    for process in runs:
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        reports.append(folder / out.splitlines()[-1].removeprefix("Report: "))
    for report, tables in zip(reports, (folder, second_folder), strict=True):
        assert report.parts[-4] == "runs"
        coefficients = Result.load(report.parent).coefficients
        np.testing.assert_allclose(coefficients.to_numpy(), expected(tables), rtol=1e-14)
    assert len(files(folder / "runs")) == 2


def test_two_runs_into_one_folder_are_not_mixed(start: Start, folder: Path, mark: Path) -> None:
    first = start("local", "plan.yaml", "--out", "out", hangs_in="rank")
    eventually(mark.exists)
    second = start("local", "plan.yaml", "--out", "other/../out", "rows=40", "--quiet")
    _, err = second.communicate()
    assert second.returncode == errors.OutputError.exit_code
    assert "another run is writing to" in err
    assert err.count("\n") == 1
    first.send_signal(signal.SIGINT)
    first.communicate()
    # Nothing of either is left, and the place is free again.
    assert files(folder) == INPUTS
    third = start("local", "plan.yaml", "--out", "out")
    third.communicate()
    assert third.returncode == 0
    assert files(folder / "out") == ["A", "B", "C"]


@pytest.mark.long
def test_runs_started_into_one_folder_leave_one_runs_results(start: Start, folder: Path) -> None:
    for _ in range(5):
        runs = [start("local", "plan.yaml", "--out", "out", f"rows={rows}") for rows in (40, 45, 50)]
        exit_codes = {}
        for rows, process in zip((40, 45, 50), runs, strict=True):
            process.communicate()
            exit_codes[rows] = process.returncode
        assert set(exit_codes.values()) <= {0, errors.OutputError.exit_code}
        (n,) = {Result.load(folder / "out" / party).n for party in "ABC"}
        assert exit_codes[n] == 0


# ---- a run that is interrupted

INTERRUPTED = "interrupted: all roles were stopped, no result was written\n"


@pytest.mark.parametrize(
    ("number", "phase", "code", "message"),
    [
        (signal.SIGINT, "rank", 130, INTERRUPTED),
        (signal.SIGTERM, "A:multiply", 143, "stopped by SIGTERM\n"),
        pytest.param(signal.SIGHUP, "rank", 129, "stopped by SIGHUP\n", marks=pytest.mark.long),
        *(
            pytest.param(signal.SIGINT, phase, 130, INTERRUPTED, marks=pytest.mark.long)
            for phase in ("start", "connect", "share", "account", "A:multiply")
        ),
    ],
)
def test_a_signal_leaves_no_process_and_no_file(
    start: Start,
    folder: Path,
    environment: Mapping[str, str],
    mark: Path,
    number: signal.Signals,
    phase: str,
    code: int,
    message: str,
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("under nohup nobody ends on it")
    process = start("local", "plan.yaml", "--quiet", hangs_in=phase)
    eventually(mark.exists)
    os.killpg(process.pid, number)
    _, err = process.communicate()
    assert (process.returncode, err) == (code, message)
    assert processes_left(environment) == []
    assert files(folder) == INPUTS


@pytest.mark.long
def test_a_command_under_nohup_survives_the_hangup(start: Start) -> None:
    plan = ("plan.yaml", *EXACT, *LIGHT)
    process = start("local", *plan, through=["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"])
    assert process.stderr is not None
    assert timeless(process.stderr.readline()) == "running: C, B, A\n"
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")


# ---- on a terminal


class Terminal:
    """A pseudo-terminal and what was shown on it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, b"\x28\x00\x78\x00\x00\x00\x00\x00")  # 40 lines of 120
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read_until(self, condition: Callable[[str], bool]) -> None:
        end = time.monotonic() + EVER
        while not condition(self.shown):
            assert time.monotonic() < end, self.shown
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += self._decoder.decode(os.read(self.master, 65536))

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    result = Terminal()
    yield result
    result.close()


def assert_cursor_is_back(shown: str) -> None:
    assert "\x1b[?25l" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_on_a_terminal_progress_is_live_and_gone_at_the_end(start: Start, terminal: Terminal) -> None:
    process = start("local", "plan.yaml", "--out", "out", terminal=terminal.slave)
    terminal.read_until(lambda shown: "Report: out/C/report.html" in shown)
    assert process.wait() == 0
    assert_cursor_is_back(terminal.shown)
    live, after = terminal.shown.rsplit("\x1b[?25h", 1)
    for party in "ABC":
        assert f"{party}: connect" in live
    assert "\x1b[1A" in live  # drawn over again, in place
    assert "\x1b[2K" in live
    assert "━" not in after  # no bar is left
    assert "No pair differs from chance" in after


def test_ctrl_c_on_a_terminal_leaves_no_process_and_no_file(
    start: Start, folder: Path, environment: Mapping[str, str], terminal: Terminal
) -> None:
    process = start("local", "plan.yaml", hangs_in="rank", terminal=terminal.slave)
    terminal.read_until(lambda shown: "A: rank" in shown)
    os.write(terminal.master, b"\x03")
    terminal.read_until(lambda shown: INTERRUPTED.strip() in shown)
    assert process.wait() == 130
    assert_cursor_is_back(terminal.shown)
    assert processes_left(environment) == []
    assert files(folder) == INPUTS
