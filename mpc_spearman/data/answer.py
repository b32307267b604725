"""The answer of a query, kept as typed columns and read by the rules for all tables.

The engine sorts the rows by `order_by` and the ids. Its answer is taken over in one pass, and the connection
closed; blocks of a column that exceed ``memory`` are in unnamed files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.cells import NO_INFINITE, Numbers
from mpc_spearman.data.databases import connect, quoted
from mpc_spearman.data.notation import mask
from mpc_spearman.data.refusals import Unusable, at_rows, listed, show
from mpc_spearman.data.source import Source

_BLOCK = 1 << 18  # rows
# The types of cells of SQLite, each able to hold those before it.
_TYPES = (pa.null(), pa.int64(), pa.float64(), pa.string(), pa.binary())
_MOST_DIGITS = {38: pa.decimal128, 76: pa.decimal256}


class Answer(Source):
    """The answer of a query; see `Source`.

    It is `whole` if columns that are neither ids nor features are needed afterwards.
    """

    def __init__(self, query: Query, keys: TableKeys, rows: int | None, *, whole: bool) -> None:
        super().__init__(keys, rows)
        self._query, self._whole, self._count = query, whole, 0
        # On lines of its own, for a comment at its end.
        self._from = f"FROM (\n{(query.query or '').strip().removesuffix(';')}\n) AS answer"
        with connect(query, self.memory.limit) as database:
            self._columns = database.columns(f"SELECT * {self._from}")
            self.session = database.settings()
        self.names = [column.name for column in self._columns]
        self._blocks = dict[int, list[tuple[pa.DataType, NDArray[np.uint8]]]]()

    @property
    def n(self) -> int:
        """Number of rows, once the source is prepared."""
        return self._count

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Take these columns over, the first time."""
        if self._blocks:
            return
        for place in columns:
            if self._columns[place].kind == "foreign" and not self._whole:
                raise Unusable(
                    f"column {show(self.name(place))}: ids of type {self._columns[place].type_name}, neither "
                    "text, whole numbers nor dates: cast them to text or to int64"
                )
        places = range(len(self.names)) if self._whole else [*dict.fromkeys((*columns, *numbers))]
        self._blocks = {place: [] for place in places}
        with closing(self._in_order(places)) as batches:
            for rows in _in_blocks(batches):
                self._count += len(rows)
                for place, block in zip(places, rows.columns, strict=True):
                    written = pa.record_batch([block], ["cells"]).serialize()
                    data = self.memory.keep(np.frombuffer(written, np.uint8))
                    self._blocks[place].append((block.type, data))

    def _in_order(self, places: Sequence[int]) -> Generator[pa.RecordBatch, None, None]:
        """Run the query; yield these columns, the rows in the plan's order, a batch at a time.

        Whoever takes the batches does so outside of `connect`, which calls every error one of the engine.
        """
        with connect(self._query, self.memory.limit) as database:
            cells = ", ".join(f"{self._columns[place].cells} AS c{place}" for place in places)
            by = (self._columns[self._place(name)].name for name in (*self._query.order_by, *self._keys.id))
            order = ", ".join(f"answer.{quoted(name, database.mark)} NULLS LAST" for name in by)
            limit = "" if self._rows is None else f" LIMIT {self._rows}"
            yield from database.batches(f"SELECT {cells} {self._from} ORDER BY {order}{limit}")

    def _place(self, name: str) -> int:
        names = [self.name(place) for place in range(len(self.names))]
        if name not in names:
            raise Unusable(f"table.order_by: there is no column {show(name)}; it has {listed(names)}")
        return names.index(name)

    def numbers(self, place: int) -> Numbers:
        """Read a feature's values."""
        column = self._columns[place]
        if column.kind == "foreign":
            cast = "cast it to float64, or leave it out (exclude)"
            raise Unusable(f"{column.type_name}, not numbers: {cast}")
        return super().numbers(place)

    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Read a column as it is, in the order of the rows."""
        column = self._columns[place]
        if column.kind == "numbers":
            yield from self._decimals(place)
        elif column.kind == "categories":
            categories = pa.array(column.categories, pa.string())
            for text in self._read(place):
                places = pc.index_in(text, value_set=categories)
                yield pa.DictionaryArray.from_arrays(places, categories, ordered=True)
        else:
            yield from self._read(place)

    def _read(self, place: int) -> Iterator[pa.Array]:
        types = {block_type for block_type, _ in self._blocks[place]}
        widest = max(types, key=_TYPES.index) if len(types) > 1 else None
        for block_type, data in self._blocks[place]:
            rows = pa.ipc.read_record_batch(pa.py_buffer(data), pa.schema([("cells", block_type)]))
            yield rows.column(0) if widest is None else _cast(rows.column(0), widest)

    def _decimals(self, place: int) -> Iterator[pa.Array]:
        """Read numbers that have arrived as text, exactly."""
        whole, scale, infinite, start = 0, 0, list[NDArray[np.int64]](), 0
        for text in self._read(place):
            infinite.append(start + np.flatnonzero(mask(pc.match_substring(text, "Inf").fill_null(False))))
            point = pc.find_substring(text, ".")
            length = pc.binary_length(text)
            before = pc.if_else(pc.less(point, 0), length, point)
            whole = max(whole, pc.max(before).as_py() or 0)
            scale = max(scale, (pc.max(pc.subtract(length, before)).as_py() or 1) - 1)
            start += len(text)
        if len(rows := np.concatenate([np.zeros(0, np.int64), *infinite])):
            raise Unusable(f"{at_rows(rows, 'infinite value')}{NO_INFINITE}")
        digits = next((most for most in _MOST_DIGITS if whole + scale <= most), None)
        if digits is None:
            raise Unusable("numbers of more than 75 digits: round them, or cast them to float8, in the query")
        for text in self._read(place):
            numbers = pc.if_else(pc.equal(text, "NaN"), None, text)
            yield numbers.cast(_MOST_DIGITS[digits](digits, scale))


def _in_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches of rows into blocks."""
    pending = list[pa.RecordBatch]()
    for batch in batches:
        pending.append(batch)
        if sum(map(len, pending)) >= _BLOCK:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
            pending.clear()
    if pending:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


def _cast(block: pa.Array, widest: pa.DataType) -> pa.Array:
    """Return a block of SQLite's cells as the type that holds the cells of all blocks."""
    if widest in (pa.string(), pa.binary()) and block.type in (pa.int64(), pa.float64()):
        block = pa.array([None if cell is None else repr(cell) for cell in block.to_pylist()], pa.string())
    return block.cast(widest, safe=False)
