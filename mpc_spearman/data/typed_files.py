"""Files whose columns have types: Parquet and Arrow, read a column and a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.part_files import PARQUET, PartFile, check_alike
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.source import Source

_BLOCK, _AT_ONCE = 1 << 18, 1 << 20  # rows


@contextmanager
def _readable(kind: str) -> Iterator[None]:
    """Refuse a file that Arrow cannot read, without its words: they may quote the file."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Unusable(f"it is not a readable {kind} file ({type(error).__name__})") from None


class _Parquet:
    """A Parquet file; it stays open from the first column on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with pa.OSFile(str(path)) as disk:
            opened = self._opened(disk)
            self.schema, self.n = opened.schema_arrow, opened.metadata.num_rows

    @staticmethod
    def _opened(disk: pa.OSFile) -> pq.ParquetFile:
        # Spark's timestamps: as nanoseconds, Arrow's default, they would wrap around beyond 1677 to 2262.
        return pq.ParquetFile(disk, coerce_int96_timestamp_unit="us")

    @cached_property
    def _file(self) -> pq.ParquetFile:
        # Not mapped: that would count as memory, and a file cut short kill.
        return self._opened(pa.OSFile(str(self._path)))

    def kind(self, place: int) -> pa.DataType:
        """Return a column's type; of categories without a reliable order, that of their values."""
        kind = self.schema.types[place]
        if getattr(kind, "ordered", False) and not self._keeps_order(self.schema.names[place]):
            return kind.value_type
        return kind

    def blocks(self, place: int) -> Iterator[pa.Array]:
        name = self.schema.names[place]
        # Arrow takes 'a.b' for a field of a structure 'a', too.
        if self.n <= _AT_ONCE:
            read = self._file.read(columns=[name])
            yield from read.column(read.column_names.index(name)).chunks
            return
        for batch in self._file.iter_batches(_BLOCK, columns=[name]):
            yield batch.column(batch.schema.get_field_index(name))

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

    def __init__(self, path: Path) -> None:
        self._path = path
        with pa.OSFile(str(path)) as disk:
            self.schema = pa.ipc.open_file(disk).schema

    @cached_property
    def _disk(self) -> pa.OSFile:
        return pa.OSFile(str(self._path))

    @cached_property
    def n(self) -> int:
        return sum(map(len, self.blocks(0)))

    def kind(self, place: int) -> pa.DataType:
        """Return a column's type."""
        return self.schema.types[place]

    def blocks(self, place: int) -> Iterator[pa.Array]:
        reader = pa.ipc.open_file(self._disk, options=pa.ipc.IpcReadOptions(included_fields=[place]))
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i).column(0)


class TypedFiles(Source):
    """Files whose columns have types, one after the other in the order of their names.

    An index that pandas wrote is no column, unless a key names it.
    """

    def __init__(self, files: Sequence[PartFile], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._parts, self._files = files, list[_Parquet | _Arrow]()
        for part in files:
            with _readable(_kind(part)):
                self._files.append((_Parquet if part.end in PARQUET else _Arrow)(part.path))
        schema = self._files[0].schema
        check_alike(files, [file.schema.names for file in self._files])
        asked = {*keys.id, *keys.exclude, *(keys.features or ())}
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        index = [name for name in index if str(name).startswith("__index_level_")]  # those without a name
        self._places = [i for i, name in enumerate(schema.names) if name not in index or name in asked]
        self._partitions = [key for key in files[0].partition if key not in schema.names]
        self.names = [*(schema.names[i] for i in self._places), *self._partitions]
        if index and not asked & {*index}:
            self.hint = f"if the ids are the index that it was saved with, set id to {index[0]!r}"

    @cached_property
    def n(self) -> int:
        """Number of rows."""
        n = 0
        for part, file in zip(self._parts, self._files, strict=True):
            with _readable(_kind(part)):
                n += file.n
        return n if self._rows is None else min(n, self._rows)

    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Read a column, of one type in all files."""
        left, kind = self.n, self._one_type(place)
        for part, block in self._read(place):
            with _readable(_kind(part)):
                yield block.slice(0, left).cast(kind)
            left -= len(block)
            if left <= 0:
                break

    def _read(self, place: int) -> Iterator[tuple[PartFile, pa.Array]]:
        for part, file in zip(self._parts, self._files, strict=True):
            if place >= len(self._places):
                value = part.partition[self._partitions[place - len(self._places)]]
                for rows in range(0, file.n, _BLOCK):
                    yield part, pa.repeat(value, min(_BLOCK, file.n - rows))
                continue
            with _readable(_kind(part)):
                for block in file.blocks(self._places[place]):
                    yield part, block

    def _one_type(self, place: int) -> pa.DataType:
        if place >= len(self._places):
            return pa.large_string()
        kinds = []
        for part, file in zip(self._parts, self._files, strict=True):
            with _readable(_kind(part)):
                kinds.append(file.kind(self._places[place]))
        first = next((kind for kind in kinds if not pa.types.is_null(kind)), pa.null())
        for part, kind in zip(self._parts, kinds, strict=True):
            if kind not in (first, pa.null()):
                how = "write all of them with one type"
                raise Unusable(f"its type in {part.path.name} differs from the other files; {how}")
        return first


def _kind(part: PartFile) -> str:
    return "Parquet" if part.end in PARQUET else "Arrow"
