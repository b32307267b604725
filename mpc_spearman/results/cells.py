r"""CSV files: numbers that read back as the same float64, and names that no spreadsheet or terminal executes.

Floats are written with `repr`, and an undefined number is an empty cell. A name that begins with ``=``,
``+``, ``-`` or ``@``, full-width or not, after spaces or not, or with an apostrophe, gets an apostrophe
before it: to a spreadsheet, text. Control characters, line separators and characters that change the
direction of writing become ``\uXXXX``; so does a semicolon before one of these characters, at which some
spreadsheets would begin a new cell. A backslash is doubled.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence

_FORMULA = "=+\\-@＝＋－＠"
_BEGINS = re.compile(rf"\s*[{_FORMULA}]|'")
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
#: Characters that a terminal might execute.
CONTROL = re.compile(f"[{_CONTROL}]")
_ESCAPED = re.compile(rf"[{_CONTROL}\\]|;(?=\s*[{_FORMULA}])")
_ESCAPE = re.compile(r"\\(?:\\|u([0-9a-f]{4})|)")


def written(name: str) -> str:
    """Return a name as written in CSV files."""
    text = _ESCAPED.sub(lambda it: "\\\\" if it[0] == "\\" else f"\\u{ord(it[0]):04x}", name)
    return f"'{text}" if _BEGINS.match(text) else text


def read(text: str) -> str:
    """Return the name that `written` wrote; `ValueError` for any other text."""
    name = _ESCAPE.sub(lambda it: chr(int(it[1], 16)) if it[1] else "\\", text.removeprefix("'"))
    if written(name) != text:
        raise ValueError("a name that is not escaped as names are")
    return name


def number(text: str) -> float:
    """Return the number in a cell; NaN for an empty one."""
    return float(text) if text else math.nan


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Write a table."""

    def cell(value: object) -> object:
        if isinstance(value, float):
            return "" if math.isnan(value) else float(value)
        return written(value) if isinstance(value, str) else value

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(cell, row) for row in (header, *rows))
    return text.getvalue()


def read_csv(text: str) -> tuple[list[str], list[list[str]]]:
    """Read the header and the equally long rows that `csv_text` wrote; `ValueError` if it is not a table."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except csv.Error as error:
        raise ValueError(f"not a CSV file: {error}") from error
    if any(len(row) != len(header) for row in rows):
        raise ValueError("a row whose length differs from the first")
    return header, rows
