"""Where a party's table comes from: files of several formats, folders of part files, tables in memory.

A table is opened once and then read column by column, so that the raw values of one column only are in
memory. Of a CSV file all wanted columns are read in one pass, a block of rows at a time. What is wrong
with a table is `Unusable`, or OSError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from unicodedata import normalize

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.cells import Array, Cells, Mask, Numbers
from mpc_spearman.data.columns import numbers
from mpc_spearman.data.csv_text import CsvText
from mpc_spearman.data.gaps import Codes, looks_like_a_code
from mpc_spearman.data.refusals import Unusable, at

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".parq", ".pq")
ARROW = (".arrow", ".feather")

_UNNAMED_INDEX = "__index_level_"  # so pandas calls the column that it makes of an index without a name


@runtime_checkable
class ArrowTable(Protocol):
    """A table in memory that Arrow can read, such as pandas', polars' and pyarrow's own.

    The method is of Arrow's PyCapsule interface, https://arrow.apache.org/docs/format/CDataInterface.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream of record batches."""


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """What was found of one column.

    Attributes
    ----------
    place : int
        Where it is in the table.
    problem : str
        Why it cannot be used as the plan has it, and what to do; "" if it can. It quotes no cell.
    fix : mapping
        A key of the plan and its value for this column that would mend it: ``convert``, ``encode``, whose
        order only the owner knows. Empty if there is none: then ``exclude`` leaves the column out.
    kind : str
        What its cells are, in words; "" where they cannot be read.
    values : ndarray of int64, uint64 or float64
        Anything where one is missing; empty if an engine keeps them.
    missing : ndarray of bool
    code : bool
        Whether its lowest or highest value may be a code for a missing one.
    note : str
        What its owner should know of how it was read.
    """

    name: str
    place: int
    problem: str = ""
    fix: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    values: Array = field(default_factory=lambda: np.empty(0))
    missing: Mask = field(default_factory=lambda: np.empty(0, dtype=bool))
    code: bool = False
    note: str = ""


class Source(ABC):
    """A table, opened.

    Attributes
    ----------
    names : sequence
        Of all columns; those of a DataFrame need not be text.
    hint : str
        What may be the matter where a column is not there.
    separator : str
        What seems to separate the cells of a CSV file, if the plan says something else.
    close : callable
        Closes what is open.
    """

    names: Sequence[object]
    hint = separator = ""
    close: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, keys: TableKeys, rows: int | None) -> None:
        self._keys, self._rows, self.codes = keys, rows, Codes(keys)

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Be told which columns `column` and `numbers` will be asked for; read what must be read at once."""
        return

    def name(self, place: int) -> str:
        """Return a column's name, in the form of accents and umlauts that plans have it in."""
        return normalize("NFC", str(self.names[place]))

    @abstractmethod
    def column(self, place: int) -> pa.ChunkedArray:
        """Read a column as it is, by its place."""

    def numbers(self, place: int) -> Numbers:
        """Read a feature's values."""
        return numbers(self.column(place), self.name(place), self._keys, self.codes)

    def look(self, place: int) -> Column:
        """See what a column holds; what stands in the way of its use is part of the answer."""
        name = self.name(place)
        try:
            values, missing, kind, note = self.numbers(place)
        except Unusable as unusable:
            return Column(name, place, str(unusable), unusable.fix)
        code = looks_like_a_code(values[~missing] if missing.any() else values)
        return Column(name, place, "", {}, kind, values, missing, code, note)


def open_source(table: Path | ArrowTable, keys: TableKeys, rows: int | None) -> Source:
    """Open a table, of which at most the first `rows` rows are wanted."""
    if not isinstance(table, Path):
        return _InMemory(table, keys, rows)
    files = part_files(table)
    ends = {_end(file) for file in files}
    if ends <= {*CSV}:
        return CsvFiles(files, keys, rows)
    parts = [(_ParquetFile if _end(file) in PARQUET else _ArrowFile)(file, keys, rows) for file in files]
    return parts[0] if len(parts) == 1 else _Parts(parts, keys, rows)


def part_files(table: Path) -> list[Path]:
    """List the files of a table, by their names."""
    if not table.is_dir():
        return [table]
    files = sorted(file for file in table.iterdir() if not file.name.startswith((".", "_")))
    if any(file.is_dir() for file in files):
        raise Unusable("it has folders in it; put all part files into one folder")
    if not files:
        raise Unusable("it is a folder without part files")
    return files


