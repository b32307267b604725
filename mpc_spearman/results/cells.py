r"""CSV files: numbers that read back as the same float64, and names that no spreadsheet or terminal executes.

An undefined number is an empty cell. A name gets an apostrophe before
it, which makes it text to a spreadsheet, if it begins with one, or with ``=``, ``+``, ``-`` or ``@``,
however wide these are and whatever does not show stands before them. Control characters, line separators
and characters that change the direction of writing become ``\uXXXX``; so does a semicolon before such a
beginning, at which some spreadsheets would begin a new cell. A backslash is doubled.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import pandas as pd
from pandas.api.types import is_string_dtype

# With which a formula begins, however wide or small it is written.
_FORMULA = "=+-@\u2212"
# Letters and symbols that do not show: of Korean, of Braille.
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
# Controls, formats, spaces, separators and marks, which do not show by themselves, and what is not assigned.
_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Zs", "Zl", "Zp", "Mn", "Me"}
_CONTROL = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
#: Characters that a terminal might execute.
CONTROL = re.compile(f"[{_CONTROL}]")
_ESCAPED = re.compile(rf"[{_CONTROL}\\;]")


@lru_cache(maxsize=1 << 16)
def written(name: str) -> str:
    """Return a name as written in CSV files."""

    def escape(match: re.Match[str]) -> str:
        if match[0] == "\\":
            return "\\\\"
        harmless = match[0] == ";" and not _begins_formula(name[match.end() :])
        return ";" if harmless else f"\\u{ord(match[0]):04x}"

    text = _ESCAPED.sub(escape, name)
    return f"'{text}" if text.startswith("'") or _begins_formula(text) else text


def _begins_formula(text: str) -> bool:
    """Return whether the first character that shows begins a formula in a spreadsheet."""
    shown = (c for c in text if not (c.isspace() or c in _BLANK or unicodedata.category(c) in _UNSEEN))
    return unicodedata.normalize("NFKC", next(shown, "."))[0] in _FORMULA


def csv_text(table: pd.DataFrame) -> str:
    """Write a table, without the names of its rows."""
    columns = [column.map(written) if is_string_dtype(column) else column for _, column in table.items()]
    header = [written(name) for name in table.columns]
    return str(pd.concat(columns, axis=1).to_csv(index=False, header=header, lineterminator="\n"))
