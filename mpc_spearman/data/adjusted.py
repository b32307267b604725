"""Ranks without what covariates explain (``adjust``): residuals of least squares take the place of ranks.

A feature's x is fitted on the covariates' x, their squares and their cubes, and a constant; on a covariate
with two values only linearly, since other powers add nothing. The residuals e, scaled by a power of 2 to
integers of 30 bits, are the rows of an `Adjusted` matrix.

The fit depends on the table as a whole: it is computed from exact sums over rows, so exchanging two rows
changes no bit of it, and of the residuals exchanges only those two rows. docs/guarantee.md counts on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, STRIP, parts, zeros_like
from mpc_spearman.data.ranks import Groups, Ranks, inner_products, skewness_of
from mpc_spearman.data.refusals import listed, show
from mpc_spearman.errors import TableError

#: What 1 is in powers of covariates and, at most, in residuals.
_ONE = 1 << 30
#: Eigenvalues of the correlations between powers below which a direction repeats others.
_REPEATED = 1e-9
#: The share of a power's mean square below which float64 cannot tell its variance from 0.
_CONSTANT = 1e-12
#: The least share of a feature's variance that covariates may leave.
LEAST_UNEXPLAINED = 0.02
#: The most groups of rows, by a covariate's ranks, in which variances of residuals are compared.
_STRATA = 10
#: The fewest rows of such a group: of two people, its variance would nearly tell how far apart they are.
_FEWEST = 10

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Adjusted(Ranks):
    """A party's features after adjustment; `groups` say only whether one is constant, skewed, or has gaps."""

    #: How many independent powers of covariates were fitted.
    fitted: int
    #: Which share of each feature's variance the covariates leave, (m,); 1 of a constant one.
    unexplained: Floats
    #: The group of each row by each covariate's ranks, (covariates, n).
    strata: NDArray[np.uint8]

    @property
    def largest(self) -> int:
        """A bound on the absolute values of the matrix."""
        return 2 * _ONE  # where rows are centred anew

    @cached_property
    def squares(self) -> tuple[int, ...]:
        """The squared length of each row of the matrix."""
        return tuple(_square(row) for row in self.matrix)

    def unequal(self, squares: NDArray[np.float64]) -> float:
        """Return how unequal the variances of n residuals are, 1 if equal, from the residuals' `squares`.

        √(mean v²)/mean v, with v the mean square in each group of rows by one covariate, of the covariate for
        which it is largest; a group of few rows is one with its neighbour. Two independent columns whose
        variances change with these groups have a coefficient whose variance is at most the product of
        theirs, over n.
        """
        most = 1.0
        for strata in self.strata:
            groups = _merged_groups(np.bincount(strata, minlength=_STRATA))
            rows = np.bincount(groups, np.bincount(strata, minlength=_STRATA))
            sums = np.bincount(groups, np.bincount(strata, squares, minlength=_STRATA))
            if sums.any():
                of_group = sums / rows
                mean = float(rows @ of_group) / len(strata)
                most = max(most, math.sqrt(float(rows @ np.square(of_group)) / len(strata)) / mean)
        return most

    @property
    def unequal_columns(self) -> Floats:
        """How unequal the variances of each feature's residuals are, (m,)."""
        return np.array([self.unequal(np.square(row.astype(np.float64))) for row in self.matrix])

    def sum(self, units: Floats) -> Floats:
        """Return the sum of all features, each times its unit, (n,)."""
        total = zeros_like(self.matrix, (self.n,), np.float64)
        for rows, part in parts(self.matrix, STRIP):
            total[rows] = units @ part
        return total

    def of_rows(self, rows: NDArray[np.int64]) -> Adjusted:
        """Return the residuals of some rows, centred over these; the fit is not repeated."""
        matrix, groups = zeros_like(self.matrix, (self.m, len(rows)), np.int32), list[Groups]()
        for row, of_whole, out in zip(self.matrix, self.groups, matrix, strict=True):
            np.take(row, rows, out=out, mode="clip")
            out -= np.int32(round(int(out.sum(dtype=np.int64)) / len(rows)))
            groups.append(_describe_residuals(out, round(of_whole.gaps / self.n * len(rows))))
        return Adjusted(matrix, tuple(groups), self.fitted, self.unexplained, self.strata[:, rows])


def adjusted(ranks: Ranks, count: int) -> Adjusted:
    """Adjust features for covariates, which are the last `count` rows of `ranks`."""
    m, n = ranks.m - count, ranks.n
    features, covariates = ranks.matrix[:m], ranks.matrix[m:]
    powers = _powers(covariates, ranks.groups[m:])
    means = np.array([int(row.sum(dtype=np.int64)) / n for row in powers])
    weights, fitted = _least_squares(powers, features, means, n)
    matrix, groups, unexplained = zeros_like(ranks.matrix, (m, n), np.int32), list[Groups](), np.ones(m)
    residuals = zeros_like(ranks.matrix, (n,), np.float64)
    of_features = zip(features, ranks.groups, ranks.squares, weights, matrix, strict=False)
    for feature, (x, of_ranks, square, weight, out) in enumerate(of_features):
        for rows, part in parts(x, BLOCK):
            # Element by element, in one order: a matrix product could round each row in its own way.
            residuals[rows] = part
            for power, mean, of_power in zip(powers, means, weight, strict=True):
                if of_power:
                    residuals[rows] -= (power[rows] - mean) * of_power
        furthest = max((float(np.abs(part).max()) for _, part in parts(residuals, BLOCK)), default=0.0)
        if square and furthest > 1e-9 * n:
            scale = 2.0 ** (30 - math.frexp(furthest)[1])
            for rows, part in parts(residuals, BLOCK):
                out[rows] = np.rint(part * scale)
            unexplained[feature] = _square(out) / scale**2 / square
        elif square:
            unexplained[feature] = 0.0
        groups.append(_describe_residuals(out, of_ranks.gaps))
    strata = np.array([_stratum(row, n) for row in covariates])
    return Adjusted(matrix, tuple(groups), fitted, unexplained, strata)


