"""What tests of coefficients are given about a column's ties: a class, and the skewness of its ranks.

Its owner computes both from the ranks alone. Tests and intervals need nothing else: for a flag even the sizes
of its two groups follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import Ranks, total

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Share of the largest possible tie term above which a column has many ties. Five equally frequent values
#: have 0.04, four 0.06, a flag of one half 0.25, one of a fifth 0.52.
MANY_TIES = 0.05


class Ties(IntEnum):
    """How far a column is tied."""

    NONE = 0
    SOME = 1
    MANY = 2  # a tie term above `MANY_TIES` of the largest possible
    TWO_VALUES = 3  # whose tie term is a quarter of the largest possible or more
    CONSTANT = 4

    @property
    def word(self) -> str:
        """The class's name for people and in files."""
        return self.name.lower().replace("_", " ")

    @classmethod
    def named(cls, word: str) -> Ties:
        """Return the class with this `word`; `ValueError` if there is none."""
        try:
            return cls[word.upper().replace(" ", "_")]
        except KeyError:
            raise ValueError(f"{word!r} does not say how a column is tied") from None


@dataclass(frozen=True)
class Columns:
    """What tests are given about one side's columns; arrays are (m,), or (m, 1) in `rows`.

    `ties` has values of `Ties`, of the cells that are not missing. `skewness` is the third standardised
    moment of the scores: 0 without ties, positive where the larger of two groups is below. `gaps` is the
    share of missing cells. Of columns adjusted for covariates, `unequal` says how unequal the variances of
    residuals are (`mpc_spearman.data.adjusted`), and `fitted` how many powers of covariates were fitted.
    """

    ties: Ints
    skewness: Floats
    gaps: Floats = field(default_factory=lambda: np.zeros(1))
    unequal: Floats = field(default_factory=lambda: np.ones(1))
    fitted: Ints = field(default_factory=lambda: np.zeros(1, np.int64))

    @classmethod
    def of(cls, ranks: Ranks) -> Columns:
        """Describe the columns of an owner by their ranks."""
        classes = [
            _tie_class(groups.tie_term_among_present, flag, groups.n - groups.gaps)
            for groups, flag in zip(ranks.groups, ranks.two_values, strict=True)
        ]
        return cls(np.array(classes, dtype=np.int64), ranks.skewness, ranks.gaps)

    def select(self, places: slice | Sequence[int]) -> Columns:
        """Return the columns at some places."""
        chosen = places if isinstance(places, slice) else np.array(places, dtype=np.int64)
        return Columns(*(array[chosen] for array in np.broadcast_arrays(*vars(self).values())))

    @classmethod
    def joined(cls, sides: Iterable[Columns]) -> Columns:
        """Return the columns of several sides, one side after the other."""
        arrays = [np.broadcast_arrays(*vars(side).values()) for side in sides]
        return cls(*map(np.concatenate, zip(*arrays, strict=True)))

    @property
    def flat(self) -> Columns:
        """The columns behind `rows`, of shape (m,)."""
        return Columns(self.ties[:, 0], self.skewness[:, 0], self.gaps[:, 0])

    @property
    def rows(self) -> Columns:
        """The columns as rows of a matrix of pairs, of shape (m, 1)."""
        return Columns(*(array[:, None] for array in vars(self).values()))


def ties(tie_terms: Sequence[int], two_values: Sequence[bool], n: int) -> Ints:
    """Return the class of each column, a value of `Ties`, by its tie term T and whether it has two values."""
    classes = [_tie_class(int(term), flag, n) for term, flag in zip(tie_terms, two_values, strict=True)]
    return np.array(classes, dtype=np.int64)


def _tie_class(tie_term: int, two_values: bool, n: int) -> Ties:
    full = total(n)
    if tie_term == full:
        return Ties.CONSTANT
    if two_values:
        return Ties.TWO_VALUES
    return Ties.MANY if tie_term > MANY_TIES * full else Ties.SOME if tie_term else Ties.NONE


def rounded(skewness: Floats) -> Floats:
    """Skewness as sent to a receiver: to the nearest power of 2^(1/4), and 0 below 1/16.

    So receivers know the sizes of a flag's two groups to within about a fifth.
    """
    size = np.abs(skewness)
    coarse = 2.0 ** (np.rint(4 * np.log2(np.maximum(size, 1 / 16))) / 4)
    return np.where(size < 1 / 16, 0.0, np.copysign(coarse, skewness))


def upper_share(skewness: Floats) -> Floats:
    """Share of rows that have the upper of a column's two values, from g = (1 - 2p)/sqrt(p(1 - p))."""
    root = np.sqrt(skewness**2 + 4)
    below = 2 / (root * (root + np.abs(skewness)))  # of the smaller group, without cancellation
    share: Floats = np.where(skewness < 0, 1 - below, below)
    return share


def possible(skewness: float, two_values: bool, tie_term: int, n: int) -> bool:
    """Return whether a column of n rows can have that skewness and, if it has two values, that tie term.

    The skewness of n numbers is at most √n. With two values, a and n - a of them, N - T is n a (n - a).
    """
    if not two_values:
        return abs(skewness) <= math.sqrt(n)
    if not math.isfinite(skewness):
        return False
    a = round(n * float(upper_share(np.array(skewness))))
    if not 0 < a < n or total(n) - tie_term != n * a * (n - a):
        return False
    return math.isclose(skewness, (n - 2 * a) / math.sqrt(a * (n - a)), rel_tol=1e-6, abs_tol=1e-6)
