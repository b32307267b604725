"""Who takes part in a run: names, roles, ranks.

Ranks follow the plan's order: the coordinator is 0, the target 1, the sources 2, 3, ….
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
class Member:
    """One party of a run."""

    name: str
    role: Role
    rank: int

    def __str__(self) -> str:
        return f"{self.name} ({self.role.value})"


@dataclass(frozen=True)
class Roster:
    """All parties of a run, as one of them sees it.

    Attributes
    ----------
    members : tuple of Member
        In rank order.
    me : Member
        The party this process runs.
    """

    members: tuple[Member, ...]
    me: Member

    @classmethod
    def of(cls, plan: Plan, me: str) -> Roster:
        """Read the roster from a plan, as party `me`."""
        roles = [Role.COORDINATOR, Role.TARGET] + [Role.SOURCE] * len(plan.parties.sources)
        members = tuple(
            Member(name, role, rank) for rank, (name, role) in enumerate(zip(plan.names, roles, strict=True))
        )
        return cls(members, next(member for member in members if member.name == me))

    @property
    def coordinator(self) -> Member:
        """The party that reveals (C)."""
        return self.members[0]

    @property
    def target(self) -> Member:
        """The party whose columns are ranked (B)."""
        return self.members[1]

    @property
    def sources(self) -> tuple[Member, ...]:
        """The parties the target is correlated with (A1, A2, …)."""
        return self.members[2:]

    @property
    def sessions(self) -> tuple[Member, ...]:
        """The sources in whose sessions I take part, in order: a source in its own, the others in all."""
        return (self.me,) if self.me.role is Role.SOURCE else self.sources

    @property
    def peers(self) -> tuple[Member, ...]:
        """Everyone but me."""
        return tuple(member for member in self.members if member != self.me)
