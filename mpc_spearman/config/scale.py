"""The levels of ``reveal`` and the grants of ``results``: most in one order, from the least to the most.

A level says what the coordinator learns, a grant what it passes on to a party. Both are points of one scale;
row-wise differences cannot be granted. Levels in `OUTSIDE` are not on the scale; each can be granted at its
own level only. What a level does is in its module of :mod:`mpc_spearman.levels`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Reveal = Literal["differences", "coefficients", "strengths", "ranking", "explained", "canonical"]
Grant = Literal["nothing", "ranking", "strengths", "coefficients", "explained", "canonical"]

_SCALE = ("nothing", "ranking", "strengths", "coefficients", "differences")
#: Levels outside the order: a policy allows one only by name.
OUTSIDE: tuple[Literal["explained", "canonical"], ...] = ("explained", "canonical")
#: What ``results`` can pass on, least first; what is outside the order comes last.
GRANTS: tuple[Grant, ...] = ("nothing", "ranking", "strengths", "coefficients", *OUTSIDE)
#: Levels of ``reveal`` that are built, weakest privacy first: as plans and documents list them.
LEVELS: tuple[Reveal, ...] = ("differences", "coefficients", "strengths", "ranking", *OUTSIDE)
#: Keys of a plan that are for one level only.
FOR_LEVEL: dict[str, Reveal] = {"top": "ranking", "opened_to": "ranking", "he.form": "differences"}
#: Levels for one protocol only, and what they ask of it.
MPC_ONLY: dict[str, str] = {"ranking": "compares values in private"}


def within(grant: str, level: str) -> bool:
    """Return whether a grant (or level) reveals no more than a level (or grant)."""
    if grant in OUTSIDE or level in OUTSIDE:
        return grant in ("nothing", level)
    return _SCALE.index(grant) <= _SCALE.index(level)


def least(levels: Iterable[str]) -> str:
    """Return the one that reveals least."""
    return min(levels, key=(*_SCALE, *OUTSIDE).index)


def granted_by_default(level: str) -> tuple[Grant, Grant]:
    """Return the default grants of a level for the target and the sources."""
    reached = grants(level)
    if level == "canonical":
        return reached[-1], reached[-1]
    return ("strengths" if "strengths" in reached else reached[-1]), "nothing"


def grants(level: str) -> tuple[Grant, ...]:
    """Return what the coordinator can pass on at a level, least first."""
    return tuple(grant for grant in GRANTS if within(grant, level))
