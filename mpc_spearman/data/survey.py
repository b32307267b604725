"""What each column of a table holds, what prevents its use, and what would correct that.

For the table's owner alone, because suggestions quote cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mpc_spearman.arrays import Memory
from mpc_spearman.config import Policy
from mpc_spearman.config.table_keys import Csv, TableKeys
from mpc_spearman.data.categories import flags_of
from mpc_spearman.data.cells import Numbers
from mpc_spearman.data.columns import is_text
from mpc_spearman.data.combine import IdRows, combine
from mpc_spearman.data.likely_ids import LikelyIds, is_row_numbers, likely_ids
from mpc_spearman.data.readings import Distinct, Reading, notation_of, reading
from mpc_spearman.data.refusals import Unusable, show
from mpc_spearman.data.source import Column, Source
from mpc_spearman.data.sources import open_source
from mpc_spearman.errors import TableError

#: Called before each column of a table is read: its place, and how many there are.
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What a table seems to hold."""

    table: Path
    rows: int
    csv: Mapping[str, Any]  # how a CSV file is written, as far as it is not as usual
    ids: LikelyIds
    every: tuple[Column, ...]  # in the table's order
    readings: Mapping[str, Reading]  # of columns of text that need ``convert`` or ``missing_values``

    @property
    def columns(self) -> list[Column]:
        """All columns but the ids."""
        return [column for column in self.every if column.name != self.ids.name]

    @property
    def used(self) -> list[Column]:
        """The columns that a run would use."""
        return [column for column in self.columns if not column.problem]

    @property
    def features(self) -> int:
        """How many features a run would make of them."""
        return sum(max(1, len(column.categories)) for column in self.used)

    def differing(self, same_ids: IdRows) -> list[str]:
        """Return the used columns that differ among rows with the same id."""
        return [column.name for column in self.used if _differs(column, same_ids)]


def survey(table: Path, tick: Tick = lambda done, of: None) -> Survey:
    """See what each column of a table holds, before there is a plan for it."""
    try:
        source, places, csv = _opened(table)
        if not source.n:
            raise Unusable("it has no rows")
        columns, cells = dict[str, Column](), dict[str, pa.ChunkedArray]()
        for done, place in enumerate(places):
            tick(done, len(places))
            columns[source.name(place)] = source.look(place)
            cells[source.name(place)] = source.column(place)
    except (Unusable, OSError) as error:
        raise TableError(f"{table}: {error.strerror if isinstance(error, OSError) else error}") from None
    notation, readings = _readings(columns, cells)
    csv |= notation
    if readings or notation:
        columns |= _read_again(cells, csv, readings)
    ids = likely_ids(columns, cells)
    every = [
        column if name == ids.name else _as_categories(column, cells[name])
        for name, column in columns.items()
    ]
    return Survey(table, source.n, csv, ids, tuple(map(_useful, every)), readings)


def _opened(table: Path) -> tuple[Source, list[int], dict[str, Any]]:
    """Open and read a table; if it is CSV of another kind than its name says, by the first that fits.

    Also return the places of columns that have a name, and how it is written, as keys of ``csv``.
    """
    first = None
    for csv in _dialects(table):
        try:
            source = open_source(table, TableKeys(csv=Csv(**csv)), None)
            if len(source.names) > 1:
                places = [place for place, name in enumerate(source.names) if str(name).strip()]
                source.prepare(places, places)
                return source, places, csv
        except Unusable as unusable:  # as for a quote that is misplaced between other separators
            first = first or unusable
    raise first or Unusable("it has one column only")


def _dialects(table: Path) -> Iterator[dict[str, Any]]:
    """Yield ways in which a CSV file may be written, the usual one first."""
    start = b""
    if table.is_file():
        with table.open("rb") as file:
            start = file.read(100)
    encodings = [None, "cp1252"]
    if b"\0" in start:
        encodings = ["utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-le", None]
    for encoding in encodings:
        for mark in (None, ";", "\t", "|"):
            yield {key: value for key, value in (("delimiter", mark), ("encoding", encoding)) if value}


def _readings(
    columns: Mapping[str, Column], cells: Mapping[str, pa.ChunkedArray]
) -> tuple[dict[str, Any], dict[str, Reading]]:
    """Return how numbers in text seem to be written, and columns that need more than that to be read."""
    text = [name for name in columns if is_text(cells[name].type)]
    if not any(columns[name].problem for name in text):
        return {}, {}
    distinct = [Distinct.of(name, cells[name]) for name in text]
    notation = notation_of(distinct)
    readings = {column.name: one for column in distinct if (one := reading(column, Csv(**notation)))}
    return notation, {name: one for name, one in readings.items() if one.convert or one.words}


def _read_again(
    cells: Mapping[str, pa.ChunkedArray], csv: Mapping[str, Any], readings: Mapping[str, Reading]
) -> dict[str, Column]:
    """Return the columns of text as these readings read them; refuse columns with unclear words."""
    keys = TableKeys.model_validate(
        {
            "csv": csv,
            "convert": {name: one.convert for name, one in readings.items() if one.convert},
            "missing_values": {name: tuple(one.words) for name, one in readings.items() if one.words},
        }
    )
    text = {name: column for name, column in cells.items() if is_text(column.type)}
    source, columns = open_source(pa.table(text), keys, None), dict[str, Column]()
    for place, name in enumerate(text):
        column = source.look(place)
        if not column.problem and name in readings and readings[name].unclear:
            words = [f"{show(word)} in {rows:,} cells" for word, rows in readings[name].unclear.items()]
            what = f"{', '.join(words)} is no value like the others; if it is missing"
            column = replace(column, problem=f"{what}, list it under missing_values")
        columns[name] = column
    return columns


def _as_categories(column: Column, cells: pa.ChunkedArray) -> Column:
    """Return a column of text with few values as one whose categories become flags, if they can.

    Not one with a word such as "none", which can be a category or stand for a missing value.
    """
    words = column.fix.get("encode")
    if not isinstance(words, list) or any(word.lower() == "none" for word in words):
        return column
    keys, rows = TableKeys(encode={column.name: "flags"}), np.ones(len(cells), dtype=bool)
    read = open_source(pa.table({column.name: cells}), keys, None).look(0)
    try:
        flags = flags_of(column.name, read.values.astype(np.int16), read.categories, rows, Policy().min_rows)
    except Unusable:
        return column
    names = tuple(name.removeprefix(f"{column.name}=") for name in flags.categories_of)
    return replace(read, fix=column.fix, categories=names)


def _useful(column: Column) -> Column:
    """Mark a column that says nothing: of one value, of which a run only warns, or of row numbers."""
    if column.categories:
        return column
    known = column.values[~column.missing]
    if column.problem or (len(known) and (known != known[0]).any() and not is_row_numbers(column)):
        return column
    what = "all its values are the same" if len(known) else "all its values are missing"
    what = "its values are row numbers" if is_row_numbers(column) else what
    return replace(column, problem=f"{what}; leave it out (exclude)")


def _differs(column: Column, same_ids: IdRows) -> bool:
    try:
        combine(Numbers(column.values, column.missing, column.kind), None, same_ids, Memory())
    except Unusable:
        return True
    return False
