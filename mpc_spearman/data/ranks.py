"""Columns to encoded ranks, and every bound under which the integers stay exact.

A column of n values becomes its centred doubled average ranks x = 2r - (n + 1), an integer vector with
|x_i| <= n - 1 and sum 0. With N = n(n^2 - 1)/3 and the column's tie term T = sum over its groups of t
equal values of (t^3 - t)/3,

    sum_i x_i^2 = N - T        so    0 <= T <= N,   T = 0 without ties,   T = N for a constant column.

A column with g missing cells ranks the others among themselves, x = 2r - (n - g + 1), and has x = 0 where a
cell is missing. Its T is N less its sum of squares as well; a missing cell is no part of a group.

By Cauchy-Schwarz every inner product of two such vectors obeys |S| <= N, and N < 2^63 up to
``MAX_ROWS``; of more rows see :mod:`mpc_spearman.levels.coefficients`. Terms such as 2S, S + T or t^3 (which
leaves even uint64 at t = 2,642,246) have no such bound: outside the ring they are Python integers here and in
:mod:`mpc_spearman.statistics.estimators`. At ``strengths`` other vectors are multiplied: see
:mod:`mpc_spearman.levels.encoding`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, parts

#: The largest n with N = n(n^2 - 1)/3 < 2^63: one inner product of ranks fits a signed 64-bit ring.
MAX_ROWS = 3_024_616
#: The largest n with 2N < 2^63.
MAX_DOUBLED = 2_400_639
#: The largest n of all: ranks fit 32 bits.
LARGEST = 1 << 31


@dataclass(frozen=True)
class Groups:
    """A column's groups of equal values, by their sizes, and how many of its cells are missing."""

    #: Each size t that a group has, ascending, and how many groups have it: at most about sqrt(2n) pairs.
    how_many: tuple[tuple[int, int], ...]
    #: Third standardised moment of the column's x; 0 where they are constant or symmetric.
    skewness: float
    #: How many cells are missing.
    gaps: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(t * count for t, count in self.how_many) + self.gaps

    @property
    def count(self) -> int:
        """Number of groups, that is of different values."""
        return sum(count for _, count in self.how_many)

    @property
    def outside(self) -> int:
        """How many rows are outside the largest group; missing cells are a group. 0 if constant."""
        return self.n - max(self.how_many[-1][0], self.gaps) if self.count > 1 else 0

    @property
    def tie_term_among_present(self) -> int:
        """T of the column without its missing cells."""
        return sum(count * total(t) for t, count in self.how_many)

    @cached_property
    def tie_term(self) -> int:
        """T."""
        return total(self.n) - total(self.n - self.gaps) + self.tie_term_among_present


def skewness_of(n: int, squares: float, cubes: float) -> float:
    """Return the skewness of n average ranks from sums over rows; below 1e-9 it is 0 but for rounding."""
    skewness = math.sqrt(n) * cubes / squares**1.5 if squares else 0.0
    return skewness if abs(skewness) >= 1e-9 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Ranks:
    """A party's ranked columns. Private to the party: its text form shows the shape only."""

    #: Centred doubled average ranks, (m, n): one C-contiguous row per feature.
    matrix: NDArray[np.int32]
    groups: tuple[Groups, ...]

    @property
    def n(self) -> int:
        """Number of rows (samples)."""
        return int(self.matrix.shape[1])

    @property
    def m(self) -> int:
        """Number of features."""
        return int(self.matrix.shape[0])

    @property
    def tie_terms(self) -> tuple[int, ...]:
        """T of each feature."""
        return tuple(groups.tie_term for groups in self.groups)

    @property
    def largest(self) -> int:
        """A bound on the absolute values of the matrix."""
        return self.n

    @property
    def squares(self) -> tuple[int, ...]:
        """The squared length of each row of the matrix, N - T."""
        return tuple(total(self.n) - term for term in self.tie_terms)

    @property
    def constant(self) -> tuple[bool, ...]:
        """Which features have a single distinct value or none, hence no rank correlation."""
        return tuple(groups.count < 2 for groups in self.groups)

    @property
    def two_values(self) -> tuple[bool, ...]:
        """Which features have two distinct values, and one in each row."""
        return tuple(groups.count == 2 and not groups.gaps for groups in self.groups)

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Share of missing cells of each feature, shape (m,)."""
        return np.array([groups.gaps / self.n for groups in self.groups])

    @property
    def skewness(self) -> NDArray[np.float64]:
        """Skewness of each feature's x, shape (m,)."""
        return np.array([groups.skewness for groups in self.groups])

    @property
    def defined(self) -> int:
        """How many features are not constant."""
        return self.m - sum(self.constant)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the matrix in blocks that fit a cache: which rows, and their ranks as floats, (m, rows)."""
        for rows, part in parts(self.matrix, max(1, BLOCK // max(1, self.m))):
            yield rows, part.astype(np.float64)

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """The inner products of all pairs of features, (m, m), as `inner_products` computes them."""
        return inner_products(self.matrix, self.matrix, self.largest)

    def first(self, count: int) -> Ranks:
        """Return the first `count` features."""
        return self if count == self.m else Ranks(self.matrix[:count], self.groups[:count])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m}, n={self.n})"


def inner_products(
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    largest: int,
    columns: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Compute the inner products of all rows of one matrix with all rows of another.

    They are over the marked `columns` or all, and exact integers, rounded to float64 at last: the order of
    the columns changes no bit. No element exceeds `largest` in absolute value. Numbers are taken in limbs of
    15 bits where they have more than 20, and blocks are short enough for exact float64 sums; parts above 2^32
    are summed separately.
    """
    bits = largest.bit_length()
    shift = 15 if bits > 20 else bits
    high, low = np.zeros((2, 3, len(first), len(second)), dtype=np.int64)
    length = max(1, min(BLOCK // max(len(first), len(second), 1), 1 << (53 - 2 * shift)))
    for (where, part), (_, of_second) in zip(parts(first, length), parts(second, length), strict=True):
        if columns is not None:
            part, of_second = part[:, columns[where]], of_second[:, columns[where]]
        limbs_of_second = _limbs(of_second, shift, bits)
        for i, limb in enumerate(_limbs(part, shift, bits)):
            for j, limb_of_second in enumerate(limbs_of_second):
                products = (limb @ limb_of_second.T).astype(np.int64)
                high[i + j] += products >> 32
                low[i + j] += products & 0xFFFFFFFF
    sums = high.astype(object) * 2**32 + low.astype(object)
    total_of_limbs = sum(of_power << (shift * power) for power, of_power in enumerate(sums))
    return np.array(total_of_limbs, dtype=np.float64)


def _limbs(part: NDArray[np.int32], shift: int, bits: int) -> list[NDArray[np.float64]]:
    """Split integers of so many bits into limbs of `shift` bits, the last of which has the sign."""
    if bits <= shift:
        return [part.astype(np.float64)]
    lower = part & ((1 << shift) - 1)
    return [lower.astype(np.float64), (part >> shift).astype(np.float64)]


def total(n: int) -> int:
    """N = n(n^2 - 1)/3, the squared norm of n centred doubled ranks without ties (a Python integer)."""
    n = int(n)
    return n * (n * n - 1) // 3
