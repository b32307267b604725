"""The parts of a shown result, the same in every medium: sections of sentences, a table, a matrix.

Levels make them; the report, the terminal and notebooks lay them out. Names come from other parties: whatever
is here is printable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: What differs from chance has a q-value of at most this false discovery rate.
RATE = 0.05
#: Below this no test here says how far.
_LEAST = 1e-16


@dataclass(frozen=True)
class Table:
    """The first lines of a table, and what a chart beside them shows; NaN for nothing.

    Attributes
    ----------
    columns : mapping
        The texts of each column, by its heading; `names` are the headings of columns that are not numbers.
    file : str
        The file that has all lines; here `more` are missing.
    values : sequence of float
        The length of each line's bar, or the place of its point if there are `points`.
    ends, marks : sequence
        The ends of each line's whisker, and another place on its axis.
    differing : sequence of bool
        Which lines differ from chance: their points are filled.
    notes : sequence of str
        What helps to read each line; empty for nothing.
    axis : str
        What a figure calls the axis; without it, it draws positions.
    """

    columns: Mapping[str, Sequence[str]]
    file: str
    values: Sequence[float] = ()
    ends: Sequence[tuple[float, float]] = ()
    marks: Sequence[float] = ()
    differing: Sequence[bool] = ()
    notes: Sequence[str] = ()
    names: tuple[str, ...] = ("feature", "source")
    more: int = 0
    points: bool = False
    axis: str = ""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The texts of each line."""
        return [*zip(*self.columns.values(), strict=True)]


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers, NaN where undefined, and which of them are `differing` from chance.

    A row has its label and its party. `title` says more about one cell.
    """

    values: NDArray[np.float64]
    differing: NDArray[np.bool_]
    rows: Sequence[tuple[str, str]]
    columns: Sequence[str]
    title: Callable[[int, int], str]
    axis: str


@dataclass(frozen=True)
class Section:
    """A part of what a result says.

    `lead` is the outcome in one sentence, without its full stop; `how_to_read` is for the report
    alone; `notes` are sentences below the numbers. A terminal shows `short` lines of the table, a
    page `long` before it scrolls.
    """

    title: str
    lead: str = ""
    how_to_read: str = ""
    table: Table | None = None
    matrix: Matrix | None = None
    notes: Sequence[str] = ()
    short: int = 20
    long: int = 40


def number(value: float, digits: int = 3) -> str:
    """Write a number with a proper minus sign; NaN as ``undefined``."""
    if math.isnan(value):
        return "undefined"
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def percent(rate: float) -> str:
    """Write a rate such as 0.05."""
    return f"{100 * rate:g} %"


def with_error(value: float, error: float) -> str:
    """Write a number and its standard error, with so many digits that the error has two."""
    digits = 3 if not error > 0 else max(3, 1 - math.floor(math.log10(error)))
    return f"{number(value, digits)} ± {number(error, digits)}"


def chance(value: float) -> str:
    """Write a p-value or a q-value."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.2g}" if value >= _LEAST else f"< {_LEAST:g}"


def differ(count: int) -> str:
    """Return "differ" or "differs", for `count` things."""
    return "differs" if count == 1 else "differ"
