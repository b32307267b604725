"""The report's heat map: where each cell and label stands, in which colour, and what it tells on hover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from markupsafe import escape
from numpy.typing import NDArray

from mpc_spearman.results.charts import STEPS, number, pixels, shorten
from mpc_spearman.results.evidence import Pair

#: Cells a side that are drawn one by one; a longer side is drawn in blocks.
LONGEST_SIDE = 200
#: Bytes that the hover texts of all cells may take together.
HOVER_BYTES = 1_300_000
#: Cells that tell more than their coefficient on hover, and from how many on they can be ordered by likeness.
_TOLD_CELLS = 2500
_CLUSTERED_CELLS = 100
_PLOT = 800
_FONT = 11


@dataclass(frozen=True)
class Cell:
    """One cell: its column, colour class (``n`` for undefined), hover text, and a printed value or nothing.

    The class `mark` gives a discovery a tick (``s``) or, where cells are too small for that, makes all others
    pale (``o``).
    """

    column: int
    shade: str
    title: str
    text: str
    mark: str


@dataclass(frozen=True)
class Line:
    """A row or column: where it stands in either order, and its label, whose middle is half a cell further.

    Attributes
    ----------
    at, clustered : int
        Left or upper edge in px.
    text, full : str
        The label, shortened, and the whole name.
    shown, shown_clustered : bool
        Whether the label is shown: where there are too many, every second, fifth, … is.
    """

    at: int
    clustered: int
    text: str
    full: str
    shown: bool
    shown_clustered: bool


@dataclass(frozen=True)
class HeatMap:
    """A matrix as the template draws it: sizes in px, rows top down."""

    cell_width: int
    cell_height: int
    gap: int
    left: int
    top: int
    width: int
    height: int
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    cells: tuple[tuple[Cell, ...], ...]
    slanted: bool
    bound: float
    printed: bool
    undefined: bool
    found: bool
    clustered: bool
    notes: tuple[str, ...]


def heat_map(pairs: Sequence[Sequence[Pair]], confidence: float) -> HeatMap:
    """Lay a matrix out so that it fits a page whatever its size.

    Parameters
    ----------
    pairs : sequence of sequence of Pair
        Row by row, columns in the order to draw them.
    confidence : float
        Level of the intervals, which are told on hover while there is room.

    Notes
    -----
    Small matrices print each value in its cell, larger ones tell it on hover, label every second, fifth, …
    row and column, and can be looked at in another order: rows and columns with like coefficients side by
    side. Sides beyond `LONGEST_SIDE` are drawn in blocks, each in the colour of its coefficient farthest from
    0, so that nothing strong can hide.
    """
    owners = [row[0].owner for row in pairs]
    names, others = [row[0].source for row in pairs], [pair.target for pair in pairs[0]]
    values, tall, wide = _blocks(np.array([[pair.rho for pair in row] for row in pairs]))
    names, others = _block_names(names, tall), _block_names(others, wide)
    m, k = values.shape
    cell_width, cell_height = _fit(k, 4, 80), _fit(m, 4, 32)
    whole = tall == wide == 1
    gap = 1 if min(cell_width, cell_height) >= 10 else 0
    found = whole and any(pair.found for row in pairs for pair in row)

    finite = np.abs(values[np.isfinite(values)])
    bound = _bound(float(finite.max(initial=0.0)))
    shades = np.rint((np.nan_to_num(values) / bound + 1) / 2 * (STEPS - 1)).astype(int)
    hover_rows, hover_columns = _hover_names(names, others)
    printed = cell_width >= 26 and cell_height >= 14

    def cell(i: int, j: int) -> Cell:
        value = float(values[i, j])
        title = f"{hover_rows[i]} × {hover_columns[j]}: {number(value)}"
        if whole and m * k <= _TOLD_CELLS and (told := pairs[i][j].told(confidence)):
            title += f" ({told})"
        text = number(value, 2) if printed and not math.isnan(value) else ""
        if cell_width < 36:
            text = text.replace("0.", ".", 1)
        shade = "n" if math.isnan(value) else str(shades[i, j])
        mark = ("s" if pairs[i][j].found else "") if gap else ("" if pairs[i][j].found else "o")
        return Cell(j, shade, title, text, mark if found else "")

    cells = tuple(tuple(cell(i, j) for j in range(k)) for i in range(m))
    clustered = whole and m * k >= _CLUSTERED_CELLS and min(m, k) >= 3
    like_rows = likeness_order(values) if clustered else list(range(m))
    like_columns = likeness_order(values.T) if clustered else list(range(k))
    # A little air between the sources, unless blocks have mixed their rows.
    changes = [int(one != other) for one, other in pairwise(owners)] if tall == 1 else [0] * (m - 1)
    air = [8 * skips for skips in accumulate(changes, initial=0)]
    rows = _lines(names, like_rows, cell_height, 30, air)
    columns = _lines(others, like_columns, cell_width, 26, [0] * k)

    slanted = any(pixels(name) > cell_width - 4 for name in others)
    left = round(max(pixels(line.text) for line in rows)) + 12
    longest = max(pixels(line.text) for line in columns)
    top = round(longest * 0.87) + 16 if slanted else 22
    right = round(longest * 0.5) + 8 if slanted else 4
    notes = []
    if not whole:
        notes.append(
            f"Too large to draw one by one: each cell stands for {tall} × {wide} coefficients "
            "and shows the one farthest from 0."
        )
    if not all(line.shown for line in (*rows, *columns)):
        notes.append("Not every row and column is labelled.")
    return HeatMap(
        cell_width=cell_width,
        cell_height=cell_height,
        gap=gap,
        left=left,
        top=top,
        width=left + k * cell_width + right,
        height=top + rows[-1].at + cell_height + 4,
        rows=rows,
        columns=columns,
        cells=cells,
        slanted=slanted,
        bound=bound,
        printed=printed,
        undefined=bool(np.isnan(values).any()),
        found=found,
        clustered=clustered,
        notes=tuple(notes),
    )


def likeness_order(values: NDArray[np.float64]) -> list[int]:
    """Order rows such that like ones are neighbours.

    The leaves of an average-linkage tree by Euclidean distance, undefined coefficients counting as 0; of all
    ways to turn its branches, the one in which neighbours are closest.
    """
    from scipy.cluster import hierarchy  # slow to import, and only large matrices need it

    tree = hierarchy.linkage(np.nan_to_num(values), method="average", optimal_ordering=True)
    return [int(leaf) for leaf in hierarchy.leaves_list(tree)]


def _lines(
    names: Sequence[str], clustered: Sequence[int], pitch: int, columns: int, air: Sequence[int]
) -> tuple[Line, ...]:
    step = next(step for step in (1, 2, 5, 10) if step * pitch >= _FONT + 1)
    place = {index: position for position, index in enumerate(clustered)}
    return tuple(
        Line(
            at=index * pitch + air[index],
            clustered=place[index] * pitch,
            text=shorten(name, columns),
            full=name,
            shown=index % step == 0,
            shown_clustered=place[index] % step == 0,
        )
        for index, name in enumerate(names)
    )


def _fit(count: int, least: int, most: int) -> int:
    return min(most, max(least, _PLOT // count))


def _bound(largest: float) -> float:
    """Round up to where the scale ends: weak correlations must still show, and the ends be round numbers."""
    return next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)


def _blocks(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int, int]:
    """Replace blocks by their value farthest from 0 where a side is too long; NaN only if all of it is."""
    tall, wide = (-(-side // LONGEST_SIDE) for side in values.shape)
    if tall == wide == 1:
        return values, 1, 1
    blocks = [
        [values[i : i + tall, j : j + wide].ravel() for j in range(0, values.shape[1], wide)]
        for i in range(0, values.shape[0], tall)
    ]
    strongest = [
        [block[np.argmax(np.nan_to_num(np.abs(block), nan=-1.0))] for block in row] for row in blocks
    ]
    return np.array(strongest), tall, wide


def _block_names(names: Sequence[str], size: int) -> list[str]:
    if size == 1:
        return list(names)
    return [f"{part[0]} … {part[-1]}" for part in (names[i : i + size] for i in range(0, len(names), size))]


def _hover_names(rows: Sequence[str], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Shorten names as far as the page's size asks: each is repeated in every cell of its row or column."""
    short = (list(rows), list(columns))
    for limit in (120, 80, 60, 40, 30, 20, 14, 10, 6):
        short = ([shorten(name, limit) for name in rows], [shorten(name, limit) for name in columns])
        sizes = [sum(len(str(escape(name)).encode()) for name in side) for side in short]
        if sizes[0] * len(columns) + sizes[1] * len(rows) <= HOVER_BYTES:
            break
    return short
