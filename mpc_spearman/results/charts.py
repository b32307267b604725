"""What the report's template draws: the axis of bars and whiskers, and the heat map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mpc_spearman.results.summary import Table, chance, interval, label, number
from mpc_spearman.units import printable

if TYPE_CHECKING:
    import pandas as pd

    from mpc_spearman.results.result import Result

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


def heat_map(result: Result, pairs: pd.DataFrame) -> HeatMap:
    """Choose the map's rows, and its columns in the order of the ranking, and their colours."""
    matrix = result.coefficients[list(result.ranking["feature"])]
    sizes = np.nan_to_num(np.abs(matrix.to_numpy()), nan=-1.0)
    kept = [np.sort(np.argsort(-sizes.max(axis=axis), kind="stable")[:LONGEST_SIDE]) for axis in (1, 0)]
    shown = matrix.iloc[kept[0], kept[1]]
    largest = float(sizes.max(initial=0.0))
    # Weak correlations must still show, and the scale end at a round number.
    bound = next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)
    pairs = pairs[pairs["source"].isin(shown.index.unique(1)) & pairs["target"].isin(shown.columns)]
    of: dict[Any, Any] = {(pair.party, pair.source, pair.target): pair for pair in pairs.itertuples()}
    several = len(matrix.index.unique(0)) > 1
    rows, before = [], None
    for key in shown.index:
        cells = []
        for target in shown.columns:
            pair = of[(*key, target)]
            title = f"{label(result, pair)}: {number(pair.rho)}"
            if math.isnan(pair.rho):
                cells.append(Cell("", "", 0, title, found=False))
                continue
            text, colour = number(pair.rho, 2).replace("0.", ".", 1), "cool" if pair.rho < 0 else "warm"
            title += f" ({interval(result, pair)}; q {chance(pair.q)})"
            percent = round(100 * min(abs(pair.rho) / bound, 1))
            cells.append(Cell(text, colour, percent, title, bool(pair.found)))
        name = printable(" · ".join(key) if several else key[1])
        rows.append((name, before not in (None, key[0]), cells))
        before = key[0]
    return HeatMap([printable(name) for name in shown.columns], rows, bound, shown.shape == matrix.shape)
