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
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, parts, room

#: The largest n with N = n(n^2 - 1)/3 < 2^63: one inner product of ranks fits a signed 64-bit ring.
MAX_ROWS = 3_024_616
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

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> Groups:
        """Count the sizes, each at least 1, of the groups from the lowest value to the highest."""
        counts = np.bincount(sizes)
        how_many = tuple((int(t), int(counts[t])) for t in np.flatnonzero(counts))
        n = int(sizes.sum())
        x = (2 * np.cumsum(sizes) - sizes) / n - 1
        return cls(how_many, _skewness(n, float(sizes @ (x * x)), float(sizes @ (x * x * x))))

    def with_gaps(self, gaps: int) -> Groups:
        """Return the groups of a column that has missing cells besides."""
        present = self.n
        return Groups(self.how_many, self.skewness * math.sqrt((present + gaps) / max(1, present)), gaps)

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
        """How many rows lie outside the largest group, or have a value if more have none; 0 if constant."""
        return self.n - max(self.how_many[-1][0], self.gaps) if self.count > 1 else 0

    @property
    def tie_term_among_present(self) -> int:
        """T of the column without its missing cells."""
        return sum(count * total(t) for t, count in self.how_many)

    @cached_property
    def tie_term(self) -> int:
        """T."""
        return total(self.n) - total(self.n - self.gaps) + self.tie_term_among_present


def _skewness(n: int, squares: float, cubes: float) -> float:
    """Skewness of average ranks from sums over rows; what is below 1e-9 is 0 but for rounding."""
    found = math.sqrt(n) * cubes / squares**1.5 if squares else 0.0
    return found if abs(found) >= 1e-9 else 0.0


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
        """The inner products of all pairs of features, (m, m), as `gram_matrix` computes them."""
        return gram_matrix(self.matrix, self.n)

    def __repr__(self) -> str:
        return f"Ranks(m={self.m}, n={self.n})"


