r"""The fixed-point encoding of ``strengths`` and ``ranking``: a vector per source, one per target column.

With x_p the centred doubled ranks of a source's column and y_q those of a target's, N and the tie terms T
as in :mod:`mpc_spearman.data.ranks`, each coefficient is an inner product of two vectors that their owners
make alone:

    tie_corrected    u_p = x_p/‖x_p‖                    t_q = y_q/‖y_q‖             (none for a constant)
    paper            u_p = (x_p/√N, T_p/(2N), 1)        t_q = (y_q/√N, 1, T_q/(2N))

as eq. 2 is (S + (T_p + T_q)/2)/N. A source shares v = ⌊F·Σ_p u_p⌉ over its columns, the target shares
y'_q = ⌊G·t_q⌉. The coordinator opens V_q = Σ v·y'_q, summed over all sources. A strength, the mean over K
columns (those that are not constant; under ``paper`` all), is V_q/(F·G·K). No tie term reaches anyone.

**Coarse on purpose.** The norms of columns with different ties are incommensurable, so a mean opened to 1e-15
determines every single product in it. Hence, with δ the grid on which strengths are published, s sources and
k distinct columns that are not constant,

    F = ⌈64·√s/(δ·k)⌉,    G = 128/δ.

⌊·⌉ rounds each element up with the probability of its fraction, else down. That takes the structure out of V
that nearest rounding leaves: the two values of a binary column would show in V modulo their difference, and
with them the sizes of its two groups. The randomness is drawn from a stream whose key is a hash of the vector
to be rounded, its rows in the order of their ids, and of its owner's name. So the same rows give the same
numbers every time, in whatever order they are, and nothing can be averaged out of repeated runs; equal
columns of the target stay equal; no two owners round alike. Who can guess an owner's whole table and has V
can test that guess, as with any exact function of it.

**Bounds.** Let a² = 1, under ``paper`` a² = 2. Then ‖u_p‖ ≤ a and ‖t_q‖ ≤ a: in the latter case the square is
1 - τ + τ²/4 + 1 for τ = T/N ≤ 1. Let ``rows`` be n, under ``paper`` n + 2; u = Σ_p u_p over all m columns of
all sources, m = ``columns``; e_s = v_s - F·u_s of each source s, f = y' - G·t; r = ⌊a·√rows⌋ + 1.

*Float64.* F·u and G·t are computed with an error of at most (K + 4)·2^-53 and 4·2^-53 of the sum of their
terms' absolute values. For m up to 2^31 the factor 1 + 2^-20 below covers both.

*Range.* Every element of e_s and f is less than 1 in size, so a·‖e_s‖ < r and a·‖f‖ < r. Since
|⟨u, t⟩| = |Σ_p rho_pq| ≤ m,

    |V| ≤ |F·G·⟨u, t⟩| + |G·⟨Σe_s, t⟩| + |F·⟨u, f⟩| + |⟨Σe_s, f⟩|
        ≤ (F·m·(1 + 2^-20) + s·r)·(G + r) ≤ 2^62 - 2,

which is checked. It holds for n·m·√s up to about 1.5·10^12, whatever k.

*Error.* All elements of all e_s are independent, with mean 0 and range 1, and so are those of f given the
sources' v. By Hoeffding Σ_i e_i·t_i is beyond z·‖t‖·√s with probability at most 2·exp(-2z²) = 2^-40 at
z = √(41·ln 2/2) = 3.77; likewise Σ_i v_i·f_i beyond z·‖v‖, where ‖v‖ ≤ a·F·K + s·r. So except with
probability 2^-39 per target column a strength is off by at most

    ``error`` = z·a·√s/(F·K) + z·(a + s·r/(F·K))/G + (2K + 20)·2^-53,

which is below 0.09·δ, under ``paper`` 0.13·δ, as K ≥ k and s·r is small beside F·K.

**Fine at ``ranking``.** No V is opened, only how the V_q compare. So F and G are as large as the
range lets them, with 1/G and s/(F·m) about equal, and both sides round to the nearest integer: equal columns
of the target stay equal. The range is the same one, so that no difference V_q - V_r reaches the sign bit. An
element of e_s or f is at most 1/2 in size, and by Cauchy and Schwarz a strength is off by at most, always,

    ``error`` = a·s·√rows/(2·F·K) + (a + s·√rows/(2·F·K))·√rows/(2·G) + (2K + 20)·2^-53,

so that two strengths which differ by more than 2·``error``, in short √n·(1/G + s/(F·K)), are in the right
order. With one source, all columns defined, and n = 10,000 that is 1e-7.

*Sums.* Σ_i |y'_i| ≤ √rows·‖y'‖ ≤ r·(G + r): what a lattice scheme's noise grows with.

References
----------
W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963), theorem 2.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Estimator
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.engines.computation import LARGEST
from mpc_spearman.errors import BoundError
from mpc_spearman.privacy.precision import strength_grid
from mpc_spearman.wire.keys import Stream

_DEVIATIONS = math.sqrt(41 * math.log(2) / 2)  # z: 2 exp(-2 z^2) = 2^-40
_LABEL = b"mpc_spearman/1 rounding"
_BLOCK = 1 << 16  # rows at a time


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
    nearest : bool
        Round to the nearest integer; else, so that V may be opened, at random.
    """

    n: int
    columns: int
    sources: int
    averaged: int
    estimator: Estimator
    source_scale: int
    target_scale: int
    nearest: bool = False

    def __post_init__(self) -> None:
        if self.source_scale < 1 or self.result_bound > LARGEST:
            raise BoundError(
                f"strengths over {self.columns} source columns of {self.n} rows do not fit 64 bits; "
                "use fewer rows or fewer columns"
            )

    @classmethod
    def strengths(
        cls, n: int, *, columns: int, sources: int, estimator: Estimator, defined: int, distinct: int
    ) -> Encoding:
        """Choose F and G for ``reveal: strengths``.

        Parameters
        ----------
        n, columns, sources, estimator
            As the attributes.
        defined, distinct : int
            How many columns of all sources are not constant, and how many of these are distinct (k).

        Raises
        ------
        BoundError
            What is opened might not fit.
        """
        k = max(1, distinct)
        steps = strength_grid(n, k).steps
        least = math.isqrt(64**2 * sources * steps**2 - 1) + 1  # ⌈64·√s/δ⌉
        averaged = columns if estimator == "paper" else defined
        return cls(n, columns, sources, averaged, estimator, -(-least // k), 128 * steps)

    @classmethod
    def coefficients(cls, n: int) -> Encoding:
        """Choose F = G for coefficients of so many rows, each one source column's strength by itself."""
        root = math.isqrt(n) + 1
        scale = ((math.isqrt(LARGEST) - root - 1) << 20) // ((1 << 20) + 1)
        return cls(n, 1, 1, 1, "tie_corrected", scale, scale)

    @classmethod
    def ranking(cls, n: int, *, columns: int, sources: int, estimator: Estimator, defined: int) -> Encoding:
        """Choose F and G for ``reveal: ranking``; they depend on neither owner's columns but on their number.

        Parameters
        ----------
        n, columns, sources, estimator
            As the attributes.
        defined : int
            How many columns of all sources are not constant.

        Raises
        ------
        BoundError
            What is compared might not fit.
        """
        averaged = columns if estimator == "paper" else defined
        root = cls(n, columns, sources, averaged, estimator, 1, 1)._root
        target_scale = max(1, math.isqrt(LARGEST // sources) - root)
        reach = LARGEST // (target_scale + root) - sources * root - 1
        source_scale = (reach << 20) // (columns * ((1 << 20) + 1))
        return cls(n, columns, sources, averaged, estimator, source_scale, target_scale, nearest=True)

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
        return self._root * (self.target_scale + self._root)

    @property
    def result_bound(self) -> int:
        """Nothing that is opened is larger in size."""
        return (self._reach + self.sources * self._root) * (self.target_scale + self._root)

    @property
    def error(self) -> float:
        """Strengths are this close to their exact value (absolute).

        Always where rounding is to the nearest, else except with probability 2^-39 each.
        """
        scaled, weight = self.source_scale * max(1, self.averaged), math.sqrt(self._weight)
        if self.nearest:
            half = math.sqrt(self.rows) / 2
            source = weight * self.sources * half / scaled
            target = (weight + self.sources * half / scaled) * half
        else:
            source = _DEVIATIONS * weight * math.sqrt(self.sources) / scaled
            target = _DEVIATIONS * (weight + self.sources * self._root / scaled)
        return source + target / self.target_scale + (2 * self.averaged + 20) * 2.0**-53

    def source_vector(
        self, ranks: Ranks, party: str, by_id: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Encode a source's columns in one vector.

        Parameters
        ----------
        ranks : Ranks
        party : str
            The source's name.
        by_id : ndarray of int64, shape (n,), optional
            The rows in the order of their ids, in which they are rounded; left out, the order they have.

        Returns
        -------
        ndarray of int64, shape (1, rows)
        """
        units = np.zeros(self.rows)
        for x, tie_term, constant in zip(ranks.matrix, ranks.tie_terms, ranks.constant, strict=True):
            if not constant:
                units[: self.n] += x / self._norm(tie_term)
        if self.estimator == "paper":
            units[self.n :] = sum(ranks.tie_terms) / (2 * total(self.n)), ranks.m
        vector = np.empty((1, self.rows), dtype=np.int64)
        self._round_into(vector[0], units * self.source_scale, party, by_id)
        return vector

    def column_vectors(
        self, ranks: Ranks, party: str, by_id: NDArray[np.int64] | None = None
    ) -> NDArray[np.signedinteger[Any]]:
        """Encode the target's columns, (m_B, rows), zeros where none is defined; else as `source_vector`.

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
            self._round_into(vector, units * self.target_scale, party, by_id)
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
            NaN where no coefficient is defined, and where V is not one that honest parties' inputs give
            (|V/(F·G·K)| > 1 + ``error``): whether a run goes on must not depend on what is opened.
        counts : ndarray of int64, shape (m_B,)
            Over how many coefficients each is; 0 for NaN.
        """
        mu, counts = np.full(len(opened), math.nan), np.zeros(len(opened), dtype=np.int64)
        unit = self.source_scale * self.target_scale * self.averaged
        for q, (value, constant) in enumerate(zip(map(int, opened), target_constant, strict=True)):
            if unit and (self.estimator == "paper" or not constant) and abs(value / unit) <= 1 + self.error:
                mu[q], counts[q] = max(-1.0, min(1.0, value / unit)), self.averaged
        return mu, counts

    @property
    def _weight(self) -> int:
        """a²."""
        return 2 if self.estimator == "paper" else 1

    @property
    def _root(self) -> int:
        """r, an integer above a·√rows."""
        return math.isqrt(self._weight * self.rows) + 1

    @property
    def _reach(self) -> int:
        """An integer not below F·m·(1 + 2^-20)."""
        most = self.source_scale * self.columns
        return most + (most >> 20) + 1

    def _norm(self, tie_term: int) -> float:
        return math.sqrt(total(self.n) - (0 if self.estimator == "paper" else tie_term))

    def _round_into(
        self,
        out: NDArray[np.signedinteger[Any]],
        exact: NDArray[np.float64],
        party: str,
        by_id: NDArray[np.int64] | None,
    ) -> None:
        """Round each element to the nearest integer, or up with the probability of its fraction.

        Either way always alike for the same rows, in whatever order. `exact` is used up.
        """
        if self.nearest:
            out[:] = np.rint(exact)
            return
        if by_id is not None:
            exact[: self.n] = exact[by_id]
        key = hmac.new(_LABEL + party.encode(), digestmod="sha256")
        key.update(exact.astype("<f8", copy=False).data)
        stream = Stream(key.digest())
        for start in range(0, len(exact), _BLOCK):
            part = exact[start : start + _BLOCK]
            down = np.floor(part)
            part[:] = down + (stream.uniform(len(part)) < part - down)
        out[:] = exact
        if by_id is not None:
            out[by_id] = exact[: self.n]


def encoded_rows(n: int, estimator: Estimator) -> int:
    """Length of the vectors, which is known before anything else of the encoding is."""
    return n + 2 if estimator == "paper" else n