def _end(path: Path) -> str:
    """Return what of a file's name says what it is; check that it can be read."""
    name = path.name.lower()
    end = next((end for end in CSV + PARQUET + ARROW if name.endswith(end)), "")
    if not end:
        ends = ", ".join(CSV + PARQUET + ARROW)
        raise Unusable(f"{path.name} ends in {path.suffix!r}; the name of a table ends in one of {ends}")
    if path.exists() and not path.is_file():  # a pipe could block for ever
        raise Unusable("it is not a regular file")
    path.open("rb").close()
    return end


def _alike(files: Sequence[Path], names: Sequence[Sequence[object]]) -> None:
    for file, its in zip(files, names, strict=True):
        if list(its) != list(names[0]):
            raise Unusable(f"{files[0].name} and {file.name} do not have the same columns in the same order")


def _frame_column(series: pd.Series[Any]) -> pa.ChunkedArray:
    """Turn a column of a DataFrame into Arrow's, without changing a value; NaN and the like become null."""
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        series = pd.Series(series.array.to_dense())
    elif isinstance(dtype, np.dtype) and not dtype.isnative:
        series = series.astype(dtype.newbyteorder("="))
    try:
        column = pa.Array.from_pandas(series)
    except UnicodeEncodeError:
        raise Unusable("text that is not valid Unicode") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError):  # whose text may quote a value
        if not pd.api.types.is_object_dtype(dtype):
            raise Unusable(f"{dtype}, which Arrow does not have: cast it to float64") from None
        strange = [
            not isinstance(one, (int, float, np.number)) and not _is_gap(one) for one in series.tolist()
        ]
        found = at(strange, "non-numeric value") or "numbers of several kinds"
        how = "convert the column, as with pandas.to_numeric or astype(str)"
        raise Unusable(f"Python objects (dtype object), {found}: {how}") from None
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _is_gap(value: object) -> bool:
    return value is None or value is pd.NA or value is pd.NaT