def gram_matrix(
    matrix: NDArray[np.int32], bound: int, some: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Compute the inner products of all pairs of rows, over `some` columns or all.

    They are exact integers, rounded to float64 at last: the order of the columns changes no bit. No element
    exceeds `bound` in absolute value. Blocks are short enough for exact float64 sums, up to a bound of 9e7;
    parts above 2^32 are summed separately.
    """
    m = len(matrix)
    high, low = np.zeros((2, m, m), dtype=np.int64)
    for columns, part in parts(matrix, max(1, min(BLOCK // m, 2**53 // bound**2))):
        block = (part if some is None else part[:, some[columns]]).astype(np.float64)
        products = (block @ block.T).astype(np.int64)
        high += products >> 32
        low += products & 0xFFFFFFFF
    return np.array(high.astype(object) * 2**32 + low.astype(object), dtype=np.float64)


def total(n: int) -> int:
    """N = n(n^2 - 1)/3, the squared norm of n centred doubled ranks without ties (a Python integer)."""
    n = int(n)
    return n * (n * n - 1) // 3


#: Makes an array of a shape to put ranks in.
Place = Callable[[tuple[int, int]], NDArray[np.int32]]
in_memory: Place = partial(room, kind=np.int32, in_file=False)


def rank_columns(
    columns: Iterable[NDArray[Any]],
    m: int | None = None,
    *,
    workers: int = 1,
    tick: Callable[[], None] = lambda: None,
    place: Place = in_memory,
) -> Ranks:
    """Rank each column on its own, ties sharing their average rank.

    Values are compared in their own type, never through float64: integers beyond 2^53 and nearly equal
    floats stay apart, and -0.0 ties with 0.0.

    Columns are boolean, integer or floating point of up to 64 bits, without NaN (`ValueError`), of one length
    from 1 to ``LARGEST``; missing cells are masked (`numpy.ma`). There are `m` of them where `columns` has no
    length. They are taken one after the
    other, and about as many as `workers` are kept at a time: these are threads, and NumPy's sort releases the
    interpreter lock. `tick` is called from the calling thread after each column, and what it raises ends the
    ranking. `place` makes the matrix of a shape.
    """
    count = len(columns) if isinstance(columns, Sized) else m
    matrix = np.empty((0, 0), dtype=np.int32)
    groups: list[Groups] = []
    pending: deque[Future[Groups]] = deque()
    own = threading.local()

    def rank(index: int, column: NDArray[Any]) -> Groups:
        own.work = getattr(own, "work", None) or _Work(column.size)
        if not isinstance(column, np.ma.MaskedArray):
            return _rank_into(matrix[index], column, own.work)
        present, missing = column.compressed(), np.ma.getmaskarray(column)
        x = np.empty(present.size, dtype=np.int32)
        groups = _rank_into(x, present, own.work) if present.size else Groups((), 0.0)
        matrix[index][~missing], matrix[index][missing] = x, 0
        return groups.with_gaps(int(missing.sum()))

    def take_first() -> None:
        groups.append(pending.popleft().result())
        tick()

    with ThreadPoolExecutor(workers) as pool:
        try:
            for index, column in enumerate(columns):
                if index == 0:
                    matrix = place((count or 0, column.size))
                if column.shape != matrix.shape[1:] or not column.size:
                    break
                if len(pending) == workers:
                    take_first()
                pending.append(pool.submit(rank, index, column))
            while pending:
                take_first()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # don't rank the rest for nobody
            raise
    if not groups or len(groups) != count:
        raise ValueError("ranking needs at least one column, all one-dimensional, of one length above zero")
    return Ranks(matrix, tuple(groups))


def place_ranks(
    out: NDArray[np.int32], blocks: Iterable[Sequence[NDArray[np.int64]]], gaps: NDArray[np.int64]
) -> Groups:
    """Write a column's x into `out`, (n,), from its rows' places among those with a value.

    `blocks` are three arrays each: rows, how many rows have a lower value than each, and how many have none
    above its own. `gaps` are the rows without a value.
    """
    present, sizes, sums = len(out) - len(gaps), Counter[int](), np.zeros(2)
    out[gaps] = 0
    for rows, below, upto in blocks:
        x = below + upto - present
        out[rows] = x
        of_size, counts = np.unique(upto - below, return_counts=True)
        sizes.update(dict(zip(of_size.tolist(), counts.tolist(), strict=True)))
        scaled = x / present
        sums += (scaled * scaled).sum(), (scaled**3).sum()
    if sum(sizes.values()) != present:
        raise ValueError("not each row has a rank")
    how_many = tuple((t, rows // t) for t, rows in sorted(sizes.items()))
    return Groups(how_many, _skewness(present, *sums)).with_gaps(len(gaps))


class _Work:
    """What one thread works in: fresh memory for every column would take as long as its sort."""

    def __init__(self, n: int) -> None:
        self.codes, self.keys, self.spare = (np.empty(n, dtype=np.uint64) for _ in range(3))
        self.places = np.arange(n, dtype=np.uint32)


def _rank_into(out: NDArray[np.int32], column: NDArray[Any], work: _Work) -> Groups:
    """Write a column's x into `out`.

    Positions a … b-1 of the sorted column hold the ranks a+1 … b, whose doubled average is a+b+1: of a group
    of equal values there x = a+b+1 - (n+1).
    """
    n = column.size
    codes, keys, spare = work.codes[:n], work.keys[:n], work.spare[:n]
    _encode(column, codes, spare)
    span = int(codes.max())
    if span <= n:  # few different values: count them
        sizes = np.bincount(codes.view(np.int64))
        ends = np.cumsum(sizes)
        np.take((2 * ends - sizes - n).astype(np.int32), codes.view(np.int64), out=out)
        return Groups.of(sizes[sizes > 0])
    # One vectorised sort of keys that have a code above and its row below, instead of a sort of rows.
    width = np.uint64((n - 1).bit_length())
    dropped = np.uint64(max(0, span.bit_length() + int(width) - 64))
    np.right_shift(codes, dropped, out=keys)
    keys <<= width
    keys |= work.places[:n]
    keys.sort()
    np.right_shift(keys, width, out=spare)
    tied = spare[1:] == spare[:-1]
    keys &= (np.uint64(1) << width) - np.uint64(1)
    rows = keys.view(np.int64)
    if dropped and tied.any():  # equal, or different in the dropped bits alone
        at = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        values = codes[rows[at]]
        if (values[1:] < values[:-1]).any():
            order = np.argsort(values)
            rows[at], values = rows[at][order], values[order]
        tied[at[:-1]] &= values[1:] == values[:-1]
    found = codes.view(np.int32)[:n]  # not in `out`, where that is on a disk: rows come in any order
    if not tied.any():
        found[rows] = np.arange(1 - n, n, 2, dtype=np.int32)
        out[:] = found
        return Groups(((1, n),), 0.0)
    bounds = np.concatenate(([0], np.flatnonzero(~tied) + 1, [n]))
    sizes = np.diff(bounds)
    found[rows] = np.repeat((bounds[:-1] + bounds[1:] - n).astype(np.int32), sizes)
    out[:] = found
    return Groups.of(sizes)


def _encode(column: NDArray[Any], codes: NDArray[np.uint64], spare: NDArray[np.uint64]) -> None:
    """Fill `codes` with integers from 0 in the order of a column's values, equal for equal ones alone.

    They are small where values are: the low bits that are zero in all differences are taken off, so that
    whole numbers held as floats, and flags above all, have codes to count with.
    """
    kind = column.dtype.kind
    if kind not in "biuf" or column.dtype.itemsize > 8:
        raise ValueError("only boolean, integer and floating-point columns of up to 64 bits can be ranked")
    ordered = codes.view(np.uint64 if kind == "u" else np.int64)
    if kind == "f":
        values = codes.view(np.float64)
        np.add(column, 0.0, out=values)  # makes -0.0 the 0.0 that it equals
        if np.isnan(values.max()):
            raise ValueError("a column with NaN cannot be ranked")
        np.right_shift(ordered, 63, out=spare.view(np.int64))
        spare &= np.uint64(2**63 - 1)
        codes ^= spare  # IEEE 754 is in order by sign and magnitude
    else:
        ordered[:] = column
    codes -= ordered.min().view(np.uint64)
    used = int(np.bitwise_or.reduce(codes))
    codes >>= np.uint64(max(0, (used & -used).bit_length() - 1))
