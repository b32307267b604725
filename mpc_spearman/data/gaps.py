"""Missing values: which values a plan lists as missing, the rows they cost, and what their owner is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.notation import Mask, Notation, mask
from mpc_spearman.data.refusals import show

#: Numbers, as float64 writes them, that may be codes for missing values.
NINES = re.compile(r"-?99+\.0")
_MOST_NAMED = 10
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_BY_DEFAULT = TableKeys().missing_values


class Codes:
    """The missing values that a plan lists: as text, ignoring case, and as numbers in any notation."""

    def __init__(self, keys: TableKeys) -> None:
        self._notation = Notation(keys.csv)
        self.seen = set[str]()  # what is listed, and in some column that was read
        self._listed = [value.strip() for value in keys.missing_values]
        ways = (str, str.lower, str.upper, str.capitalize)
        self.texts = {  # how it may be written
            normalize(form, way(value)): value
            for value in reversed(self._listed)
            for way in ways
            for form in _FORMS
        }
        text = pa.array(self._listed, pa.large_string())
        text = text.filter(pa.array(self._notation.matches(text)))
        self._numbers = {self._exact(one): one for one in text.to_pylist()}
        self._floats = [float(number) for number in self._numbers]

    def _exact(self, written: str) -> Decimal:
        return Decimal(self._notation.plain(pa.array([written]))[0].as_py())

    def unseen(self) -> list[str]:
        """Return values listed beyond the default that occur in no column."""
        return [value for value in self._listed if value not in {*self.seen, *_BY_DEFAULT}]

    def listed(self) -> Iterator[tuple[str, Decimal | None]]:
        """Go through what is listed beyond the default, each with the number that it is."""
        numbers = {written: number for number, written in self._numbers.items()}
        yield from ((value, numbers.get(value)) for value in self._listed if value not in _BY_DEFAULT)

    def near(self, values: npt.NDArray[Any]) -> bool:
        """Tell whether one of some numbers may be listed."""
        return bool(self._floats) and bool(np.isin(values, self._floats).any())

    def cells(self, text: pa.LargeStringArray, *, default: bool = True) -> Mask:
        """Mark the cells, without space around them, that are empty or listed, by default or not."""
        listed = [one for one, value in self.texts.items() if default or value not in _BY_DEFAULT]
        missing = mask(pc.is_in(text, value_set=pa.array(["", *listed], text.type)))
        found = text.filter(pa.array(missing)).unique().to_pylist()
        self.seen.update(self.texts.get(one, "") for one in found)
        number = self._notation.matches(text) & ~missing if self._floats else missing
        if self._floats and number.any():
            text_of = text.filter(pa.array(number))
            near = np.isin(np.asarray(self._notation.plain(text_of).cast(pa.float64())), self._floats)
            same = {one: self._exact(one) for one in text_of.filter(pa.array(near)).unique().to_pylist()}
            same = {one: exact for one, exact in same.items() if exact in self._numbers}
            self.seen.update(self._numbers[exact] for exact in same.values())
            missing |= mask(pc.is_in(text, value_set=pa.array([*same], text.type)))
        return missing

    def typed(self, array: pa.Array) -> Mask:
        """Mark the cells of a column of numbers or dates that are listed."""
        missing, kind = np.zeros(len(array), dtype=bool), array.type
        floats = array.to_numpy(zero_copy_only=False) if pa.types.is_floating(kind) else None
        exact = {written: f"{number:f}" for number, written in self._numbers.items()}
        for value in () if pa.types.is_boolean(kind) else self._listed:
            written = exact.get(value, value)
            if pa.types.is_integer(kind) and value in exact:
                written = written.rstrip("0").rstrip(".") if "." in written else written
            try:
                code = pa.scalar(written)
                code = (code if floats is None else code.cast(pa.float64())).cast(kind)
            except pa.ArrowException:  # it can be no value of this type
                continue
            # Arrow compares no float16. NaN equals nothing, and is missing anyway.
            same = mask(pc.equal(array, code).fill_null(False)) if floats is None else floats == code.as_py()
            self.seen.update([value] if same.any() else [])
            missing |= same
        return missing


def code_among(values: npt.NDArray[Any]) -> str:
    """Say if a column's lowest or highest value looks like a code for a missing one, such as -999.

    Its digits are all nines (two or more), it occurs more than once, and it is further from the next value
    than that is from the value at the other end.
    """
    low, high = map(float, (values.min(), values.max())) if len(values) else (0.0, 0.0)
    for which, code, far in (("lowest", low, high), ("highest", high, low)):
        others = values[values != code] if NINES.fullmatch(str(code)) else values[:0]
        if len(others) and len(values) - len(others) > 1:
            near = float(others.min() if which == "lowest" else others.max())
            if abs(near - code) > abs(far - near):
                how = "if it is, list it under missing_values"
                return f"its {which} value may be a code for a missing value, such as -999: {how}"
    return ""


def costs(missing: Mapping[str, npt.NDArray[np.int64]], n: int) -> str:
    """Say how many of n rows columns with missing values cost, and which to leave out to keep most rows.

    `missing` has the rows in which each column has no value, of the rows that count.
    """
    gaps = np.zeros(1 + max(int(rows[-1]) for rows in missing.values()), dtype=np.int32)
    for rows in missing.values():
        gaps[rows] += 1
    lost, left = int((gaps > 0).sum()), dict(missing)
    by_share = sorted(missing.items(), key=lambda item: -len(item[1]))
    shares = ", ".join(f"{show(name)} {100 * len(rows) / n:.1f} %" for name, rows in by_share[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    said = (
        f"left out: {lost:,} of {n:,} rows ({100 * lost / n:.1f} %) with a missing value, in {shares}{more}"
    )
    out = ""
    for _ in range(min(3, len(missing) - 1)):  # each time the column without which most rows come back
        back = {name: int((gaps[rows] == 1).sum()) for name, rows in left.items()}
        best = max(back, key=lambda name: back[name])
        if 100 * back[best] < n:
            break
        gaps[left.pop(best)] -= 1
        then = f"{int((gaps > 0).sum()):,} if"
        out += f", {then} also {show(best)}" if out else f"; only {then} you exclude {show(best)}"
    kept = "; missing: middle keeps them" if 5 * lost > n else ""
    return said + out + kept
