"""Integrality: exact coefficients say that a column is binary, and how many ones it has.

A flag's products with anything are whole multiples of n. Only the flag's own class sizes turn all of a
column's coefficients into such integers.
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.attacks.simulated import Floats, Ints


def class_size(published: Floats, y: Ints, fraction: float = 1e-5) -> int | None:
    """Find the number of ones in the smaller group of a binary column.

    Parameters
    ----------
    published : ndarray of float64, shape (m,)
        One column's coefficients with the attacker's columns; three or more.
    y : ndarray of int64, shape (m, n)
        The attacker's columns, encoded.
    fraction : float
        How far from an integer still counts as one.

    Returns
    -------
    int or None
        None where no class size makes integers of all: the column is not binary, or the coefficients are
        rounded.
    """
    n = y.shape[1]
    norms = np.sqrt((y * y).sum(axis=1))
    for ones in range(1, n // 2 + 1):
        sums = published * norms * math.sqrt(ones * (n - ones) / n)
        if (np.abs(sums - np.rint(sums)) < fraction).all():
            return ones
    return None
