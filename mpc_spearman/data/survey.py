"""Finds out what each column of a table holds, how its cells are written, and why it cannot be used.

For the table's owner alone, because cells are quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory
from mpc_spearman.config import Policy
from mpc_spearman.config.table_keys import Convert, Csv, TableKeys
from mpc_spearman.data.categories import flags_of
from mpc_spearman.data.cells import Categories, Numbers, can_read
from mpc_spearman.data.columns import is_text
from mpc_spearman.data.combine import IdRows, combine
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.likely_ids import LikelyIds, is_row_numbers, likely_ids
from mpc_spearman.data.notation import KINDS, NOTATIONS, SPACES, Notation, matches
from mpc_spearman.data.refusals import Unusable, show
from mpc_spearman.data.source import Source
from mpc_spearman.data.sources import open_source
from mpc_spearman.errors import TableError

#: Called before each column of a table is examined: its place, and how many there are.
Tick = Callable[[int, int], None]
#: What people and spreadsheets write where there is no value, in lower case.
_NO_VALUE = frozenset(
    (
        *("-", "--", "---", ".", "?", "??", "n.a.", "n. a.", "n.d.", "n.v.", "<na>", "#n/a", "#nv", "#null!"),
        *("k.a.", "k. a.", "k.a", "keine angabe", "unbekannt", "unknown", "missing", "not available"),
        *("#wert!", "#value!", "#div/0!", "#ref!", "#bezug!", "#name?", "#num!", "#zahl!", "inconnu"),
    )
)
_FEW = 12  # different texts of a column that may be categories, or words among values
_SAMPLE = 2_000  # different cells of a column show how numbers are written
_NO_NUMBERS = Numbers(np.empty(0), np.empty(0, dtype=bool), "")


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """What one column holds, and which keys of a plan read it."""

    name: str
    numbers: Numbers = _NO_NUMBERS
    problem: str = ""  # why it cannot be used
    convert: Convert | None = None
    #: Cells that are no values, and how many rows have each.
    words: Mapping[str, int] = field(default_factory=dict)
    #: The texts of a column of few: its categories, whose order only the owner knows.
    categories: tuple[str, ...] = ()
    flags: int = 0  # how many its categories make, if it is used so


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What a table seems to hold."""

    table: Path
    rows: int
    csv: Mapping[str, Any]  # how a CSV file is written, as far as it is not as usual
    ids: LikelyIds
    every_column: tuple[Column, ...]  # in the table's order

    @property
    def columns(self) -> list[Column]:
        """All columns but the ids."""
        return [column for column in self.every_column if column.name != self.ids.name]

    @property
    def used_columns(self) -> list[Column]:
        """The columns that a run would use."""
        return [column for column in self.columns if not column.problem]

    @property
    def features(self) -> int:
        """How many features a run would make of the columns."""
        return sum(max(1, column.flags) for column in self.used_columns)

    def differing(self, same_ids: IdRows) -> list[str]:
        """Return the used columns whose values differ between rows with the same id."""

        def differs(column: Column) -> bool:
            try:
                combine(column.numbers, None, same_ids, Memory())
            except Unusable:
                return True
            return False

        return [column.name for column in self.used_columns if differs(column)]


def survey(table: Path, tick: Tick = lambda done, of: None) -> Survey:
    """Find out what each column of a table holds, before there is a plan."""
    try:
        source, csv = _open_table(table)
        if not source.n:
            raise Unusable("it has no rows")
        places = {source.name(place): place for place, name in enumerate(source.names) if str(name).strip()}
        cells = {name: source.column(place) for name, place in places.items()}
    except (Unusable, OSError) as error:
        raise TableError(f"{table}: {error.strerror if isinstance(error, OSError) else error}") from None
    texts = {name: _Text.of(name, column) for name, column in cells.items() if is_text(column.type)}
    csv |= _notation(texts.values())
    columns = dict[str, Column]()
    for done, name in enumerate(cells):
        tick(done, len(cells))
        columns[name] = _column(name, cells[name], texts.get(name), Csv(**csv))
    ids = likely_ids({name: column.numbers for name, column in columns.items()}, cells)
    every_column = [
        column if name == ids.name else _advise_exclusion(_as_flags(column, cells[name]))
        for name, column in columns.items()
    ]
    return Survey(table, source.n, csv, ids, tuple(every_column))


