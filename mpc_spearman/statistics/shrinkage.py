"""Best guesses of true values, by empirical Bayes: shown beside the noisy values, never in their place.

The largest of many noisy numbers owes its size mostly to noise. With m ≥ `FEWEST` numbers their true values
are taken as draws from a mixture of normals with mean 0, one of them a point at 0, whose weights are
estimated from the numbers themselves (Stephens, Biostatistics 18, 2017, has the same prior). With fewer the
positive-part estimate r·max(0, 1 - v/r²) (Lindley; Baranchik 1970) of each number alone is used.
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.statistics.columns import Floats

#: Numbers from which a prior is estimated.
FEWEST = 10
#: Variances of the mixture, in multiples of the median variance of an error.
_VARIANCES = np.array([0.0, 1, 2, 4, 8, 16, 32, 64])
#: Numbers that are taken to be 0 besides those there are, so that chance makes no prior of its own.
_PSEUDO = 9.0
_STEPS, _CLOSE = 500, 1e-5
#: Of more numbers the prior is estimated from half as many that are farthest from 0 in standard errors, and
#: as many of the others, evenly spaced in that order, each of which counts for several.
_MOST = 1 << 14


def best_guesses(values: Floats, variance: Floats | float) -> Floats:
    """Return the expected true value behind each noisy one.

    `values` has any shape, and NaN where unknown; `variance`, above 0, is of each value's whole error: noise
    and sampling, s² + 1/(n - 1). Every guess has its value's sign, is nearer to 0, and is at most 1 in size,
    as coefficients and their means are.
    """
    guesses = np.full(values.shape, np.nan)
    defined = ~np.isnan(values)
    r, v = values[defined], np.broadcast_to(variance, values.shape)[defined]
    if r.size < FEWEST:
        with np.errstate(divide="ignore"):
            guesses[defined] = np.clip(r * np.maximum(0.0, 1 - v / r**2), -1, 1)
        return guesses
    t = _VARIANCES * float(np.median(v))
    weights = _weights(*_representatives(r, v), t)
    posterior = weights * _likelihood(r, v, t)
    expected = r * (posterior * (t / (t + v[:, None]))).sum(axis=1) / posterior.sum(axis=1)
    guesses[defined] = np.clip(expected, -1, 1)
    return guesses


def _representatives(r: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """Return at most `_MOST` of the numbers, their variances, and how many numbers each stands for."""
    if r.size <= _MOST:
        return r, v, np.ones(r.size)
    order = np.argsort(-np.square(r) / v)
    far, near = order[: _MOST // 2], order[_MOST // 2 :]
    spaced = near[np.linspace(0, near.size - 1, _MOST // 2).round().astype(np.int64)]
    counts = np.repeat([1.0, near.size / spaced.size], [far.size, spaced.size])
    sample = np.concatenate([far, spaced])
    return r[sample], v[sample], counts


def _likelihood(r: Floats, v: Floats, t: Floats) -> Floats:
    """Return the likelihood of each number, up to a factor of its own, under each part of the mixture."""
    total = t + v[:, None]
    likelihood = -np.square(r[:, None]) / (2 * total) - np.log(total) / 2
    return np.asarray(np.exp(likelihood - likelihood.max(axis=1, keepdims=True)))


def _weights(r: Floats, v: Floats, counts: Floats, t: Floats) -> Floats:
    """Estimate the weights of the mixture, by expectation and maximisation, from numbers with counts."""
    likelihood, weights = _likelihood(r, v, t), np.full(len(t), 1 / len(t))
    for _ in range(_STEPS):
        expected = weights * (likelihood.T @ (counts / (likelihood @ weights)))
        expected[0] += _PSEUDO
        before, weights = weights, expected / expected.sum()
        if np.abs(weights - before).max() < _CLOSE:
            break
    return weights
