"""Who takes part in a run: names, roles, numbers.

Numbers follow the plan's order: the coordinator is 0, the target 1, the sources 2, 3, …. With ``shards: k``
each party is k processes, its *workers*: A, A/1, … A/(k-1). Workers of the same number meet as parties do,
and each is connected with its own party's first worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpc_spearman.config import Plan


class Role(Enum):
    """The three roles of the protocol (paper: Party A, Party B, C)."""

    SOURCE = "source"
    TARGET = "target"
    COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Party:
    """One party of a run."""

    name: str
    role: Role
    number: int

    def __str__(self) -> str:
        return f"{self.name} ({self.role.value})"

    @property
    def owner(self) -> str:
        """The plan's name of this party, or of this worker's party."""
        return self.name.partition("/")[0]


def worker_name(party: str, shard: int) -> str:
    """Name the worker of a party for a shard; the first one is the party itself."""
    return f"{party}/{shard}" if shard else party


@dataclass(frozen=True)
class Roster:
    """All parties of a run in order of their numbers, and the one that this process runs.

    `star` says that only the first one is connected with the others. `workers` are all parties' workers,
    connected or not: an error from a peer can be about any of them.
    """

    parties: tuple[Party, ...]
    me: Party
    star: bool = False
    workers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: Plan, me: str, shard: int = 0) -> Roster:
        """Read the roster from a plan, as party `me`: every party's worker for one shard."""
        roles = [Role.COORDINATOR, Role.TARGET] + [Role.SOURCE] * len(plan.parties.sources)
        parties = tuple(
            Party(worker_name(name, shard), role, number)
            for number, (name, role) in enumerate(zip(plan.names, roles, strict=True))
        )
        found = next(party for party in parties if party.owner == me)
        return cls(parties, found, workers=frozenset(plan.workers))

    def team(self, shards: int) -> Roster:
        """Return the roster of all workers of this party, of which this process is one."""
        names = [worker_name(self.me.owner, shard) for shard in range(shards)]
        workers = tuple(Party(name, self.me.role, number) for number, name in enumerate(names))
        return Roster(workers, workers[names.index(self.me.name)], star=True, workers=self.workers)

    @property
    def coordinator(self) -> Party:
        """The party that reveals (C)."""
        return self.parties[0]

    @property
    def target(self) -> Party:
        """The party whose columns are ranked (B)."""
        return self.parties[1]

    @property
    def sources(self) -> tuple[Party, ...]:
        """The parties the target is correlated with (A1, A2, …)."""
        return self.parties[2:]

    @property
    def sessions(self) -> tuple[Party, ...]:
        """The sources in whose sessions I take part, in order: a source in its own, the others in all."""
        return (self.me,) if self.me.role is Role.SOURCE else self.sources

    @property
    def peers(self) -> tuple[Party, ...]:
        """Everyone whom I am connected with."""
        if self.star and self.me.number:
            return self.parties[:1]
        return tuple(party for party in self.parties if party != self.me)

    @property
    def pairs(self) -> tuple[tuple[Party, Party], ...]:
        """Every two that are connected, the lower number first."""
        return tuple(pair for pair in combinations(self.parties, 2) if not self.star or pair[0].number == 0)

    @property
    def names(self) -> frozenset[str]:
        """Names that an error from a peer can be about."""
        return self.workers | {party.name for party in self.parties}
