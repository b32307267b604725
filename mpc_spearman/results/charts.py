"""Geometry and colours of the report's charts, drawn as SVG by its template.

The diverging scale is centred on 0 and runs from blue (negative) through neutral to orange (positive), which
readers with any common colour-vision deficiency tell apart. Light and dark pages have their own ramps.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pandas as pd
from markupsafe import escape
from numpy.typing import NDArray

from mpc_spearman.results.units import printable

#: Colour classes of the heat map; odd, so that the middle one is exactly 0.
STEPS = 41
_LIGHT = ("#0b3c6f", "#1f6cb0", "#66a5d6", "#b7d6ee", "#f6f6f4", "#fbd3ad", "#f2995a", "#d0621a", "#7f3204")
_DARK = ("#a9d8ff", "#5fb0f2", "#2f7fc4", "#265276", "#262b31", "#6b432a", "#bb6527", "#f09447", "#ffd0a3")

#: Cells a side that are drawn one by one; a longer side is drawn in blocks.
LONGEST_SIDE = 200
#: Bytes that the hover texts of all cells may take together.
HOVER_BYTES = 1_300_000
_PLOT = 800
_FONT = 11


@dataclass(frozen=True)
class Ramp:
    """Fill and text colour of each class, from -1 to 1."""

    fills: tuple[str, ...]
    texts: tuple[str, ...]


def ramps() -> tuple[Ramp, Ramp]:
    """Return the ramps for light and dark pages, each with the more legible of two text colours per class."""
    return _ramp(_LIGHT), _ramp(_DARK)


def _ramp(stops: Sequence[str]) -> Ramp:
    at = np.linspace(0, len(stops) - 1, STEPS)
    channels = [
        np.interp(at, range(len(stops)), [int(stop[i : i + 2], 16) for stop in stops]) for i in (1, 3, 5)
    ]
    fills = tuple(f"#{round(r):02x}{round(g):02x}{round(b):02x}" for r, g, b in zip(*channels, strict=True))
    texts = tuple("#000" if contrast("#000", fill) >= contrast("#fff", fill) else "#fff" for fill in fills)
    return Ramp(fills, texts)


def luminance(colour: str) -> float:
    """Relative luminance of ``#rgb`` or ``#rrggbb`` (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2), from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# --- text ----------------------------------------------------------------------------------------------


def width(text: str) -> int:
    """Width in columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def shorten(text: str, columns: int) -> str:
    """Cut the middle out of a text wider than `columns`: names often differ at their ends only."""
    if width(text) <= columns:
        return text
    head = _fitting(text, columns // 2)
    tail = _fitting(reversed(text), columns - 1 - columns // 2)
    return f"{head}…{tail[::-1]}"


def _fitting(text: Iterable[str], columns: int) -> str:
    kept = ""
    for c in text:
        columns -= width(c)
        if columns < 0:
            break
        kept += c
    return kept


def number(value: float, digits: int = 3) -> str:
    """Write a number with a proper minus sign; NaN as ``undefined``."""
    if math.isnan(value):
        return "undefined"
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


# --- bars ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One bar on an axis of `AXIS` units; `mark` is where the comparison value stands."""

    x: float
    width: float
    sign: str
    mark: float | None


