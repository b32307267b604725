"""What a privacy loss ρ means: μ, how often a guess is right, bits, and ε.

Losses of several runs add up (zero-concentrated differential privacy: Bun and Steinke, TCC 2016).
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar
from scipy.stats import norm


def separation(loss: float) -> float:
    """Return μ = √(2ρ), how far two neighbouring tables lie apart, in standard deviations of the noise."""
    return math.sqrt(2 * loss)


def guess(loss: float) -> float:
    """Return the highest chance of a right guess, at even odds, which of two rows is whose: Φ(μ/2)."""
    return float(norm.cdf(separation(loss) / 2))


def bits(loss: float) -> float:
    """Return how many bits a receiver is told at most about which of two rows is whose: ρ·log2 e."""
    return loss / math.log(2)


def epsilon(loss: float, delta: float = 1e-6) -> float:
    """Return an ε for which ρ-zCDP is (ε, δ)-differential privacy.

    References ---------- C. Canonne, G. Kamath, T. Steinke, arXiv 2004.00010, proposition 12 (corollary 13):
    the least over α > 1 of αρ + (ln(1/δ) + (α - 1)·ln(1 - 1/α) - ln α)/(α - 1).
    """

    def bound(log: float) -> float:
        order = 1 + math.exp(log)
        slack = (order - 1) * math.log1p(-1 / order) - math.log(order) - math.log(delta)
        return order * loss + slack / (order - 1)

    return max(0.0, float(minimize_scalar(bound, bounds=(-10, 20), method="bounded").fun))
