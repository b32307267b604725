"""Start each role in its own process on this machine, and record how each process ends.

The processes share no memory: each gets its own part of the plan, and its table if that is a DataFrame,
through a pipe. A process ends when the supervisor's end of the pipe closes.
"""

from __future__ import annotations

import json
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


class _Child:
    """One role's process."""

    def __init__(
        self, assignment: Assignment, server: ForkServer, events: SimpleQueue[tuple[str, Any]]
    ) -> None:
        self.party = assignment.party
        self.phase = "start"
        # The beginning of the role's phase, the last line about it, and whether it reports a number of steps.
        self._began = self._reported = time.monotonic()
        self._reports_steps = False
        self.error: MpcSpearmanError | None = None
        self.done = False
        self.stopped = False
        self._stderr_lines: list[str] = []
        self._killed_before = oom_kills()
        self.process = server.start(assignment.plan.protocol)
        self._start(self._feed, assignment.packed())
        self._readers = [self._start(self._read_reports, events), self._start(self._read_stderr)]
        self._waiter = self._start(self._wait, events)

    def report_loss(self, ended: Outcome) -> None:
        """Tell the process that another party's process ended, with the notice of its error."""
        about = None if ended.error is None or ended.kind != "raised" else ended.error.about
        if about is None and ended.kind == "raised":
            about = (type(ended.error).__name__, ended.party, ended.phase)
        self.send(lost=ended.party, about=about)

    def send(self, **news: object) -> None:
        """Write a message to the running process."""
        # In a new thread, since the pipe may be full, and a stopped process does not read it.
        self._start(self._feed, json.dumps(news).encode() + b"\n")

    def kill(self) -> None:
        """End the process now."""
        if self.process.returncode is None and not self.stopped:
            self.stopped = True
            self.process.kill()

    def silence(self, usage: Usage) -> str:
        """Return a sentence on a long phase that the role does not report itself, at intervals; else ''."""
        now = time.monotonic()
        if self._reports_steps or self.phase == _WAITING or now - self._reported < _QUIET_SECONDS:
            return ""
        self._reported = now
        doing = f"waits for {usage.waits_for}" if usage.waits_for else "goes on"
        seconds, memory = human_seconds(now - self._began), decimal(usage.memory)
        return f"{self.phase} {doing}, for {seconds} so far, {memory} of memory in use"

    def frozen(self) -> bool:
        """Return whether a signal has stopped the process, so that it cannot end by itself."""
        try:
            status = Path("/proc", str(self.process.pid), "stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def close(self) -> None:
        """End the process if it still runs, and close the pipes to it."""
        self.kill()
        self._waiter.join(5.0)
        if self._waiter.is_alive():
            self.process.kill()
            self._waiter.join()
        for reader, pipe in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(5.0)
            if not reader.is_alive():
                pipe.close()
        with suppress(OSError):  # bytes that the process did not read
            self.process.stdin.close()

    def outcome(self, seconds: float) -> Outcome:
        """Return how the process ended."""
        code = self.process.returncode
        assert code is not None
        kind: Literal["returned", "raised", "died", "stopped"]
        if self.done and code == 0:
            kind, error = "returned", None
        elif self.error is not None:
            kind, error = "raised", self.error
        else:
            kind, error = ("stopped" if self.stopped else "died"), self._crash(code)
        return Outcome(self.party, kind, error, self.phase, code, seconds)

    def _crash(self, code: int) -> RoleCrashed:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if code == -signal.SIGKILL and not self.stopped and oom_kills() > self._killed_before:
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

    def _feed(self, data: bytes) -> None:
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except (OSError, ValueError):
            return  # the process has ended; its outcome has the reason

    def _read_reports(self, events: SimpleQueue[tuple[str, Any]]) -> None:
        for line in self.process.stdout:
            report = json.loads(line)
            if "error" in report:
                self.error = read_error(report)
            elif "phase" in report:
                self._enter(report["phase"], report["of"])
                events.put((self.party, report))
            elif report.keys() & {"note", "address", "usage"}:
                events.put((self.party, report))
            else:
                self.done = True

    def _enter(self, phase: str, of: int) -> None:
        if phase != self.phase:
            self.phase, self._began = phase, time.monotonic()
            self._reported = self._began
        self._reports_steps = of > 0

    def _read_stderr(self) -> None:
        for line in self.process.stderr:
            self._stderr_lines.append(line.decode(errors="replace"))
            del self._stderr_lines[:-100]

    def _wait(self, events: SimpleQueue[tuple[str, Any]]) -> None:
        self.process.wait()
        for reader in self._readers:
            reader.join(5.0)
        events.put((self.party, None))


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
    events = SimpleQueue[tuple[str, Any]]()
    began = time.monotonic()
    children: dict[str, _Child] = {}
    outcomes: dict[str, Outcome] = {}
    deadline: float | None = None
    failed: Outcome | None = None
    informed: set[str] = set()
    try:
        for assignment in assignments:
            children[assignment.party] = _Child(assignment, server, events)
        while len(outcomes) < len(children):
            running = [child for child in children.values() if child.party not in outcomes]
            if deadline and (time.monotonic() > deadline or all(child.frozen() for child in running)):
                for child in running:
                    child.kill()
            try:
                party, report = events.get(timeout=0.2)
            except Empty:
                continue
            if report is not None:
                if "note" in report:
                    note(party, report["note"])
                elif "usage" in report:
                    usage = Usage(*report["usage"])
                    measure(usage)
                    if silence := children[party].silence(usage):
                        note(party, silence)
                elif "address" in report:
                    for other in running:
                        if other.party != party:
                            other.send(address=report["address"])
                else:
                    watch(party, report["phase"], report["done"], report["of"])
            else:
                outcomes[party] = children[party].outcome(time.monotonic() - began)
                if outcomes[party].kind != "returned":
                    failed = failed or outcomes[party]
                    deadline = deadline or time.monotonic() + grace
            for other in running:
                if failed is None or other.party in informed or other.party in outcomes:
                    continue
                # If one table was refused, the others are still read, so that all errors are reported at
                # once.
                reading = failed.phase == _READING and other.phase in ("start", _READING)
                if not reading:
                    informed.add(other.party)
                    other.report_loss(failed)
    finally:
        for child in children.values():
            child.close()
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


def joint_error(outcomes: Mapping[str, Outcome], cause: Outcome) -> MpcSpearmanError | None:
    """Return the error of `cause`; if a table was refused, with the errors of all other refused tables."""
    refused = [one.error for one in outcomes.values() if one.kind == "raised" and one.phase == _READING]
    texts = dict.fromkeys(str(error) for error in (cause.error, *refused) if isinstance(error, TableError))
    if not isinstance(cause.error, TableError):
        return cause.error
    return TableError("\n".join(texts), cause.error.about)
