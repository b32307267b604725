"""Where a party's table comes from: files of several formats, folders of part files, tables in memory.

All wanted columns of CSV files are read in one pass; other files and tables are read a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.categories import CategoryCells
from mpc_spearman.data.cells import Cells, Numbers, keep_text
from mpc_spearman.data.columns import cells_of
from mpc_spearman.data.csv_text import CsvText
from mpc_spearman.data.part_files import CSV, PartFile, check_alike, part_files
from mpc_spearman.data.refusals import Unusable, show
from mpc_spearman.data.source import Source
from mpc_spearman.data.typed_files import TypedFiles


@runtime_checkable
class ArrowTable(Protocol):
    """A table in memory that Arrow can read, such as pandas', polars' and pyarrow's own.

    The method is of Arrow's PyCapsule interface, https://arrow.apache.org/docs/format/CDataInterface.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream of record batches."""


def open_source(
    table: Path | Query | ArrowTable, keys: TableKeys, rows: int | None = None, *, whole: bool = False
) -> Source:
    """Open a table, of which at most the first `rows` rows are wanted; all columns of a query if `whole`."""
    if isinstance(table, Query):
        from mpc_spearman.data.answer import Answer  # here, as it needs libraries of its own

        return Answer(table, keys, rows, whole=whole)
    if not isinstance(table, Path):
        return _InMemory(table, keys, rows)
    files = part_files(table)
    if all(file.end in CSV for file in files):
        return CsvFiles(files, keys, rows)
    return TypedFiles(files, keys, rows)


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
        if isinstance(table, pd.DataFrame):
            self._column: Callable[[int], pa.ChunkedArray] = lambda place: _frame_column(
                table.iloc[:rows, place]
            )
            self.names = list(table.columns)
            self._n = len(table)
            if not isinstance(table.index, pd.RangeIndex) or table.index.name is not None:
                self.hint = "if the ids are the DataFrame's index, pass what its reset_index() returns"
            return
        arrow = _arrow(table).slice(0, rows)
        self._column, self.names, self._n = arrow.column, arrow.column_names, arrow.num_rows

    @property
    def n(self) -> int:
        return self._n if self._rows is None else min(self._n, self._rows)

    def blocks(self, place: int) -> Iterable[pa.Array]:
        column = self._column(place)
        return column.chunks or [pa.array([], column.type)]


def _arrow(table: Any) -> pa.Table:
    """Convert a table to Arrow; the error names the first column of a type that Arrow lacks."""
    try:
        return pa.table(table)
    except (pa.ArrowException, ValueError, TypeError) as error:  # whose text may quote the table
        for name in getattr(table, "columns", ()):
            try:
                pa.table(table[[name]])
            except (pa.ArrowException, ValueError, TypeError):
                problem = f"column {show(str(name))}: {table[name].dtype}, which Arrow does not have"
                raise Unusable(f"{problem}: cast it to float64, an id to text") from None
            except Exception:
                break
        how = "cast columns of types that Arrow lacks"
        raise Unusable(f"Arrow cannot take it ({type(error).__name__}): {how}") from None


class CsvFiles(Source):
    """CSV files, one after the other; all wanted columns are read in one pass."""

    def __init__(self, files: Sequence[PartFile], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._parts, self._files = files, [CsvText(file.path, keys.csv) for file in files]
        self._text = dict[int, list[pa.LargeStringArray]]()
        self._cells = dict[int, Cells | CategoryCells]()
        self._n = 0
        columns = self._files[0].names
        check_alike(files, [file.names for file in self._files])
        self.names = [*columns, *(key for key in files[0].partition if key not in columns)]
        if len({(file.delimiter, file.skip) for file in self._files}) > 1:
            raise Unusable("not all part files have the first line 'sep='; remove it, and set csv.delimiter")
        mark = next((mark for mark in ";\t|, " if mark in columns[0]), "")
        if mark and len(columns) == 1:
            self.hint = f"its cells seem to be separated by {mark!r}: set csv.delimiter to that"

    @property
    def n(self) -> int:
        """Number of rows read."""
        return self._n

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Read these columns."""
        self._text, self._n = {place: [] for place in columns}, 0
        self._cells = {
            place: cells_of(self.name(place), self._keys, self.codes_of(self.name(place)), self.memory)
            for place in numbers
        }
        places, width = {*columns, *numbers}, len(self._files[0].names)
        for part, file in zip(self._parts, self._files, strict=True):
            rows = None if self._rows is None else self._rows - self._n
            for batch in file.read([place for place in places if place < width], rows):
                self._n += batch.num_rows
                for place in places:
                    if place < width:
                        self._read_file(place, batch.column(f"f{place}"))
                    else:
                        value = pa.scalar(part.partition[str(self.names[place])], pa.large_string())
                        self._read_file(place, pa.repeat(value, batch.num_rows))

    def _read_file(self, place: int, block: pa.LargeStringArray) -> None:
        if place in self._text:
            self._text[place].append(keep_text(block, self.memory))
        if place in self._cells:
            self._cells[place].add(block)

    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Return a column of text; only once."""
        return self._text.pop(place) or [pa.array([], pa.large_string())]

    def numbers(self, place: int) -> Numbers:
        """Return a feature's values."""
        return self._cells[place].numbers()
