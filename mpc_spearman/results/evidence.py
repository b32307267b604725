"""What a result's coefficients are evidence of, pair by pair, as the page shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mpc_spearman.results.charts import number
from mpc_spearman.results.parts import Parts
from mpc_spearman.statistics.inference import INTERVAL_ROWS
from mpc_spearman.units import printable

#: The false discovery rate at which pairs are counted and marked.
DISCOVERY_RATE = 0.05


@dataclass(frozen=True)
class Pair:
    """One pair of features; NaN for what is undefined.

    Attributes
    ----------
    owner, source, target : str
        Printable: a source, its feature, after its own name where there are several, and the target's.
    rho, low, high, p, q : float
    without : str
        Why there is no interval, where there is none.
    """

    owner: str
    source: str
    target: str
    rho: float
    low: float
    high: float
    p: float
    q: float
    without: str = ""

    @property
    def found(self) -> bool:
        """Whether it is among the discoveries at `DISCOVERY_RATE`."""
        return self.q <= DISCOVERY_RATE

    @property
    def interval(self) -> str:
        """The ends of its interval, or that there is none, and why."""
        if math.isnan(self.low):
            return f"none: {self.without}"
        return f"{number(self.low)} to {number(self.high)}"

    def told(self, confidence: float) -> str:
        """Say what is known beside the coefficient; empty for an undefined one."""
        if math.isnan(self.p):
            return ""
        return f"{100 * confidence:g} % interval {self.interval}; p = {chance(self.p)}, q = {chance(self.q)}"


def chance(value: float) -> str:
    """Write a p-value or a q-value."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.2g}" if value else "0 (below 1e-300)"


def pairs(result: Parts) -> list[list[Pair]]:
    """Gather what is known of every pair: rows as in the matrix, columns in the order of the ranking.

    Empty where a result has no coefficients.
    """
    if result.withheld("coefficients") is not None:
        return []
    order = list(result.ranking["feature"])
    ends = result.intervals[order]
    frames = [
        result.coefficients[order],
        ends.xs("low", level="bound"),
        ends.xs("high", level="bound"),
        result.pvalues[order],
        result.qvalues[order],
    ]
    rows = [printable(feature) for _, feature in frames[0].index]
    owners = [printable(party) for party, _ in frames[0].index]
    if len(set(owners)) > 1:
        rows = [f"{owner} · {feature}" for owner, feature in zip(owners, rows, strict=True)]
    columns = [printable(feature) for feature in order]
    without = "too few rows" if result.n < INTERVAL_ROWS else "many ties"
    numbers = zip(*(frame.to_numpy().tolist() for frame in frames), strict=True)
    return [
        [
            Pair(owner, row, column, rho, low, high, p, q, without)
            for column, (rho, low, high, p, q) in zip(columns, zip(*lines, strict=True), strict=True)
        ]
        for owner, row, lines in zip(owners, rows, numbers, strict=True)
    ]


def strongest(rows: Iterable[Sequence[Pair]], count: int) -> list[Pair]:
    """Return the pairs whose coefficients are farthest from 0, at most `count`, strongest first."""
    defined = (pair for row in rows for pair in row if not math.isnan(pair.rho))
    return sorted(defined, key=lambda pair: -abs(pair.rho))[:count]
