"""Canonical correlations: which of them exceed chance, and their size without the bias of chance and noise.

λ is a singular value of the k_A × k_B products of whitened columns. Even the largest of many such products is
far from 0 by chance: the limits are those of random matrices.
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.statistics.columns import Floats
from mpc_spearman.statistics.explained import Directions

#: The 95 % quantile of the Tracy-Widom distribution of order 1 (Johnstone, Annals of Statistics 29, 2001).
_TRACY_WIDOM = 0.979


def largest_by_chance(directions: Directions) -> Floats:
    """Return the largest singular value that chance and noise exceed in one of 20 pairs of unrelated tables.

    The square root of v·[(A + B)² + 0.979·(A + B)(1/A + 1/B)^⅓], with v the variance of a product by chance,
    and A and B the roots of the numbers of directions less ½ (Johnstone 2001; Ma, Bernoulli 18, 2012). A
    canonical correlation counts if its λ is larger.
    """
    a, b = np.sqrt(directions.k - 0.5), np.sqrt(directions.k_target - 0.5)
    width = a + b
    edge = width**2 + _TRACY_WIDOM * width * (1 / a + 1 / b) ** (1 / 3)
    return np.asarray(np.sqrt(directions.chance_variance * edge))


def without_bias(singular: Floats, directions: Directions) -> Floats:
    """Estimate the canonical correlation behind a singular value that exceeds chance; at most 1.

    A true correlation ρ and the chance and noise of its direction make λ² = (ρ²·b_B + a_B)(ρ²·b_A + a_A)/ρ²,
    where a_X = k_X·v and b_X = 1 - k_X/(n - 1) (Benaych-Georges and Nadakuditi, Journal of Multivariate
    Analysis 111, 2012); this is its larger solution. NaN where it has none: λ is within what chance gives.
    """
    v, sides = directions.chance_variance, (directions.k, directions.k_target)
    (a_a, a_b), (b_a, b_b) = ([k * v for k in sides], [1 - k / (directions.n - 1) for k in sides])
    middle = np.square(singular) - a_a * b_b - a_b * b_a
    root = middle**2 - 4 * a_a * a_b * b_a * b_b
    with np.errstate(invalid="ignore"):
        square = (middle + np.sqrt(root)) / (2 * b_a * b_b)
    return np.where(middle > 0, np.sqrt(np.clip(square, 0.0, 1.0)), np.nan)
