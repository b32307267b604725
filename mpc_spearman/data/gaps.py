"""Missing values: which values a plan lists as missing, the rows they cost, and what their owner is told."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Literal
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.notation import DAY_AND_TIME, Notation, mask, matches, shortest
from mpc_spearman.data.refusals import show

_MOST_NAMED = 10
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_BY_DEFAULT = ("NA", "N/A", "NaN", "NULL", "None")


class Codes:
    """The missing values that a plan lists for a column.

    Text is compared without case, numbers and dates however they are written.
    """

    def __init__(self, keys: TableKeys, name: str = "") -> None:
        self._notation = Notation(keys.csv)
        self.seen = set[str]()  # what is listed, and in some column that was read
        listed = keys.missing_values
        if isinstance(listed, dict):
            listed = (*_BY_DEFAULT, *listed.get(name, ()))
        self._listed = [value.strip() for value in listed]
        ways = (str, str.lower, str.upper, str.capitalize)
        self.texts = {  # how it may be written
            normalize(form, way(value)): value
            for value in reversed(self._listed)
            for way in ways
            for form in _FORMS
        }
        text = pa.array(self._listed, pa.large_string())
        numbers = text.filter(pa.array(self._notation.matches(text))).to_pylist()
        self._numbers = {self._exact(number): number for number in numbers}
        self._floats = [float(number) for number in self._numbers]
        times = text.filter(pa.array(matches(text, DAY_AND_TIME))).to_pylist()
        self._times = dict(zip(shortest(pa.array(times, text.type)).to_pylist(), times, strict=True))

    def _exact(self, written: str) -> Decimal:
        return Decimal(self._notation.plain(pa.array([written]))[0].as_py())

    def unseen(self) -> list[str]:
        """Return the values that the plan lists, beyond the default ones, and that no column has."""
        return [value for value in self._listed if value not in {*self.seen, *_BY_DEFAULT}]

    def near(self, values: npt.NDArray[Any]) -> bool:
        """Return whether any of these numbers may be a listed value."""
        return bool(self._floats) and bool(np.isin(values, self._floats).any())

    def cells(self, text: pa.LargeStringArray, *, default: bool = True) -> Mask:
        """Mark the stripped cells that are empty or listed, in the plan or, with `default`, by default."""
        listed = {form: value for form, value in self.texts.items() if default or value not in _BY_DEFAULT}
        missing = self._mark_listed(text, {"": "", **listed})
        if self._floats and (number := self._notation.matches(text) & ~missing).any():
            text_of = text.filter(pa.array(number))
            near = np.isin(np.asarray(self._notation.plain(text_of).cast(pa.float64())), self._floats)
            exact = {cell: self._exact(cell) for cell in text_of.filter(pa.array(near)).unique().to_pylist()}
            missing |= self._mark_listed(
                text, {cell: self._numbers[code] for cell, code in exact.items() if code in self._numbers}
            )
        if self._times and matches(text, DAY_AND_TIME).any():
            missing |= self._mark_listed(shortest(text), self._times)
        return missing

    def _mark_listed(self, text: pa.LargeStringArray, listed: Mapping[str, str]) -> Mask:
        """Mark the cells whose text is a key of `listed`; note the listed values of these keys as seen."""
        among = mask(pc.is_in(text, value_set=pa.array([*listed], text.type)))
        if among.any():
            self.seen.update(listed[cell] for cell in text.filter(pa.array(among)).unique().to_pylist())
        return among

    def typed(self, array: pa.Array) -> Mask:
        """Mark the cells of a column of numbers or dates that are listed values."""
        missing, kind = np.zeros(len(array), dtype=bool), array.type
        floats = array.to_numpy(zero_copy_only=False) if pa.types.is_floating(kind) else None
        for value in () if pa.types.is_boolean(kind) else self._listed:
            for code in self._converted(value, kind):
                if (
                    floats is not None
                ):  # Arrow compares no float16. NaN equals nothing, and is missing anyway.
                    equal = floats == code.as_py()
                else:
                    equal = mask(pc.equal(array, code).fill_null(False))
                self.seen.update([value] if equal.any() else [])
                missing |= equal
        return missing

    def _converted(self, value: str, kind: pa.DataType) -> list[pa.Scalar]:
        """Convert a listed value to a type; a day becomes two instants, in UTC and in the column's zone."""
        exact = {written: f"{number:f}" for number, written in self._numbers.items()}
        times = {written: time for time, written in self._times.items()}
        written: Any = exact.get(value, times.get(value, value))
        if pa.types.is_integer(kind) and value in exact:
            written = written.rstrip("0").rstrip(".") if "." in written else written
        scalars = list[pa.Scalar]()
        zones: list[str | None] = [None]
        if value in times and not pa.types.is_time(kind):
            zones = [*{"UTC", kind.tz}] if pa.types.is_timestamp(kind) and kind.tz else zones
        for zone in zones:
            with suppress(pa.ArrowException, ValueError):  # it can be no value of this type
                code = pa.scalar(written)
                if value in times:
                    code = code.cast(pa.timestamp("us"))
                    code = code if zone is None else pc.assume_timezone(code, zone)
                elif pa.types.is_floating(kind):
                    code = code.cast(pa.float64())
                scalars.append(code.cast(kind))
        return scalars


def costs(missing: Mapping[str, npt.NDArray[np.uint8]], n: int) -> str:
    """Say how many of n rows are lost to missing values, and which columns to leave out to keep most rows.

    `missing` has a bit for each row of the table: whether the column has no value there, and the row counts.
    """
    gaps, columns = np.zeros(8 * max(map(len, missing.values())), dtype=np.int32), dict(missing)
    for bits in missing.values():
        gaps += np.unpackbits(bits)
    rows_lost = int((gaps > 0).sum())
    of_column = {name: int(np.unpackbits(bits).sum()) for name, bits in missing.items()}
    by_share = sorted(of_column.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{show(name)} {100 * count / n:.1f} %" for name, count in by_share[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    of_all = f"{rows_lost:,} of {n:,} rows ({100 * rows_lost / n:.1f} %)"
    hint = ""
    for _ in range(min(3, len(missing) - 1)):  # each time the column without which most rows come back
        alone = np.packbits(gaps == 1)
        rows_back = {name: int(np.unpackbits(bits & alone).sum()) for name, bits in columns.items()}
        best = max(rows_back, key=lambda name: rows_back[name])
        if 100 * rows_back[best] < n:
            break
        gaps -= np.unpackbits(columns.pop(best))
        then = f"{int((gaps > 0).sum()):,} if"
        hint += f", {then} also {show(best)}" if hint else f"; only {then} you exclude {show(best)}"
    hint += "; missing: middle keeps them" if 5 * rows_lost > n else ""
    return f"left out: {of_all} with a missing value, in {shares}{more}{hint}"
