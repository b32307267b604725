"""Best guesses of true values beside noisy ones, by empirical Bayes; never in their place.

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


def best_guesses(values: Floats, variance: Floats | float) -> Floats:
    """Return the expected true value behind each noisy one.

    `values` has any shape, and NaN where unknown; `variance`, above 0, is of each value's whole error: noise
    and sampling, s² + 1/(n - 1). Every guess has its value's sign and is nearer to 0.
    """
    guesses = np.full(values.shape, np.nan)
    known = ~np.isnan(values)
    r, v = values[known], np.broadcast_to(variance, values.shape)[known]
    if r.size < FEWEST:
        with np.errstate(divide="ignore"):
            guesses[known] = r * np.maximum(0.0, 1 - v / r**2)
        return guesses
    t = _VARIANCES * float(np.median(v))
    total = t + v[:, None]
    likelihood = -np.square(r[:, None]) / (2 * total) - np.log(total) / 2
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    weights = np.full(len(t), 1 / len(t))
    for _ in range(_STEPS):
        posterior = weights * likelihood
        posterior /= posterior.sum(axis=1, keepdims=True)
        counts = posterior.sum(axis=0)
        counts[0] += _PSEUDO
        before, weights = weights, counts / counts.sum()
        if np.abs(weights - before).max() < _CLOSE:
            break
    guesses[known] = r * (posterior * (t / total)).sum(axis=1)
    return guesses