def _open_table(table: Path) -> tuple[Source, dict[str, Any]]:
    """Open and read a table; of several dialects of CSV, try the usual one first.

    Also return how it is written, as keys of ``csv``.
    """
    first_problem = None
    for csv in _dialects(table):
        try:
            source = open_source(table, TableKeys(csv=Csv(**csv)))
            if len(source.names) > 1:
                source.prepare(range(len(source.names)))
                return source, csv
        except Unusable as unusable:  # as for a quote that is misplaced between other separators
            first_problem = first_problem or unusable
    raise first_problem or Unusable("it has one column only")


def _dialects(table: Path) -> Iterator[dict[str, Any]]:
    """Yield dialects in which a CSV file may be written, the usual one first."""
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


def _column(name: str, cells: pa.ChunkedArray, text: _Text | None, csv: Csv) -> Column:
    """Return what a column holds, read as most of its cells are written."""
    way = None if text is None else _conversion(text, csv)
    convert, words = way or (None, {})
    column = Column(name, convert=convert, words=words)
    try:
        numbers = open_source(pa.table({name: cells}), _keys(name, csv, convert, words)).look(0)
    except Categories as unusable:
        categories = (text or _Text.of(name, cells)).categories
        return replace(column, problem=str(unusable), categories=categories)
    except Unusable as unusable:
        return replace(column, problem=str(unusable))
    if unclear := {word: rows for word, rows in words.items() if word.lower() not in _NO_VALUE}:
        which = ", ".join(f"{show(word)} in {rows:,} cells" for word, rows in unclear.items())
        problem = f"{which} is no value like the others; if it is missing, list it under missing_values"
        return replace(column, problem=problem)
    return replace(column, numbers=numbers)


def _keys(name: str, csv: Csv, convert: Convert | None, words: Collection[str]) -> TableKeys:
    """Return the keys to read a column by."""
    converts = {name: convert} if convert else {}
    return TableKeys(csv=csv, convert=converts, missing_values={name: tuple(words)})


def _as_flags(column: Column, cells: pa.ChunkedArray) -> Column:
    """Return a column of text with few values as one whose categories become flags, if that is possible.

    Not one with a word such as "none", which can be a category or stand for a missing value.
    """
    if not column.categories or any(text.lower() == "none" for text in column.categories):
        return column
    keys, rows = TableKeys(encode={column.name: "flags"}), np.ones(len(cells), dtype=bool)
    numbers, fewest = open_source(pa.table({column.name: cells}), keys).look(0), Policy().min_rows
    try:
        flags = flags_of(column.name, numbers.values.astype(np.int16), numbers.categories, rows, fewest)
    except Unusable:
        return column
    return replace(column, numbers=numbers, problem="", flags=len(flags.categories_of))


def _advise_exclusion(column: Column) -> Column:
    """Advise against a column with one value, of which a run only warns, or with row numbers."""
    if column.problem or column.flags:
        return column
    problem, values = "", column.numbers.values[~column.numbers.missing]
    if is_row_numbers(column.numbers):
        problem = "its values are row numbers"
    elif not (values != values[:1]).any():
        problem = f"all its values are {'the same' if len(values) else 'missing'}"
    return replace(column, problem=problem and f"{problem}; leave it out (exclude)")


# ---- how text is written


