"""What a result's coefficients are evidence of, pair by pair, as the page shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mpc_spearman.results.charts import number
from mpc_spearman.results.derived import known_columns
from mpc_spearman.statistics import reading
from mpc_spearman.statistics.columns import Ties
from mpc_spearman.statistics.intervals import INTERVAL_ROWS
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result

#: Pairs are counted and marked at this false discovery rate, if they have this size.
DISCOVERY_RATE, SIZE = 0.05, 0.1
#: Below this no test here says how far.
_LEAST = 1e-16


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
    reading : str
        What helps to read the coefficient of a column of two values; may be empty.
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
    reading: str = ""

    @property
    def found(self) -> bool:
        """Whether it is among the discoveries at `DISCOVERY_RATE`, and of `SIZE` or more."""
        return self.q <= DISCOVERY_RATE and abs(self.rho) >= SIZE

    @property
    def interval(self) -> str:
        """The ends of its interval, or that there is none, and why."""
        if math.isnan(self.low):
            return f"none: {self.without}"
        return f"{number(self.low)} to {number(self.high)}"

    def told(self, confidence: float) -> str:
        """Say what is known beside the coefficient; empty for an undefined one."""
        if math.isnan(self.rho):
            return ""
        tests = [f"{name} {equal(value)}" for name, value in (("p", self.p), ("q", self.q))]
        about = [f"{100 * confidence:g} % interval {self.interval}", ", ".join(tests), self.reading]
        return "; ".join(part for part in about if part)


def chance(value: float) -> str:
    """Write a p-value or a q-value."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.2g}" if value >= _LEAST else f"< {_LEAST:g}"


def equal(value: float) -> str:
    """Write a p-value or a q-value after its name and a sign for how it compares."""
    return chance(value) if value < _LEAST else f"= {chance(value)}"


def pairs(result: Result) -> list[list[Pair]]:
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
    ties = "ties, under eq. 2" if result.plan["estimator"] == "paper" else "many ties"
    without = "too few rows" if result.n < INTERVAL_ROWS else ties
    numbers = zip(*(frame.to_numpy().tolist() for frame in frames), strict=True)
    return [
        [
            Pair(owner, row, column, rho, low, high, p, q, without, text)
            for column, text, (rho, low, high, p, q) in zip(
                columns, texts, zip(*lines, strict=True), strict=True
            )
        ]
        for owner, row, texts, lines in zip(owners, rows, _readings(result, order), numbers, strict=True)
    ]


def _readings(result: Result, order: Sequence[str]) -> list[list[str]]:
    """Say how far from 0 a column of two values can be with one without ties, and what AUC it has."""
    known, matrix, n = result.columns, result.coefficients[list(order)], result.n
    target = result.plan["parties"]["target"]["name"]
    source = known_columns(known.loc[matrix.index]).rows
    other = known_columns(known.loc[[(target, name) for name in order]])
    texts = np.full(matrix.shape, "", dtype=object)
    for flags, untied in ((source, other), (other, source)):
        of_flag = (flags.ties == Ties.TWO_VALUES) & (untied.ties == Ties.NONE)
        most = np.broadcast_to(reading.largest(flags, n), matrix.shape)
        area = reading.auc(matrix.to_numpy(), flags, n)
        for i, j in np.argwhere(of_flag & (area >= 0) & (area <= 1)):
            texts[i, j] = f"at most ±{number(most[i, j], 2)} for this flag; AUC {number(area[i, j], 2)}"
    return texts.tolist()


def strongest(rows: Iterable[Sequence[Pair]], count: int) -> list[Pair]:
    """Return the pairs whose coefficients are farthest from 0, at most `count`, strongest first."""
    defined = (pair for row in rows for pair in row if not math.isnan(pair.rho))
    return sorted(defined, key=lambda pair: -abs(pair.rho))[:count]
