"""The scales of owners' vectors, and the standard deviation of noise that follows from them.

A level multiplies vectors a_p of one side with vectors b_q of the other. An owner states about its vectors

    R_p  the range of a vector, max - min; 0 of a constant one, which gets no noise and does not count below,
    D    the diameter, max_ij Σ_p ((a_pi - a_pj)/R_p)² over all pairs of rows; at most the number of vectors.

Both are rounded up to a grid, and the others learn the rounded values. R is the range of a column without
ties, times 1 + 2^-6, so that a few ties do not show, and times a power of 2^(1/4). D is a power of 2^(1/4),
unless that exceeds the number of vectors. They are equal for neighbouring tables. Each number gets noise of

    s_pq = R_p·R_q·√(D_A·D_B)/μ,    μ = √(2ρ),    ρ = privacy.loss,

with ``privacy.unit: value`` s_pq = R_p·R_q·√c/μ with c columns of the other side. docs/guarantee.md has the
proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, STRIP, parts
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.privacy.loss import separation
from mpc_spearman.statistics.columns import Floats, Ints

#: The step of a constant vector, whose range is 0. Any other stands for a factor of 2^(step/4).
NOTHING = -(2**15)
_HIGHEST = 2**10
#: The factor by which every range is stated larger than it is.
SLACK = 1 + 2.0**-6
#: The least range of a sum of columns, in ranges of a column without ties: above what float64 rounds.
LEAST_OF_SUM = 2.0**-16
_FLOAT64 = 1 + 2.0**-30  # makes up for all roundings of float64 in this module
_LEAST = 2.0**-8  # below every diameter
_EXACT, _FARTHEST = 20_000, 4096  # up to so many rows, all pairs are compared; else pairs of the farthest


@dataclass(frozen=True, eq=False)
class Scales:
    """R of each vector, (m,), 0 for constant ones, and the vectors' diameter D."""

    widths: Floats
    spread: float = 1.0


@dataclass(frozen=True)
class Grid:
    """Which ranges vectors of a kind can have: `unit` times a power of 2^(1/4), from `least` to `most`.

    `unit` is the range of a column without ties.
    """

    unit: float
    least: float
    most: float

    def step(self, width: float) -> int:
        """Return the lowest step whose range is not below a width, which is above 0."""
        return step_up(max(width, self.least) / (self.unit * SLACK))

    def width(self, step: int) -> float:
        """Return the range of a step."""
        return 0.0 if step == NOTHING else SLACK * min(self.unit * float(2.0 ** (step / 4)), self.most)

    def scales(self, stated: Stated) -> Scales:
        """Return the scales that an owner's statement means."""
        widths = np.array([self.width(step) for step in stated.ranges])
        return Scales(widths, min(2.0 ** (stated.diameter / 4), max(1, int((widths > 0).sum()))))

    def stated(self, vectors: NDArray[np.signedinteger[Any]], units: Sequence[float]) -> Stated:
        """Return the statement about vectors, integers (m, rows).

        These are the vectors that are multiplied, without entries that no exchange of rows changes. `units`
        convert each to published numbers: 1/‖x‖ for coefficients. A vector with unit 0 counts as constant.
        """
        scaled = widths(vectors) * np.asarray(units)
        steps = tuple(self.step(float(width)) if width else NOTHING for width in scaled)
        ranges = np.array([self.width(step) for step in steps])
        factors = np.divide(units, ranges, out=np.zeros(len(steps)), where=ranges > 0)
        return Stated(steps, step_up(max(diameter(vectors, factors), _LEAST)))

    def problem(self, stated: Stated, *, of_length_1: bool) -> str | None:
        """Return what is impossible in an owner's statement, or None.

        Its vectors have length 1 if `of_length_1`, and otherwise at most 1.
        """
        least_diameter = stated.least_diameter if of_length_1 else step_up(_LEAST)
        moving = [step for step in stated.ranges if step != NOTHING]
        for step in moving:
            times = SLACK * 2.0 ** (step / 4) if abs(step) <= _HIGHEST else 0.0
            if times * self.unit * _FLOAT64 < self.least:
                return f"a range of {times:.3g} units, where {self.least / self.unit:.3g} is the least"
        if not least_diameter <= stated.diameter <= step_up(max(1, len(moving))):
            least, most = 2.0 ** (least_diameter / 4), max(1, len(moving))
            return f"a diameter of 2^({stated.diameter}/4), where {least:.3g} to {most} are possible"
        return None


@dataclass(frozen=True)
class Stated:
    """What one owner states about its m vectors, in steps: each R (``NOTHING`` for 0), and D."""

    ranges: tuple[int, ...]
    diameter: int = 0

    @property
    def least_diameter(self) -> int:
        """The least possible step of D of vectors of length 1 with these ranges.

        A maximum over pairs of rows is at least the mean over them. The mean of ((a_pi - a_pj)/R_p)² is
        2/((n - 1)·R_p²). For the range of a column without ties that is more than 1/6.
        """
        ranges = (SLACK * 2.0 ** (step / 4) for step in self.ranges if step != NOTHING)
        return step_up(max(sum(width**-2 for width in ranges) / 6, _LEAST))

    def with_untied(self) -> Stated:
        """Return the statement in which constant vectors have the range of a column without ties."""
        stated = Stated(tuple(0 if step == NOTHING else step for step in self.ranges), self.diameter)
        return Stated(stated.ranges, max(stated.diameter, stated.least_diameter))


