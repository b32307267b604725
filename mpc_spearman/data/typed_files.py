"""Files whose columns have types: Parquet and Arrow, read a column and a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mpc_spearman.arrays import blocks
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.part_files import PARQUET, PartFile, check_alike
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.source import Source

_BLOCK, _AT_ONCE = 1 << 18, 1 << 20  # rows


class _Parquet:
    """A Parquet file, which stays open."""

    def __init__(self, path: Path) -> None:
        # Not mapped: that would count as memory, and a file cut short kill. Spark's timestamps would, as
        # nanoseconds, Arrow's default, wrap around beyond 1677 to 2262.
        self._file = pq.ParquetFile(pa.OSFile(str(path)), coerce_int96_timestamp_unit="us")
        self.schema, self.n = self._file.schema_arrow, self._file.metadata.num_rows

    def kind(self, place: int) -> pa.DataType:
        """Return a column's type; of categories without a reliable order, that of their values.

        The schema only says that they have an order. Where a row group has no dictionary page, or its writer
        makes one as values appear, what Arrow reads is the order in which values come first.
        """
        kind, metadata = self.schema.types[place], self._file.metadata
        if not getattr(kind, "ordered", False):
            return kind
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
        name = self.schema.names[place]
        in_order = all(chunk.has_dictionary_page for chunk in chunks if chunk.path_in_schema == name)
        in_order &= (metadata.created_by or "").startswith(("parquet-cpp-arrow", "Polars"))
        return kind if in_order else kind.value_type

    def blocks(self, place: int) -> Iterator[pa.Array]:
        """Read a column."""
        name = self.schema.names[place]
        # Arrow takes 'a.b' for a field of a structure 'a', too.
        if self.n <= _AT_ONCE:
            table = self._file.read(columns=[name])
            yield from table.column(table.column_names.index(name)).chunks
            return
        for batch in self._file.iter_batches(_BLOCK, columns=[name]):
            yield batch.column(batch.schema.get_field_index(name))


class _Arrow:
    """A file in Arrow's IPC format, which stays open."""

    def __init__(self, path: Path) -> None:
        self._disk = pa.OSFile(str(path))
        self.schema = pa.ipc.open_file(self._disk).schema

    @cached_property
    def n(self) -> int:
        return sum(map(len, self.blocks(0)))

    def kind(self, place: int) -> pa.DataType:
        """Return a column's type."""
        return self.schema.types[place]

    def blocks(self, place: int) -> Iterator[pa.Array]:
        """Read a column."""
        reader = pa.ipc.open_file(self._disk, options=pa.ipc.IpcReadOptions(included_fields=[place]))
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i).column(0)


class TypedFiles(Source):
    """Files whose columns have types, one after the other in the order of their names.

    An index that pandas wrote is no column, unless a key names it.
    """

    def __init__(self, files: Sequence[PartFile], keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._parts = files
        with self._readable():
            self._files = [(_Parquet if part.end in PARQUET else _Arrow)(part.path) for part in files]
        schema = self._files[0].schema
        check_alike(files, [file.schema.names for file in self._files])
        keys_name = {*keys.id, *keys.exclude, *(keys.features or ())}
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        index = [name for name in index if str(name).startswith("__index_level_")]  # those without a name
        self._places = [i for i, name in enumerate(schema.names) if name not in index or name in keys_name]
        partitions = [key for key in files[0].partition if key not in schema.names]
        self.names = [*(schema.names[i] for i in self._places), *partitions]
        if index and not keys_name & {*index}:
            self.hint = f"if the ids are the index that it was saved with, set id to {index[0]!r}"

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Refuse a file that Arrow cannot read, without Arrow's message, which may quote the file."""
        try:
            yield
        except (pa.ArrowException, ValueError, OSError) as error:
            kind = "Parquet" if self._parts[0].end in PARQUET else "Arrow"
            raise Unusable(f"it is not a readable {kind} file ({type(error).__name__})") from None

    @cached_property
    def n(self) -> int:
        """Number of rows."""
        with self._readable():
            n = sum(file.n for file in self._files)
        return n if self._rows is None else min(n, self._rows)

    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Read a column, of one type in all files."""
        remaining, kind = self.n, self._one_type(place)
        with self._readable():
            for part, file in zip(self._parts, self._files, strict=True):
                if place < len(self._places):
                    file_blocks = file.blocks(self._places[place])
                else:
                    value = part.partition[str(self.names[place])]
                    file_blocks = (
                        pa.repeat(value, len(range(file.n)[rows])) for rows in blocks(file.n, _BLOCK)
                    )
                for block in file_blocks:
                    yield block.slice(0, remaining).cast(kind)
                    remaining -= len(block)
                    if remaining <= 0:
                        return

    def _one_type(self, place: int) -> pa.DataType:
        if place >= len(self._places):
            return pa.large_string()
        kinds = [file.kind(self._places[place]) for file in self._files]
        first = next((kind for kind in kinds if not pa.types.is_null(kind)), pa.null())
        for part, kind in zip(self._parts, kinds, strict=True):
            if kind not in (first, pa.null()):
                how = "write all of them with one type"
                raise Unusable(f"its type in {part.path.name} differs from the other files; {how}")
        return first
