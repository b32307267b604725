"""The supervisor: how it notices that roles end, and which of several failures explains the others."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.errors import (
    AlignmentError,
    MpcSpearmanError,
    NetworkError,
    PeerDied,
    PeerFailed,
    PeerTimeout,
    RoleCrashed,
    TableError,
    UnknownKey,
)
from mpc_spearman.launch import supervisor
from mpc_spearman.launch.supervisor import Outcome, first_cause
from support.harness import do
from support.processes import alive

REFUSED_TABLE = "supervisor.fail(TableError('no rows'))"


def test_all_return_and_what_they_report_is_passed_on(tmp_path: Path) -> None:
    reports: list[tuple[Any, ...]] = []
    outcomes = do(
        tmp_path,
        {"A": "phase('rank')\nnote('it will take a while')\nphase('rank', 3, 7)\ndone()"},
        watch=lambda *report: reports.append(report),
        note=lambda *report: reports.append(report),
    )
    assert {(outcome.kind, outcome.error, outcome.exit_code) for outcome in outcomes.values()} == {
        ("returned", None, 0)
    }
    assert reports == [("A", "rank", 0, 0), ("A", "it will take a while"), ("A", "rank", 3, 7)]
    assert outcomes["A"].phase == "rank"
    assert first_cause(outcomes) is None


def test_an_error_is_rebuilt_and_waiting_roles_get_its_notice(tmp_path: Path) -> None:
    waits = "time.sleep(600)"
    outcomes = do(tmp_path, {"A": f"phase('rank')\n{REFUSED_TABLE}", "B": waits, "C": waits})
    assert outcomes["A"].kind == "raised"
    assert type(outcomes["A"].error) is TableError
    assert str(outcomes["A"].error) == "no rows"
    assert outcomes["A"].exit_code == 4
    for party in "BC":
        notice = outcomes[party].error
        assert type(notice) is PeerFailed
        assert notice.about == ("TableError", "A", "rank")
    assert first_cause(outcomes) is outcomes["A"]


def test_a_long_phase_goes_on_or_waits_for_a_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_QUIET_SECONDS", 0)
    notes: list[str] = []
    usage = "for peer in ('B', ''): supervisor.say(usage=[2_000_000_000_000, 0, 0, peer])"
    do(tmp_path, {"C": f"phase('decrypt')\n{usage}\ndone()"}, note=lambda party, text: notes.append(text))
    lines = [re.sub(r"\d+ ms", "0 ms", text) for text in notes if "2.0 TB" in text]
    assert lines == [
        "decrypt waits for B, for 0 ms so far, 2.0 TB of memory in use",
        "decrypt goes on, for 0 ms so far, 2.0 TB of memory in use",
    ]


def test_an_error_of_a_class_nobody_knows_is_still_an_error(tmp_path: Path) -> None:
    outcomes = do(tmp_path, {"A": "supervisor.say(error='Oops', text='x', about=None)\nos._exit(1)"})
    assert type(outcomes["A"].error) is MpcSpearmanError


def test_a_crash_quotes_what_the_process_printed_last(tmp_path: Path) -> None:
    table = os.urandom(300_000)  # more than a socket holds
    body = "phase('rank')\nprint('out of luck')\nsys.stdout.flush()\nos._exit(1)"
    error = do(tmp_path, {"A": body}, tables={"A": table})["A"].error
    assert type(error) is RoleCrashed
    assert str(error) == (
        "the process of party A ended with exit code 1 in phase rank, without an error message; "
        "the last it printed:\n"
        "out of luck"
    )


def test_a_roles_own_output_is_not_a_report(tmp_path: Path) -> None:
    """A library that prints must not be mistaken for the role itself."""
    body = "print('{\"error\": \"TableError\"}', flush=True)\nphase('rank')\ndone()"
    outcomes = do(tmp_path, body)
    assert {(outcome.kind, outcome.phase) for outcome in outcomes.values()} == {("returned", "rank")}


@pytest.mark.parametrize(
    ("body", "code", "how"),
    [
        ("os._exit(7)", 7, "with exit code 7"),
        ("supervisor.say(done=True)\nos._exit(9)", 9, "with exit code 9"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "by signal SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "by signal SIGKILL"),
    ],
)
def test_a_crash_names_its_exit_code_or_signal(tmp_path: Path, body: str, code: int, how: str) -> None:
    outcome = do(tmp_path, {"A": body})["A"]
    assert (outcome.kind, outcome.exit_code) == ("died", code)
    assert f"ended {how} in phase start" in str(outcome.error)


@pytest.mark.parametrize(
    "how", ["time.sleep(600)", "os.kill(os.getpid(), signal.SIGSTOP)", "while True: phase('rank', 1, 2)"]
)
def test_a_role_that_does_not_stop_is_killed(tmp_path: Path, how: str) -> None:
    # The others are joined by then: a role that is not ends when it is told of the first.
    joined = tmp_path / "joined"
    joined.mkdir()
    stays = f"supervisor.joined()\nnote(os.getpid())\nos.mkdir(f'{joined}/{{os.getpid()}}')\n{how}"
    late = f"while len(os.listdir('{joined}')) < 2: time.sleep(0.01)\n{REFUSED_TABLE}"
    processes: list[int] = []
    outcomes = do(
        tmp_path,
        {"A": late, "B": stays, "C": stays},
        grace=0.5,
        note=lambda party, text: processes.append(int(text)),
    )
    assert (outcomes["B"].kind, outcomes["C"].kind) == ("stopped", "stopped")
    assert first_cause(outcomes) is outcomes["A"]
    assert len(processes) == 2
    assert not any(map(alive, processes))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_whatever_ends_the_launcher_leaves_no_process(tmp_path: Path, error: type[BaseException]) -> None:
    pids: list[int] = []

    def watch(party: str, phase: str, done: int, of: int) -> None:
        pids.append(int(phase))
        if len(pids) == 3:
            assert all(alive(process) for process in pids)
            raise error

    with pytest.raises(error):
        do(tmp_path, "phase(str(os.getpid()))\ntime.sleep(600)", watch=watch)
    assert not any(alive(process) for process in pids)


# ---- which failure explains the others


def outcome(party: str, kind: Any, error: MpcSpearmanError | None, seconds: float) -> Outcome:
    return Outcome(party, kind, error, "rank", 1, seconds)


OWN = outcome("A", "raised", TableError("own"), 3.0)
LATE = outcome("B", "raised", TableError("later"), 4.0)
DIED = outcome("B", "died", RoleCrashed("died"), 2.0)
HEARD = outcome("C", "raised", PeerFailed("heard", ("TableError", "A", "load"), heard=True), 1.0)
GONE = outcome("C", "raised", PeerDied("gone", ("PeerDied", "B", "load")), 1.0)
SILENT = outcome("C", "raised", PeerTimeout("silent", ("PeerTimeout", "B", "load")), 1.0)
TOLD = outcome("C", "raised", AlignmentError("told", ("AlignmentError", "A", "align"), heard=True), 1.0)
UNMET = outcome("C", "raised", NetworkError("did not meet"), 1.0)
REFUSED = outcome("B", "raised", UnknownKey("A's plan lacks our key", heard=True), 0.5)
FINDER = outcome("A", "raised", UnknownKey("what answers as B"), 1.5)
PASSED_ON = outcome("A", "raised", PeerDied("gone", ("PeerDied", "B", "load"), heard=True), 0.2)
STOPPED = outcome("B", "stopped", RoleCrashed("stopped"), 0.5)
FINE = outcome("B", "returned", None, 0.1)


@pytest.mark.parametrize(
    ("outcomes", "cause"),
    [
        ([HEARD, OWN], OWN),
        ([HEARD, LATE, OWN], OWN),
        ([TOLD, OWN], OWN),
        ([GONE, DIED], DIED),
        ([HEARD, DIED, OWN], OWN),
        ([SILENT, STOPPED], SILENT),
        ([UNMET, DIED], DIED),
        ([STOPPED, HEARD, OWN], OWN),
        ([FINE, OWN], OWN),
        ([REFUSED, FINDER, TOLD], FINDER),
        ([PASSED_ON, GONE], GONE),
        ([PASSED_ON, HEARD], HEARD),
        ([FINE], None),
    ],
)
def test_the_cause_of_several_failures_is_found(outcomes: list[Outcome], cause: Outcome | None) -> None:
    for order in (outcomes, outcomes[::-1]):
        assert first_cause({str(i): outcome for i, outcome in enumerate(order)}) is cause
