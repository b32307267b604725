"""Combinations of a party's own columns that are the same everywhere but in a few rows.

A party that has correlations with its columns x_1 … x_m knows Σ_i z_i y_i for every z in the space V that
they span with the constant column (Σ_i y_i = 0 for centred ranks y). A z that is zero outside a few rows is
an equation in those rows' ranks alone. So the question is whether V, as a linear code, has a word of few
rows. It is asked in exact arithmetic, modulo a prime above all ranks (up to 4 million rows). Every word over
the rationals is one there (scaled to integers without a common factor), so that none is lost; among more rows
it would be where the prime divides the word's few values, once in 10^7. One that is there alone would need
the prime to divide determinants made of ranks, all by chance: once in 10^7 at most.

The search is by information sets. Reduce the columns to echelon form over some scattered rows: the basis
that comes out has unit vectors on as many of these rows, the pivots. A word is in it, up to its scale,
exactly if it is zero on all pivots but one. A word of w rows, alone on its rows, is missed if two of its rows
are pivots: with m columns of n rows a chance of about C(w, 2)(m/n)² in one round, and rounds with other rows
follow until it is below 10^-9. There are 64 rounds at most, and fewer for more than about 95 columns: words
may be missed with a greater chance by a party with fewer than four rows a column (5·10^-5 at three), or with
hundreds of columns.

What is zero on all rows of the sample is looked at again by itself, over the rows where it is not: columns in
which few rows differ from the rest end up there, as the small matrix of those rows. Several words on the same
few rows hide each other in part; but of d dimensions on r rows, echelon form always shows words of r - d + 1
rows or fewer.

References
----------
E. Prange, "The use of information sets in decoding cyclic codes", IRE Trans. Inf. Theory 8 (1962).
J. S. Leon, "A probabilistic algorithm for computing minimum weights of large error-correcting codes", IEEE
Trans. Inf. Theory 34 (1988).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The largest prime below 2^23. Residues are kept within ±2^22: a sum of 2^9 products of two stays below
#: 2^53, exact in float64, which BLAS multiplies.
_PRIME = 8_388_593
_TERMS = 512
_BLOCK = 1 << 15  # rows at a time
_ROUNDS = 64  # at most: enough to find a word of 9 rows among 3 rows per column with 99.99 %
_MISS = 1e-9  # the chance of missing a word that is alone on its rows, unless that takes more rounds
_WORK = 3e8  # elementary steps after which no further round begins; up to 95 columns have all their rounds

# Values modulo the prime of combinations (rows of the first argument) at some of the table's rows.
Rows = slice | NDArray[np.int64]
Evaluate = Callable[[NDArray[np.float64], Rows], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Combination:
    """A combination of columns that is zero outside a few rows.

    Attributes
    ----------
    weights : ndarray of float64, length m + 1
        Of the constant column and of each column, modulo the prime, up to a common factor.
    rows : ndarray of int64
        Where it is not zero; none if the columns depend on each other.
    """

    weights: NDArray[np.float64]
    rows: NDArray[np.int64]

    @property
    def columns(self) -> tuple[int, ...]:
        """Which columns take part."""
        return tuple(int(column) for column in np.flatnonzero(self.weights[1:]))


def sparse_combinations(columns: Sequence[NDArray[np.int32]], fewest: int) -> list[Combination]:
    """Find combinations of columns and the constant that are zero outside 1 to `fewest` - 1 rows.

    Parameters
    ----------
    columns : sequence of ndarray of int32, shape (n,)
        Centred doubled ranks.
    fewest : int
        The fewest rows that may stand apart.

    Returns
    -------
    list of Combination
        Those of the first round that finds any, not all there are: leave out a column of each and search
        again. And, without rows, how columns depend on each other.
    """

    def evaluate(weights: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
        values = np.array([column[rows] for column in columns], dtype=np.float64)
        if columns[0].size > _PRIME // 2:
            values = _residues(values)
        return _residues(weights[:, :1] + _times(weights[:, 1:], values))

    return _search(evaluate, len(columns) + 1, columns[0].size, fewest) if columns else []


def _search(evaluate: Evaluate, dimension: int, n: int, fewest: int) -> list[Combination]:
    found: list[Combination] = []
    for trial in range(_rounds(dimension, n, fewest)):
        sample = _scattered(n, min(n, 4 * dimension + 64), trial)
        reduced, weights, rank = _echelon(evaluate(np.eye(dimension), sample))
        few = np.count_nonzero(reduced[:rank], axis=1) < fewest
        found = [*_where_sparse(evaluate, weights[:rank][few], n, fewest)]
        if rank < dimension:
            found += _unseen(evaluate, weights[rank:], n, fewest)
        if any(one.rows.size for one in found):
            break
    return found


def _rounds(dimension: int, n: int, fewest: int) -> int:
    """Return how many rounds miss a word of `fewest` - 1 rows, alone on its rows, with a chance of _MISS."""
    w, part = fewest - 1, min(1.0, dimension / n)
    miss = 1 - (1 - part) ** w - w * part * (1 - part) ** (w - 1)  # two or more of its rows are pivots
    wanted = math.log(_MISS) / math.log(miss) if 0 < miss < 1 else 1.0
    affordable = _WORK / (dimension**2 * (5 * dimension + 64))
    return max(1, math.ceil(min(wanted + 1, affordable, _ROUNDS)))


def _scattered(n: int, size: int, trial: int) -> NDArray[np.int64]:
    """Choose rows, in an order without a pattern, the same at every run: an owner's answer must not vary."""
    keys = np.frombuffer(hashlib.shake_128(trial.to_bytes(2, "big")).digest(8 * n), dtype="<u8")
    lowest = np.argpartition(keys, size - 1)[:size]
    return lowest[np.argsort(keys[lowest])]


