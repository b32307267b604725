"""What every source of a table offers: the names of its columns, their blocks, and their numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from unicodedata import normalize

import pyarrow as pa

from mpc_spearman.arrays import Memory, Rows
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.cells import Numbers
from mpc_spearman.data.columns import ColumnReader
from mpc_spearman.data.combine import IdRows, combine
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.suspected import codes_note, suspected


class Source(ABC):
    """A table, opened, whose columns are known by their places.

    A column is read when it is asked for, block by block. `Unusable` or OSError says why it cannot be.
    """

    names: Sequence[object]  # of all columns; those of a DataFrame need not be text
    session: tuple[str, ...] = ()  # a database's settings that decide what a query's answer is
    hint = ""  # what may be the matter where a column is not there
    #: Which rows have the same id, if they become one; set once the ids are known.
    same_ids: IdRows | None = None

    def __init__(self, keys: TableKeys, rows: int | None) -> None:
        self._keys, self._rows, self._codes = keys, rows, dict[str, Codes]()
        self.memory = Memory(keys.memory_bytes)

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Announce the columns that `blocks` and `numbers` will ask for; read what must be read at once."""
        return

    def name(self, place: int) -> str:
        """Return a column's name, with accents and umlauts in the form that plans use."""
        return normalize("NFC", str(self.names[place]))

    def codes_of(self, name: str) -> Codes:
        """Return the missing values that the plan lists for a column, or for all columns."""
        key = name if isinstance(self._keys.missing_values, dict) else ""
        if key not in self._codes:
            self._codes[key] = Codes(self._keys, name)
        return self._codes[key]

    def unseen(self) -> list[str]:
        """Return values listed as missing, beyond the default, that occur in no column that was read."""
        return [value for codes in self._codes.values() for value in codes.unseen()]

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows, once the source is prepared."""

    @abstractmethod
    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Read a column as it is, block by block; all blocks are of one type."""

    def column(self, place: int) -> pa.ChunkedArray:
        """Read a column as it is, as a whole."""
        blocks = [*self.blocks(place)]
        return pa.chunked_array(blocks, blocks[0].type if blocks else pa.null())

    def numbers(self, place: int) -> Numbers:
        """Read a feature's values."""
        name = self.name(place)
        codes, blocks = self.codes_of(name), partial(self.blocks, place)
        return ColumnReader(name, blocks, self._keys, codes, self.memory, self.n).numbers()

    def feature(self, place: int) -> Numbers:
        """Read a feature's values as they are ranked: one for each id, if the plan combines rows by id."""
        return self._combined(place, self.numbers(place))

    def _combined(self, place: int, cells: Numbers) -> Numbers:
        if self.same_ids is None:
            return cells
        return combine(cells, self._keys.combination(self.name(place)), self.same_ids, self.memory)

    def data_rows(self, rows: Rows) -> Rows:
        """Return the places of rows in the table; of rows combined by id, the first row's."""
        return rows if self.same_ids is None else self.same_ids.first_rows[rows]

    def look(self, place: int) -> Numbers:
        """Read a feature's values as they are ranked, and look for codes for missing ones among its cells."""
        cells = self.numbers(place)
        numeric = cells.kind in ("whole numbers", "real numbers", "decimals", "dates or times")
        codes = suspected(cells.values, cells.missing, cells.type) if numeric else ()
        numbers = self._combined(place, cells)
        return numbers._replace(codes=codes, note=numbers.note or codes_note(codes))