class _InMemory(Source):
    """A table in memory: pandas' column by column, since its columns may be of no type; others' by Arrow."""

    def __init__(self, table: ArrowTable, keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        if not isinstance(table, pd.DataFrame):
            try:
                arrow = pa.table(table).slice(0, rows)
            except (pa.ArrowException, ValueError, TypeError) as error:  # whose text may quote the table
                raise Unusable(
                    f"Arrow cannot take it ({type(error).__name__}): cast columns of types that Arrow lacks"
                ) from None
            self._read, self.names = arrow.column, arrow.column_names
            return
        self._read, self.names = lambda place: _frame_column(table.iloc[:rows, place]), list(table.columns)
        if not isinstance(table.index, pd.RangeIndex) or table.index.name is not None:
            self.hint = "if the ids are the DataFrame's index, pass what its reset_index() returns"

    def column(self, place: int) -> pa.ChunkedArray:
        return self._read(place)


class CsvFiles(Source):
    """CSV files, one after the other; all wanted columns are read in one pass.

    Each has the `delimiter`, and `skip` lines before its header.
    """

    def __init__(self, files: Sequence[Path], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._files = [CsvText(file, keys.csv) for file in files]
        self._text: dict[int, list[pa.LargeStringArray]] = {}
        self._cells: dict[int, Cells] = {}
        self.names = self._files[0].names
        _alike(files, [file.names for file in self._files])
        forms = {(file.delimiter, file.skip) for file in self._files}
        if len(forms) > 1:
            raise Unusable("not all part files have the first line 'sep='; remove it, and set csv.delimiter")
        ((self.delimiter, self.skip),) = forms
        if mark := self._files[0].separated_by():
            self.separator = mark
            kind = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}[mark]
            self.hint = f"its cells seem to be separated by {kind}: set csv.delimiter to {mark!r}"

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Read these columns."""
        self._text = {place: [] for place in columns}
        self._cells = {place: Cells(self.name(place), self._keys, self.codes) for place in numbers}
        left = self._rows

        def take(place: int, block: pa.LargeStringArray) -> None:
            if place in self._text:
                self._text[place].append(block)
            if place in self._cells:
                self._cells[place].add(block)

        takers = {place: partial(take, place) for place in {*columns, *numbers}}
        for file in self._files:
            count = file.read(takers, left)
            left = None if left is None else left - count

    def column(self, place: int) -> pa.ChunkedArray:
        """Give a column of text, once."""
        return pa.chunked_array(self._text.pop(place), pa.large_string())

    def numbers(self, place: int) -> Numbers:
        """Give a feature's values."""
        return self._cells[place].numbers()


class _OnDisk(Source):
    """A file with columns of its own types, of which one is read at a time."""

    kind: str

    def __init__(self, path: Path, keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self.path = path
        try:
            # What is mapped would count as memory, and a file cut short kill.
            self._disk = pa.OSFile(str(path))
            self._schema = self.open()
        except (pa.ArrowException, ValueError, OSError) as error:  # whose text may quote the file
            raise self._broken(error) from None
        about = self._schema.pandas_metadata or {}
        asked = {*keys.id, *keys.exclude, *(keys.features or ())}
        index = [name for name in about.get("index_columns", ()) if str(name).startswith(_UNNAMED_INDEX)]
        self.names = [name for name in self._schema.names if name not in index or name in asked]
        if index and not asked & {*index}:
            self.hint = f"if the ids are the index that it was saved with, set id to {index[0]!r}"

    def column(self, place: int) -> pa.ChunkedArray:
        try:
            return self.read(self._schema.names.index(self.names[place])).slice(0, self._rows)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> Unusable:
        return Unusable(f"it is not a readable {self.kind} file ({type(error).__name__})")

    @abstractmethod
    def open(self) -> pa.Schema:
        """Read what the file holds."""

    @abstractmethod
    def read(self, place: int) -> pa.ChunkedArray:
        """Read a column."""


class _ParquetFile(_OnDisk):
    kind = "Parquet"

    def open(self) -> pa.Schema:
        self._file = pq.ParquetFile(self._disk)
        return self._file.schema_arrow

    def read(self, place: int) -> pa.ChunkedArray:
        name = self._schema.names[place]
        read = self._file.read(columns=[name])  # which takes 'a.b' for a field of a structure 'a', too
        column = read.column(read.column_names.index(name))
        if getattr(column.type, "ordered", False) and not self._keeps_order(name):
            return column.cast(column.type.value_type)
        return column

    def _keeps_order(self, name: str) -> bool:
        """Tell whether categories come in the order that they were written in.

        The schema only says that they have an order. Where a row group has no dictionary page, or its writer
        makes one as values appear, what Arrow reads is the order in which values come first.
        """
        about = self._file.metadata
        groups = map(about.row_group, range(about.num_row_groups))
        columns = [group.column(i) for group in groups for i in range(about.num_columns)]
        pages = all(one.has_dictionary_page for one in columns if one.path_in_schema == name)
        return pages and (about.created_by or "").startswith(("parquet-cpp-arrow", "Polars"))


class _ArrowFile(_OnDisk):
    """A file in Arrow's IPC format; one in its streaming form, too."""

    kind = "Arrow"

    def open(self) -> pa.Schema:
        return self._opened().schema

    def read(self, place: int) -> pa.ChunkedArray:
        return self._opened(pa.ipc.IpcReadOptions(included_fields=[place])).read_all().column(0)

    def _opened(self, options: pa.ipc.IpcReadOptions | None = None) -> Any:
        self._disk.seek(0)
        magic = self._disk.read(6)
        self._disk.seek(0)
        opened = pa.ipc.open_file if magic == b"ARROW1" else pa.ipc.open_stream
        return opened(self._disk, options=options)


class _Parts(Source):
    """The files of a folder, one after the other in the order of their names."""

    def __init__(self, parts: Sequence[_OnDisk], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._parts, self.names = parts, parts[0].names
        _alike([part.path for part in parts], [part.names for part in parts])

    def column(self, place: int) -> pa.ChunkedArray:
        columns = [part.column(place) for part in self._parts]
        kinds = [column.type for column in columns if not pa.types.is_null(column.type)] or [pa.null()]
        for part, column in zip(self._parts, columns, strict=True):
            if column.type not in (kinds[0], pa.null()):
                raise Unusable(
                    f"its type in {part.path.name} differs from the other files; write all of "
                    "them with one type"
                )
        chunks = [chunk for column in columns for chunk in column.cast(kinds[0]).chunks]
        return pa.chunked_array(chunks, kinds[0]).slice(0, self._rows)
