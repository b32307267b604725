"""The supervisor: how it sees roles end, with small stand-ins for their processes."""

from __future__ import annotations

import os
import signal
import sys
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
from mpc_spearman.launch.local import assignments
from mpc_spearman.launch.processes import Start, executing
from mpc_spearman.launch.role_process import Assignment
from mpc_spearman.launch.supervisor import Outcome, first_cause, launch
from support.harness import fork_server
from support.plans import plan
from support.processes import alive

#: A stand-in for a role's process: it reads its order and its table, then does what is written for its party.
STAND_IN = """
import json, os, signal, sys, time
order = json.loads(sys.stdin.buffer.readline())
frame = sys.stdin.buffer.read(order["frame"])
party = order["party"]
def say(**report): print(json.dumps(report), flush=True)
def phase(name, done=0, of=0): say(phase=name, done=done, of=of)
def fail(name, code, text="x", about=None):
    say(error=name, text=text, about=about); sys.exit(code)
def wait(): return json.loads(sys.stdin.buffer.readline())["lost"]
def done(): say(done=True); os._exit(0)
"""


@pytest.fixture
def three(tmp_path: Path) -> list[Assignment]:
    return assignments(plan(), tmp_path)


def stand_in(**bodies: str) -> Start:
    """Start roles that do what is written for their party."""
    choices = "\n".join(
        f"if party == {party!r}:\n" + "\n".join(f"    {line}" for line in body.splitlines())
        for party, body in bodies.items()
    )
    return executing([sys.executable, "-IS", "-c", STAND_IN + choices])


def test_all_return(three: list[Assignment]) -> None:
    seen: list[tuple[Any, ...]] = []
    outcomes = launch(
        three,
        {},
        watch=lambda *report: seen.append(report),
        start=stand_in(A="phase('rank')\nphase('rank', 3, 7)\ndone()", B="done()", C="done()"),
    )
    assert {(outcome.kind, outcome.error, outcome.exit_code) for outcome in outcomes.values()} == {
        ("returned", None, 0)
    }
    assert seen == [("A", "rank", 0, 0), ("A", "rank", 3, 7)]
    assert outcomes["A"].phase == "rank"
    assert first_cause(outcomes) is None


def test_notes_are_passed_on(three: list[Assignment]) -> None:
    notes: list[tuple[str, str]] = []
    launch(
        three,
        {},
        note=lambda *note: notes.append(note),
        start=stand_in(A="say(note='it will take a while')\ndone()", B="done()", C="done()"),
    )
    assert notes == [("A", "it will take a while")]


def test_each_process_gets_its_own_order_and_table_and_shares_no_memory(
    three: list[Assignment], tmp_path: Path
) -> None:
    table = os.urandom(300_000)  # more than a pipe holds
    body = f"open({str(tmp_path)!r} + '/' + party, 'wb').write(frame)\nphase(str(os.getpid()))\ndone()"
    outcomes = launch(three, {"A": table}, start=stand_in(A=body, B=body, C=body))
    assert [(tmp_path / party).read_bytes() for party in "ABC"] == [table, b"", b""]
    assert len({outcome.phase for outcome in outcomes.values()} | {str(os.getpid())}) == 4


def test_no_order_holds_another_partys_own_things(tmp_path: Path) -> None:
    parties = plan().parties
    target = parties.target.model_copy(update={"table": Path("/secret/b.csv"), "id": ("surname",)})
    its = plan().model_copy(update={"parties": parties.model_copy(update={"target": target})})
    lines = {order.party: order.line() for order in assignments(its, tmp_path)}
    assert b"/secret/b.csv" in lines["B"]
    assert b"surname" in lines["B"]
    for other in "AC":
        assert b"/secret/b.csv" not in lines[other]
        assert b"surname" not in lines[other]


def test_a_reported_error_is_rebuilt_and_the_others_are_told_who_is_lost(three: list[Assignment]) -> None:
    told = "fail('PeerDied', 12, 'lost ' + wait(), ['PeerDied', 'A', 'connect'])"
    outcomes = launch(three, {}, start=stand_in(A="fail('TableError', 4, 'no rows')", B=told, C=told))
    assert outcomes["A"].kind == "raised"
    assert type(outcomes["A"].error) is TableError
    assert str(outcomes["A"].error) == "no rows"
    assert outcomes["A"].exit_code == 4
    for party in "BC":
        assert type(outcomes[party].error) is PeerDied
        assert str(outcomes[party].error) == "lost A"
        assert outcomes[party].error is not None
        assert outcomes[party].error.about == ("PeerDied", "A", "connect")
    assert first_cause(outcomes) is outcomes["A"]


def test_an_error_of_a_class_nobody_knows_is_still_an_error(three: list[Assignment]) -> None:
    outcomes = launch(three, {}, start=stand_in(A="fail('Oops', 1)", B="done()", C="done()"))
    assert type(outcomes["A"].error) is MpcSpearmanError


