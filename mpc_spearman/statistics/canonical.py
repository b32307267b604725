"""Canonical correlations: which ones count, and what they are without the bias of chance and noise.

λ is a singular value of the k_A × k_B products of whitened columns, with noise of standard deviation s;
v = s² + 1/(n - 1) is the variance of each product under independence. Even the largest of many such products
is far from 0 by chance: the limits are those of random matrices.
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.statistics.columns import Floats, Ints

#: The 95 % quantile of the Tracy-Widom distribution of order 1 (Johnstone, Annals of Statistics 29, 2001).
_TRACY_WIDOM = 0.979


def largest_by_chance(s: Floats, k_a: Ints, k_b: Ints, n: Floats | int) -> Floats:
    """Return the largest singular value that chance and noise exceed in one of 20 pairs of unrelated tables.

    The square root of v·[(A + B)² + 0.979·(A + B)(1/A + 1/B)^⅓], with A and B the roots of the numbers of
    directions less ½ (Johnstone 2001; Ma, Bernoulli 18, 2012). A canonical correlation counts if its λ is
    larger.
    """
    a, b = np.sqrt(k_a - 0.5), np.sqrt(k_b - 0.5)
    width = a + b
    v = np.square(s) + 1 / (n - 1)
    return np.asarray(np.sqrt(v * (width**2 + _TRACY_WIDOM * width * (1 / a + 1 / b) ** (1 / 3))))


def without_bias(singular: Floats, s: Floats, k_a: Ints, k_b: Ints, n: Floats | int) -> Floats:
    """Estimate the canonical correlation behind a singular value that counts; at most 1.

    A true correlation ρ and the chance and noise of its direction make λ² = (ρ²·b_B + a_B)(ρ²·b_A + a_A)/ρ²,
    where a_X = k_X·v and b_X = 1 - k_X/(n - 1) (Benaych-Georges and Nadakuditi, Journal of Multivariate
    Analysis 111, 2012); this is its larger solution. NaN where it has none: λ is within what chance gives.
    """
    v = np.square(s) + 1 / (n - 1)
    a_a, a_b, b_a, b_b = k_a * v, k_b * v, 1 - k_a / (n - 1), 1 - k_b / (n - 1)
    middle = np.square(singular) - a_a * b_b - a_b * b_a
    root = middle**2 - 4 * a_a * a_b * b_a * b_b
    with np.errstate(invalid="ignore"):
        square = (middle + np.sqrt(root)) / (2 * b_a * b_b)
    return np.where(middle > 0, np.sqrt(np.clip(square, 0.0, 1.0)), np.nan)