def column_grid(rows: int, estimator: str) -> Grid:
    """Return the grid for single columns.

    Half of the rows in each of two groups have the least range: 1/√3 of that without ties in a long table
    (under ``paper`` 1/2), and a single row that stands apart has the most.
    """
    unit = untied_range(rows)
    return Grid(unit, unit / (2 if estimator == "paper" else math.sqrt(3)), math.sqrt(2))


def sum_grid(rows: int, columns: int) -> Grid:
    """Return the grid for sums, or means, of at most so many columns, which can cancel each other out."""
    return Grid(untied_range(rows), LEAST_OF_SUM * untied_range(rows), max(1, columns) * math.sqrt(2))


def widths(vectors: NDArray[np.signedinteger[Any]]) -> Ints:
    """Return max - min of each vector, (m,)."""
    ends = [(part.max(axis=1), part.min(axis=1)) for _, part in parts(vectors, STRIP)]
    highest, lowest = (np.array(end, dtype=np.int64) for end in zip(*ends, strict=True))
    return np.asarray(highest.max(axis=0) - lowest.min(axis=0))


def width_of_sum(vectors: NDArray[np.signedinteger[Any]], units: Sequence[float]) -> float:
    """Return max - min of the sum of vectors, each times its unit."""
    highest, lowest = -math.inf, math.inf
    for rows, part in parts(vectors, STRIP):
        total = np.zeros(rows.stop - rows.start)
        for vector, unit in zip(part, units, strict=True):
            if unit:
                total += vector * unit
        highest, lowest = max(highest, float(total.max())), min(lowest, float(total.min()))
    return highest - lowest


def diameter(vectors: NDArray[Any], factors: Floats) -> float:
    """Return max_ij Σ_p (f_p·(a_pi - a_pj))² over all pairs of rows of vectors, (m, rows), or a bound on it.

    It is exact up to `_EXACT` rows. Of more rows, the `_FARTHEST` with the largest norms are compared with
    each other, and ‖v_i - v_j‖ ≤ ‖v_i‖ + ‖v_j‖, or the ranges of all vectors, bound all other pairs. Among
    rows of equal norm it does not matter which are compared, since the bound is the same.
    """
    norms = np.empty(vectors.shape[1])
    for rows, part in parts(vectors, max(1, BLOCK // len(vectors))):
        block = part * factors[:, None]
        norms[rows] = np.einsum("pi,pi->i", block, block)
    count = len(norms) if len(norms) <= _EXACT else _FARTHEST
    order = np.argsort(-norms, kind="stable")[: count + 1]
    highest = 0.0
    if len(order) > count:
        # Of a flag, rows with its rarer value are all far from 0 and close to each other.
        together = float(np.sqrt(norms[order[0]]) + np.sqrt(norms[order[-1]])) ** 2
        highest = min(together, float(np.square(factors * widths(vectors)).sum()))
    order = order[:count]
    far = np.stack([vector[order] * factor for vector, factor in zip(vectors, factors, strict=True)], axis=1)
    norms = norms[order]
    lengths = np.sqrt(norms)
    for start in range(0, count, 512):
        if 4 * norms[start] <= highest:  # no pair of the rows from here on is farther apart
            break
        # nor is one with a row beyond `end`
        end = max(start + 1, int(np.searchsorted(-lengths, lengths[start] - math.sqrt(highest), "right")))
        products = far[start : start + 512] @ far[start:end].T
        between = norms[start : start + 512, None] + norms[start:end] - 2 * products
        highest = max(highest, float(between.max()))
    return highest


def step_up(value: float) -> int:
    """Return the least step whose scale is not below a value, up to float64's rounding."""
    return math.ceil(4 * math.log2(value) - 1e-11)


def stack_scales(owners: Iterable[Scales]) -> Scales:
    """Return the scales of several sources' vectors together; their diameters add up, as rows are common."""
    owners = list(owners)
    return Scales(np.concatenate([owner.widths for owner in owners]), sum(owner.spread for owner in owners))


def untied_range(rows: int) -> float:
    """Return the range of a column without ties, scaled to length 1."""
    return 2 * (rows - 1) / math.sqrt(rows * (rows * rows - 1) / 3)


def add_scales(owners: Iterable[Scales]) -> Scales:
    """Return the scales of the sum of vectors, one of each source: its range is at most the ranges' sum."""
    return Scales(np.array([sum(float(owner.widths.sum()) for owner in owners)]))


def most_noise(columns: int, owners: int, loss: float) -> float:
    """Return a bound on the noise of several owners together, relative to the largest mean of one column.

    It holds for all possible scales: R is at most √2·``SLACK`` of a vector's length, D at most `columns`.
    """
    most = 2 * SLACK**2 * math.sqrt(columns) / separation(loss)
    return owners * (REACH * most * _FLOAT64 + 2.0**-20)


def input_deviations(scales: Scales, loss: float, unit: str) -> Floats:
    """Return σ of the noise on each element of vectors with these scales, for noise on inputs: (m,).

    An exchange of rows i and j changes vector p by 2·(a_pi - a_pj)² in squared length. With ``privacy.unit:
    value`` it changes one vector only.
    """
    spread = 1.0 if unit == "value" else scales.spread
    return np.asarray(scales.widths * (math.sqrt(2 * spread) / separation(loss) * _FLOAT64))


def deviations(rows: Scales, columns: Scales, loss: float, numbers_of_value: int | None = None) -> Floats:
    """Return s of every number, (rows, columns), for ρ = `loss`; 0 where one of the two is constant.

    `numbers_of_value` is for ``privacy.unit: value``: how many columns of the other side a value meets.
    """
    spread = math.sqrt(rows.spread * columns.spread if numbers_of_value is None else numbers_of_value)
    return np.outer(rows.widths, columns.widths) * (spread / separation(loss) * _FLOAT64)
