"""What a privacy loss ρ means: μ, and how often a guess is right.

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
    """Return a sentence on what a loss promises against an attacker who has `having`.

    `exact` names the parties, if any, whose results are exact, which the promise does not cover.
    """
    items = "rows" if unit == "row" else "values of one column"
    but = f", except {exact}, whose own are exact" if exact else ""
    return (
        f"with {having}{but}, an attacker who knows everything else guesses right at "
        f"most {guess(loss):.0%} of the time, where a coin is right 50% of the time, which of two {items} "
        f"belongs to which of two people (privacy.loss: {loss:g}); several runs add up"
    )
