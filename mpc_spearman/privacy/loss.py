"""What a privacy loss ρ means: μ, how often a guess is right, and ε.

Losses of several runs add up (zero-concentrated differential privacy: Bun and Steinke, TCC 2016).
"""

from __future__ import annotations

import math


def separation(loss: float) -> float:
    """Return μ = √(2ρ), how far two neighbouring tables lie apart, in standard deviations of the noise."""
    return math.sqrt(2 * loss)


def guess(loss: float) -> float:
    """Return the highest chance of a right guess, at even odds, which of two rows is whose: Φ(μ/2)."""
    return (1 + math.erf(separation(loss) / math.sqrt(8))) / 2


def in_words(loss: float, unit: str, exact: str = "", having: str = "one party's results of this run") -> str:
    """Say in a sentence what a loss promises against an attacker who has what it says.

    It does not hold for the results of a party that has `exact` ones.
    """
    what = "rows" if unit == "row" else "values of one column"
    but = f", except {exact}, whose own are exact" if exact else ""
    return (
        f"with {having}{but}, an attacker who knows everything else guesses right at "
        f"most {guess(loss):.0%} of the time, where a coin is right 50% of the time, which of two {what} "
        f"belongs to which of two people (privacy.loss: {loss:g}); several runs add up"
    )


def epsilon(loss: float, delta: float = 1e-6) -> float:
    """Return an ε for which ρ-zCDP is (ε, δ)-differential privacy.

    The least over α > 1 of αρ + (ln(1/δ) + (α - 1)·ln(1 - 1/α) - ln α)/(α - 1): C. Canonne, G. Kamath, T.
    Steinke, arXiv 2004.00010, section 2.3.
    """
    from scipy.optimize import minimize_scalar  # only documents and tests ask: not at every role's start

    def bound(log: float) -> float:
        order = 1 + math.exp(log)
        slack = (order - 1) * math.log1p(-1 / order) - math.log(order) - math.log(delta)
        return order * loss + slack / (order - 1)

    return max(0.0, float(minimize_scalar(bound, bounds=(-10, 20), method="bounded").fun))
