"""The data parties' descriptions of their columns, as far as a level lets the coordinator know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpc_spearman.data.ranks import total
from mpc_spearman.statistics.columns import Columns, Floats


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
    #: How much a mean over a source's columns varies (`mpc_spearman.statistics.reading.mean_length`).
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

    def each(self, count: int) -> Columns:
        """Return what decides how many rows tests of each of `count` columns count; ties are not known."""
        gaps, unequal = self.gaps or (0.0,) * count, self.unequal or (1.0,) * count
        return self._counted(np.array(gaps), np.array(unequal))

    @property
    def together(self) -> Columns:
        """Return the same for one test over all columns together."""
        most_gaps = max(self.gaps, default=self.most_gaps)
        return self._counted(np.array([most_gaps]), np.array([self.unequal_together]))

    def _counted(self, gaps: Floats, unequal: Floats) -> Columns:
        unknown = np.zeros(len(gaps), np.int64)
        return Columns(unknown, np.zeros(len(gaps)), gaps, unequal, unknown + self.fitted)


@dataclass(frozen=True)
class Descriptions:
    """All data parties' descriptions, the sources in the plan's order; empty but at the coordinator."""

    sources: tuple[Description, ...] = ()
    target: Description = field(default_factory=Description)

    def of_sources(self, what: str) -> list[Any]:
        """Return the values of one field of all sources' descriptions."""
        return [value for source in self.sources for value in getattr(source, what)]

    @property
    def nominal(self) -> dict[str, Sequence[str]]:
        """Columns without an order, by the message fields that carry them."""
        return {"source_nominal": self.of_sources("nominal"), "target_nominal": self.target.nominal}

    def tie_shares(self, n: int) -> Floats:
        """Return (T_x + T_y)/(2N) of every pair, (m_A, m_B), which eq. 2 adds to S/N."""
        ties = (np.array(terms, dtype=float) for terms in (self.of_sources("ties"), self.target.ties))
        return np.asarray(np.add.outer(*ties) / (2 * total(n)))