@dataclass(frozen=True, eq=False, repr=False)
class _Text:
    """The different cells of a column of text that are not missing, and how many rows have each."""

    name: str
    cells: pa.LargeStringArray
    rows: npt.NDArray[np.int64]
    categories: tuple[str, ...]  # if they are few, also "none", as in none, mild, severe

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray) -> _Text:
        """Count the cells of a column."""
        counted = pc.value_counts(pc.utf8_trim_whitespace(column.cast(pa.large_string()).combine_chunks()))
        texts, rows = counted.field("values").fill_null(""), counted.field("counts").to_numpy()
        missing = Codes(TableKeys()).cells(texts)
        cells = texts.filter(pa.array(~missing))
        none = [text for text in texts.filter(pa.array(missing)).to_pylist() if text.lower() == "none"]
        few = sorted([*cells.slice(0, _FEW + 1).to_pylist(), *none])
        return cls(name, cells, rows[~missing], tuple(few) if 1 < len(few) <= _FEW else ())

    def sample(self) -> _Text:
        """Return at most some thousand of the cells."""
        places = np.arange(0, len(self.rows), max(1, len(self.rows) // _SAMPLE))
        return replace(self, cells=self.cells.take(pa.array(places)), rows=self.rows[places])

    def contains(self, mark: str) -> bool:
        """Return whether any cell contains a mark."""
        return bool(pc.any(pc.match_substring(self.cells, mark)).as_py())

    def ways(self, csv: Csv) -> Iterator[tuple[Convert | None, Mask]]:
        """Yield each way to read most cells as values, with the cells that it can read; the best first."""
        notation = Notation(csv)
        patterns = (f"^{notation.number}$", *(pattern for pattern, _ in KINDS.values()))
        ways: list[tuple[Convert | None, Mask]] = [
            (None, matches(self.cells, pattern)) for pattern in patterns
        ]
        ways += [(how, notation.converted(self.cells, how)[1]) for how in get_args(Convert)]
        for how, fits in sorted(ways, key=lambda way: -self.rows[way[1]].sum()):
            if 2 * self.rows[fits].sum() >= self.rows.sum():
                yield how, fits


def _conversion(text: _Text, csv: Csv) -> tuple[Convert | None, dict[str, int]] | None:
    """Return how a column's cells are converted, and the few that are words; None if most cannot be read.

    Of two ways, as with the 1st of February or the 2nd of January, none is chosen.
    """
    chosen, most = list[tuple[Convert | None, dict[str, int]]](), 0
    for how, fits in text.ways(csv):
        words = text.cells.filter(pa.array(~fits)).to_pylist()
        values = text.rows[fits].sum()
        if values < most or len(words) > _FEW:  # of others only one that reads as many is a second way
            continue
        if can_read(text.name, text.cells, _keys(text.name, csv, how, words)):
            chosen.append((how, dict(zip(words, text.rows[~fits].tolist(), strict=True))))
            most = values
    if len(chosen) > 1:
        return None, chosen[0][1]
    return chosen[0] if chosen else None


def _notation(texts: Collection[_Text]) -> dict[str, Any]:
    """Return keys of ``csv`` under which most cells are values, the usual way if others are not better.

    What may be a decimal mark as well, as in 1,234, only separates thousands if another column has the other
    mark where that cannot separate thousands, as in 12.5.
    """
    samples = [text.sample() for text in texts]
    marked = [text for text in samples if any(text.contains(mark) for mark in (*",.'\u2019", *SPACES))]

    def values(keys: dict[str, Any]) -> int:
        csv, words_of = Csv(**keys), dict[_Text, dict[str, int]]()
        mark = csv.thousands or ""
        for text in marked:  # all others are read alike in all notations
            # Where nothing separates thousands, the decimal mark must not be one that may.
            groups = mark and matches(text.cells, f"[0-9]{Notation(csv).mark}[0-9]{{3}}").any()
            if way := _conversion(text, csv if groups else Csv(decimal=csv.decimal)):
                words_of[text] = way[1]
        if mark in (",", "."):
            reversed_marks, point = Csv(thousands=csv.decimal, decimal=mark), Csv(decimal=mark)
            settled = any(
                text.contains(csv.decimal) and not any(text.ways(reversed_marks)) for text in words_of
            )
            unclear = [text for text in words_of if text.contains(mark) and any(text.ways(point))]
            words_of = {text: words for text, words in words_of.items() if settled or text not in unclear}
        return sum(int(text.rows.sum()) - sum(words.values()) for text, words in words_of.items())

    return max(({}, *NOTATIONS), key=values)  # of equal ones the first
