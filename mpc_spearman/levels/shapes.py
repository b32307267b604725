"""The sizes of everyone's tables, which all parties of a run know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mpc_spearman.findings.tables import Labels
from mpc_spearman.parties import Party
from mpc_spearman.privacy.scales import Scales
from mpc_spearman.statistics.columns import Floats


@dataclass(frozen=True)
class Shapes:
    """The sizes that all parties know, and the data parties' statements that this party receives."""

    n: int
    #: In roster order.
    features: Mapping[Party, int]
    m_target: int
    #: How many features of each data party are not constant; empty until all have stated it. At ``ranking``
    #: the target does not state it.
    defined: Mapping[Party, int] = field(default_factory=dict)
    #: The scales of each data party's vectors, from which the noise follows.
    scales: Mapping[Party, Scales] = field(default_factory=dict)
    #: The scales of the sum of each source's columns, if the source does not contribute that sum.
    of_sums: Mapping[Party, Scales] = field(default_factory=dict)
    #: The scales of vectors with noise on inputs, and of their sums, for roles that add this noise.
    multiplied: Mapping[Party, Scales] = field(default_factory=dict)
    multiplied_sums: Mapping[Party, Scales] = field(default_factory=dict)
    #: Kurtosis of each data party's columns, if tests need it.
    kurtosis: Mapping[Party, Floats] = field(default_factory=dict)

    def features_of(self, owner: Party) -> int:
        """Return how many features a data party has."""
        return self.features.get(owner, self.m_target)

    @property
    def m_sources(self) -> int:
        """Features of all sources together: rows of the matrix."""
        return sum(self.features.values())

    @property
    def defined_sources(self) -> int:
        """Features of all sources that are not constant."""
        return sum(self.defined.get(source, 0) for source in self.features)

    @property
    def of_sources(self) -> list[Scales]:
        """The scales of the sources' vectors, in roster order."""
        return [self.scales[source] for source in self.features]

    @property
    def of_target(self) -> Scales:
        """The scales of the target's vectors."""
        return self.scales[self.target]

    @property
    def target(self) -> Party:
        """The target, once it has stated its scales."""
        return next(owner for owner in self.scales if owner not in self.features)

    def of_multiplied(self, owner: Party) -> Scales:
        """Return the scales of an owner's vectors as they are multiplied."""
        return self.multiplied.get(owner, self.scales[owner])

    def labels(self, sources: Sequence[str], target: Sequence[str]) -> Labels:
        """Return the labels of the sources' features, stacked in roster order, and of the target's."""
        owners = [party.name for party, features in self.features.items() for _ in range(features)]
        return Labels(list(zip(owners, sources, strict=True)) if sources else [], target)

    def sizes(self, owner: Party) -> dict[str, int]:
        """Return the values of the symbols in a message about one data party."""
        return {"m_source": self.features[owner]} if owner in self.features else {}

    def rows(self, source: Party) -> slice:
        """Return which rows of the matrix are one source's: they are stacked in roster order."""
        before = list(self.features)[: list(self.features).index(source)]
        start = sum(self.features[other] for other in before)
        return slice(start, start + self.features[source])
