"""Geometry and colours of the report's charts, drawn as SVG by its template.

The diverging scale is centred on 0 and runs from blue (negative) through neutral to orange (positive), which
readers with any common colour-vision deficiency tell apart. Light and dark pages have their own ramps.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

#: Colour classes of the heat map; odd, so that the middle one is exactly 0.
STEPS = 41
_LIGHT = ("#0b3c6f", "#1f6cb0", "#66a5d6", "#b7d6ee", "#f6f6f4", "#fbd3ad", "#f2995a", "#d0621a", "#7f3204")
_DARK = ("#a9d8ff", "#5fb0f2", "#2f7fc4", "#265276", "#262b31", "#6b432a", "#bb6527", "#f09447", "#ffd0a3")


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


# --- bars and whiskers ---------------------------------------------------------------------------------

#: Length of the axis of bars and whiskers in SVG units, between margins of `MARGIN`.
AXIS = 420.0
MARGIN = 24.0


class Axis:
    """An axis of bars or whiskers that holds 0 and all values given; NaN is none."""

    def __init__(self, values: Iterable[float]) -> None:
        known = [value for value in values if not math.isnan(value)]
        self._low, self._high = min([0.0, *known]), max([0.0, *known])
        self.zero = self.place(0.0)

    def place(self, value: float) -> float:
        """Return where on the axis a value stands."""
        span = (self._high - self._low) or 1.0
        return round(MARGIN + (value - self._low) / span * AXIS, 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of 0 and of the ends that are not too near to it."""
        ends = [end for end in (self._low, self._high) if abs(self.place(end) - self.zero) > 40]
        return (
            (self.zero, "0"),
            *((self.place(end), number(end, 3 if abs(end) < 0.1 else 2)) for end in ends),
        )
