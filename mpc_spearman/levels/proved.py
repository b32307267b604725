"""The coordinator's noise at ``coefficients`` where all owners have proved their vectors (``proofs: true``).

A proved element is from −(n − 1) to n − 1. So exchanging two rows of one owner changes S_pq by at most
4(n − 1)², whatever anybody states. S gets noise of standard deviation

    σ = 4·(n − 1)²·√(m_A·m_B)/μ,    with ``privacy.unit: value`` 4·(n − 1)²·√c/μ,

with m_A the columns of all sources, *before* anything else is done with it, modulo 2^w. A party that adds a
number to its own term shifts the result by that number, and learns nothing else from it: no comparison, limit
or division comes before the noise. docs/guarantee.md ("Proved inputs") has the proof.

Partners may choose the rows of a run, so the s that receivers get follows from what owners state of their
whole tables. With ℓ_p a column's stated length, in lengths of a column without ties,

    r = (S + e)·g_p·g_q,    g_p = 1/max(‖x_p‖, ℓ_p·√N),    s = σ/(ℓ_p·ℓ_q·N),

and e has the standard deviation s/(g_p·g_q), which is σ or more. A column that is shorter among the rows used
than ℓ_p·√N comes out weakened, as it does without proofs.
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import total
from mpc_spearman.errors import BoundError
from mpc_spearman.levels.noise import numbers_of_a_value
from mpc_spearman.levels.shapes import Descriptions
from mpc_spearman.privacy.gaussian import REACH, discrete_gaussian
from mpc_spearman.privacy.loss import separation
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.wire.integers import nearest, width_of

#: How many times σ the noise of a number can be, where columns are longer among the rows used than stated.
_MOST = 4
_LARGEST = 2**62 - 2
_FLOAT64 = 1 + 2.0**-30  # above what all roundings of float64 here can take off


def deviation(plan: Plan, n: int, m_sources: int, m_target: int) -> int:
    """Return σ, the noise that every S needs, rounded up."""
    columns = m_sources * m_target
    if plan.privacy.unit == "value":
        columns = numbers_of_a_value(plan, m_sources, m_target)
    return math.ceil(4 * (n - 1) ** 2 * math.sqrt(columns) / separation(plan.privacy.loss) * _FLOAT64)


def result_bound(plan: Plan, n: int, m_sources: int, m_target: int) -> int:
    """Return a bound on S with its noise, which has to fit the ring; `BoundError` if it does not.

    It is at least 2n(n − 1): sums over subsets of rows have to fit (:mod:`mpc_spearman.engines.mpc.proof`).
    """
    noise = 0 if plan.results.precision == "exact" else deviation(plan, n, m_sources, m_target)
    bound = max(total(n) + REACH * _MOST * noise, 2 * n * (n - 1))
    if bound > _LARGEST:
        raise BoundError(
            f"proofs: products of {n:,} rows with their noise do not fit 64 bits; use fewer rows or columns, "
            "or a larger privacy.loss"
        )
    return bound


def expected_deviations(plan: Plan, n: int, lengths: Floats, other_columns: int) -> Floats:
    """Return s of coefficients with columns without ties, (m,), by the stated lengths."""
    s = deviation(plan, n, len(lengths), other_columns) / total(n)
    return np.divide(s, lengths, out=np.zeros(len(lengths)), where=lengths > 0)


def coefficients(plan: Plan, opened: Ints, descriptions: Descriptions, n: int) -> tuple[Floats, Floats]:
    """Return coefficients with noise, and its standard deviation s, both (m_A, m_B).

    NaN, and s 0, where an owner states that a column is constant. `opened` is S, int64 (m_A, m_B).
    """
    m_sources, m_target = opened.shape
    sigma = deviation(plan, n, m_sources, m_target)
    stated, factors = [], []
    for ties, lengths in (
        (descriptions.of_sources("ties"), descriptions.of_sources("lengths")),
        (descriptions.target.ties, descriptions.target.lengths),
    ):
        root = math.sqrt(total(n))
        least = np.array(lengths) * root
        norms = np.array([math.sqrt(total(n) - term) for term in ties])
        if plan.estimator == "paper":  # which divides by N whatever the ties
            least, norms = (np.full(len(least), root) for _ in range(2))
        stated.append(least)
        factors.append(1 / np.maximum(np.maximum(norms, least), 1))
    lengths_stated, by = np.outer(*stated), np.outer(*factors)
    constant = lengths_stated == 0
    s = np.divide(sigma, lengths_stated, out=np.zeros(by.shape), where=~constant)
    needed = np.clip(np.ceil(s / by * _FLOAT64), sigma, _MOST * sigma).astype(np.int64)
    noisy = nearest(opened + discrete_gaussian(needed), width_of(result_bound(plan, n, m_sources, m_target)))
    rho = noisy * by
    if plan.estimator == "paper":
        rho = rho + descriptions.tie_shares(n)
    rho[constant] = math.nan
    return rho, s
