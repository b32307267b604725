"""Columns to encoded ranks, and every bound under which the integers stay exact.

A column of n values becomes its centred doubled average ranks x = 2r - (n + 1), an integer vector with
|x_i| <= n - 1 and sum 0. With N = n(n^2 - 1)/3 and the column's tie term T = sum over its groups of t
equal values of (t^3 - t)/3,

    sum_i x_i^2 = N - T        so    0 <= T <= N,   T = 0 without ties,   T = N for a constant column.

By Cauchy-Schwarz every inner product of two such vectors obeys |S| <= N, and N < 2^63 up to
``MAX_ROWS``. Terms such as 2S, S + T or t^3 (which leaves even uint64 at t = 2,642,246) have no such
bound: outside the ring they are Python integers here and in :mod:`mpc_spearman.statistics.estimators`. At
``strengths`` other vectors are multiplied: see :mod:`mpc_spearman.protocols.encoding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.errors import BoundError, DisclosureError

#: The largest n with N = n(n^2 - 1)/3 < 2^63: one inner product of ranks fits a signed 64-bit ring.
MAX_ROWS = 3_024_616


@dataclass(frozen=True, eq=False, repr=False)
class Ranks:
    """A party's ranked columns. Private to the party: its text form shows the shape only.

    Attributes
    ----------
    matrix : ndarray of int64, shape (m, n)
        Centred doubled average ranks, one C-contiguous row per feature.
    tie_terms : tuple of int, length m
        T of each feature.
    outside : tuple of int, length m
        How many rows lie outside the feature's largest group of equal values; 0 for a constant column.
    """

    matrix: NDArray[np.int64]
    tie_terms: tuple[int, ...]
    outside: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of rows (samples)."""
        return int(self.matrix.shape[1])

    @property
    def m(self) -> int:
        """Number of features."""
        return int(self.matrix.shape[0])

    @property
    def constant(self) -> tuple[bool, ...]:
        """Which features have a single distinct value, hence no rank correlation."""
        return tuple(rows == 0 for rows in self.outside)

    @property
    def defined(self) -> int:
        """How many features are not constant."""
        return self.m - sum(self.constant)

    def __repr__(self) -> str:
        return f"Ranks(m={self.m}, n={self.n})"


def total(n: int) -> int:
    """N = n(n^2 - 1)/3, the squared norm of n centred doubled ranks without ties (a Python integer)."""
    n = int(n)
    return n * (n * n - 1) // 3


def _nothing() -> None:
    pass


def rank_columns(
    columns: Sequence[NDArray[Any]], *, workers: int = 1, tick: Callable[[], None] = _nothing
) -> Ranks:
    """Rank each column on its own, ties sharing their average rank.

    Values are compared in their own type, never through float64: integers beyond 2^53 and nearly equal
    floats stay apart, and -0.0 ties with 0.0.

    Parameters
    ----------
    columns : sequence of 1-D arrays of equal length n >= 1
        Boolean, integer or floating point without NaN (tables are checked for that when they are read).
    workers : int
        Threads over columns; NumPy's sort releases the interpreter lock.
    tick : callable
        Called from the calling thread after each column; what it raises ends the ranking.

    Returns
    -------
    Ranks

    Raises
    ------
    ValueError
        No columns, unequal or zero lengths, a type without an order, or NaN: a mistake of the caller.
    """
    arrays = [np.asarray(column) for column in columns]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or arrays[0].ndim != 1 or arrays[0].size == 0:
        raise ValueError("ranking needs at least one column, all one-dimensional, of one length above zero")
    if any(array.dtype.kind not in "biuf" for array in arrays):
        raise ValueError("only boolean, integer and floating-point columns can be ranked")
    matrix = np.empty((len(arrays), arrays[0].size), dtype=np.int64)
    groups: list[tuple[int, int]] = [(0, 0)] * len(arrays)

    def rank(index: int) -> None:
        groups[index] = _rank_into(matrix[index], arrays[index])

    if workers <= 1:
        for index in range(len(arrays)):
            rank(index)
            tick()
    else:
        with ThreadPoolExecutor(workers) as pool:
            pending = [pool.submit(rank, index) for index in range(len(arrays))]
            try:
                for done in as_completed(pending):
                    done.result()
                    tick()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # don't rank the rest for nobody
                raise
    tie_terms, outside = zip(*groups, strict=True)
    return Ranks(matrix, tie_terms, outside)


def _rank_into(out: NDArray[np.int64], column: NDArray[Any]) -> tuple[int, int]:
    """Write a column's x into `out`; return its tie term and its rows outside the largest group."""
    n = column.size
    # unstable but vectorised sort: the order inside a group of equal values does not matter
    by_value = np.argsort(column)
    ordered = column[by_value]
    if column.dtype.kind == "f" and np.isnan(ordered[-1]):  # NaN sorts last
        raise ValueError("a column with NaN cannot be ranked")
    last = np.flatnonzero(ordered[1:] != ordered[:-1])  # last position of every group but the final one
    if last.size == n - 1:
        out[by_value] = np.arange(1 - n, n, 2)
        return 0, n - 1
    bounds = np.concatenate(([0], last + 1, [n]))
    sizes = np.diff(bounds)
    # positions a … b-1 hold the ranks a+1 … b, whose doubled average is a+b+1: x = a+b+1 - (n+1)
    out[by_value] = np.repeat(bounds[:-1] + bounds[1:] - n, sizes)
    how_many = np.bincount(sizes)
    present = np.flatnonzero(how_many)  # at most about sqrt(2n) different sizes
    tie_term = sum(int(how_many[t]) * (int(t) ** 3 - int(t)) // 3 for t in present)
    return tie_term, n - int(present[-1])


def check_width(n: int, m_source: int, m_target: int, min_rows_per_feature: int) -> None:
    """Refuse so many columns that the coefficients could be solved for the other side's rows.

    Parameters
    ----------
    n : int
        Aligned rows.
    m_source, m_target : int
        Columns of all sources together, and of the target.
    min_rows_per_feature : int
        The shared plan's ``privacy.min_rows_per_feature``.

    Raises
    ------
    DisclosureError
        If n < min_rows_per_feature * (m_source + m_target).
    """
    features = m_source + m_target
    if n < min_rows_per_feature * features:
        raise DisclosureError(
            f"{m_source} source and {m_target} target columns are too many for {n} rows: "
            f"privacy.min_rows_per_feature asks for {min_rows_per_feature} rows per column, "
            f"{min_rows_per_feature * features} in all"
        )


def check_rows(n: int) -> None:
    """Refuse more rows than ``MAX_ROWS`` where products of ranks are opened as they are.

    Raises
    ------
    BoundError
    """
    if n > MAX_ROWS:
        raise BoundError(f"{n} rows are more than the {MAX_ROWS} that 64-bit sums of ranks can hold")
