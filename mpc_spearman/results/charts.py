"""What the report's template draws: the axis of bars and whiskers, and the heat map."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mpc_spearman.findings.sections import Matrix, Table, number

#: Length of an axis in SVG units, between margins of `MARGIN`.
AXIS = 420.0
MARGIN = 24.0
#: Rows and columns that fit a page; of a larger matrix the map has those with coefficients farthest from 0.
LONGEST_SIDE = 30


class Axis:
    """The axis of a table's bars or whiskers, which holds 0 and all its values; NaN is none."""

    def __init__(self, table: Table) -> None:
        values = [value for line in table.lines for value in (line.value, line.mark, *line.ends)]
        known = [value for value in values if not math.isnan(value)]
        self._low, self._high = min([0.0, *known]), max([0.0, *known])
        self.zero = self.place(0.0)

    def place(self, value: float) -> float:
        """Return where on the axis a value stands."""
        span = (self._high - self._low) or 1.0
        return round(MARGIN + (value - self._low) / span * AXIS, 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of 0 and of the ends that are not too near to it; none where there is nothing."""
        ends = [end for end in (self._low, self._high) if abs(self.place(end) - self.zero) > 40]
        labels = ((self.place(end), number(end, 3 if abs(end) < 0.1 else 2)) for end in ends)
        return ((self.zero, "0"), *labels) if ends else ()


@dataclass(frozen=True)
class Cell:
    """A cell of the heat map: its colour, "warm" or "cool", and strength in percent; empty if undefined."""

    text: str
    colour: str
    percent: int
    title: str
    found: bool


@dataclass(frozen=True)
class HeatMap:
    """The map, whose colours end at ±`bound`, and whether that is the `whole` matrix.

    A row has its label and whether it begins another source's.
    """

    columns: list[str]
    rows: list[tuple[str, bool, list[Cell]]]
    bound: float
    whole: bool


def heat_map(matrix: Matrix) -> HeatMap:
    """Choose the map's rows and columns, and their colours."""
    sizes = np.nan_to_num(np.abs(matrix.values), nan=-1.0)
    kept = [np.sort(np.argsort(-sizes.max(axis=axis), kind="stable")[:LONGEST_SIDE]) for axis in (1, 0)]
    largest = float(sizes.max(initial=0.0))
    # Weak correlations must still show, and the scale end at a round number.
    bound = next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)
    rows, before = [], None
    for i in kept[0]:
        cells = []
        for j in kept[1]:
            value, title = float(matrix.values[i, j]), matrix.title(i, j)
            if math.isnan(value):
                cells.append(Cell("", "", 0, title, found=False))
                continue
            text, colour = number(value, 2).replace("0.", ".", 1), "cool" if value < 0 else "warm"
            percent = round(100 * min(abs(value) / bound, 1))
            cells.append(Cell(text, colour, percent, title, bool(matrix.found[i, j])))
        name, owner = matrix.rows[i]
        rows.append((name, before not in (None, owner), cells))
        before = owner
    whole = all(len(places) == side for places, side in zip(kept, sizes.shape, strict=True))
    return HeatMap([matrix.columns[j] for j in kept[1]], rows, bound, whole)
