"""One role's run: what every step and every engine needs, and how a step is charged to its phase."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import update_wrapper
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from mpc_spearman.config import Approval, Plan
from mpc_spearman.data.kept import KeptRanks
from mpc_spearman.identity import Signer
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes of one block of the wider table: enough to keep the link busy, and small enough for caches. Several
#: are on their way at a time, in several forms.
BLOCK_BYTES = 1 << 20
#: Called with phase, steps done, steps in all (0 where unknown).
Progress = Callable[[str, int, int], None]
#: Called with a sentence for whoever watches the run.
Say = Callable[[str], None]


@dataclass
class Run:
    """One role's run: what all steps need. It has only this party's local part of the plan."""

    plan: Plan
    roster: Roster
    #: Meets the other parties; returns the links with them.
    meet: Callable[[], Links]
    meter: Meter
    progress: Progress
    say: Say
    workers: int = 1
    #: Of the blocks of rows in which tables are shared; the same at all parties.
    block_bytes: int = BLOCK_BYTES
    #: The owner's folder of ranks for later runs; not for a table in memory, which cannot be recognised.
    keep_ranks: Path | None = None
    approval: Approval | None = None
    signer: Signer | None = None
    links: Links = field(init=False)
    kept: KeptRanks | None = None
    #: What a reader must know about how the result was computed; engines add to it.
    cautions: list[str] = field(default_factory=list)
    #: By receiver, the messages with results that this party has sent or received.
    granted: dict[str, bytes] = field(default_factory=dict)
    #: If rows were intersected: how many each party offered, as far as this party knows.
    offered: dict[str, int] = field(default_factory=dict)
    #: What to do at this party once all parties have finished.
    at_end: list[Callable[[], None]] = field(default_factory=list)
    #: What to release if the run fails, because the process then ends at once.
    at_failure: ExitStack = field(default_factory=ExitStack)
    #: The target's tag of its row ids, for its own result only.
    alignment: str | None = None
    began: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    _shown: set[str] = field(default_factory=set)

    @property
    def keys(self) -> dict[Party, PairKey]:
        """The key shared with each peer, once connected."""
        return self.links.keys

    def enter(self, phase: str) -> None:
        """Show that a phase has begun, once: steps within steps come back to it block by block."""
        if phase not in self._shown:
            self._shown.add(phase)
            self.progress(phase, 0, 0)

    def tick(self, done: int, of: int) -> None:
        """Report progress; raise if a peer is lost meanwhile."""
        self.links.check()
        self.progress(self.meter.current, done, of)


def step(name: str) -> Callable[[Callable[Concatenate[Run, P], T]], Callable[Concatenate[Run, P], T]]:
    """Charge a function to a phase and show that the phase began."""

    def decorate(function: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
        def run_step(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with run.meter.phase(name):
                run.enter(name)
                return function(run, *args, **kwargs)

        update_wrapper(run_step, function)
        return run_step

    return decorate
