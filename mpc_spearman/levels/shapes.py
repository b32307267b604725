"""What a party knows about all tables: sizes, statements and, at the coordinator, descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpc_spearman.data.ranks import total
from mpc_spearman.findings.forms import Labels
from mpc_spearman.parties import Party
from mpc_spearman.privacy.scales import Scales
from mpc_spearman.statistics.columns import Columns, Floats, ties


@dataclass(frozen=True)
class Description:
    """A data party's description of its columns for the coordinator; empty fields were not sent."""

    names: tuple[str, ...] = ()
    #: The column without an order that each feature is a flag of; "" for others.
    nominal: tuple[str, ...] = ()
    ties: tuple[int, ...] = ()
    constant: tuple[bool, ...] = ()
    #: What tests need besides tie terms: which columns have two values, and the skewness of each one's ranks.
    two_values: tuple[bool, ...] = ()
    skewness: tuple[float, ...] = ()
    #: How much a mean over a source's columns varies (`mpc_spearman.statistics.strengths.mean_length`).
    length: float = 0.0
    #: Of the whole table: how far each column is tied, its rounded skewness, and its share of missing cells.
    stated_ties: tuple[int, ...] = ()
    stated_skewness: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()
    #: The largest share of missing cells of its columns, if these shares are not sent.
    most_gaps: float = 0.0
    #: Of columns adjusted for covariates, how unequal variances of each one's residuals are, and of all
    #: together (`mpc_spearman.data.adjusted`); how many powers of covariates were fitted.
    unequal: tuple[float, ...] = ()
    unequal_together: float = 1.0
    fitted: int = 0
    #: For proved vectors: each column's length (`mpc_spearman.privacy.statements`).
    lengths: tuple[float, ...] = ()
    #: The factors of each column, and of their sum, in the numbers that are passed on.
    factors: tuple[float, ...] = ()
    sum_factor: float = 1.0

    def columns(self, count: int, n: int) -> Columns:
        """Return the description of each of `count` columns of n rows for tests, as far as it was sent."""
        return Columns(
            ties(self.ties or (0,) * count, self.two_values or (False,) * count, n),
            np.array(self.skewness or (0.0,) * count),
            np.array(self.gaps or (0.0,) * count),
            np.array(self.unequal or (1.0,) * count),
            np.full(count, self.fitted),
        )

    @property
    def together(self) -> Columns:
        """Return the description for one test over all columns together; ties are not known."""
        gaps, unequal = max(self.gaps, default=self.most_gaps), self.unequal_together
        none = np.zeros(1, np.int64)
        return Columns(none, np.zeros(1), np.array([gaps]), np.array([unequal]), none + self.fitted)


@dataclass(frozen=True)
class Descriptions:
    """All data parties' descriptions, the sources in the plan's order; empty but at the coordinator."""

    sources: tuple[Description, ...] = ()
    target: Description = field(default_factory=Description)

    def of_sources(self, name: str) -> list[Any]:
        """Return the values of one field of all sources' descriptions."""
        return [value for source in self.sources for value in getattr(source, name)]

    @property
    def nominal(self) -> dict[str, Sequence[str]]:
        """Columns without an order, by the message fields that carry them."""
        return {"source_nominal": self.of_sources("nominal"), "target_nominal": self.target.nominal}

    def tie_shares(self, n: int) -> Floats:
        """Return (T_x + T_y)/(2N) of every pair, (m_A, m_B), which eq. 2 adds to S/N."""
        terms = (np.array(of_side, dtype=float) for of_side in (self.of_sources("ties"), self.target.ties))
        return np.asarray(np.add.outer(*terms) / (2 * total(n)))


@dataclass(frozen=True)
class Shapes:
    """The sizes that all parties know, and what this party receives from data parties about their columns."""

    n: int
    #: How many features each source has, in roster order.
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
    descriptions: Descriptions = field(default_factory=Descriptions)

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
        sources = list(self.features)
        start = sum(self.features[earlier] for earlier in sources[: sources.index(source)])
        return slice(start, start + self.features[source])
