"""What is shown of a result, wherever it is shown: sections of sentences, a table, a matrix.

Levels make them; the report, the terminal and notebooks lay them out. Names come from other parties: whatever
is here is printable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: What counts as found has a q-value of at most this false discovery rate.
RATE = 0.05
#: Below this no test here says how far.
_LEAST = 1e-16


@dataclass(frozen=True)
class Line:
    """A line of a table: its texts, and what a chart beside it shows; NaN for nothing.

    `value` is the length of a bar, or the place of a point, which is filled if it is `found`; a whisker lies
    between `ends`. `mark` is another place on the axis, and `note` helps to read the line.
    """

    cells: tuple[str, ...]
    value: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    mark: float = math.nan
    found: bool = False
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table, or its first lines, and how many `more` there are, all in `file`.

    `texts` are its columns that are not numbers. Its lines have bars, or `points`; a figure calls their axis
    `axis`, and has their marks if it is `marked`.
    """

    head: tuple[str, ...]
    lines: Sequence[Line]
    file: str
    texts: tuple[str, ...] = ("feature", "source")
    more: int = 0
    points: bool = False
    axis: str = ""
    marked: bool = False

    def column(self, name: str) -> list[str]:
        """Return the texts of one column."""
        at = self.head.index(name)
        return [line.cells[at] for line in self.lines]


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers, NaN where undefined, and which of them are `found`.

    A row has its label and the party whose it is. `title` says more about one cell.
    """

    values: NDArray[np.float64]
    found: NDArray[np.bool_]
    rows: Sequence[tuple[str, str]]
    columns: Sequence[str]
    title: Callable[[int, int], str]
    axis: str


@dataclass(frozen=True)
class Section:
    """A part of what a result says.

    Attributes
    ----------
    title : str
        A heading.
    lead : str
        The outcome in one sentence, without its full stop.
    about : str
        How to read what follows: in the report alone.
    table, matrix : Table, Matrix
        The numbers.
    notes : sequence of str
        Sentences that belong to them.
    short, long : int
        How many lines a terminal shows, and a page before it folds the rest.
    """

    title: str
    lead: str = ""
    about: str = ""
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
