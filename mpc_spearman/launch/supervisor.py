"""Start each role in its own process on this machine, and record how each process ends.

The processes share no memory: each gets its own part of the plan, and its table if that is a DataFrame,
through a pipe. A process ends when the supervisor's end of the pipe closes.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal

from rich.filesize import decimal

from mpc_spearman.errors import MpcSpearmanError, RoleCrashed, TableError
from mpc_spearman.launch.forkserver import ForkServer
from mpc_spearman.launch.machine import oom_kills
from mpc_spearman.launch.pipe import Assignment, read_error
from mpc_spearman.units import human_seconds
from mpc_spearman.wire.aborts import distance_from_cause

#: Seconds that the other roles have to end by themselves once one has failed and sent them its notice.
GRACE = 8.0

# The phase in which a party reads its own table, before the meeting.
_READING = "load"
# The phase in which a party waits for others, and itself reports for whom.
_WAITING = "connect"

#: Called with progress: party, phase, steps done, steps in all (0 where unknown).
Watch = Callable[[str, str, int, int], None]
#: Called with a sentence for whoever watches the run: party, text.
Note = Callable[[str, str], None]
# Seconds after which a line reports a phase of unknown length.
_QUIET_SECONDS = 10.0


@dataclass(frozen=True)
class Usage:
    """Bytes in memory of a role's process, bytes sent and received so far, and for whom it waits, if so."""

    memory: int
    sent: int
    received: int
    waits_for: str


#: Called every few seconds with a role's usage.
Measure = Callable[[Usage], None]


@dataclass(frozen=True)
class Outcome:
    """How one process ended, in which phase, and after how many seconds; the code is negative for a signal.

    `kind`: it finished; it reported an error; it exited without an error message; the supervisor ended it.
    """

    party: str
    kind: Literal["returned", "raised", "died", "stopped"]
    error: MpcSpearmanError | None
    phase: str
    exit_code: int
    seconds: float


