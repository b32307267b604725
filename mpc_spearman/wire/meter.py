"""The meter: what each phase of a run costs a party.

Everything that crosses a link is counted here, once, by the code that puts it there or takes it off
(:mod:`mpc_spearman.wire`), at both ends, so that what A says it sent is what B says it received.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

#: The phases of a run, in order: the words of the code, the cost report and the error messages.
#: ``keep-alive`` is no phase of the protocol but a row of its own for what runs beside it.
PHASES = (
    "load",
    "connect",
    "intersect",
    "agree",
    "rank",
    "protect",
    "align",
    "describe",
    "keys",
    "encrypt",
    "evaluate",
    "decrypt",
    "share",
    "multiply",
    "reveal",
    "publish",
    "account",
    "keep-alive",
)

#: How the rows begin, one for each pair, of what the coordinator's host has forwarded: such bytes are in the
#: pair's own phases too.
FORWARDED = "forwarded"
#: The phases that only one protocol has.
_ONLY = {"he": ("keys", "encrypt", "evaluate", "decrypt"), "mpc": ("share", "multiply", "reveal")}


def costed(protocol: str, alignment: str = "same") -> tuple[str, ...]:
    """Phases in the cost table of a protocol: all but ``account``, which carries the table itself."""
    others = [phase for name, phases in _ONLY.items() if name != protocol for phase in phases]
    others += [] if alignment == "intersect" else ["intersect"]
    return tuple(phase for phase in PHASES if phase != "account" and phase not in others)


@dataclass
class PhaseCost:
    """Cost of one phase to one party.

    Attributes
    ----------
    seconds : float
        Wall time spent working in the phase, without the time spent waiting.
    wait_seconds : float
        Wall time spent waiting for a peer.
    bytes_sent, bytes_received : int
        Bytes of frames, headers included.
    messages : int
        Frames sent.
    rounds : int
        Hops that the phase added to the longest chain of dependent messages that ends at this party.
    peak_memory_bytes : int
        Largest resident set while in the phase.
    """

    seconds: float = 0.0
    wait_seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    messages: int = 0
    rounds: int = 0
    peak_memory_bytes: int = 0


# Seconds between looks at memory from phases within another: a look reads files of the kernel's, which many
# small blocks would feel.
_BLINK = 0.02
#: Columns of ``cost.csv``.
COLUMNS = ("party", "phase", *(field.name for field in fields(PhaseCost)))


class Meter:
    """Counts one party's costs, phase by phase. Safe to use from the link threads.

    Attributes
    ----------
    current : str
        The phase the party is in.
    ways : dict
        How each pair of parties is connected: the two names to ``direct`` or ``forwarded``.
    forwarded : dict
        Bytes that came and went by way of the coordinator's host, [received, sent], by pair: at the
        coordinator what it has passed on, at a data party what the phases have as well.
    depth : int
        Length of the longest chain of dependent messages that ends here; a round is one hop of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.costs = {phase: PhaseCost() for phase in PHASES}
        self.current = PHASES[0]
        self.depth = 0
        self.ways: Mapping[tuple[str, str], str] = {}
        self.forwarded: dict[tuple[str, str], list[int]] = {}
        self._lock = threading.Lock()
        self._within = self._waits = 0  # how many phases deep, and waits at a time
        self._looked = 0.0  # when memory was noted last

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the block's time and memory to a phase; re-entering a phase adds to it.

        An inner phase interrupts the outer one: its time is charged to it alone.
        """
        outer, self.current = self.current, name
        cost = self.costs[name]
        elsewhere = self._busy()
        self._note_memory(outer)
        self._within += 1
        start = self._clock()
        try:
            yield
        finally:
            inside = self._busy() - elsewhere
            cost.seconds += self._clock() - start - inside
            self._within -= 1
            self._note_memory(name)
        # Not after an error: it is reported with the phase that it happened in.
        self.current = outer

    def _note_memory(self, phase: str) -> None:
        """Charge the peak since the last look to a phase; phases within another share looks but the first."""
        cost, now = self.costs[phase], self._clock()
        if self._within and cost.peak_memory_bytes and now - self._looked < _BLINK:
            return
        self._looked = now
        cost.peak_memory_bytes = max(cost.peak_memory_bytes, _peak_memory())
        _reset_peak_memory()

    def _busy(self) -> float:
        """Seconds already charged somewhere: an enclosing phase leaves them out of its own."""
        return sum(cost.seconds + cost.wait_seconds for cost in self.costs.values())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Charge the block's time to the current phase as waiting for a peer; inside another, nothing."""
        with self._lock:
            self._waits += 1
            outer = self._waits == 1
        start = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1
            if outer:
                self.costs[self.current].wait_seconds += self._clock() - start

    def sent(self, phase: str, size: int) -> None:
        """Count a frame that left, header included."""
        with self._lock:
            cost = self.costs[phase]
            cost.bytes_sent += size
            cost.messages += 1

    def received(self, phase: str, size: int) -> None:
        """Count a frame that arrived, header included."""
        with self._lock:
            self.costs[phase].bytes_received += size

    def passed(self, pair: tuple[str, str], received: int, sent: int) -> None:
        """Count bytes of a pair that the coordinator's host forwards."""
        with self._lock:
            counts = self.forwarded.setdefault(pair, [0, 0])
            counts[0] += received
            counts[1] += sent

    def follow(self, depth: int) -> None:
        """Take note that this party now depends on a message of the given depth."""
        deeper = depth + 1 - self.depth
        if deeper > 0:
            self.depth += deeper
            self.costs[self.current].rounds += deeper

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the costs as arrays: float64 (phases, 2) of seconds and int64 (phases, 5) of counts."""
        with self._lock:
            rows = [astuple(self.costs[phase]) for phase in PHASES]
        return (
            np.array([row[:2] for row in rows], dtype=np.float64),
            np.array([row[2:] for row in rows], dtype=np.int64),
        )


def _reset_peak_memory() -> None:
    """Ask Linux to forget the peak resident set; elsewhere the peak is the process's lifetime peak."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_memory() -> int:
    """Return the peak resident set in bytes since the last reset."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
