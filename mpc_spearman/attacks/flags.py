"""What a coefficient says about a flag: the equation that the attacks on flagged rows solve.

A flag f with T ones in n rows has the ranks x = n·f − T and ‖x‖² = n·T·(n − T), so with an attacker's
column of unit length ŷ (Σŷ = 0)

    rho = ⟨x, ŷ⟩/‖x‖ = Σ_flagged ŷ_i · √(n/(T(n − T))),        Σ_flagged ŷ_i = rho·√(T(n − T)/n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpc_spearman.attacks.simulated import Floats, Ints, unit

#: What float64 leaves of an exact coefficient.
_EXACT = 1e-13


@dataclass(frozen=True)
class FlagEquations:
    """One equation a column of the attacker: |Σ_flagged matrix[q, i] − sums[q]| ≤ width.

    Attributes
    ----------
    matrix : ndarray of float64, shape (m, n)
        The attacker's columns, scaled to length 1.
    sums : ndarray of float64, shape (m,)
        What the flagged rows' entries add up to.
    width : float
        How far the sums may be off.
    """

    matrix: Floats
    sums: Floats
    width: float


def flag_equations(published: Floats, y: Ints, ones: int, step: float = 0.0) -> FlagEquations:
    """Turn the coefficients of one flag into equations on its rows.

    Parameters
    ----------
    published : ndarray of float64, shape (m,)
        The flag's coefficients with the attacker's columns.
    y : ndarray of int64, shape (m, n)
        The attacker's columns, encoded.
    ones : int
        T, found by :mod:`.integrality`, tried one after the other, or known.
    step : float
        δ of the grid they are published on; 0 where they are exact.
    """
    n = y.shape[1]
    scale = math.sqrt(ones * (n - ones) / n)
    return FlagEquations(unit(y), published * scale, (step / 2 + _EXACT) * scale)