class _Role:
    """One role's process, and what it has reported."""

    def __init__(self, assignment: Assignment, server: ForkServer, events: Events) -> None:
        self.party = assignment.party
        self.phase = "start"
        # The beginning of the role's phase, the last line about it, and whether it reports a number of steps.
        self._began = self._reported = time.monotonic()
        self._reports_steps = False
        self._error: MpcSpearmanError | None = None
        self._done = self._stopped = False
        self._stderr_lines: list[str] = []
        self._killed_before = oom_kills()
        self._process = server.start(assignment.plan.protocol)
        self._start(self._write, assignment.packed())
        self._readers = [self._start(self._read_reports, events), self._start(self._read_stderr)]
        self._waiter = self._start(self._wait, events)

    def take(self, report: dict[str, Any], watch: Watch, note: Note, measure: Measure) -> None:
        """Store what the role reports, and pass it on."""
        if "phase" in report:
            phase, done, of = report["phase"], report["done"], report["of"]
            if phase != self.phase:
                self.phase, self._began = phase, time.monotonic()
                self._reported = self._began
            self._reports_steps = of > 0
            watch(self.party, phase, done, of)
        elif "note" in report:
            note(self.party, report["note"])
        elif "usage" in report:
            usage = Usage(*report["usage"])
            measure(usage)
            if text := self._long_phase(usage):
                note(self.party, text)
        elif "error" in report:
            self._error = read_error(report)
        else:
            self._done = True

    def _long_phase(self, usage: Usage) -> str:
        """Return a sentence on a long phase that the role does not report itself, at intervals; else ''."""
        now = time.monotonic()
        if self._reports_steps or self.phase == _WAITING or now - self._reported < _QUIET_SECONDS:
            return ""
        self._reported = now
        doing = f"waits for {usage.waits_for}" if usage.waits_for else "goes on"
        seconds, memory = human_seconds(now - self._began), decimal(usage.memory)
        return f"{self.phase} {doing}, for {seconds} so far, {memory} of memory in use"

    def report_loss(self, outcome: Outcome) -> None:
        """Send the process that another party's process ended, with the notice of its error."""
        notice = None
        if outcome.error is not None and outcome.kind == "raised":
            notice = outcome.error.about or (type(outcome.error).__name__, outcome.party, outcome.phase)
        self.send(lost=outcome.party, about=notice)

    def send(self, **news: object) -> None:
        """Write a message to the running process."""
        # In a new thread, since the pipe may be full, and a stopped process does not read it.
        self._start(self._write, json.dumps(news).encode() + b"\n")

    def kill(self) -> None:
        """End the process now."""
        if self._process.returncode is None and not self._stopped:
            self._stopped = True
            self._process.kill()

    def frozen(self) -> bool:
        """Return whether a signal has stopped the process, so that it cannot end by itself."""
        try:
            status = Path("/proc", str(self._process.pid), "stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def close(self) -> None:
        """End the process if it still runs, and close the pipes to it."""
        self.kill()
        self._waiter.join(5.0)
        if self._waiter.is_alive():
            self._process.kill()
            self._waiter.join()
        for reader, pipe in zip(self._readers, (self._process.stdout, self._process.stderr), strict=True):
            reader.join(5.0)
            if not reader.is_alive():
                pipe.close()
        with suppress(OSError):  # bytes that the process did not read
            self._process.stdin.close()

    def outcome(self, seconds: float) -> Outcome:
        """Return how the process ended."""
        code = self._process.returncode
        assert code is not None
        if self._done and code == 0:
            return Outcome(self.party, "returned", None, self.phase, code, seconds)
        if self._error is not None:
            return Outcome(self.party, "raised", self._error, self.phase, code, seconds)
        kind: Literal["stopped", "died"] = "stopped" if self._stopped else "died"
        return Outcome(self.party, kind, self._crash(code), self.phase, code, seconds)

    def _crash(self, code: int) -> RoleCrashed:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if code == -signal.SIGKILL and not self._stopped and oom_kills() > self._killed_before:
            how += ", perhaps out of memory: the kernel has killed a process for that meanwhile,"
        last = "".join(self._stderr_lines[-20:]).strip()
        return RoleCrashed(
            f"the process of party {self.party} ended {how} in phase {self.phase}, without an error message"
            + (f"; the last it printed:\n{last}" if last else "")
        )

    def _start(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        return thread

    def _write(self, data: bytes) -> None:
        with suppress(OSError, ValueError):  # the process has ended; its outcome has the reason
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _read_reports(self, events: Events) -> None:
        for line in self._process.stdout:
            events.put((self, json.loads(line)))

    def _read_stderr(self) -> None:
        for line in self._process.stderr:
            self._stderr_lines.append(line.decode(errors="replace"))
            del self._stderr_lines[:-100]

    def _wait(self, events: Events) -> None:
        self._process.wait()
        for reader in self._readers:
            reader.join(5.0)
        events.put((self, None))


#: What roles report, in order; None when a role's process has ended.
Events = SimpleQueue[tuple[_Role, dict[str, Any] | None]]


def launch(
    assignments: Iterable[Assignment],
    server: ForkServer,
    *,
    grace: float = GRACE,
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
    measure: Measure = lambda usage: None,
) -> dict[str, Outcome]:
    """Run all roles until they end; return how each ended, by party.

    A role that fails sends the others its notice, and they stop by themselves. Roles that have not stopped
    after `grace` seconds are killed. Roles that a signal has stopped are killed as soon as only such roles
    are left. When this returns or raises, no process is left.
    """
    # Not a Queue: an interrupt in the middle of its Python code can come out as a RuntimeError of its lock.
    events = Events()
    start = time.monotonic()
    roles: list[_Role] = []
    outcomes: dict[str, Outcome] = {}
    deadline = math.inf
    failed: Outcome | None = None
    informed: set[str] = set()
    try:
        for assignment in assignments:
            roles.append(_Role(assignment, server, events))
        while running := [role for role in roles if role.party not in outcomes]:
            if failed and (time.monotonic() > deadline or all(role.frozen() for role in running)):
                for role in running:
                    role.kill()
            try:
                reporter, report = events.get(timeout=0.2)
            except Empty:
                continue
            if report is None:
                outcome = outcomes[reporter.party] = reporter.outcome(time.monotonic() - start)
                if outcome.kind != "returned" and failed is None:
                    failed, deadline = outcome, time.monotonic() + grace
            elif "address" in report:
                for role in running:
                    if role is not reporter:
                        role.send(address=report["address"])
            else:
                reporter.take(report, watch, note, measure)
            for role in running:
                if failed is None or role.party in informed or role.party in outcomes:
                    continue
                # If one table was refused, the others are still read, so that all errors come at once.
                if failed.phase != _READING or role.phase not in ("start", _READING):
                    informed.add(role.party)
                    role.report_loss(failed)
    finally:
        for role in roles:
            role.close()
    return outcomes


def first_cause(outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Return the outcome that explains the others, or None if all roles returned.

    First comes an error that arose in a role, then a process that died, then errors of the network and errors
    from notices, by `distance_from_cause`. Among equals the first to end counts.
    """

    def rank(outcome: Outcome) -> tuple[float, float]:
        if outcome.kind == "raised" and outcome.error is not None:
            return distance_from_cause(outcome.error), outcome.seconds
        return 0.5 if outcome.kind == "died" else 9, outcome.seconds

    failed = [outcome for outcome in outcomes.values() if outcome.kind != "returned"]
    return min(failed, key=rank) if failed else None


def joint_error(outcomes: Mapping[str, Outcome], cause: Outcome) -> MpcSpearmanError:
    """Return the error of `cause`; if a table was refused, with the errors of all other refused tables."""
    assert cause.error is not None
    if not isinstance(cause.error, TableError):
        return cause.error
    refused = [outcome.error for outcome in outcomes.values() if outcome.phase == _READING]
    texts = dict.fromkeys(str(error) for error in (cause.error, *refused) if isinstance(error, TableError))
    return TableError("\n".join(texts), cause.error.about)
