"""How cells of text are written: numbers in several notations, dates, percentages and amounts of money."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask
from mpc_spearman.config.table_keys import Convert, Csv

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"^{_DATE}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,9}})?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
#: A day, perhaps with a time and a zone.
DAY_AND_TIME = f"^{_DATE}$|{_TIME}{_ZONE}?$"
#: What a column of text can hold besides numbers: how each cell is written, and the type of dates and times.
KINDS: Mapping[str, tuple[str, pa.DataType | None]] = {
    "dates": (f"^{_DATE}$", pa.date32()),
    "dates with times": (f"{_TIME}$", pa.timestamp("us")),
    "dates with times and zones": (f"{_TIME}{_ZONE}$", pa.timestamp("us", "UTC")),
    "true or false": ("(?i)^(true|false)$", None),
    "yes or no": ("(?i)^(yes|no)$", None),
}
#: Spaces that look alike between the digits of a number, and before its unit.
SPACES = " \u00a0\u2007\u2009\u202f"
# What may separate thousands where a plan names the first of them.
_ALIKE = {" ": SPACES, "'": "'\u2019"}
_DAY = r"^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})([T ].*)?$"
_PADDED = r"^([0-9]{4})-0?([0-9]{2})-0?([0-9]{2})"
_ONE_DIGIT_HOUR = r"([T ])([0-9]:)"
#: How numbers of a table may be written but for the usual way, as keys of ``csv``.
NOTATIONS: tuple[dict[str, Any], ...] = (
    {"decimal": ","},
    {"thousands": ","},
    {"thousands": ".", "decimal": ","},
    {"thousands": " "},
    {"thousands": " ", "decimal": ","},
    {"thousands": "'"},
    {"thousands": "'", "decimal": ","},
)
_UNIT = r"([A-Z]{0,3}\p{Sc}|[A-Z]{3}|kr|Kč|zł|Ft)"


class Notation:
    """How numbers are written."""

    def __init__(self, csv: Csv) -> None:
        self.decimal, self.thousands = csv.decimal, "" if csv.thousands == "none" else csv.thousands or ""
        point, self.mark = re.escape(csv.decimal), f"[{_ALIKE.get(self.thousands, self.thousands)}]"
        whole = f"(?:[0-9]{{1,3}}(?:{self.mark}[0-9]{{3}})+|[0-9]+)" if self.thousands else "[0-9]+"
        self.number = rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        #: Numbers below a thousand, and those whose decimal mark may be one between thousands.
        self.grouped = rf"^[+-]?(0|[1-9][0-9]{{0,2}}({point}[0-9]{{3}})?)$"
        self.is_arrows = self.decimal == "." and not self.thousands

    def matches(self, text: pa.LargeStringArray) -> Mask:
        """Mark the cells that are numbers."""
        return matches(text, f"^{self.number}$")

    def plain(self, numbers: pa.LargeStringArray) -> pa.LargeStringArray:
        """Write numbers as Arrow reads them."""
        if self.thousands:
            numbers = pc.replace_substring_regex(numbers, self.mark, "")
        numbers = numbers if self.decimal == "." else pc.replace_substring(numbers, self.decimal, ".")
        return pc.utf8_ltrim(numbers, "+")

    def converted(
        self, text: pa.LargeStringArray, how: Convert
    ) -> tuple[pa.LargeStringArray, Mask, set[str]]:
        """Convert percentages and amounts of money to plain numbers, and other dates to ISO dates.

        Also return which cells are what `how` says, and the currencies.
        """
        number, units, space = self.number, set[str](), f"[{SPACES}]*"
        unsigned = number.removeprefix("[+-]?")
        pattern, into = {
            "percent": (rf"^({number}){space}%$", r"\1"),
            "currency": (
                rf"^(?:([+-]?){_UNIT}{space}({unsigned})|{_UNIT}{space}({number})|({number}){space}{_UNIT})$",
                r"\1\3\5\6",
            ),
            "day_first": (_DAY, r"\3-0\2-0\1\4"),
            "month_first": (_DAY, r"\3-0\1-0\2\4"),
        }[how]
        fits = matches(text, pattern)
        if how == "currency":
            money = text.filter(pa.array(fits))
            units = {*pc.replace_substring_regex(money, pattern, r"\2\4\7").unique().to_pylist()}
        text = pc.replace_substring_regex(text, pattern, into)
        if how.endswith("first"):
            text = pc.replace_substring_regex(text, _PADDED, r"\1-\2-\3")
            text = pc.replace_substring_regex(text, _ONE_DIGIT_HOUR, r"\10\2")
        return text, fits, units


def shortest(text: pa.LargeStringArray) -> pa.LargeStringArray:
    """Shorten days and times: drop a time of midnight, trailing zeros and the zone."""
    for pattern, into in (
        (rf"^({_DATE})[T ]", r"\1 "),
        (rf"^({_DATE} [0-9:.]+){_ZONE}$", r"\1"),
        (rf"^({_DATE} [0-9:]+)\.0*$", r"\1"),
        (rf"^({_DATE} [0-9]{{2}}:[0-9]{{2}})$", r"\1:00"),
        (f"^({_DATE}) 00:00:00$", r"\1"),
    ):
        text = pc.replace_substring_regex(text, pattern, into)
    return text


def matches(text: pa.LargeStringArray, pattern: str) -> Mask:
    """Mark the cells in which a pattern is found."""
    return mask(pc.match_substring_regex(text, pattern))


def mask(array: Any) -> Mask:
    """Turn Arrow's booleans into NumPy's."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)
