"""How columns are ranked: each on its own, in memory or, if it is long, bucket by bucket.

A long column is divided at quantiles of a sample into buckets of neighbouring values. Each bucket is ranked
by itself, and its ranks follow those of the buckets before. All that is as long as the column is read and
written a block at a time, in order, so it may be in files; only a bucket at a time has to fit into memory.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import Memory, blocks
from mpc_spearman.data.ranks import Groups, Ranks, skewness_of

#: Rows of a bucket, and the most buckets; a column of fewer than two buckets is ranked at once.
BUCKET, _MOST_BUCKETS = 1 << 21, 120
_BLOCK, _SAMPLE = 1 << 18, 1 << 14  # rows
_STRIDE = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: its multiples are spread evenly, without a period
_LAST = np.iinfo(np.int64).max
_SIGN = np.uint64(1 << 63)


def rank_columns(
    columns: Iterable[NDArray[Any]],
    matrix: NDArray[np.int32] | None = None,
    *,
    workers: int = 1,
    tick: Callable[[], None] = lambda: None,
    memory: Memory | None = None,
) -> Ranks:
    """Rank each column on its own, ties sharing their average rank.

    Values are compared in their own type, never through float64: integers beyond 2^53 and nearly equal
    floats stay apart, and -0.0 ties with 0.0.

    Columns are boolean, integer or floating point of up to 64 bits, without NaN (`ValueError`), of one length
    from 1 to ``LARGEST``; missing cells are masked (`numpy.ma`). Ranks go into `matrix`, (m, n), or a new
    one. With a matrix, columns are taken one after the other, and about as many as `workers` are held at a
    time: these are threads, and NumPy's sort releases the interpreter lock. `tick` is called from the calling
    thread after each column, and what it raises ends the ranking. What is as long as a column takes room in
    `memory`.
    """
    memory = memory or Memory()
    if matrix is None:
        columns = [*columns]
        matrix = memory.zeros((len(columns), columns[0].size if columns else 0), np.int32)
    if not matrix.size:
        raise ValueError("at least one column of one row is needed to rank")
    groups, work = list[Groups](), _Arrays()
    pending: deque[Future[Groups]] = deque()

    def take_first() -> None:
        groups.append(pending.popleft().result())
        tick()

    with ThreadPoolExecutor(workers) as pool:
        try:
            for x, column in zip(matrix, columns, strict=True):
                if len(pending) == workers:
                    take_first()
                pending.append(pool.submit(_rank_into, x, column, work, memory))
            while pending:
                take_first()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # nobody needs the ranks of the other columns
            raise
    return Ranks(matrix, tuple(groups))


class _Arrays(threading.local):
    """Working arrays, kept by each thread: new memory for every column would take as long as its sort."""

    places, _arrays = np.empty(0, np.uint32), np.empty((3, 0), np.uint64)

    def arrays(self, n: int) -> NDArray[np.uint64]:
        """Return three arrays of n numbers: for codes, for the sort's keys, and one to spare."""
        if n > self._arrays.shape[1]:
            self._arrays, self.places = np.empty((3, n), np.uint64), np.arange(n, dtype=np.uint32)
        return self._arrays[:, :n]


def _rank_into(out: NDArray[np.int32], column: NDArray[Any], work: _Arrays, memory: Memory) -> Groups:
    """Write a column's x into `out`, (n,), 0 where it is masked; return its groups of equal values."""
    if column.dtype.kind not in "biuf" or column.dtype.itemsize > 8:
        raise ValueError("only boolean, integer and floating-point columns of up to 64 bits can be ranked")
    if column.shape != out.shape:
        raise ValueError("columns to rank are one-dimensional, and of one length")
    missing = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    values = np.ma.getdata(column)
    if values.size >= 2 * BUCKET:
        return _rank_in_buckets(out, values, missing, work, memory)
    tally = _GroupCounter(values.size if missing is None else values.size - int(missing.sum()))
    if missing is None:
        tally.add(_rank_at_once(out, values, work), values.size)
    else:
        x = np.zeros(values.size, dtype=np.int32)
        if tally.present:
            present = np.empty(tally.present, dtype=np.int32)
            tally.add(_rank_at_once(present, values[~missing], work), tally.present)
            x[~missing] = present
        out[:] = x
    return tally.groups(values.size)


