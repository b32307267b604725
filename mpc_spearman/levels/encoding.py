"""The fixed-point encoding of ``strengths`` and ``ranking``: a vector per source, one per target column.

A source shares v = F·Σ_p u_p over its columns, the target y'_q = G·t_q of each, every element rounded to the
nearest integer. V_q = Σ v·y'_q, summed over all sources, is opened or compared with every owner's noise. A
strength is V_q/(F·G·K), the mean over K columns: those that are not constant or, under ``paper``, all. Nobody
gets a tie term. docs/protocol.md ("Strengths") defines u_p and t_q, and proves the bounds: |V| ≤
``result_bound`` ≤ 2^62 - 2, ``error`` of a strength without noise, and r·(G + r) for the sum of the sizes of
one y'_q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, STRIP, parts, zeros_like
from mpc_spearman.config import Estimator
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.engines.computation import LARGEST, Bounds
from mpc_spearman.errors import BoundError
from mpc_spearman.levels.noise import sum_of_sizes
from mpc_spearman.statistics.columns import Floats, Ints

_FINER = 10  # by so many bits G is longer than n


@dataclass(frozen=True)
class Encoding:
    """The public numbers of one run's encoding; every party computes the same."""

    n: int
    #: m, the columns of all sources together.
    columns: int
    #: s, how many sources there are.
    sources: int
    #: K, how many columns a strength averages: those that are not constant, under ``paper`` all.
    averaged: int
    estimator: Estimator
    #: F.
    source_scale: int
    #: G.
    target_scale: int
    #: How large the noise of all owners can be, in F·G·m; 0 without noise.
    result_noise: float = 0.0
    #: How large noise on inputs can be in one element, in F·m at a source and in G at the target.
    source_noise: float = 0.0
    target_noise: float = 0.0

    def __post_init__(self) -> None:
        if self.source_scale < 1 or self.result_bound > LARGEST:
            raise BoundError(
                f"strengths over {self.columns:,} source columns of {self.n:,} rows do not fit 64 bits; "
                "use fewer rows or fewer columns, or a larger privacy.loss"
            )

    @classmethod
    def strengths(
        cls,
        n: int,
        *,
        columns: int,
        sources: int,
        estimator: Estimator,
        defined: int,
        result_noise: float = 0.0,
        **noise: float,
    ) -> Encoding:
        """Choose F and G for ``strengths`` and ``ranking``, for any columns; `BoundError` if too small.

        `defined` is how many columns of all sources are not constant; `noise` are the last two attributes.
        """
        averaged = columns if estimator == "paper" else defined
        root = _root(encoded_rows(n, estimator), estimator)
        finest = math.isqrt(int(LARGEST / (1 + result_noise))) >> 1
        scale = max(1, min(1 << (n.bit_length() + _FINER), finest))
        # F·m·(1 + 2^-20)·(G + r) + F·G·m·result_noise, and terms that do not grow with F
        most = LARGEST - (sources * root + 2) * (scale + root) - 1
        per_unit = columns * (scale + root + scale * result_noise) * (1 + 2.0**-19)
        return cls(
            n, columns, sources, averaged, estimator, int(most / per_unit), scale, result_noise, **noise
        )

    @classmethod
    def coefficients(cls, n: int, result_noise: float = 0.0, **noise: float) -> Encoding:
        """Choose F = G for products of two unit vectors, each one source column's strength by itself."""
        root = math.isqrt(n) + 1
        scale = ((math.isqrt(int(LARGEST / (1 + result_noise))) - root - 1) << 20) // ((1 << 20) + 1)
        return cls(n, 1, 1, 1, "tie_corrected", scale, scale, result_noise, **noise)

    @property
    def rows(self) -> int:
        """Length of the vectors."""
        return encoded_rows(self.n, self.estimator)

    @property
    def bounds(self) -> Bounds:
        """Bounds on a source's and the target's vectors, and on opened or compared integers."""
        root = _root(self.rows, self.estimator)
        of_source = math.ceil(self.source_noise * self.source_scale * self.columns)
        of_target = math.ceil(self.target_noise * self.target_scale)
        in_one_vector = math.ceil(sum_of_sizes(self.target_noise, self.n) * self.target_scale)
        return Bounds(
            self._source_bound + 1 + of_source,
            self.target_scale + of_target,
            root * (self.target_scale + root) + in_one_vector,
            self.result_bound,
        )

    @property
    def noise_bound(self) -> int:
        """A bound on the noise of all owners together, in absolute value."""
        return math.ceil(self.source_scale * self.target_scale * self.columns * Fraction(self.result_noise))

    @property
    def result_bound(self) -> int:
        """A bound on opened or compared integers, in absolute value."""
        root = _root(self.rows, self.estimator)
        return (self._source_bound + self.sources * root) * (self.target_scale + root) + self.noise_bound

    @property
    def unit(self) -> int:
        """The opened integer for a strength of 1: F·G·K."""
        return self.source_scale * self.target_scale * self.averaged

    @property
    def error(self) -> float:
        """The largest absolute error of a strength without noise."""
        scaled, weight = self.source_scale * max(1, self.averaged), math.sqrt(_weight(self.estimator))
        half = math.sqrt(self.rows) / 2
        source = weight * self.sources * half / scaled
        target = (weight + self.sources * half / scaled) * half / self.target_scale
        return source + target + (2 * self.averaged + 20) * 2.0**-53

    def source_vector(self, ranks: Ranks, factor: float = 1.0) -> Ints:
        """Return a source's columns encoded as one vector, (1, rows), times a factor."""
        vector = zeros_like(ranks.matrix, (1, self.rows), np.int64)
        norms = [self._norm(square) for square in ranks.squares]
        for rows, part in parts(ranks.matrix, STRIP):
            units = np.zeros(rows.stop - rows.start)
            for x, norm, constant in zip(part, norms, ranks.constant, strict=True):
                if not constant:
                    units += x / norm
            vector[0, rows] = np.rint(units * (factor * self.source_scale))
        if self.estimator == "paper":
            appended = np.array([sum(ranks.tie_terms) / (2 * total(self.n)), ranks.m])
            vector[0, self.n :] = np.rint(appended * self.source_scale)
        return vector

    def column_vectors(self, ranks: Ranks, factors: Floats | None = None) -> NDArray[np.signedinteger[Any]]:
        """Return columns encoded, (m_B, rows), each times its factor, constant ones as zeros.

        They are the target's, at ``coefficients`` a source's too. They are int32 if they fit.
        """
        kind: type[np.signedinteger[Any]] = np.int32 if self.target_scale < 2**31 else np.int64
        vectors = zeros_like(ranks.matrix, (ranks.m, self.rows), kind)
        scales = self.target_scale * (np.ones(ranks.m) if factors is None else factors)
        columns = zip(vectors, ranks.matrix, ranks.squares, ranks.constant, scales.tolist(), strict=True)
        for vector, y, square, constant, scale in columns:
            if constant and self.estimator != "paper":
                continue
            norm = self._norm(square)
            for rows, part in parts(y, BLOCK):
                vector[rows] = np.rint(part / norm * scale)
            if self.estimator == "paper":
                appended = np.array([1, (total(self.n) - square) / (2 * total(self.n))])
                vector[self.n :] = np.rint(appended * self.target_scale)
        return vectors

    def decode(
        self, opened: Sequence[int], target_constant: Sequence[bool], most: Floats | None = None
    ) -> tuple[Floats, Ints]:
        """Compute strengths, (m_B,), and how many coefficients each averages, from integers of any size.

        NaN and 0 if no coefficient is defined, or if no honest inputs give this V: it is beyond `most`,
        (m_B,), in sums of coefficients, or beyond the bound for any inputs. That raises no error, because
        opened values must not decide whether a run goes on. With noise strengths may be beyond ±1.
        """
        mu, counts = np.full(len(opened), math.nan), np.zeros(len(opened), dtype=np.int64)
        limits = [self.unit + math.ceil(self.unit * self.error) + self.noise_bound] * len(opened)
        if most is not None:
            scale = self.source_scale * self.target_scale
            limits = [min(a, math.ceil(b * scale)) for a, b in zip(limits, most.tolist(), strict=True)]
        for q, (value, constant) in enumerate(zip(map(int, opened), target_constant, strict=True)):
            if self.unit and (self.estimator == "paper" or not constant) and abs(value) <= limits[q]:
                mu[q], counts[q] = value / self.unit, self.averaged
        return mu if self.result_noise else np.clip(mu, -1.0, 1.0), counts

    @property
    def _source_bound(self) -> int:
        """An integer not below F·m·(1 + 2^-20)."""
        most = self.source_scale * self.columns
        return most + (most >> 20) + 1

    def _norm(self, square: int) -> float:
        return math.sqrt(total(self.n) if self.estimator == "paper" else square)


def encoded_rows(n: int, estimator: Estimator) -> int:
    """Return the length of the vectors; it does not depend on the rest of the encoding."""
    return n + 2 if estimator == "paper" else n


def _weight(estimator: Estimator) -> int:
    """Return a²."""
    return 2 if estimator == "paper" else 1


def _root(rows: int, estimator: Estimator) -> int:
    """Return r, an integer above a·√rows."""
    return math.isqrt(_weight(estimator) * rows) + 1
