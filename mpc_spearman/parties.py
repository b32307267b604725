"""Who takes part in a run: names, roles, numbers.

Numbers follow the plan's order: the coordinator is 0, the target 1, the sources 2, 3, ….
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
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


@dataclass(frozen=True)
class Roster:
    """All parties of a run in order of their numbers, and the one that this process runs."""

    parties: tuple[Party, ...]
    me: Party

    @classmethod
    def of(cls, plan: Plan, me: str) -> Roster:
        """Read the roster from a plan, as party `me`."""
        roles = [Role.COORDINATOR, Role.TARGET] + [Role.SOURCE] * len(plan.parties.sources)
        parties = tuple(
            Party(name, role, number)
            for number, (name, role) in enumerate(zip(plan.names, roles, strict=True))
        )
        return cls(parties, next(party for party in parties if party.name == me))

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
        """Everyone but me."""
        return tuple(party for party in self.parties if party != self.me)
