"""The sizes of everyone's tables, which all parties of a run know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mpc_spearman.parties import Party


@dataclass(frozen=True)
class Shapes:
    """What all parties know of the size of everyone's data.

    Attributes
    ----------
    n : int
        Rows, the same for all.
    features : dict
        Each source's number of features, in roster order.
    m_target : int
        The target's.
    defined, distinct : dict
        How many features of each data party are not constant, and how many of these are distinct, up to
        reversal; empty until all have told it. At ``ranking`` the target does not tell others.
    lasting : dict
        How many of each source's distinct features do not cancel out in a mean over all of them.
    """

    n: int
    features: Mapping[Party, int]
    m_target: int
    defined: Mapping[Party, int] = field(default_factory=dict)
    distinct: Mapping[Party, int] = field(default_factory=dict)
    lasting: Mapping[Party, int] = field(default_factory=dict)

    @property
    def m_sources(self) -> int:
        """Features of all sources together: rows of the matrix."""
        return sum(self.features.values())

    @property
    def defined_sources(self) -> int:
        """Features of all sources that are not constant."""
        return sum(self.defined[source] for source in self.features)

    @property
    def distinct_sources(self) -> int:
        """Distinct features that a mean over all sources' is about (k): each source counts its own."""
        return sum(self.lasting[source] for source in self.features)

    @property
    def constant_targets(self) -> int:
        """Features of the target that are constant."""
        return self.m_target - (sum(self.defined.values()) - self.defined_sources)

    def sizes(self, owner: Party) -> dict[str, int]:
        """Say what the symbols mean in a message about one data party."""
        return {"m_source": self.features[owner]} if owner in self.features else {}

    def rows(self, source: Party) -> slice:
        """Return which rows of the matrix are one source's: they are stacked in roster order."""
        before = list(self.features)[: list(self.features).index(source)]
        start = sum(self.features[other] for other in before)
        return slice(start, start + self.features[source])
