"""The levels of ``reveal`` and the grants of ``results``, in their one order: from the least to the most.

A level says what the coordinator learns; a grant what it passes on to a party. Both are points of one scale,
on which row-wise differences are the coordinator's alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Reveal = Literal["differences", "coefficients", "strengths", "ranking"]
Grant = Literal["nothing", "ranking", "strengths", "coefficients"]

_SCALE = ("nothing", "ranking", "strengths", "coefficients", "differences")
#: What ``results`` can pass on, least first.
GRANTS: tuple[Grant, ...] = ("nothing", "ranking", "strengths", "coefficients")
#: Levels of ``reveal`` that are built, weakest privacy first: as plans and documents list them.
LEVELS: tuple[Reveal, ...] = ("differences", "coefficients", "strengths", "ranking")


def reach(level: str) -> int:
    """Return how far a level or grant reaches: 0 for nothing, 4 for row-wise differences."""
    return _SCALE.index(level)


def within(grant: str, level: str) -> bool:
    """Tell whether a grant (or level) reaches no further than a level (or grant)."""
    return reach(grant) <= reach(level)


def least(levels: Iterable[str]) -> str:
    """Return the one that reaches least."""
    return min(levels, key=reach)


def grants(level: str) -> tuple[Grant, ...]:
    """Return what the coordinator can pass on of what a level gives it, least first."""
    return tuple(grant for grant in GRANTS if within(grant, level))