def _residues(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce integers below 2^53 modulo the prime, to the ones nearest to zero."""
    reduced: NDArray[np.float64] = values - _PRIME * np.rint(values / _PRIME)
    return reduced


def _times(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply matrices of residues."""
    product = np.zeros((left.shape[0], right.shape[1]))
    for first in range(0, left.shape[1], _TERMS):
        terms = slice(first, first + _TERMS)
        product = _residues(product + _residues(left[:, terms] @ right[terms]))
    return product


def _echelon(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Reduce to row echelon form modulo the prime; return it, the weights that make it, and the rank."""
    count, width = rows.shape
    work = np.hstack([rows, np.eye(count)])
    rank = 0
    for column in range(width):
        if rank == count:
            break
        candidates = np.flatnonzero(work[rank:, column])
        if not candidates.size:
            continue
        work[[rank, rank + candidates[0]]] = work[[rank + candidates[0], rank]]
        work[rank] = _residues(work[rank] * _inverse(work[rank, column]))
        others = np.flatnonzero(work[:, column])
        others = others[others != rank]
        work[others] = _residues(work[others] - np.outer(work[others, column], work[rank]))
        rank += 1
    return work[:, :width], work[:, width:], rank


def _inverse(value: float) -> float:
    inverse = pow(int(value), -1, _PRIME)
    return float(inverse - _PRIME if inverse > _PRIME // 2 else inverse)


def _where_sparse(
    evaluate: Evaluate, weights: NDArray[np.float64], n: int, fewest: int
) -> Iterator[Combination]:
    """Keep the combinations that are zero outside fewer than `fewest` rows of all."""
    rows: list[list[NDArray[np.int64]]] = [[] for _ in weights]
    counts = np.zeros(len(weights), dtype=np.int64)
    for first in range(0, n, _BLOCK):
        alive = np.flatnonzero(counts < fewest)
        if not alive.size:
            return
        values = evaluate(weights[alive], slice(first, first + _BLOCK))
        counts[alive] += np.count_nonzero(values, axis=1)
        for word, value in zip(alive, values, strict=True):
            rows[word].append(first + np.flatnonzero(value))
    for word in np.flatnonzero(counts < fewest):
        yield Combination(weights[word], np.concatenate(rows[word]))


def _unseen(evaluate: Evaluate, weights: NDArray[np.float64], n: int, fewest: int) -> Iterator[Combination]:
    """Search the combinations that are zero on a whole sample, over the rows where they are not."""
    values, places = [], []
    for first in range(0, n, _BLOCK):
        block = evaluate(weights, slice(first, first + _BLOCK))
        apart = np.flatnonzero(block.any(axis=0))
        values.append(block[:, apart])
        places.append(first + apart)
    matrix, where = np.hstack(values), np.concatenate(places)

    def again(inner: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
        return _times(inner, matrix[:, rows])

    if not where.size:
        yield from (Combination(one, where) for one in weights)
        return
    for one in _search(again, len(weights), where.size, fewest):
        yield Combination(_times(one.weights[None], weights)[0], where[one.rows])
