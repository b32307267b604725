"""Where a party's table comes from: files of several formats, folders of part files, tables in memory.

A table is opened once and then read column by column, so that only one column's raw values are in memory. All
wanted columns of a CSV file are read in one pass, block by block. Problems raise `Unusable` or OSError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from mpc_spearman.data.gaps import Codes, code_among
from mpc_spearman.data.ranks import Groups
from mpc_spearman.data.refusals import Unusable, show

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".parq", ".pq")
ARROW = (".arrow", ".feather")


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

    `problem` says why it cannot be used as the plan has it, and quotes no cell. `fix` is a key of the plan
    and its value that would mend that, if there is one: ``convert``, or ``encode``, whose order only the
    owner knows. `values` are anything where one is missing, and empty if an engine keeps them.
    """

    name: str
    problem: str = ""
    fix: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    values: Array = field(default_factory=lambda: np.empty(0))
    missing: Mask = field(default_factory=lambda: np.empty(0, dtype=bool))
    note: str = ""


class Source(ABC):
    """A table, opened. `hint` says what may be the matter where a column is not there."""

    names: Sequence[object]  # of all columns; those of a DataFrame need not be text
    hint = ""
    close: Callable[[], object] = staticmethod(lambda: None)
    rank: Callable[..., Groups] | None = None  # ranks a column where it is, at an engine

    def __init__(self, keys: TableKeys, rows: int | None) -> None:
        self._keys, self._rows, self.codes = keys, rows, Codes(keys)

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Announce the columns that `column` and `numbers` will ask for; read what must be read at once."""
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
        """Examine a column; a problem with its use is part of the answer."""
        name = self.name(place)
        try:
            values, missing, kind, note = self.numbers(place)
        except Unusable as unusable:
            return Column(name, str(unusable), unusable.fix)
        note = note or code_among(values[~missing] if missing.any() else values)
        return Column(name, "", {}, kind, values, missing, note)


def open_source(table: Path | ArrowTable, keys: TableKeys, rows: int | None) -> Source:
    """Open a table, of which at most the first `rows` rows are wanted."""
    if not isinstance(table, Path):
        return _InMemory(table, keys, rows)
    files = _part_files(table)
    ends = {_end(file) for file in files}
    if ends <= {*CSV}:
        return CsvFiles(files, keys, rows)
    return TypedFiles(files, keys, rows)


def _part_files(table: Path) -> list[Path]:
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
    """Return the ending of a file's name that tells its format; check that it can be read."""
    name = path.name.lower()
    end = next((end for end in CSV + PARQUET + ARROW if name.endswith(end)), "")
    if not end and path.exists():
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
        if pd.api.types.is_object_dtype(dtype):
            how = "convert the column, as with pandas.to_numeric or astype(str)"
            raise Unusable(f"Python objects of several kinds (dtype object): {how}") from None
        raise Unusable(f"{dtype}, which Arrow does not have: cast it to float64") from None
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


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
        self.paths = files
        self._files = [CsvText(file, keys.csv) for file in files]
        self._text: dict[int, list[pa.LargeStringArray]] = {}
        self._cells: dict[int, Cells] = {}
        self.names = self._files[0].names
        _alike(files, [file.names for file in self._files])
        forms = {(file.delimiter, file.skip) for file in self._files}
        if len(forms) > 1:
            raise Unusable("not all part files have the first line 'sep='; remove it, and set csv.delimiter")
        ((self.delimiter, self.skip),) = forms
        mark = next((mark for mark in ";\t|," if mark in self.names[0]), "")
        if mark and len(self.names) == 1:
            self.hint = f"its cells seem to be separated by {mark!r}: set csv.delimiter to that"

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


@contextmanager
def _readable(kind: str) -> Iterator[None]:
    """Refuse a file that Arrow cannot read, without its words: they may quote the file."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Unusable(f"it is not a readable {kind} file ({type(error).__name__})") from None


class _Parquet:
    """A Parquet file; it stays open from the first column on."""

    kind = "Parquet"

    def __init__(self, path: Path) -> None:
        self._path = path
        with pa.OSFile(str(path)) as disk:
            self.schema = pq.ParquetFile(disk).schema_arrow

    @cached_property
    def _file(self) -> pq.ParquetFile:
        # Not mapped: that would count as memory, and a file cut short kill.
        return pq.ParquetFile(pa.OSFile(str(self._path)))

    def read(self, place: int) -> pa.ChunkedArray:
        name = self.schema.names[place]
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


class _Arrow:
    """A file in Arrow's IPC format; it stays open from the first column on."""

    kind = "Arrow"

    def __init__(self, path: Path) -> None:
        self._path = path
        with pa.OSFile(str(path)) as disk:
            self.schema = pa.ipc.open_file(disk).schema

    @cached_property
    def _disk(self) -> pa.OSFile:
        return pa.OSFile(str(self._path))

    def read(self, place: int) -> pa.ChunkedArray:
        options = pa.ipc.IpcReadOptions(included_fields=[place])
        return pa.ipc.open_file(self._disk, options=options).read_all().column(0)


class TypedFiles(Source):
    """Files whose columns have types, one after the other in the order of their names.

    A column's place in them is in `places`: an index that pandas wrote is no column, unless a key names it.
    """

    def __init__(self, files: Sequence[Path], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self.paths, self._files = files, list[_Parquet | _Arrow]()
        for path in files:
            opened = _Parquet if _end(path) in PARQUET else _Arrow
            with _readable(opened.kind):
                self._files.append(opened(path))
        schema = self._files[0].schema
        _alike(files, [file.schema.names for file in self._files])
        asked = {*keys.id, *keys.exclude, *(keys.features or ())}
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        index = [name for name in index if str(name).startswith("__index_level_")]  # those without a name
        self.places = [i for i, name in enumerate(schema.names) if name not in index or name in asked]
        self.names = [schema.names[i] for i in self.places]
        if index and not asked & {*index}:
            self.hint = f"if the ids are the index that it was saved with, set id to {index[0]!r}"

    def column(self, place: int) -> pa.ChunkedArray:
        """Read a column, of one type in all files."""
        columns = []
        for file in self._files:
            with _readable(file.kind):
                columns.append(file.read(self.places[place]))
        kind = self._one([column.type for column in columns])
        chunks = [chunk for column in columns for chunk in column.cast(kind).chunks]
        return pa.chunked_array(chunks, kind).slice(0, self._rows)

    def check_type(self, place: int) -> None:
        """Refuse a column whose type is not the same in all files, by what the files say of it."""
        try:
            self._one([file.schema.types[self.places[place]] for file in self._files])
        except Unusable as unusable:
            raise Unusable(f"column {show(self.name(place))}: {unusable}") from None

    def _one(self, kinds: Sequence[pa.DataType]) -> pa.DataType:
        first = next((kind for kind in kinds if not pa.types.is_null(kind)), pa.null())
        for path, kind in zip(self.paths, kinds, strict=True):
            if kind not in (first, pa.null()):
                how = "write all of them with one type"
                raise Unusable(f"its type in {path.name} differs from the other files; {how}")
        return first
