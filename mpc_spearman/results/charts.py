"""What the report's template draws: the axis of bars and whiskers, the heat map, a picture of a matrix."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mpc_spearman.findings.sections import Matrix, Table, number

#: Colours of negative and positive numbers, equally light; 0 is the paper's. Figures have the same.
COOL, WARM = "#58a2dc", "#ee8a44"
# Where an axis begins and ends, in percent of the width that it has.
_BEGINS, _ENDS = 8.0, 92.0
#: Characters of a name beside the map, and of one in a figure.
NAME = 32
# Pixels of a picture's longer side at most; of more rows or columns, neighbours share one.
_PIXELS = 600
#: Rows and columns that fit a page; of a larger matrix the map has those with coefficients farthest from 0.
LONGEST_SIDE = 30


class Axis:
    """The axis of a table's bars or whiskers, which holds 0 and all its values; NaN is none."""

    def __init__(self, table: Table) -> None:
        values = [0.0, *table.values, *table.marks, *chain.from_iterable(table.ends)]
        self._low, self._high = float(np.nanmin(values)), float(np.nanmax(values))
        self.zero = self.place(0.0)

    def place(self, value: float) -> float:
        """Return where on the axis a value stands, in percent of its width."""
        span = (self._high - self._low) or 1.0
        return round(_BEGINS + (value - self._low) / span * (_ENDS - _BEGINS), 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of 0 and of the ends that are not too near to it; none where there is nothing."""
        ends = [end for end in (self._low, self._high) if abs(self.place(end) - self.zero) > 10]
        labels = ((self.place(end), number(end, 3 if abs(end) < 0.1 else 2)) for end in ends)
        return ((self.zero, "0"), *labels) if ends else ()


@dataclass(frozen=True)
class Cell:
    """A cell of the heat map: its colour, "warm" or "cool", and strength in percent; empty if undefined."""

    text: str
    colour: str
    percent: int
    title: str
    differs: bool


@dataclass(frozen=True)
class HeatMap:
    """The map, whose colours end at ±`bound`, and whether that is the `whole` matrix.

    A column has its label, short and in full; a row too, and whether it begins another source's.
    """

    columns: list[tuple[str, str]]
    rows: list[tuple[str, str, bool, list[Cell]]]
    bound: float
    whole: bool


def heat_map(matrix: Matrix) -> HeatMap:
    """Choose the map's rows and columns, and their colours."""
    sizes = np.nan_to_num(np.abs(matrix.values), nan=-1.0)
    places = [np.sort(np.argsort(-sizes.max(axis=axis), kind="stable")[:LONGEST_SIDE]) for axis in (1, 0)]
    largest = float(sizes.max(initial=0.0))
    # Weak correlations must still show, and the scale end at a round number.
    bound = next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)
    row_names = [matrix.rows[i][0] for i in places[0]]
    column_names = [matrix.columns[j] for j in places[1]]
    rows, before, short_row = [], None, iter(shortened(row_names))
    for i in places[0]:
        cells = []
        for j in places[1]:
            value, title = float(matrix.values[i, j]), matrix.title(i, j)
            if math.isnan(value):
                cells.append(Cell("", "", 0, title, differs=False))
                continue
            text, colour = number(value, 2).replace("0.", ".", 1), "cool" if value < 0 else "warm"
            percent = round(100 * min(abs(value) / bound, 1))
            cells.append(Cell(text, colour, percent, title, bool(matrix.differing[i, j])))
        name, owner = matrix.rows[i]
        rows.append((next(short_row), name, before not in (None, owner), cells))
        before = owner
    whole = tuple(map(len, places)) == sizes.shape
    return HeatMap([*zip(shortened(column_names), column_names, strict=True)], rows, bound, whole)


def shortened(names: Sequence[str], most: int = NAME) -> list[str]:
    """Cut the middle out of long names, but for those that would then be equal."""
    cut = [name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}" for name in names]
    return [name if cut.count(short) > 1 else short for name, short in zip(names, cut, strict=True)]


def picture(matrix: Matrix, bound: float) -> str:
    """Return a whole matrix as the address of a PNG: a pixel for each number, transparent at 0.

    Where there are too many rows or columns, a pixel shows the number farthest from 0 of several neighbours.
    """
    values = np.nan_to_num(matrix.values)
    for axis in (0, 1):
        starts = np.unique(np.linspace(0, values.shape[axis], _PIXELS, endpoint=False).astype(int))
        low, high = (extreme.reduceat(values, starts, axis=axis) for extreme in (np.minimum, np.maximum))
        values = np.where(high > -low, high, low)
    shades = np.rint(127 * np.clip(values / bound, -1, 1)).astype(np.int64)
    palette = np.array(
        [[*bytes.fromhex((WARM if shade > 0 else COOL)[1:])] for shade in range(-127, 128)], np.uint8
    )
    opacity = np.abs(2 * np.arange(-127, 128)).clip(0, 255).astype(np.uint8)
    height, width = shades.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each begins with its filter, none
    lines[:, 1:] = shades + 127
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # eight bits, of a palette
    chunks = {"IHDR": header, "PLTE": palette.tobytes(), "tRNS": opacity.tobytes()}
    chunks |= {"IDAT": zlib.compress(lines.tobytes(), 9), "IEND": b""}
    data = b"\x89PNG\r\n\x1a\n"
    for kind, content in chunks.items():
        body = kind.encode() + content
        data += struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))
    return f"data:image/png;base64,{b64encode(data).decode()}"
