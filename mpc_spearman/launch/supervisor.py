"""Start roles as processes of their own on this machine, and record how each of them ends.

The processes share no memory: each gets its own part of the plan, and its table if that is a DataFrame,
through a pipe. They cannot outlive the supervisor, whose end of the pipe is their lifeline.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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

#: Seconds the other roles have to end by themselves once one has failed: they are told by it, and stop.
GRACE = 8.0

# The phase in which a party reads its own table, and has met nobody yet.
_READING = "load"
# The phase in which a party waits for others, and says for whom.
_WAITING = "connect"

#: Told of progress: party, phase, steps done, steps in all (0 where unknown).
Watch = Callable[[str, str, int, int], None]
#: Told of what is worth a sentence: party, text.
Note = Callable[[str, str], None]


# Seconds of a phase after which a line says what it uses, where nobody knows how much there is to do.
_SILENT = 10.0


@dataclass(frozen=True)
class Usage:
    """What a role's process uses at a moment: bytes in memory, bytes sent and received so far."""

    memory: int
    sent: int
    received: int


#: Told every few seconds what a role uses.
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
        self, assignment: Assignment, frame: bytes, server: ForkServer, events: SimpleQueue[tuple[str, Any]]
    ) -> None:
        self.party = assignment.party
        self.phase = "start"
        # Since when the role is in its phase, when a line last said so, and whether it says how far it is.
        self._began = self._said = time.monotonic()
        self._counts = False
        self.error: MpcSpearmanError | None = None
        self.done = False
        self.stopped = False
        self._complaints: list[str] = []
        self._killed_before = oom_kills()
        self.process = server.start(assignment)
        self._start(self._feed, replace(assignment, frame=len(frame)).line() + frame)
        self._readers = [self._start(self._listen, events), self._start(self._complain)]
        self._waiter = self._start(self._wait, events)

    def lost(self, ended: Outcome) -> None:
        """Tell the process that another party's process ended: of its error what a peer may hear."""
        about = None if ended.error is None or ended.kind != "raised" else ended.error.about
        if about is None and ended.kind == "raised":
            about = (type(ended.error).__name__, ended.party, ended.phase)
        self.tell(lost=ended.party, about=about)

    def tell(self, **news: object) -> None:
        """Tell the process something while it runs."""
        # In a thread of its own: a process that is stopped reads nothing, and the pipe may be full.
        self._start(self._feed, json.dumps(news).encode() + b"\n")

    def kill(self) -> None:
        """End the process now."""
        if self.process.returncode is None and not self.stopped:
            self.stopped = True
            self.process.kill()

    def silence(self) -> str:
        """Return now and then a sentence on a long phase in which the role says nothing by itself."""
        now = time.monotonic()
        if self._counts or self.phase == _WAITING or now - self._said < _SILENT:
            return ""
        self._said = now
        return f"{self.phase} goes on, for {human_seconds(now - self._began)} so far"

    def frozen(self) -> bool:
        """Tell whether a signal has stopped the process: it will not end by itself."""
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
        with suppress(OSError):  # what could not be fed to it any more
            self.process.stdin.close()

    def outcome(self, seconds: float) -> Outcome:
        """Say how it ended."""
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
        last = "".join(self._complaints[-20:]).strip()
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
            return  # it is gone; its outcome says why

    def _listen(self, events: SimpleQueue[tuple[str, Any]]) -> None:
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
            self._said = self._began
        self._counts = of > 0

    def _complain(self) -> None:
        for line in self.process.stderr:
            self._complaints.append(line.decode(errors="replace"))
            del self._complaints[:-100]

    def _wait(self, events: SimpleQueue[tuple[str, Any]]) -> None:
        self.process.wait()
        for reader in self._readers:
            reader.join(5.0)
        events.put((self.party, None))


def launch(
    assignments: Sequence[Assignment],
    frames: Mapping[str, bytes],
    server: ForkServer,
    *,
    grace: float = GRACE,
    watch: Watch = lambda party, phase, done, of: None,
    note: Note = lambda party, text: None,
    measure: Measure = lambda usage: None,
) -> dict[str, Outcome]:
    """Run all roles to their end.

    A role that fails tells the others, which stop by themselves; whoever has not after `grace` seconds is
    ended, and those that cannot because a signal froze them as soon as only they are left.
    When this returns or raises, no process is left.

    `frames` are Arrow streams by party, of tables that are no files. The outcomes are by party.
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
            frame = frames.get(assignment.party, b"")
            children[assignment.party] = _Child(assignment, frame, server, events)
        while len(outcomes) < len(children):
            left = [child for child in children.values() if child.party not in outcomes]
            if deadline and (time.monotonic() > deadline or all(child.frozen() for child in left)):
                for child in left:
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
                    if silence := children[party].silence():
                        note(party, f"{silence}, {decimal(usage.memory)} of memory in use")
                elif "address" in report:
                    for other in left:
                        if other.party != party:
                            other.tell(address=report["address"])
                else:
                    watch(party, report["phase"], report["done"], report["of"])
            else:
                outcomes[party] = children[party].outcome(time.monotonic() - began)
                if outcomes[party].kind != "returned":
                    failed = failed or outcomes[party]
                    deadline = deadline or time.monotonic() + grace
            for other in left:
                if failed is None or other.party in informed or other.party in outcomes:
                    continue
                # Where one table was refused, others are read first: their owners hear at once what is wrong.
                reading = failed.phase == _READING and other.phase in ("start", _READING)
                if not reading:
                    informed.add(other.party)
                    other.lost(failed)
    finally:
        for child in children.values():
            child.close()
    return outcomes


def first_cause(outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Find the role whose failure explains the others', or None if all returned.

    An error of a role's own comes before a process that died, and that before what the others noticed of it
    or were told. Who ended first counts among equals only.
    """

    def rank(outcome: Outcome) -> tuple[float, float]:
        if outcome.kind == "raised" and outcome.error is not None:
            return distance_from_cause(outcome.error), outcome.seconds
        return 0.5 if outcome.kind == "died" else 9, outcome.seconds

    failed = [outcome for outcome in outcomes.values() if outcome.kind != "returned"]
    return min(failed, key=rank) if failed else None


def said(outcomes: Mapping[str, Outcome], cause: Outcome) -> MpcSpearmanError | None:
    """Return the error of the cause; with it, of a table that was refused, what is wrong with the others'."""
    refused = [one.error for one in outcomes.values() if one.kind == "raised" and one.phase == _READING]
    texts = dict.fromkeys(str(error) for error in (cause.error, *refused) if isinstance(error, TableError))
    if not isinstance(cause.error, TableError):
        return cause.error
    return TableError("\n".join(texts), cause.error.about)
