"""How the cells of text columns seem to be written: decimal mark, units, and words in place of values.

For a table's owner alone, because what is returned quotes cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory
from mpc_spearman.config.table_keys import Convert, Csv, TableKeys
from mpc_spearman.data.cells import MOST_CATEGORIES, TRUTHS, Cells
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import DAY_AND_TIME, NOTATIONS, SPACES, Notation, matches
from mpc_spearman.data.refusals import Unusable

#: What people and spreadsheets write where there is no value, in lower case.
_NO_VALUE = frozenset(
    (
        *("-", "--", "---", ".", "?", "??", "n.a.", "n. a.", "n.d.", "n.v.", "<na>", "#n/a", "#nv", "#null!"),
        *("k.a.", "k. a.", "k.a", "keine angabe", "unbekannt", "unknown", "missing", "not available"),
        *("#wert!", "#value!", "#div/0!", "#ref!", "#bezug!", "#name?", "#num!", "#zahl!", "inconnu"),
    )
)
_SOME = 2_000  # cells of a column show how numbers are written


@dataclass(frozen=True)
class Reading:
    """How the cells of one column are read as values."""

    convert: Convert | None
    #: Cells that are no values, and how many rows have each.
    words: Mapping[str, int] = field(default_factory=dict)

    @property
    def unclear(self) -> dict[str, int]:
        """Words that may mean something else, such as ``<5``."""
        return {word: rows for word, rows in self.words.items() if word.lower() not in _NO_VALUE}


@dataclass(frozen=True, eq=False, repr=False)
class Distinct:
    """The different cells of a column of text that are not missing, and how many rows have each."""

    name: str
    cells: pa.LargeStringArray
    rows: npt.NDArray[np.int64]

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray) -> Distinct:
        """Count the cells of a column."""
        counted = pc.value_counts(pc.utf8_trim_whitespace(column.cast(pa.large_string()).combine_chunks()))
        cells, rows = counted.field("values").fill_null(""), counted.field("counts").to_numpy()
        known = ~Codes(TableKeys()).cells(cells)
        return cls(name, cells.filter(pa.array(known)), rows[known])

    def some(self) -> Distinct:
        """Return at most some thousand of the cells."""
        places = np.arange(0, len(self.rows), max(1, len(self.rows) // _SOME))
        return Distinct(self.name, self.cells.take(pa.array(places)), self.rows[places])


def notation_of(columns: Collection[Distinct]) -> dict[str, Any]:
    """Return keys of ``csv`` under which most cells are values, the usual way if others are not better.

    What may be a decimal mark as well, as in 1,234, only separates thousands if another column has the other
    mark where that cannot separate thousands, as in 12.5.
    """
    some = [column.some() for column in columns]
    marked = [column for column in some if any(_has(column, mark) for mark in (*",.'\u2019", *SPACES))]

    def values(keys: dict[str, Any]) -> int:
        csv, read = Csv(**keys), dict[Distinct, Reading]()
        mark = csv.thousands or ""
        for column in marked:  # all others are read alike in all notations
            # Where nothing separates thousands, the decimal mark must not be one that may.
            grouped = mark and matches(column.cells, Notation(csv).mark).any()
            if one := reading(column, csv if grouped else Csv(decimal=csv.decimal)):
                read[column] = one
        if mark in (",", "."):
            other, point = Csv(thousands=csv.decimal, decimal=mark), Csv(decimal=mark)
            settled = any(_has(column, csv.decimal) and not _fits(column, other) for column in read)
            unclear = {column for column in read if _has(column, mark) and _fits(column, point)}
            read = {column: one for column, one in read.items() if settled or column not in unclear}
        return sum(int(column.rows.sum()) - sum(one.words.values()) for column, one in read.items())

    def occurs(csv: Csv) -> bool:
        groups = f"[0-9]{Notation(csv).mark}[0-9]{{3}}" if csv.thousands else ""
        return any(matches(column.cells, groups).any() for column in marked) and (
            csv.decimal == "." or any(_has(column, csv.decimal) for column in marked)
        )

    # Of equal ones the first.
    return max(({}, *(keys for keys in NOTATIONS if occurs(Csv(**keys)))), key=values)


def _has(column: Distinct, mark: str) -> bool:
    return bool(pc.any(pc.match_substring(column.cells, mark)).as_py())


def _fits(column: Distinct, csv: Csv) -> bool:
    """Return whether most cells are values if numbers are written in this way."""
    return any(2 * column.rows[fits].sum() >= column.rows.sum() for _, fits in _ways(column, csv))


def reading(column: Distinct, csv: Csv) -> Reading | None:
    """Return how a column's cells become values; None if most are no values.

    Few different cells among them may be words. Of two ways, as with the 1st of February or the 2nd of
    January, none is returned.
    """
    readings, most = list[Reading](), column.rows.sum() / 2
    for how, fits in sorted(_ways(column, csv), key=lambda way: -column.rows[way[1]].sum()):
        words = column.cells.filter(pa.array(~fits)).to_pylist()
        if column.rows[fits].sum() < most or len(words) > MOST_CATEGORIES:
            continue
        keys = TableKeys.model_validate(
            {
                "csv": csv,
                "convert": {column.name: how} if how else {},
                "missing_values": {column.name: tuple(words)},
            }
        )
        cells = Cells(column.name, keys, Codes(keys, column.name), Memory())
        try:
            cells.add(column.cells)
            cells.numbers()
        except Unusable:
            continue
        readings.append(Reading(how, dict(zip(words, column.rows[~fits].tolist(), strict=True))))
        most = column.rows[fits].sum()  # of others only one that reads as many is a second way
    if len(readings) > 1:
        return replace(readings[0], convert=None)
    return readings[0] if readings else None


def _ways(column: Distinct, csv: Csv) -> Iterator[tuple[Convert | None, Mask]]:
    """Yield each way to read cells, with the cells that it can read."""
    notation = Notation(csv)
    yield None, notation.matches(column.cells)
    for pattern in (DAY_AND_TIME, *TRUTHS):
        yield None, matches(column.cells, pattern)
    for how in get_args(Convert):
        yield how, notation.converted(column.cells, how)[1]
