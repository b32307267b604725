"""Who takes part in a run: names, roles, numbers.

Numbers follow the plan's order: the coordinator is 0, the target 1, the sources 2, 3, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations


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


@dataclass(frozen=True)
class Roster:
    """All parties of a run in order of their numbers, and the one that this process runs."""

    parties: tuple[Party, ...]
    me: Party

    @classmethod
    def of(cls, names: Sequence[str], me: str) -> Roster:
        """Make the roster of parties of these names, in order of their numbers, as party `me` sees it."""
        roles = [Role.COORDINATOR, Role.TARGET] + [Role.SOURCE] * (len(names) - 2)
        parties = tuple(
            Party(name, role, number) for number, (name, role) in enumerate(zip(names, roles, strict=True))
        )
        return cls(parties, parties[list(names).index(me)])

    @property
    def coordinator(self) -> Party:
        """The party without data (C)."""
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
        """The sources whose sessions include this party: for a source its own, for other parties all."""
        return (self.me,) if self.me.role is Role.SOURCE else self.sources

    @property
    def peers(self) -> tuple[Party, ...]:
        """All parties but this one."""
        return tuple(party for party in self.parties if party != self.me)

    @property
    def pairs(self) -> tuple[tuple[Party, Party], ...]:
        """All pairs of parties, the one with the lower number first."""
        return tuple(combinations(self.parties, 2))

    @property
    def names(self) -> tuple[str, ...]:
        """The parties' names, in order of their numbers."""
        return tuple(party.name for party in self.parties)
