"""One row for each id, of the several rows that a table has for it (``duplicates: {visits: sum, ...}``).

A column is combined as soon as its cells are numbers, so a missing cell, also one of a listed code, has no
part in it. An id whose cells are all missing stays missing, and counts 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa

from mpc_spearman.arrays import Array, Mask, Memory, Rows, blocks
from mpc_spearman.config.table_keys import Combination
from mpc_spearman.data.cells import Numbers
from mpc_spearman.data.refusals import Unusable, at_rows

_BLOCK = 1 << 18  # rows
_MOST_PLACES = 15  # digits after the point of decimal numbers that float64 tells apart
_NUMBERS = ("whole numbers", "real numbers", "true or false", "decimals")
_WHOLE = 2.0**53  # float64 holds whole numbers up to here
_ADVICE = "say under duplicates how they become one (sum, mean, max, min or count), or leave it out (exclude)"


@dataclass(frozen=True, eq=False, repr=False)
class IdRows:
    """Which rows of a table have the same id; ids are numbered in the order of their first rows."""

    of_row: Rows  # the number of each row's id
    first_rows: Rows  # the first row of each id

    @classmethod
    def of(cls, first_copies: Rows) -> IdRows:
        """Make groups of rows from the first row with the same id as each row."""
        first = first_copies == np.arange(len(first_copies))
        return cls((np.cumsum(first) - 1)[first_copies], np.flatnonzero(first))

    @property
    def count(self) -> int:
        """Number of ids."""
        return len(self.first_rows)


def combine(numbers: Numbers, how: Combination | None, ids: IdRows, memory: Memory) -> Numbers:
    """Combine the cells of each id into one; `Unusable` if that is not defined for the column.

    Without `how` the cells of an id that are not missing must be equal. Sums are exact: decimal numbers in
    floating point are added as the decimals that they were written as, and others are rounded once.
    """
    kind, cells = numbers.kind, _Cells(numbers.values, numbers.missing, ids, memory)
    counts = cells.counts()
    if how == "count":
        return Numbers(counts, np.zeros(ids.count, dtype=bool), "whole numbers")
    missing = counts == 0
    if how and numbers.categories:
        raise Unusable(f"its cells are {kind}, for which duplicates can be count alone, not {how}")
    if how in ("sum", "mean"):
        wide = kind == "decimals" and numbers.type is None  # of which only the order is known
        duration = numbers.type is not None and pa.types.is_duration(numbers.type)
        if wide or not (duration or kind in _NUMBERS):
            cannot = "decimals of more than 64 bits" if wide else kind
            raise Unusable(
                f"its cells are {cannot}, for which duplicates can be max, min or count, not {how}"
            )
        sums = cells.sums()
        return numbers._replace(
            values=sums if how == "sum" else sums / np.maximum(counts, 1), missing=missing
        )
    low, high = cells.extremes(np.minimum), cells.extremes(np.maximum)
    if how is None and (differ := (low != high) & ~missing).any():
        rows = at_rows(ids.first_rows[differ], "id", " whose rows have different values")
        raise Unusable(f"{rows}; {_ADVICE}")
    return numbers._replace(values=low if how == "min" else high, missing=missing)


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """The cells of a column, which are combined by their ids a block at a time."""

    values: Array
    missing: Mask
    ids: IdRows
    memory: Memory

    def _blocks(self) -> Iterator[tuple[Rows, Array]]:
        """Yield the cells that are not missing, with the number of each one's id."""
        for part in blocks(len(self.values), _BLOCK):
            present = ~self.missing[part]
            yield self.ids.of_row[part][present], self.values[part][present]

    def _zeros(self, kind: Any) -> Array:
        """Return a 0 for each id."""
        return self.memory.zeros((self.ids.count,), kind)

    def counts(self) -> Rows:
        """Return how many cells of each id are not missing."""
        counts = self._zeros(np.int64)
        for of_row, _ in self._blocks():
            np.add.at(counts, of_row, 1)
        return counts

    def extremes(self, pick: np.ufunc) -> Array:
        """Return the least or the greatest cell of each id; 0 where all are missing."""
        extremes, begun = self._zeros(self.values.dtype.type), self._zeros(np.bool_)
        for of_row, cells in self._blocks():
            new = ~begun[of_row]
            extremes[of_row[new]] = cells[new]
            begun[of_row[new]] = True
            pick.at(extremes, of_row, cells)
        return extremes

    def sums(self) -> Array:
        """Return the sum of each id's cells, of decimals in their last place; 0 where all are missing."""
        if self.values.dtype.kind != "f":
            sums = self._sums_as_whole_numbers(lambda cells: cells)
            if sums is None:
                raise Unusable("sums beyond 64 bits; use mean, or leave it out (exclude)")
            return sums
        places = self._decimal_places()
        if places is not None:
            sums = self._sums_as_whole_numbers(lambda cells: np.rint(cells * 10.0**places).astype(np.int64))
            if sums is not None:
                return sums
        of_row, cells = self.ids.of_row[~self.missing], self.values[~self.missing]
        order = np.argsort(of_row, kind="stable")
        starts = np.flatnonzero(np.diff(of_row[order], prepend=-1))
        sums, cells_of_ids = self._zeros(np.float64), np.split(cells[order], starts[1:])
        try:
            for number, cells_of_id in zip(of_row[order][starts], cells_of_ids, strict=True):
                sums[number] = fsum(cells_of_id)
        except OverflowError:
            raise Unusable("sums beyond the range of floating point") from None
        return sums

    def _sums_as_whole_numbers(self, to_whole: Callable[[Array], Array]) -> Array | None:
        """Convert cells to whole numbers and add them by id; return None if a sum may not fit 64 bits."""
        kind: Any = np.uint64 if self.values.dtype == np.uint64 else np.int64
        sums, sizes = self._zeros(kind), self._zeros(np.float64)
        for of_row, cells in self._blocks():
            numbers = to_whole(cells)
            np.add.at(sums, of_row, numbers)
            np.add.at(sizes, of_row, np.abs(numbers.astype(np.float64)))
        return None if (sizes >= np.iinfo(kind).max * (1 - 2.0**-20)).any() else sums

    def _decimal_places(self) -> int | None:
        """Return how many decimal places write every number exactly; None if floats are too imprecise."""
        places = 0
        for _, cells in self._blocks():
            largest = float(np.abs(cells).max(initial=0))
            while largest * 10.0**places < _WHOLE and places <= _MOST_PLACES:
                if (np.rint(cells * 10.0**places) / 10.0**places == cells).all():
                    break
                places += 1
            else:
                return None
        return places