class _GroupCounter:
    """Counts a column's groups of equal values bucket by bucket; `present` cells have a value."""

    def __init__(self, present: int) -> None:
        self.present, self._sizes, self._sums = present, Counter[int](), np.zeros(2)

    def add(self, sizes: NDArray[np.int64] | None, rows: int, before: int = 0) -> None:
        """Add groups of these sizes, from the lowest value on: None for so many rows that all differ.

        `before` rows have lower values.
        """
        if sizes is None:
            self._sizes[1] += rows
            if rows == self.present:  # symmetric
                return
            sizes = np.ones(rows, np.int64)
        elif len(sizes) * 8 < rows:
            values, counts = np.unique(sizes, return_counts=True)
            self._sizes.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        else:
            counts = np.bincount(sizes)
            self._sizes.update({int(t): int(counts[t]) for t in np.flatnonzero(counts)})
        x = (2 * (np.cumsum(sizes) + before) - sizes) / self.present - 1
        square = x * x
        self._sums += sizes @ square, sizes @ (square * x)

    def groups(self, n: int) -> Groups:
        """Return the column's groups; those of its n rows that are not present have no value."""
        skewness = skewness_of(self.present, *map(float, self._sums)) if self.present else 0.0
        skewness *= math.sqrt(n / max(1, self.present))
        return Groups(tuple(sorted(self._sizes.items())), skewness, n - self.present)


def _rank_at_once(
    out: NDArray[np.int32], column: NDArray[Any], work: _Arrays, before: int = 0, n: int = 0
) -> NDArray[np.int64] | None:
    """Write the x of a bucket of a column of n rows (0: of a whole one) into `out`; `before` rows are lower.

    Return the sizes of the groups of equal values, from the lowest on; None if all values differ. Positions
    a … b-1 of the sorted column hold the ranks a+1 … b, whose doubled average is a+b+1: of a group of equal
    values there x = a+b+1 - (n+1).
    """
    m = column.size
    lowest = 2 * before - (n or m)
    codes, keys, spare = work.arrays(m)
    ordered = _order_codes(column, work)  # in `codes`
    codes -= ordered.min().view(np.uint64)
    # Without the low bits that are 0 in all, whole numbers in floating point, and flags, can be counted.
    bits = int(np.bitwise_or.reduce(codes))
    codes >>= np.uint64(max(0, (bits & -bits).bit_length() - 1))
    span = int(codes.max())
    if span <= m:  # few different values: count them
        sizes = np.bincount(codes.view(np.int64))
        ends = np.cumsum(sizes)
        np.take((2 * ends - sizes + lowest).astype(np.int32), codes.view(np.int64), out=out)
        return sizes[sizes > 0]
    # One vectorised sort of keys that have a code above and its row below, instead of a sort of rows.
    width = np.uint64((m - 1).bit_length())
    dropped = np.uint64(max(0, span.bit_length() + int(width) - 64))
    np.right_shift(codes, dropped, out=keys)
    keys <<= width
    keys |= work.places[:m]
    keys.sort()
    np.right_shift(keys, width, out=spare)
    tied = spare[1:] == spare[:-1]
    keys &= (np.uint64(1) << width) - np.uint64(1)
    rows = keys.view(np.int64)
    if dropped and tied.any():  # equal, or different in the dropped bits alone
        places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        values = codes[rows[places]]
        if (values[1:] < values[:-1]).any():
            order = np.argsort(values)
            rows[places], values = rows[places][order], values[order]
        tied[places[:-1]] &= values[1:] == values[:-1]
    x = codes.view(np.int32)[:m]  # not in `out`, where that is on a disk: rows come in any order
    if not tied.any():
        x[rows] = np.arange(lowest + 1, lowest + 2 * m, 2, dtype=np.int32)
        out[:] = x
        return None
    bounds = np.concatenate(([0], np.flatnonzero(~tied) + 1, [m]))
    sizes = np.diff(bounds)
    x[rows] = np.repeat((bounds[:-1] + bounds[1:] + lowest).astype(np.int32), sizes)
    out[:] = x
    return sizes


