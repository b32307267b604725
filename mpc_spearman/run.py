"""The context of one role's run, which steps and engines share; and how a step is charged to its phase."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import update_wrapper
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mpc_spearman.config import Approval, Plan
from mpc_spearman.identity import Signer
from mpc_spearman.parties import Party, Roster
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.wire.channel import Transport
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
#: Called with the numbers of features and of coefficients that this party's result can have, to reserve
#: space on the disk; raises `OutputError` if there is not enough.
Reserve = Callable[[int, int], None]


class Meeting(Protocol):
    """How a party meets the others; see :class:`mpc_spearman.launch.rendezvous.Rendezvous`."""

    #: The party's key, and everybody's public keys.
    signer: Signer

    def join(self, meter: Meter, agree: Callable[[Transport], None]) -> None:
        """Connect with all parties, and call `agree` with the connections, in every attempt."""

    def decline(self, error: Exception) -> None:
        """Send the others the notice of an error, unless `join` has been called, which does so itself."""


@dataclass
class Notes:
    """Facts about a run, for its result, its signed record and the owner's ledger."""

    began: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    #: Warnings for the reader about how the result was computed.
    cautions: list[str] = field(default_factory=list)
    #: By receiver, the messages with results that this party has sent or received.
    granted: dict[str, bytes] = field(default_factory=dict)
    #: If rows were intersected: how many each party offered, as far as this party knows.
    offered: dict[str, int] = field(default_factory=dict)
    #: How many rows all data parties have, once they have found them under ``alignment: intersect``.
    common: int | None = None
    #: The owner's ledger, once it has a line about this run.
    ledger: Ledger | None = None
    #: Whether the run is charged there.
    charged: bool = False
    #: The target's tag of its row ids, for its own result only.
    alignment: str | None = None


@dataclass
class Run:
    """The context of one role's run. It has only this party's local part of the plan."""

    plan: Plan
    roster: Roster
    meeting: Meeting
    progress: Progress = lambda phase, done, of: None
    say: Say = lambda text: None
    reserve: Reserve = lambda features, coefficients: None
    approval: Approval | None = None
    #: The name of the plan's file, for the owner's ledger.
    plan_name: str = ""
    #: The owner's folder of ranks for later runs.
    keep_ranks: Path | None = None
    #: Bytes of a block of rows in which tables are shared; the same at all parties.
    block_bytes: int = BLOCK_BYTES
    #: Makes the links over a transport: `Links`, or in tests a subclass that records or changes messages.
    make_links: Callable[..., Links] = Links
    meter: Meter = field(default_factory=Meter)
    notes: Notes = field(default_factory=Notes)
    #: The links with the other parties, once connected.
    links: Links = field(init=False)
    _shown: set[str] = field(default_factory=set)

    @property
    def keys(self) -> dict[Party, PairKey]:
        """The key shared with each peer, once connected."""
        return self.links.keys

    @property
    def threads(self) -> int:
        """How many threads this role may use."""
        return self.plan.he.workers or processors()

    def enter(self, phase: str) -> None:
        """Report that a phase has begun, but only once: nested steps enter a phase for every block."""
        if phase not in self._shown:
            self._shown.add(phase)
            self.progress(phase, 0, 0)

    def tick(self, done: int, of: int) -> None:
        """Report progress; raise the error of a link if one has failed."""
        self.links.check()
        self.progress(self.meter.current, done, of)

    def stop(self, error: BaseException) -> None:
        """Send the others the notice of an error: its class, party and phase, and no more."""
        if hasattr(self, "links"):
            self.links.abort(error)
        elif isinstance(error, Exception):
            self.meeting.decline(error)


def processors() -> int:
    """Return ``OMP_NUM_THREADS`` if it is set, otherwise how many processors this process may use."""
    try:
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    except (KeyError, ValueError):
        return len(os.sched_getaffinity(0))


def step(name: str) -> Callable[[Callable[Concatenate[Run, P], T]], Callable[Concatenate[Run, P], T]]:
    """Return a decorator that charges a function's cost to a phase, and reports that the phase began."""

    def decorate(function: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
        def run_step(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with run.meter.phase(name):
                run.enter(name)
                return function(run, *args, **kwargs)

        update_wrapper(run_step, function)
        return run_step

    return decorate