@dataclass(frozen=True)
class Bars:
    """Bars on one axis, with its labelled ticks; None for a bar whose value is undefined."""

    bars: tuple[Bar | None, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


#: Length of the bars' axis in SVG units, between margins of `MARGIN`.
AXIS = 420.0
MARGIN = 24.0


def bars(values: Sequence[float], marks: Sequence[float]) -> Bars:
    """Place bars from 0, negative ones to the left, and beside each the mark of a comparison value.

    Parameters
    ----------
    values : sequence of float
        NaN where undefined.
    marks : sequence of float
        As long as `values`, NaN for no mark; each is drawn on its bar's side of 0.
    """
    marks = [math.copysign(mark, value) for mark, value in zip(marks, values, strict=True)]
    known = [value for value in (*values, *marks) if not math.isnan(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return round(MARGIN + (value - low) / span * AXIS, 2)

    zero = place(0.0)
    drawn = tuple(
        None
        if math.isnan(value)
        else Bar(
            x=min(zero, place(value)),
            width=round(max(abs(place(value) - zero), 1.0), 2),
            sign="negative" if value < 0 else "positive",
            mark=None if math.isnan(mark) else place(mark),
        )
        for value, mark in zip(values, marks, strict=True)
    )
    ticks = [(zero, "0")]
    for end in (low, high):
        if abs(place(end) - zero) > 40:
            ticks.append((place(end), number(end, 3 if abs(end) < 0.1 else 2)))
    return Bars(drawn, zero, tuple(ticks))


# --- heat map ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One cell: left edge, colour class (``n`` for undefined), hover text, and a printed value or nothing."""

    x: int
    shade: str
    title: str
    text: str


@dataclass(frozen=True)
class Label:
    """A row's or column's label at its middle, and the whole name."""

    at: float
    text: str
    full: str


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
    rows: tuple[tuple[int, tuple[Cell, ...]], ...]
    row_labels: tuple[Label, ...]
    column_labels: tuple[Label, ...]
    slanted: bool
    bound: float
    printed: bool
    undefined: bool
    notes: tuple[str, ...]


def heat_map(matrix: pd.DataFrame, pvalues: pd.DataFrame | None = None) -> HeatMap:
    """Lay a matrix out so that it fits a page whatever its size.

    Parameters
    ----------
    matrix : DataFrame
        Rows (party, feature), columns features in the order to draw them; NaN where undefined.
    pvalues : DataFrame, optional
        Same rows and columns; told on hover while there is room.

    Notes
    -----
    Small matrices print each value in its cell, larger ones tell it on hover and label every second, fifth, …
    row and column. Sides beyond `LONGEST_SIDE` are drawn in blocks, each in the colour of its coefficient
    farthest from 0, so that nothing strong can hide.
    """
    parties = [printable(str(party)) for party, _ in matrix.index]
    prefix = len(set(parties)) > 1
    names = [printable(str(name)) for _, name in matrix.index]
    if prefix:
        names = [f"{party} · {name}" for party, name in zip(parties, names, strict=True)]
    others = [printable(str(name)) for name in matrix.columns]
    values, tall, wide = _blocks(matrix.to_numpy(dtype=np.float64))
    names, others = _block_names(names, tall), _block_names(others, wide)
    m, k = values.shape
    cell_width, cell_height = _fit(k, 4, 80), _fit(m, 4, 32)

    finite = np.abs(values[np.isfinite(values)])
    bound = _bound(float(finite.max(initial=0.0)))
    shades = np.rint((np.nan_to_num(values) / bound + 1) / 2 * (STEPS - 1)).astype(int)
    hover_rows, hover_columns = _hover_names(names, others)
    chances = None
    if pvalues is not None and m * k <= 2500 and tall == wide == 1:
        chances = pvalues.reindex(columns=matrix.columns).to_numpy(dtype=np.float64)
    printed = cell_width >= 26 and cell_height >= 14

    def cell(i: int, j: int) -> Cell:
        value = float(values[i, j])
        title = f"{hover_rows[i]} × {hover_columns[j]}: {number(value)}"
        if chances is not None and not math.isnan(chances[i, j]):
            title += f" (p = {chances[i, j]:.2g})" if chances[i, j] > 0 else " (p < 1e-300)"
        text = number(value, 2) if printed and not math.isnan(value) else ""
        if cell_width < 36:
            text = text.replace("0.", ".", 1)
        shade = "n" if math.isnan(value) else str(shades[i, j])
        return Cell(j * cell_width, shade, title, text)

    # A little air between the sources, unless blocks have mixed their rows.
    changes = [int(one != other) for one, other in pairwise(parties)] if tall == 1 else [0] * (m - 1)
    tops = [i * cell_height + 8 * skip for i, skip in enumerate(accumulate(changes, initial=0))]
    row_step, column_step = _step(cell_height), _step(cell_width)
    row_labels = _labels(names, [top + cell_height / 2 for top in tops], row_step, 30)
    slanted = any(width(name) * 6.4 > cell_width - 4 for name in others)
    column_labels = _labels(others, [(j + 0.5) * cell_width for j in range(k)], column_step, 26)
    left = round(max(width(label.text) for label in row_labels) * 6.6) + 12
    longest = max(width(label.text) for label in column_labels) * 6.6
    top = round(longest * 0.87) + 16 if slanted else 22
    right = round(longest * 0.5) + 8 if slanted else 4

    notes = []
    if tall > 1 or wide > 1:
        notes.append(
            f"Too large to draw one by one: each cell stands for {tall} × {wide} coefficients "
            "and shows the one farthest from 0."
        )
    if row_step > 1 or column_step > 1:
        notes.append("Not every row and column is labelled.")
    return HeatMap(
        cell_width=cell_width,
        cell_height=cell_height,
        gap=1 if min(cell_width, cell_height) >= 10 else 0,
        left=left,
        top=top,
        width=left + k * cell_width + right,
        height=top + tops[-1] + cell_height + 4,
        rows=tuple((tops[i], tuple(cell(i, j) for j in range(k))) for i in range(m)),
        row_labels=row_labels,
        column_labels=column_labels,
        slanted=slanted,
        bound=bound,
        printed=printed,
        undefined=bool(np.isnan(values).any()),
        notes=tuple(notes),
    )


def _fit(count: int, least: int, most: int) -> int:
    return min(most, max(least, _PLOT // count))


def _bound(largest: float) -> float:
    """Round up to where the scale ends: weak correlations must still show, and the ends be round numbers."""
    return next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)


def _step(pitch: int) -> int:
    return next(step for step in (1, 2, 5, 10) if step * pitch >= _FONT + 1)


def _labels(names: Sequence[str], middles: Sequence[float], step: int, columns: int) -> tuple[Label, ...]:
    return tuple(
        Label(at, shorten(name, columns), name) for name, at in list(zip(names, middles, strict=True))[::step]
    )


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
