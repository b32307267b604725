"""The levels of ``reveal`` and the grants of ``results``: most in one order, from the least to the most.

A level says what the coordinator learns, a grant what it passes on to a party. Both are points of one scale.
Levels outside the order can be granted at their own level only. What a level does is in the module of
:mod:`mpc_spearman.levels` that has its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True)
class Place:
    """A level's place in the order, and its part in a plan.

    Attributes
    ----------
    ordered : bool
        Whether it reveals all that the ordered levels before it do; if not, a policy allows it by name only.
    granted : bool
        Whether it can be passed on.
    by_default : pair of str, optional
        What ``results`` passes on to the target and to the sources if a plan does not set it. None: this
        level to the target, and nothing to the sources.
    keys : tuple of str
        Keys of a plan that are for this level alone.
    mpc_only : str
        If only ``mpc`` can compute it: the reason, for an error text.
    on_inputs : bool
        Whether an owner can add noise to its inputs.
    """

    ordered: bool = True
    granted: bool = True
    by_default: tuple[str, str] | None = None
    keys: tuple[str, ...] = ()
    mpc_only: str = ""
    on_inputs: bool = False


#: Every level: first those in the order, the one that reveals least at its head.
PLACES: dict[str, Place] = {
    "ranking": Place(keys=("top", "opened_to"), mpc_only="compares values in private"),
    "strengths": Place(on_inputs=True),
    "coefficients": Place(by_default=("strengths", "nothing"), on_inputs=True),
    "differences": Place(by_default=("strengths", "nothing"), granted=False, keys=("he.form",)),
    "explained": Place(ordered=False),
    "canonical": Place(ordered=False, by_default=("canonical", "canonical")),
}

_ORDER = ("nothing", *(name for name, place in PLACES.items() if place.ordered))
#: Levels outside the order: a policy allows one only by name.
OUTSIDE = tuple(name for name, place in PLACES.items() if not place.ordered)
#: What ``results`` can pass on, least first; levels outside the order come last.
GRANTS = ("nothing", *(name for name, place in PLACES.items() if place.granted))
#: Levels of ``reveal``, weakest privacy first: as plans and documents list them.
LEVELS = (*reversed(_ORDER[1:]), *OUTSIDE)
#: Keys of a plan that are for one level only.
FOR_LEVEL = {key: name for name, place in PLACES.items() for key in place.keys}
#: Levels at which an owner can add noise to its inputs.
ON_INPUTS = tuple(name for name, place in PLACES.items() if place.on_inputs)

if TYPE_CHECKING:
    Reveal = str
    Grant = str
else:
    Reveal = Literal[LEVELS]
    Grant = Literal[GRANTS]


def within(grant: str, level: str) -> bool:
    """Return whether a grant (or level) reveals no more than a level (or grant)."""
    if grant in OUTSIDE or level in OUTSIDE:
        return grant in ("nothing", level)
    return _ORDER.index(grant) <= _ORDER.index(level)


def least(levels: Iterable[str]) -> str:
    """Return the level that reveals least."""
    return min(levels, key=(*_ORDER, *OUTSIDE).index)


def granted_by_default(level: str) -> tuple[Grant, Grant]:
    """Return the default grants of a level for the target and the sources."""
    return PLACES[level].by_default or (level, "nothing")


def grants(level: str) -> tuple[Grant, ...]:
    """Return what the coordinator can pass on at a level, least first."""
    return tuple(grant for grant in GRANTS if within(grant, level))
