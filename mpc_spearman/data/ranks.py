"""Columns to encoded ranks, and every bound under which the integers stay exact.

A column of n values becomes its centred doubled average ranks x = 2r - (n + 1), an integer vector with
|x_i| <= n - 1 and sum 0. With N = n(n^2 - 1)/3 and the column's tie term T = sum over its groups of t
equal values of (t^3 - t)/3,

    sum_i x_i^2 = N - T        so    0 <= T <= N,   T = 0 without ties,   T = N for a constant column.

By Cauchy-Schwarz every inner product of two such vectors obeys |S| <= N, and N < 2^63 up to
``MAX_ROWS``. Terms such as 2S, S + T or t^3 (which leaves even uint64 at t = 2,642,246) have no such
bound: outside the ring they are Python integers here and in :mod:`mpc_spearman.statistics.estimators`.

The bounds of the encoding used at ``strengths`` are proved in :func:`scale` and :func:`strength_vector`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.errors import BoundError, DisclosureError

if TYPE_CHECKING:
    from mpc_spearman.config import Estimator, Reveal

#: The largest n with N = n(n^2 - 1)/3 < 2^63: one inner product of ranks fits a signed 64-bit ring.
MAX_ROWS = 3_024_616

#: Strengths at ``reveal: strengths`` are this close to their exact value (absolute, on a scale of -1 to 1).
MAX_ERROR = 1e-9

_RING = 2**63 - 1  # the largest value of the signed ring
_UNIT = 2.0**-53  # relative error of one float64 operation
# Hoeffding: 2 exp(-2 t^2) = 2^-40 at this t; see strength_vector
_RANDOMISED_UNITS = math.sqrt(41 * math.log(2) / 2)


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
        """How many features are not constant: k."""
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


def check_groups(ranks: Ranks, features: Sequence[str], party: str, min_group: int) -> None:
    """Refuse columns in which a few rows stand apart from all others.

    Each coefficient with such a column is an equation in those few rows' ranks on the other side: with a
    single row apart it gives that row's exact rank. A constant column says nothing about anyone and
    passes. Run by each party on its own columns; nothing is sent.

    Raises
    ------
    DisclosureError
        Naming the party, every such column, its count of rows outside the largest group, and the rule.
    """
    few = [
        f"{feature!r} ({rows} {'row' if rows == 1 else 'rows'})"
        for feature, rows in zip(features, ranks.outside, strict=True)
        if 0 < rows < min_group
    ]
    if few:
        raise DisclosureError(
            f"{party}: too few rows lie outside the largest group of equal values in {', '.join(few)}; "
            f"min_group asks for at least {min_group}, or a result could give single rows away. "
            "Exclude such columns"
        )


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


def check_bounds(
    n: int, columns: int, *, reveal: Reveal, estimator: Estimator, sources: int = 1, party: str = ""
) -> None:
    """Refuse sizes at which a value could wrap or a strength be off by more than ``MAX_ERROR``.

    - always: |S| <= N < 2^63;
    - strengths, ``paper``: the sum opened is columns * N * mu with |mu| <= 1, so columns * N < 2^63;
    - strengths, ``tie_corrected``: the randomised error of :func:`strength_vector`, which holds for any
      number k of non-constant columns up to `columns`, is at most ``MAX_ERROR`` (one source: n up to about
      2.6 million).

    Parameters
    ----------
    n : int
        Aligned rows.
    columns : int
        Columns of all sources together.
    reveal, estimator : str
        As in the plan.
    sources : int
        How many sources hold them.
    party : str
        Whose check this is, for the error's text.

    Raises
    ------
    BoundError
    """
    who = f"{party}: " if party else ""
    if n > MAX_ROWS:
        raise BoundError(f"{who}{n} rows are more than the {MAX_ROWS} that 64-bit sums of ranks can hold")
    if reveal in ("differences", "coefficients"):
        return
    if estimator == "paper":
        if total(n) * columns > _RING:
            raise BoundError(
                f"{who}the sum over {columns} source columns of {n} rows does not fit 64 bits; at this "
                f"number of rows at most {_RING // total(n)} columns do. Use reveal: coefficients"
            )
        return
    units = _least_units(n, columns)
    if units <= 0 or math.sqrt(sources) * _RANDOMISED_UNITS / units + _float_error(columns) > MAX_ERROR:
        raise BoundError(
            f"{who}strengths over {columns} source columns of {n} rows cannot be kept within {MAX_ERROR:g} "
            "in 64 bits under tie_corrected. Use fewer rows, or reveal: coefficients"
        )


def _room(n: int) -> tuple[int, int]:
    """Return floor(2^63 / an integer above sqrt(N)) and an integer above sqrt(n)."""
    return _RING // (math.isqrt(total(n)) + 1), math.isqrt(n) + 1


def scale(n: int, columns: int) -> int:
    """F, the fixed-point scale of unit rank vectors at ``strengths`` under ``tie_corrected``.

    A source shares v = round(F w) with w = sum_p x_p/||x_p|| over its non-constant columns. What is
    opened is V = sum_i v_i y_i for the target's exact y and the sum v of all sources' vectors. With
    k = `columns`, A and r from ``_room``:

    - ||w|| <= k (unit vectors) and ||y|| <= sqrt(N);
    - float64 adds to F w an error vector of norm <= F k (k + 4) 2^-53 <= F k 2^-20 for k <= 2^32
      (see :func:`strength_vector`);
    - rounding adds less than 1 per element, norm < sqrt(n) < r, for each source that has a non-constant
      column: k r at most in all.

    So |V| <= (F k (1 + 2^-20) + k r) sqrt(N), and F = floor((floor(A/k) - r) / (1 + 2^-20)) gives
    F k (1 + 2^-20) + k r <= A <= (2^63 - 1)/sqrt(N), hence |V| <= 2^63 - 1. Also |v_i| <= ||v|| <= A.

    Parameters
    ----------
    n : int
        Aligned rows, at least 2.
    columns : int
        k, the *non-constant* columns of all sources together, 1 <= k <= 2^32.

    Returns
    -------
    int

    Raises
    ------
    BoundError
        If not even F = 1 fits.
    """
    available, rounding = _room(n)
    factor = ((available // columns - rounding) << 20) // ((1 << 20) + 1)
    if factor < 1:
        raise BoundError(f"strengths over {columns} source columns of {n} rows do not fit 64 bits")
    return factor


def _least_units(n: int, columns: int) -> int:
    """Lower bound of scale(n, k) * k over all k <= columns.

    The three roundings down in ``scale`` lose less than 2k in scale * k, and the rounding room k r.
    """
    available, rounding = _room(n)
    return (available << 20) // ((1 << 20) + 1) - columns * (rounding + 2)


def _float_error(columns: int) -> float:
    """Bound on what float64 does to a strength; see strength_vector."""
    return (columns + 8) * _UNIT


def strength_vector(
    ranks: Ranks,
    estimator: Estimator,
    *,
    defined: int,
    random: Callable[[int], NDArray[np.float64]],
    sources: int = 1,
) -> NDArray[np.int64]:
    """Return the one vector a source shares at ``strengths``.

    ``paper``: sum_p x_p, exact. ``tie_corrected``: round(F w), w = sum_p x_p/||x_p|| over the source's
    non-constant columns and F = scale(n, k). The strength made of all s sources' vectors is V/(F k ||y||), V
    the sum of their products with y, and its error has two parts.

    *Float64.* With u = 2^-53, ||x_p|| and F carry at most 3u/2 and u, a quotient and the product one u
    each, the sum of k' <= k terms at most k' - 1: within (k + 4) u of F sum_p |x_pi|/||x_p|| to first order.
    Over all sources that is a vector of norm <= F k. By Cauchy-Schwarz the strength is off by at most
    (k + 4) u; the roundings when V is divided by F k ||y|| bring that to (k + 8) u.

    *Rounding.* e = v - F w of each source changes V by sum_i e_i y_i, and these add up.

    - Nearest: |e_i| <= 1/2, so |sum e_i y_i| <= sqrt(n)/2 ||y|| for each source, and the strength is off by
      at most s sqrt(n)/(2 F k), about s n^2/(2 sqrt(3) 2^63). This is used while it stays below
      ``MAX_ERROR`` (one source: n up to about 178,000).
    - Randomised, beyond: up with probability equal to the fraction, down otherwise, each element of each
      source on its own. All s n errors are independent, of mean 0 (to 2^-53, the grain of `random`) and range
      1, so by Hoeffding P(|sum e_i y_i| >= t sqrt(s) ||y||) <= 2 exp(-2 t^2), which is 2^-40 at
      t = sqrt(41 ln 2 / 2) = 3.77. Except with that probability, per target column, the strength is off by at
      most 3.77 sqrt(s)/(F k), about 3.77 sqrt(s N)/2^63. :func:`check_bounds` refuses sizes at which this
      exceeds ``MAX_ERROR``.

    A source without a non-constant column gives zeros, which carry no error.

    Parameters
    ----------
    ranks : Ranks
        The source's own.
    estimator : str
        As in the plan.
    defined : int
        k, the non-constant columns of all sources together (with one source, ``ranks.defined``). Both
        this and :func:`mpc_spearman.statistics.estimators.strengths_from_sums` must be given the same k.
    random : callable
        ``random(n)`` gives n float64 uniform on [0, 1) from a cipher's stream. Called at most once.
    sources : int
        s, how many sources there are.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    BoundError
        See :func:`scale`.

    References
    ----------
    W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963), theorem 2.
    """
    if estimator == "paper":
        plain: NDArray[np.int64] = ranks.matrix.sum(axis=0)  # |sum| <= m (n - 1)
        return plain
    if defined < ranks.defined:
        raise ValueError("`defined` counts the non-constant columns of all sources, these included")
    n = ranks.n
    if defined == 0:
        return np.zeros(n, dtype=np.int64)
    factor = scale(n, defined)
    unit_sum = np.zeros(n)
    for x, tie_term, constant in zip(ranks.matrix, ranks.tie_terms, ranks.constant, strict=True):
        if not constant:
            unit_sum += x / math.sqrt(total(n) - tie_term)
    exact = unit_sum * float(factor)
    down = np.floor(exact)
    fraction = exact - down
    if sources * math.sqrt(n) / 2 / (factor * defined) + _float_error(defined) <= MAX_ERROR:
        up = fraction >= 0.5
    else:
        up = random(n) < fraction
    return down.astype(np.int64) + up