def check_explained(party: str, features: Sequence[str], adjusted: Adjusted) -> None:
    """Refuse features that are functions of their covariates; `TableError` names them."""
    if few := [
        name for name, share in zip(features, adjusted.unexplained, strict=True) if share < LEAST_UNEXPLAINED
    ]:
        shares = ", ".join(
            f"{adjusted.unexplained[features.index(name)]:.1%} of {show(name)}" for name in few
        )
        raise TableError(
            f"{party}: adjust: {listed(few)} "
            f"{'is a function of its covariates' if len(few) == 1 else 'are functions of their covariates'}, "
            f"which leave {shares}, and {LEAST_UNEXPLAINED:.0%} is the least; leave it out (exclude), or "
            "adjust for other columns"
        )


def _powers(covariates: NDArray[np.int32], groups: Sequence[Groups]) -> NDArray[np.int32]:
    """Return x/n of each covariate, its square and its cube, as integers, (powers, n)."""
    n = covariates.shape[1]
    exponents = [
        (x, exponent)
        for x, of_column in zip(covariates, groups, strict=True)
        for exponent in ((1,) if of_column.count + (of_column.gaps > 0) < 3 else (1, 2, 3))
    ]
    powers = zeros_like(covariates, (len(exponents), n), np.int32)
    for (x, exponent), out in zip(exponents, powers, strict=True):
        for rows, part in parts(x, BLOCK):
            base = part / n
            power = base
            for _ in range(exponent - 1):
                power = power * base
            out[rows] = np.rint(power * _ONE)
    return powers


def _least_squares(
    powers: NDArray[np.int32], features: NDArray[np.int32], means: Floats, n: int
) -> tuple[Floats, int]:
    """Return the weights of centred powers in the fit of each feature, (m, powers), and how many count."""
    products, with_features = (inner_products(powers, some, _ONE) for some in (powers, features))
    centred = products - n * np.outer(means, means)  # the sums of features are 0
    moving = np.diag(centred) > _CONSTANT * np.diag(products)
    lengths = np.sqrt(np.diag(centred)[moving])
    values, vectors = np.linalg.eigh(centred[np.ix_(moving, moving)] / np.outer(lengths, lengths))
    independent = values > _REPEATED
    vectors, values = vectors[:, independent], values[independent]
    inverse = (vectors / values) @ vectors.T / np.outer(lengths, lengths)
    weights = np.zeros((len(features), len(powers)))
    weights[:, moving] = (inverse @ with_features[moving]).T
    return weights, len(values)


def _describe_residuals(residuals: NDArray[np.int32], gaps: int) -> Groups:
    """Describe a feature's residuals: constant or without ties, and how skewed.

    The skewness is sent, so its sums are exact as well: the order of rows would show in its last bits.
    """
    n, square = len(residuals), _square(residuals)
    if not square:
        return Groups(((n - gaps, 1),) if gaps < n else (), 0.0, gaps)
    unit = 1 << 11  # in which a cube fits 64 bits
    cubes = _exact_sum(np.rint(part / unit).astype(np.int64) ** 3 for _, part in parts(residuals, BLOCK))
    return Groups(((1, n - gaps),) if gaps < n else (), skewness_of(n, square, cubes * unit**3), gaps)


def _square(row: NDArray[np.int32]) -> int:
    """Return the squared length of integers, exactly."""
    return _exact_sum(np.square(part.astype(np.int64)) for _, part in parts(row, BLOCK))


def _exact_sum(blocks: Iterable[NDArray[np.int64]]) -> int:
    """Return the sum of all numbers of some blocks, which may exceed 64 bits."""
    high = low = 0
    for block in blocks:
        high, low = high + int((block >> 32).sum()), low + int((block & 0xFFFFFFFF).sum())
    return (high << 32) + low


def _stratum(x: NDArray[np.int32], n: int) -> NDArray[np.uint8]:
    """Return the group of each row among tenths of a covariate's ranks; equal values are in one group."""
    group = np.empty(n, np.uint8)
    for rows, part in parts(x, STRIP):
        group[rows] = (part.astype(np.int64) + n) * _STRATA // (2 * n)
    return group


def _merged_groups(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge neighbouring groups until each has `_FEWEST` rows; return the merged group of each group."""
    joined, group, count, after = np.zeros(len(rows), np.int64), 0, 0, int(rows.sum())
    for place, size in enumerate(rows.tolist()):
        if count >= _FEWEST and after >= _FEWEST:
            group, count = group + 1, 0
        joined[place] = group
        count, after = count + size, after - size
    return joined