def _rank_in_buckets(
    out: NDArray[np.int32],
    column: NDArray[Any],
    missing: NDArray[np.bool_] | None,
    work: _Arrays,
    memory: Memory,
) -> Groups:
    """Do what `_rank_into` does, for a long column; the cells marked in `missing`, if any, have no value."""
    n, parts = column.size, [*blocks(column.size, _BLOCK)]
    cuts = _bucket_starts(column, missing, work)
    bucket = memory.zeros((n,), np.uint8)  # of each row; the last one takes missing cells
    # The codes of each block in the order of their buckets, and where in it each bucket ends.
    arranged, ends = memory.zeros((n,), np.int64), np.empty((len(parts), len(cuts) + 2), np.int64)
    for part, end in zip(parts, ends, strict=True):
        codes = _order_codes(column[part], work)
        of_row = _bucket_of_each(codes, cuts)
        if missing is not None:
            of_row[missing[part]] = len(cuts) + 1
        bucket[part], end[:] = of_row, np.cumsum(np.bincount(of_row, minlength=len(end)))
        np.take(codes, np.argsort(of_row, kind="stable"), out=arranged[part], mode="clip")
    begins = np.hstack((np.zeros((len(parts), 1), np.int64), ends[:, :-1]))
    sizes = ends - begins
    tally, before = _GroupCounter(int(sizes[:, :-1].sum())), 0
    starts = np.array([part.start for part in parts])[:, None] + begins
    x_of = arranged.view(np.int32)  # the ranks of a bucket take the places of its codes
    for start, size in zip(starts.T, sizes.T, strict=True):
        codes = np.concatenate([arranged[a : a + m] for a, m in zip(start, size, strict=True)])
        x = np.zeros(codes.size, np.int32)
        if codes.size and before < tally.present:
            tally.add(_rank_at_once(x, codes, work, before, tally.present), codes.size, before)
        before += codes.size
        for a, m, ranks in zip(start, size, np.split(x, np.cumsum(size)[:-1]), strict=True):
            x_of[2 * a : 2 * a + m] = ranks
    for part, start, size in zip(parts, starts, sizes, strict=True):
        x = np.empty(part.stop - part.start, np.int32)
        ranks = np.concatenate([x_of[2 * a : 2 * a + m] for a, m in zip(start, size, strict=True)])
        x[np.argsort(bucket[part], kind="stable")] = ranks
        out[part] = x
    return tally.groups(n)


def _bucket_starts(
    column: NDArray[Any], missing: NDArray[np.bool_] | None, work: _Arrays
) -> NDArray[np.int64]:
    """Return the codes at which the second and later buckets begin, strictly ascending.

    A value that makes up more than a bucket gets a bucket of its own.
    """
    n = column.size
    spread = (np.arange(_SAMPLE, dtype=np.uint64) * np.uint64(_STRIDE)) >> np.uint64(32)
    rows = np.sort((spread * np.uint64(n)) >> np.uint64(32)).astype(np.int64)
    rows = rows if missing is None else rows[~missing[rows]]
    if not len(rows):
        return np.empty(0, np.int64)
    sample, count = np.sort(_order_codes(column[rows], work)), min(_MOST_BUCKETS, -(-n // BUCKET))
    cuts = sample[np.arange(1, count) * len(sample) // count]
    heavy = cuts[1:][cuts[1:] == cuts[:-1]]
    return np.unique(np.concatenate((cuts, heavy[heavy < _LAST] + 1)))


def _bucket_of_each(codes: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return each code's bucket: how many starts are not above it. With few, this beats a binary search."""
    buckets = np.zeros(codes.size, np.uint8)
    for part in blocks(codes.size, 1 << 15):  # small enough to stay in a cache
        for cut in cuts:
            buckets[part] += codes[part] >= cut
    return buckets


def _order_codes(column: NDArray[Any], work: _Arrays) -> NDArray[np.int64]:
    """Return an integer for each value, in the same order as the values; only equal values have equal ones.

    They are in the thread's array of codes (`_Arrays`), until it is used again.
    """
    codes, _, spare = work.arrays(column.size)
    ordered: NDArray[np.int64] = codes.view(np.int64)
    if column.dtype.kind == "u":
        np.bitwise_xor(column, _SIGN, out=codes)
    elif column.dtype.kind == "f":
        values = codes.view(np.float64)
        np.add(column, 0.0, out=values)  # makes -0.0 the 0.0 that it equals
        if np.isnan(values.max()):
            raise ValueError("a column with NaN cannot be ranked")
        np.right_shift(ordered, 63, out=spare.view(np.int64))
        spare &= ~_SIGN
        codes ^= spare  # IEEE 754 is in order by sign and magnitude
    else:
        ordered[:] = column
    return ordered