def test_a_process_that_ends_without_a_word_is_quoted(three: list[Assignment]) -> None:
    start = stand_in(A="phase('rank')\nraise SystemExit('out of luck')", B="done()", C="done()")
    error = launch(three, {}, start=start)["A"].error
    assert type(error) is RoleCrashed
    assert str(error) == (
        "the process of party A ended with exit code 1 in phase rank, without an error message; "
        "the last it printed:\n"
        "out of luck"
    )


def test_a_process_that_says_done_and_then_fails_has_not_returned(three: list[Assignment]) -> None:
    start = stand_in(A="say(done=True)\nos._exit(9)", B="done()", C="done()")
    assert launch(three, {}, start=start)["A"].kind == "died"


def test_a_signal_is_named(three: list[Assignment]) -> None:
    start = stand_in(A="os.kill(os.getpid(), signal.SIGSEGV)", B="done()", C="done()")
    outcome = launch(three, {}, start=start)["A"]
    assert (outcome.kind, outcome.exit_code) == ("died", -signal.SIGSEGV)
    assert "ended by signal SIGSEGV in phase start" in str(outcome.error)


@pytest.mark.parametrize(
    "how", ["time.sleep(600)", "os.kill(os.getpid(), signal.SIGSTOP)", "while True: phase('rank', 1, 2)"]
)
def test_who_does_not_end_by_itself_is_ended(three: list[Assignment], how: str) -> None:
    outcomes = launch(three, {}, grace=0.5, start=stand_in(A="fail('TableError', 4)", B=how, C=how))
    assert (outcomes["B"].kind, outcomes["C"].kind) == ("stopped", "stopped")
    assert first_cause(outcomes) is outcomes["A"]


def test_a_stopped_process_that_never_read_its_table_holds_nobody_up(three: list[Assignment]) -> None:
    fails = stand_in(A="fail('TableError', 4)")
    stuck = executing(
        [sys.executable, "-IS", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    )
    outcomes = launch(
        three,
        dict.fromkeys("ABC", bytes(1_000_000)),
        grace=0.5,
        start=lambda assignment: (fails if assignment.party == "A" else stuck)(assignment),
    )
    assert sorted(outcome.kind for outcome in outcomes.values()) == ["raised", "stopped", "stopped"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_whatever_ends_the_launcher_leaves_no_process(
    three: list[Assignment], error: type[BaseException]
) -> None:
    pids: list[int] = []

    def watch(party: str, phase: str, done: int, of: int) -> None:
        pids.append(int(phase))
        if len(pids) == 3:
            assert all(alive(process) for process in pids)
            raise error

    body = "phase(str(os.getpid()))\ntime.sleep(600)"
    with pytest.raises(error):
        launch(three, {}, watch=watch, start=stand_in(A=body, B=body, C=body))
    assert not any(alive(process) for process in pids)


def test_what_a_role_prints_is_no_report(tmp_path: Path) -> None:
    # A library that prints must not be mistaken for the role itself.
    script = (
        "import os\n"
        "from mpc_spearman.launch import role_process\n"
        "def prints(assignment, supervisor):\n"
        '    print(\'{"error": "TableError"}\', flush=True)\n'
        "    supervisor.say(phase='rank', done=0, of=0)\n"
        "    supervisor.say(done=True)\n"
        "    os._exit(0)\n"
        "role_process.main(prints)\n"
    )
    start = executing([sys.executable, "-c", script])
    outcomes = launch(assignments(plan(), tmp_path), {}, start=start)
    assert {outcome.kind for outcome in outcomes.values()} == {"returned"}
    assert {outcome.phase for outcome in outcomes.values()} == {"rank"}


@pytest.mark.parametrize("gone", ["supervisor", "party"])
def test_a_role_that_waits_for_others_ends_when_they_or_the_supervisor_are_gone(
    tmp_path: Path, gone: str
) -> None:
    mine = next(one for one in assignments(plan(), tmp_path) if one.party == "C")
    role = (executing() if gone == "supervisor" else fork_server().start)(mine)
    assert role.stdin is not None
    assert role.stdout is not None
    assert role.stderr is not None
    with role.stdin, role.stdout, role.stderr:
        role.stdin.write(mine.line())
        role.stdin.flush()
        while b'"connect"' not in (line := role.stdout.readline()):
            assert line, "it has ended"
        if gone == "supervisor":
            role.stdin.close()  # its lifeline
            assert role.wait() == 1
        else:
            role.stdin.write(b'{"lost": "B", "about": null}\n')
            role.stdin.flush()
            assert role.wait() == PeerDied.exit_code
            assert b"party B ended before all had joined" in role.stdout.read()


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
def test_first_cause(outcomes: list[Outcome], cause: Outcome | None) -> None:
    for order in (outcomes, outcomes[::-1]):
        assert first_cause({str(i): outcome for i, outcome in enumerate(order)}) is cause
