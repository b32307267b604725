"""The scales of owners' vectors, and the standard deviation of noise that follows from them.

A level multiplies vectors a_p of one side with vectors b_q of the other. An owner states of its own vectors

    R_p  the range of a vector, max - min; 0 of a constant one, which gets no noise and does not count below,
    D    the diameter, min(m, 4·max_i Σ_p (a_pi/R_p)²) over its m vectors.

Both are computed from the integers that are multiplied, and rounded up to a power of 2^(1/4), which the
others learn. They are equal for neighbouring tables. Each number gets noise of

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

#: A scale is 2^(step/4). This one stands for 0, of a constant vector.
NOTHING = -(2**15)
_HIGHEST = 2**10
_STEP = 2**0.25
_FLOAT64 = 1 + 2.0**-30  # above what all roundings of float64 here can take off


@dataclass(frozen=True)
class Scales:
    """What one owner states of its m vectors: each R, and D, in steps: 2^(step/4), or 0 for ``NOTHING``."""

    ranges: tuple[int, ...]
    diameter: int

    @classmethod
    def of(cls, vectors: NDArray[np.signedinteger[Any]], units: Sequence[float]) -> Scales:
        """Compute the scales of vectors, integers (m, rows), rounded up.

        Vectors are those that are multiplied, without entries that no exchange of rows changes. `units`
        convert each to published numbers: 1/‖x‖ for coefficients. A vector with unit 0 counts as constant.
        """
        found = widths(vectors)
        moving = np.flatnonzero(found * np.asarray(units))
        ranges = [NOTHING] * len(vectors)
        for p in moving.tolist():
            ranges[p] = _up(float(found[p] * units[p]))
        return cls(tuple(ranges), _up(_diameter(vectors, found, moving)))

    @classmethod
    def of_sum(cls, vectors: NDArray[np.signedinteger[Any]], units: Sequence[float]) -> Scales:
        """Compute the range of the sum of vectors, rounded up; at least 1/rows, for what float64 rounds."""
        highest, lowest = -math.inf, math.inf
        for rows, part in parts(vectors, STRIP):
            total = np.zeros(rows.stop - rows.start)
            for vector, unit in zip(part, units, strict=True):
                if unit:
                    total += vector * unit
            highest, lowest = max(highest, float(total.max())), min(lowest, float(total.min()))
        return cls.of_range(highest - lowest, any(units), vectors.shape[1])

    @classmethod
    def of_range(cls, width: float, moving: bool, rows: int) -> Scales:
        """Return the scales of one vector, from its range; none if it is constant."""
        return cls((_up(max(width, 1 / rows)) if moving else NOTHING,), 0)

    def without_nothing(self, width: float) -> Scales:
        """State a range for constant vectors as well."""
        return Scales(tuple(_up(width) if step == NOTHING else step for step in self.ranges), self.diameter)

    @property
    def absolute(self) -> Scales:
        """The scales of the sum of absolute products with each vector: R = Σ_p R_p."""
        return summed(Scales((step,), 0) for step in self.ranges)

    @property
    def widths(self) -> NDArray[np.float64]:
        """R of each vector, (m,)."""
        return np.array([0.0 if step == NOTHING else 2.0 ** (step / 4) for step in self.ranges])

    @property
    def spread(self) -> float:
        """D."""
        return float(2.0 ** (self.diameter / 4))

    def problem(self, least: float, most: float) -> str | None:
        """Return what is impossible in these scales if R of varying vectors is from `least` to `most`."""
        moving = [step for step in self.ranges if step != NOTHING]
        for step in moving:
            if not -_HIGHEST <= step <= _HIGHEST or not least <= 2.0 ** ((step + 1) / 4) <= 2 * most:
                return f"a range of 2^({step}/4), where {least:.2g} to {most:.2g} are possible"
        if not 0 <= self.diameter <= _up(max(1, len(moving))):
            return f"a diameter of 2^({self.diameter}/4), where 1 to {max(1, len(moving))} are possible"
        return None


def widths(vectors: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Return max - min of each vector, (m,)."""
    ends = [(part.max(axis=1), part.min(axis=1)) for _, part in parts(vectors, STRIP)]
    highest, lowest = (np.array(one, dtype=np.int64) for one in zip(*ends, strict=True))
    found: NDArray[np.int64] = highest.max(axis=0) - lowest.min(axis=0)
    return found


def _up(value: float) -> int:
    """Return the least step whose scale is not below a value, but for what float64 rounds."""
    return math.ceil(4 * math.log2(value) - 1e-11)


def _diameter(vectors: NDArray[Any], widths: NDArray[np.int64], moving: NDArray[np.int64]) -> float:
    if len(moving) < 2:
        return 1.0
    highest = 0.0
    for _, part in parts(vectors, max(1, BLOCK // len(vectors))):
        block = part[moving] / widths[moving, None]
        highest = max(highest, float(np.einsum("pi,pi->i", block, block).max()))
    return max(1.0, min(len(moving), 4 * highest))


def joined(owners: Iterable[Scales]) -> Scales:
    """Stack the vectors of several sources: their diameters add up, for a row that all of them have."""
    owners = list(owners)
    ranges = tuple(step for owner in owners for step in owner.ranges)
    return Scales(ranges, _up(sum(owner.spread for owner in owners)))


def untied(rows: int) -> float:
    """Return the range of a column without ties, scaled to length 1."""
    return 2 * (rows - 1) / math.sqrt(rows * (rows * rows - 1) / 3)


def summed(owners: Iterable[Scales]) -> Scales:
    """Add up vectors, one of each source, to one, whose range is at most the sum of theirs."""
    width = sum(float(owner.widths.sum()) for owner in owners)
    return Scales((_up(width) if width else NOTHING,), 0)


def most_noise(columns: int, owners: int, loss: float) -> float:
    """Bound the noise of several owners together, relative to the largest mean of one column.

    It holds for any scales they state: R is at most √2 of a vector's length, and D the number of `columns`.
    """
    most = 2 * float(_STEP**3.5) * math.sqrt(columns) / separation(loss)
    return owners * (REACH * most * _FLOAT64 + 2.0**-20)


def deviations(rows: Scales, columns: Scales, loss: float, others: int | None = None) -> NDArray[np.float64]:
    """Return s of every number, (rows, columns), for ρ = `loss`; 0 where one of the two is constant.

    `others` is for ``privacy.unit: value``: how many columns of a receiver's come with one of the other side.
    """
    spread = math.sqrt(rows.spread * columns.spread if others is None else others)
    return np.outer(rows.widths, columns.widths) * (spread / separation(loss) * _FLOAT64)
