"""The meter: what each phase of a run costs a party.

The code that sends or receives (:mod:`mpc_spearman.wire`) counts everything that crosses a link here, once at
each end. So what A says it sent equals what B says it received.
"""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

#: The phases of a run, in order, by the names that code, cost reports and error messages use. ``keep-alive``
#: is no phase of the protocol, but a row for the messages that are sent at any time.
PHASES = (
    "load",
    "connect",
    "intersect",
    "agree",
    "align",
    "rank",
    "protect",
    "describe",
    "keys",
    "encrypt",
    "evaluate",
    "decrypt",
    "share",
    "multiply",
    "prove",
    "reveal",
    "publish",
    "account",
    "keep-alive",
)

#: How the rows of the coordinator begin that count forwarded bytes, one row for each pair.
FORWARDED = "forwarded"
#: The phases that only one protocol has.
_PHASES_OF = {"he": ("keys", "encrypt", "evaluate", "decrypt"), "mpc": ("share", "multiply", "reveal")}


def cost_phases(protocol: str, alignment: str = "same", *, proofs: bool = False) -> tuple[str, ...]:
    """Return the phases in the cost table of a plan: all but ``account``, which sends the table itself."""
    absent = ["account", *(phase for name in _PHASES_OF if name != protocol for phase in _PHASES_OF[name])]
    if alignment != "intersect":
        absent.append("intersect")
    if not proofs:
        absent.append("prove")
    return tuple(phase for phase in PHASES if phase not in absent)


@dataclass
class PhaseCost:
    """Cost of one phase to one party: docs/costs.md ("What the figures count") says what each number is."""

    seconds: float = 0.0
    wait_seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    messages: int = 0
    rounds: int = 0
    peak_memory_bytes: int = 0


# Seconds between two readings of memory: each reads a file of the kernel, too slow for every small block.
_MEMORY_SECONDS = 0.02
_STATUS = Path("/proc/self/status")
#: Columns of ``cost.csv``.
COLUMNS = ("party", "phase", *(field.name for field in fields(PhaseCost)))


class Meter:
    """Counts one party's costs, phase by phase. Safe to use from the link threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.costs = {phase: PhaseCost() for phase in PHASES}
        #: The phase that is under way.
        self.current = PHASES[0]
        #: Length of the longest chain of dependent messages that ends here; a round is one message in it.
        self.depth = 0
        #: How each pair of parties is connected: the two names to ``direct`` or ``forwarded``.
        self.ways: Mapping[tuple[str, str], str] = {}
        #: Bytes that this host, the coordinator's, has received from each pair and passed on.
        self.forwarded: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        #: For whom this party waits at the moment; empty if for nobody.
        self.waits_for = ""
        self._memory_read_at = 0.0  # when memory was last read

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the block's time and memory to a phase; re-entering a phase adds to it.

        An inner phase interrupts the outer one: its time is charged to it alone.
        """
        outer, self.current = self.current, name
        cost = self.costs[name]
        elsewhere, start = self._busy(), self._clock()
        try:
            yield
        finally:
            inside = self._busy() - elsewhere
            end = self._clock()
            cost.seconds += end - start - inside
            if not cost.peak_memory_bytes or end - self._memory_read_at > _MEMORY_SECONDS:
                self._memory_read_at, cost.peak_memory_bytes = end, _peak_memory()
        # Not after an error: it is reported with the phase that it happened in.
        self.current = outer

    def _busy(self) -> float:
        """Return the seconds charged so far to all phases; an enclosing phase subtracts them from its own."""
        return sum(cost.seconds + cost.wait_seconds for cost in self.costs.values())

    @contextmanager
    def waiting(self, peer: str = "the others") -> Iterator[None]:
        """Charge the block's time to the current phase as waiting; a nested block charges nothing."""
        outer, start = not self.waits_for, self._clock()
        self.waits_for = self.waits_for or peer
        try:
            yield
        finally:
            if outer:
                self.waits_for = ""
                self.costs[self.current].wait_seconds += self._clock() - start

    def count_sent(self, phase: str, size: int) -> None:
        """Count a frame that this party sends, header included."""
        with self._lock:
            cost = self.costs[phase]
            cost.bytes_sent += size
            cost.messages += 1

    def count_received(self, phase: str, size: int) -> None:
        """Count a frame that this party has received, header included."""
        with self._lock:
            self.costs[phase].bytes_received += size

    def total(self) -> tuple[int, int]:
        """Return the bytes sent and received so far, in all phases."""
        with self._lock:
            costs = self.costs.values()
            return sum(cost.bytes_sent for cost in costs), sum(cost.bytes_received for cost in costs)

    def count_forwarded(self, pair: tuple[str, str], size: int) -> None:
        """Count bytes of a pair that the coordinator's host forwards."""
        with self._lock:
            self.forwarded[pair] += size

    def count_round(self, depth: int) -> None:
        """Count a round if this party now depends on a message of the given depth."""
        deeper = depth + 1 - self.depth
        if deeper > 0:
            self.depth += deeper
            self.costs[self.current].rounds += deeper

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the costs as arrays: float64 (phases, 2) of seconds and int64 (phases, 5) of counts."""
        with self._lock:
            rows = [[*vars(self.costs[phase]).values()] for phase in PHASES]
        return (
            np.array([row[:2] for row in rows], dtype=np.float64),
            np.array([row[2:] for row in rows], dtype=np.int64),
        )


def _peak_memory() -> int:
    """Return the process's peak resident set in bytes.

    `getrusage` counts the parent's memory too, so it is used only if the kernel offers nothing else (gVisor).
    """
    peak = _STATUS.read_text().partition("VmHWM:")[2].split(maxsplit=1)
    return int(peak[0] if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024
