r"""The fixed-point encoding of ``strengths`` and ``ranking``: a vector per source, one per target column.

With x_p the centred doubled ranks of a source's column and y_q those of a target's, N and the tie terms T
as in :mod:`mpc_spearman.data.ranks`, each coefficient is an inner product of two vectors that their owners
make alone:

    tie_corrected    u_p = x_p/‖x_p‖                    t_q = y_q/‖y_q‖             (none for a constant)
    paper            u_p = (x_p/√N, T_p/(2N), 1)        t_q = (y_q/√N, 1, T_q/(2N))

as eq. 2 is (S + (T_p + T_q)/2)/N. A source shares v = ⌊F·Σ_p u_p⌉ over its columns, the target shares y'_q =
⌊G·t_q⌉, each element rounded to the nearest integer. What is opened or compared is V_q = Σ v·y'_q, summed
over all sources, and every owner's noise. A strength, the mean over K columns (those that are not constant;
under ``paper`` all), is V_q/(F·G·K). No tie term reaches anyone.

**Bounds.** Let a² = 1, under ``paper`` a² = 2. Then ‖u_p‖ ≤ a and ‖t_q‖ ≤ a: in the latter case the square is
1 - τ + τ²/4 + 1 for τ = T/N ≤ 1. Let ``rows`` be n, under ``paper`` n + 2; u = Σ_p u_p over all m columns of
all sources, m = ``columns``; e_s = v_s - F·u_s of each of s sources, f = y' - G·t; r = ⌊a·√rows⌋ + 1.

*Float64.* F·u and G·t are computed with an error of at most (K + 4)·2^-53 and 4·2^-53 of the sum of their
terms' absolute values. For m up to 2^31 the factor 1 + 2^-20 below covers both.

*Range.* Every element of e_s and f is less than 1 in size, so a·‖e_s‖ < r and a·‖f‖ < r. Since
|⟨u, t⟩| = |Σ_p rho_pq| ≤ m,

    |V| ≤ (F·m·(1 + 2^-20) + s·r)·(G + r) + ``noise_bound`` ≤ 2^62 - 2,

which is checked. The noise of all owners together is at most F·G·m·``room`` in size, whatever scales they
state (:func:`mpc_spearman.privacy.scales.most_noise`).

*Error.* An element of e_s or f is at most 1/2 in size. By Cauchy and Schwarz a strength without noise is off
by at most

    ``error`` = a·s·√rows/(2·F·K) + (a + s·√rows/(2·F·K))·√rows/(2·G) + (2K + 20)·2^-53.

G is 2^10 times as large as n, or somewhat more, if F is then no smaller than G: this is at most a thousandth
of the standard error 1/√(n - 1), and products of the target's integers cost least. F takes what is left of
the range.

*Sums.* Σ_i |y'_i| ≤ √rows·‖y'‖ ≤ r·(G + r): what a lattice scheme's noise grows with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Estimator
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.engines.computation import LARGEST
from mpc_spearman.errors import BoundError

_FINER = 10  # bits of G beyond those of n


@dataclass(frozen=True)
class Encoding:
    """The public numbers of one run's encoding; every party computes the same.

    Attributes
    ----------
    n : int
        Rows.
    columns, sources : int
        m, the columns of all sources together, and s, how many sources there are.
    averaged : int
        K, how many columns a strength is the mean of: the defined ones, under ``paper`` all.
    estimator : str
        As in the plan.
    source_scale, target_scale : int
        F and G.
    room : float
        How large the noise of all owners can be, in F·G·m; 0 where there is none.
    """

    n: int
    columns: int
    sources: int
    averaged: int
    estimator: Estimator
    source_scale: int
    target_scale: int
    room: float = 0.0

    def __post_init__(self) -> None:
        if self.source_scale < 1 or self.result_bound > LARGEST:
            raise BoundError(
                f"strengths over {self.columns} source columns of {self.n} rows do not fit 64 bits; "
                "use fewer rows or fewer columns, or a larger privacy.loss"
            )

    @classmethod
    def strengths(
        cls, n: int, *, columns: int, sources: int, estimator: Estimator, defined: int, room: float = 0.0
    ) -> Encoding:
        """Choose F and G for ``strengths`` and ``ranking``; they do not depend on what columns hold.

        Parameters
        ----------
        n, columns, sources, estimator, room
            As the attributes.
        defined : int
            How many columns of all sources are not constant.

        Raises
        ------
        BoundError
            What is opened or compared might not fit.
        """
        averaged = columns if estimator == "paper" else defined
        root = _root(encoded_rows(n, estimator), estimator)
        finest = math.isqrt(int(LARGEST / (1 + room))) >> 1
        scale = max(1, min(1 << (n.bit_length() + _FINER), finest))
        # F·m·(1 + 2^-20)·(G + r) + F·G·m·room and what does not grow with F
        left = LARGEST - (sources * root + 2) * (scale + root) - 1
        each = columns * (scale + root + scale * room) * (1 + 2.0**-19)
        return cls(n, columns, sources, averaged, estimator, int(left / each), scale, room)

    @classmethod
    def coefficients(cls, n: int) -> Encoding:
        """Choose F = G for coefficients of so many rows, each one source column's strength by itself."""
        root = math.isqrt(n) + 1
        scale = ((math.isqrt(LARGEST) - root - 1) << 20) // ((1 << 20) + 1)
        return cls(n, 1, 1, 1, "tie_corrected", scale, scale)

    @property
    def rows(self) -> int:
        """Length of the vectors."""
        return encoded_rows(self.n, self.estimator)

    @property
    def value_bound(self) -> int:
        """No element of a source's vector is larger in size."""
        return self._reach + 1

    @property
    def target_bound(self) -> int:
        """No element of the target's vectors is larger in size."""
        return self.target_scale

    @property
    def target_sum(self) -> int:
        """The sizes of the elements of one target vector add up to no more."""
        root = _root(self.rows, self.estimator)
        return root * (self.target_scale + root)

    @property
    def noise_bound(self) -> int:
        """The noise of all owners together is no larger in size."""
        return math.ceil(self.source_scale * self.target_scale * self.columns * Fraction(self.room))

    @property
    def result_bound(self) -> int:
        """Nothing that is opened or compared is larger in size."""
        root = _root(self.rows, self.estimator)
        return (self._reach + self.sources * root) * (self.target_scale + root) + self.noise_bound

    @property
    def unit(self) -> int:
        """What a strength of 1 is in what is opened: F·G·K."""
        return self.source_scale * self.target_scale * self.averaged

    @property
    def error(self) -> float:
        """Strengths without noise are this close to their exact value (absolute)."""
        scaled, weight = self.source_scale * max(1, self.averaged), math.sqrt(_weight(self.estimator))
        half = math.sqrt(self.rows) / 2
        source = weight * self.sources * half / scaled
        target = (weight + self.sources * half / scaled) * half / self.target_scale
        return source + target + (2 * self.averaged + 20) * 2.0**-53

    def source_vector(self, ranks: Ranks) -> NDArray[np.int64]:
        """Encode a source's columns in one vector, (1, rows)."""
        units = np.zeros(self.rows)
        for x, tie_term, constant in zip(ranks.matrix, ranks.tie_terms, ranks.constant, strict=True):
            if not constant:
                units[: self.n] += x / self._norm(tie_term)
        if self.estimator == "paper":
            units[self.n :] = sum(ranks.tie_terms) / (2 * total(self.n)), ranks.m
        units *= self.source_scale
        return np.rint(units, out=units).astype(np.int64)[None]

    def column_vectors(self, ranks: Ranks) -> NDArray[np.signedinteger[Any]]:
        """Encode the target's columns, (m_B, rows), zeros where none is defined.

        At ``coefficients`` the source's as well. They are int32 where that holds them.
        """
        vectors = np.zeros((ranks.m, self.rows), np.int32 if self.target_scale < 2**31 else np.int64)
        units = np.zeros(self.rows)
        columns = zip(vectors, ranks.matrix, ranks.tie_terms, ranks.constant, strict=True)
        for vector, y, tie_term, constant in columns:
            if constant and self.estimator != "paper":
                continue
            units[: self.n] = y / self._norm(tie_term)
            if self.estimator == "paper":
                units[self.n :] = 1, tie_term / (2 * total(self.n))
            vector[:] = np.rint(units * self.target_scale)
        return vectors

    def undefined(self, ranks: Ranks) -> NDArray[np.bool_]:
        """Tell which of the target's columns have no strength, (m_B,): under ``paper`` all have one."""
        return np.array(ranks.constant, dtype=bool) & (self.estimator != "paper")

    def decode(
        self, opened: Sequence[int], target_constant: Sequence[bool]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Compute the strengths from what was opened, one integer per target column, of any size.

        Returns
        -------
        mu : ndarray of float64, shape (m_B,)
            NaN where no coefficient is defined, and where V is not one that honest parties' inputs give:
            whether a run goes on must not depend on what is opened. With noise they may be beyond ±1.
        counts : ndarray of int64, shape (m_B,)
            Over how many coefficients each is; 0 for NaN.
        """
        mu, counts = np.full(len(opened), math.nan), np.zeros(len(opened), dtype=np.int64)
        most = self.unit + math.ceil(self.unit * self.error) + self.noise_bound
        for q, (value, constant) in enumerate(zip(map(int, opened), target_constant, strict=True)):
            if self.unit and (self.estimator == "paper" or not constant) and abs(value) <= most:
                mu[q], counts[q] = value / self.unit, self.averaged
        return mu if self.room else np.clip(mu, -1.0, 1.0), counts

    @property
    def _reach(self) -> int:
        """An integer not below F·m·(1 + 2^-20)."""
        most = self.source_scale * self.columns
        return most + (most >> 20) + 1

    def _norm(self, tie_term: int) -> float:
        return math.sqrt(total(self.n) - (0 if self.estimator == "paper" else tie_term))


def encoded_rows(n: int, estimator: Estimator) -> int:
    """Length of the vectors, which is known before anything else of the encoding is."""
    return n + 2 if estimator == "paper" else n


def _weight(estimator: Estimator) -> int:
    """a²."""
    return 2 if estimator == "paper" else 1


def _root(rows: int, estimator: Estimator) -> int:
    """r, an integer above a·√rows."""
    return math.isqrt(_weight(estimator) * rows) + 1
