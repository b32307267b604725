r"""Whitening: an owner makes its columns orthonormal, and rotates them by a secret random rotation.

With X̂ an owner's m columns of centred ranks, scaled to length 1, and C = X̂X̂ᵀ = UΛUᵀ their correlations,

    X̃ = O·Λ^(-1/2)·Uᵀ·X̂        O uniform in the orthogonal group (Haar), drawn afresh in every run

has orthonormal rows that span what the columns span. Without noise the owner keeps all directions of U and Λ
that do not repeat others (``REPEATED``). With noise it keeps those that have an eigenvalue of ``LEAST`` or
more. While a row has a *leverage* h_i = Σ_p x̃_pi² above ``MOST``·k/n, with k
directions kept, the direction in which such rows lie farthest out together is dropped: the first eigenvector
of their Σ x̃_i·x̃_iᵀ, for a rare flag about the flag itself. docs/statistics.md ("What is explained") says why.

All this depends only on the table as a whole: exchanging two rows changes neither k nor the directions. Sums
over rows are exact integers, so they are equal to the last bit; a leverage, which float64 rounds, counts as
above its limit only if it exceeds it by more than that rounding.

O hides everything but the span (docs/guarantee.md, "Whitened columns"). It comes from a cipher's stream:
normal numbers by inversion, and the orthogonal factor of their QR decomposition with the signs that make it
unique (Stewart 1980; Mezzadri, Notices of the AMS 54, 2007). What is shared is ⌊F·X̃⌉, with the bounds and
the ``error`` of :mod:`mpc_spearman.levels.encoding` for one source of one column.
"""

from __future__ import annotations

import math
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import STRIP, parts, zeros_like
from mpc_spearman.data.ranks import Ranks, inner_products
from mpc_spearman.privacy.scales import Grid, diameter
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.wire.keys import Stream

#: Eigenvalues of correlations below which a direction is dropped, and the highest leverage, in k/n.
LEAST, MOST = 0.02, 10
#: In exact mode: eigenvalues below which a direction repeats others, but for what float64 rounds.
REPEATED = 1e-6


def directions(ranks: Ranks, most: int | None = None, *, exact: bool = False) -> Floats:
    """Return whitening weights W, (k, m): the rows of W·matrix are orthonormal.

    Of more than `most` directions those stay that have the largest eigenvalues. If results are `exact`,
    nothing is hidden, and only directions that repeat others are dropped.
    """
    lengths = np.array([math.sqrt(square) for square in ranks.squares])
    moving = np.flatnonzero(lengths)
    values, vectors = np.linalg.eigh(
        ranks.gram[np.ix_(moving, moving)] / np.outer(lengths, lengths)[np.ix_(moving, moving)]
    )
    large = values >= (REPEATED if exact else LEAST)
    weights = np.zeros((int(large.sum()), ranks.m))
    weights[:, moving] = (vectors[:, large] / np.sqrt(values[large])).T / lengths[moving]
    if exact:
        return weights
    leverages = leverages_in(ranks, weights)
    # A leverage that equals the limit, as a flag's can, must not count as above it through rounding.
    while (far := leverages > MOST * len(weights) / ranks.n * (1 + 1e-10)).any() and len(weights):
        products = inner_products(ranks.matrix, ranks.matrix, ranks.largest, far)
        _, vectors = np.linalg.eigh(weights @ products @ weights.T)
        leverages -= leverages_in(ranks, vectors[:, -1:].T @ weights)
        weights = vectors[:, :-1].T @ weights
    if most is not None and len(weights) > most:
        # a direction of eigenvalue λ has weights of length 1/√λ on columns of length 1
        _, vectors = np.linalg.eigh((weights * lengths) @ (weights * lengths).T)
        weights = vectors[:, :most].T @ weights
    return weights


def left_out(ranks: Ranks, weights: Floats) -> Floats:
    """Return which share of each column's variance the directions of `weights` leave out, (m,)."""
    squares = np.diag(ranks.gram)
    explained = np.square(weights @ ranks.gram).sum(axis=0)
    share = np.divide(explained, squares, out=np.ones(ranks.m), where=squares > 0)
    return np.asarray(np.clip(1 - share, 0.0, 1.0))


def leverages_in(ranks: Ranks, weights: Floats) -> Floats:
    """Return the leverage of every row in the directions of whitening weights, (n,)."""
    leverages = zeros_like(ranks.matrix, (ranks.n,), np.float64)
    for rows, block in ranks.blocks():
        leverages[rows] = np.square(weights @ block).sum(axis=0)
    return leverages


def rotation(k: int, stream: Stream) -> Floats:
    """Draw a uniform orthogonal matrix, (k, k)."""
    from scipy.special import ndtri

    normal = ndtri(stream.uniform(k * k) + 2.0**-54).reshape(k, k)
    q, r = np.linalg.qr(normal)
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def largest(columns: int, n: int, *, exact: bool = False) -> float:
    """Return an upper bound of every element of whitened vectors."""
    return 1.0 if exact else math.sqrt(min(1.0, MOST * columns / n))


def whitened(
    ranks: Ranks, scale: int, k: int | None = None, factor: float = 1.0, *, exact: bool = False
) -> NDArray[np.signedinteger[Any]]:
    """Whiten and rotate columns: scaled integers, (m, n), whose vectors after the first k are zeros.

    With fewer than k directions the rotation mixes them with zeros, so that all k vectors are alike.
    """
    weights = directions(ranks, k, exact=exact)
    k = len(weights) if k is None else k
    weights = np.vstack((weights, np.zeros((k - len(weights), ranks.m))))
    weights = rotation(k, Stream(token_bytes(32))) @ weights * (scale * factor)
    small = scale * largest(ranks.m, ranks.n, exact=exact) < 2**31 - 2
    kind: type[np.signedinteger[Any]] = np.int32 if small else np.int64
    vectors = zeros_like(ranks.matrix, (ranks.m, ranks.n), kind)
    for rows, block in ranks.blocks():
        vectors[: len(weights), rows] = np.rint(weights @ block)
    return vectors


def leverages(vectors: NDArray[Any], scale: int) -> Floats:
    """Return h_i = Σ_p x̃_pi² of every row, from the integers."""
    squares = zeros_like(vectors, vectors.shape[1:], np.float64)
    for rows, part in parts(vectors, STRIP):
        for vector in part:
            squares[rows] += np.square(vector / scale)
    return squares


def distance(vectors: NDArray[Any], scale: int) -> float:
    """Return the largest distance of two rows, max ‖x̃_i - x̃_j‖: the range R that all vectors share."""
    return math.sqrt(diameter(vectors, np.full(len(vectors), 1 / scale)))


def distances(k: int, n: int) -> Grid:
    """Return the grid for the largest distance of two rows in k directions.

    The mean of ‖x̃_i - x̃_j‖² over pairs of rows is 2k/(n - 1). It is at most 2, as X̃ᵀX̃ is a projection.
    """
    return Grid(math.sqrt(k / n), math.sqrt(2 * k / n), min(math.sqrt(2), 2 * largest(k, n)))
