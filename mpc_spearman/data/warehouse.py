"""A table that an engine holds and ranks: it returns only ids, rows with missing cells, and ranks.

The engine keeps the answer of the owner's query as a temporary table, its rows numbered in the order of
`order_by` and the ids; where its user may make none, DuckDB in this process keeps a copy. Numbers, dates and
times are compared as the engine compares them. If a text column has few different cells, these are read here
by the rules for all tables (:mod:`mpc_spearman.data.cells`), and go back with their numbers. If it has many,
the engine reads them as numbers, dates or times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from weakref import finalize

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data import expressions
from mpc_spearman.data.cells import INFINITE, Cells, Rows
from mpc_spearman.data.columns import is_text, named
from mpc_spearman.data.databases import connect, quoted
from mpc_spearman.data.notation import Notation
from mpc_spearman.data.ranking import place_ranks
from mpc_spearman.data.ranks import Groups
from mpc_spearman.data.refusals import EngineFailed, Unusable, at_rows, count_of, listed, show
from mpc_spearman.data.source import Column, Source
from mpc_spearman.data.suspected import LIKELY, MOST, among, said_of, written

_CELLS, _ORDER, _COMMON = "mpc_spearman_cells", "mpc_spearman_order", "mpc_spearman_common"
_CHOSEN, _WORDS = "mpc_spearman_chosen", "mpc_spearman_words"
_MOST_WORDS = 100_000
_BLOCK, _PART, _SAMPLE = 1 << 20, 1 << 22, 1 << 14  # rows
_TEXT = pa.large_string()


class _Reading(NamedTuple):
    """How a column is read, of a table that has it: rows with their `key`, and the rows without."""

    known: Callable[[Any], Any]
    missing: Callable[[Any], Any]


class Warehouse(Source):
    """A table at an engine; see `Source`."""

    def __init__(self, asked: Query, keys: TableKeys, rows: int | None) -> None:
        super().__init__(keys, rows)
        self._asked, self._engine = asked, connect(asked, self.memory.limit)
        self.close = finalize(self, self._engine.close)  # a forgotten one, too
        try:  # on lines of its own, for a comment at its end
            self._query = f"SELECT * FROM (\n{(asked.query or '').strip().removesuffix(';')}\n) AS answer"
            self._fields = [*self._engine.table(f"{self._query} LIMIT 0").schema]
            self.session = self._engine.session()
        except BaseException:
            self.close()
            raise
        self.names = [field.name for field in self._fields]
        self._kinds: dict[int, Any] = {}
        self._readings: dict[int, _Reading] = {}
        self._chosen: Rows | None = None
        self._count = 0

    def prepare(self, columns: Sequence[int], numbers: Sequence[int] = ()) -> None:
        """Have the engine keep these columns, with numbered rows."""
        by = [self._place(name) for name in (*self._asked.order_by, *self._keys.id)]
        places = [*dict.fromkeys((*by, *columns, *numbers))]
        try:
            self._engine.keep(_CELLS, self._of_query(places))
        except EngineFailed as failed:
            if failed.state not in ("42501", "25006"):  # no right to; a replica that is read-only
                raise
            # Nothing can be kept there, so DuckDB keeps it here; what only the engine can read comes as text.
            self._engine = self._engine.copied(_CELLS, self._of_query(places, True), self.memory.limit)
            self.close = finalize(self, self._engine.close)
        kept = self._engine.table(f"SELECT * FROM {_CELLS} LIMIT 0").schema
        self._kinds = {place: self._kind(kept.field(f"c{place}")) for place in places}
        table = self._table()
        self._count = n = self._engine.number(table.count())
        order = table.select(u="r", **{f"o{i}": self._cells(place, table) for i, place in enumerate(by)})
        order, before = self._in_buckets(order, order.o0, n)
        numbered = expressions.numbered(order, [f"o{i}" for i in range(len(by))], before).select("u", "r")
        if self._rows is not None:
            self._count, numbered = min(n, self._rows), numbered.filter(numbered.r < self._rows)
        self._engine.keep(_ORDER, self._engine.sql(numbered))

    def _place(self, name: str) -> int:
        for place in range(len(self.names)):
            if self.name(place) == name:
                return place
        has = listed([*map(str, self.names)])
        raise Unusable(f"table.order_by: there is no column {show(name)}; it has {has}")

    def _of_query(self, places: Sequence[int], plain: bool = False) -> str:
        """Select columns of the query; with `plain`, those as text that Arrow has no type for."""
        names = [quoted(self._fields[place].name, '"') for place in places]
        texts = [plain and self._foreign(place) for place in places]
        cells = (f"CAST({name} AS TEXT)" if text else name for name, text in zip(names, texts, strict=True))
        asked = ", ".join(f"{cell} AS c{place}" for place, cell in zip(places, cells, strict=True))
        return f"SELECT row_number() OVER () AS u, {asked} FROM ({self._query}) AS asked"

    def _in_buckets(self, table: Any, key: Any, n: int) -> tuple[Any, dict[int, int]]:
        """Divide a large table into buckets of about `_PART` rows, and count the rows before each."""
        if n < 2 * _PART:
            return table, {}
        some = table.filter(ibis.random() < _SAMPLE / n) if n > _SAMPLE else table
        sample = self._engine.table(some.select(key=key).order_by("key")).column(0).to_pylist()
        values = [value for value in sample if value is not None and value == value]
        step = max(1, len(values) * _PART // n)
        table = expressions.bucketed(table, key, [*dict.fromkeys(values[step::step])])
        counted = self._engine.table(table.group_by("b").aggregate(n=table.count()).order_by("b"))
        ends = np.cumsum(_numpy(counted["n"]).astype(np.int64))
        return table, dict(zip(counted["b"].to_pylist(), [0, *ends.tolist()], strict=False))

    def _foreign(self, place: int) -> bool:
        """Tell whether Arrow lacks a type of PostgreSQL, so that its cells have to come as text."""
        return isinstance(self._fields[place].type, pa.BaseExtensionType)

    def _kind(self, field: pa.Field) -> Any:
        """Return a column's type as Ibis calls it; the name of one that cannot be ranked."""
        kind = field.type
        if self._engine.dialect == "sqlite":  # whose columns have no type but those of their cells
            said = self._engine.table(f"SELECT DISTINCT typeof({field.name}) AS t FROM {_CELLS}")
            found = {*said["t"].to_pylist()}
            if "blob" in found:
                return "binary"
            return dt.unknown if "text" in found else dt.float64 if "real" in found else dt.int64
        if _is_numeric(field):
            return dt.Decimal()
        if is_text(kind):
            return dt.string
        if pa.types.is_dictionary(kind) or "uuid" in str(kind) or "unnamed" in str(kind):  # enumerations
            return dt.unknown
        numbers_or_times = pa.types.is_primitive(kind) and not pa.types.is_interval(kind)
        if numbers_or_times or pa.types.is_decimal(kind) or pa.types.is_null(kind):
            return dt.DataType.from_pyarrow(kind)
        return named(kind)

    def _table(self, order: str = "") -> Any:
        """Return the table, its rows with their numbers `r` of an order, or any without one."""
        kinds = {f"c{place}": kind for place, kind in self._kinds.items() if not isinstance(kind, str)}
        table = ibis.table({"u": "int64", **kinds}, name=_CELLS)
        if not order:
            return table.rename(r="u")
        rows = ibis.table({"u": "int64", "r": "int64"}, name=order)
        return table.join(rows, "u").select("r", *kinds)

    def _cells(self, place: int, table: Any) -> Any:
        if isinstance(kind := self._kinds[place], str):
            raise Unusable(f"{kind}, not numbers: cast it to float64, or leave it out (exclude)")
        cells = table[f"c{place}"]
        return cells.cast("string") if kind.is_unknown() else cells

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._count

    def blocks(self, place: int) -> Iterable[pa.Array]:
        """Read a column as it is, in the order of the rows."""
        if isinstance(self._kinds[place], str):
            query = f"SELECT c{place} FROM {_CELLS} JOIN {_ORDER} USING (u) ORDER BY r"
        else:
            table = self._table(_ORDER)
            cells = self._cells(place, table)
            cells = cells.cast("string") if self._foreign(place) else cells
            query = self._engine.sql(table.select("r", cell=cells).order_by("r").select("cell"))
        is_id = _is_numeric(self._fields[place]) and self.name(place) in self._keys.id
        for batch in self._engine.batches(query):
            if is_id and pc.any(pc.match_substring(batch.column(0), ".")).as_py():
                raise Unusable("ids of type numeric with decimals: cast them to text or to int64")
            yield batch.column(0)

    def look(self, place: int) -> Column:
        """See what a column holds, as far as the engine tells."""
        name = self.name(place)
        try:
            self._readings[place] = self._read(place, name)
            missing = np.zeros(self._count, dtype=bool)
            missing[self._missing(place, _ORDER)] = True
            codes = self._suspected(place)
        except EngineFailed as failed:
            raise EngineFailed(f"column {show(name)}: {failed}") from None
        except Unusable as unusable:
            return Column(name, str(unusable), unusable.fix)
        return Column(name, missing=missing, note=said_of(codes), codes=codes)

    def _suspected(self, place: int) -> list[tuple[str, int]]:
        """Return values of a column of numbers that may be codes for missing ones."""
        known = self._readings[place].known(self._all())
        if not known.key.type().is_numeric():
            return []
        both = self._engine.table(known.aggregate(low=known.key.min(), high=known.key.max())).to_pylist()[0]
        if not any(LIKELY.fullmatch(written(float(end or 0), None)) for end in both.values()):
            return []  # to count all values takes much longer than to find the lowest and the highest one
        counts = known.group_by("key").aggregate(n=known.count())
        ends = dict[float, int]()
        for order in (counts.key.asc(), counts.key.desc()):
            rows = self._engine.table(counts.order_by(order).limit(MOST)).to_pylist()
            ends.update({float(row["key"]): row["n"] for row in rows})
        values = sorted(ends)
        return among(np.array(values), np.array([ends[value] for value in values]), self._count, None)

    def _all(self) -> Any:
        """Return the rows that count, without an order if all do, which spares a join."""
        return self._table("" if self._rows is None else _ORDER)

    def _missing(self, place: int, order: str) -> Rows:
        missing = self._readings[place].missing
        if not self._engine.number(missing(self._all()).count()):
            return np.zeros(0, np.int64)
        return np.sort(_numpy(self._engine.table(missing(self._table(order)))["r"]))

    def _read(self, place: int, name: str) -> _Reading:
        cells = self._cells(place, self._table())
        if not cells.type().is_string():
            for key, names in (("encode", self._keys.encode), ("convert", self._keys.convert)):
                if name in names:
                    what = named(self._fields[place].type)
                    raise Unusable(f"{key} is for columns of text, and this is {what}; take it out of {key}")
            return self._of_values(name, lambda table: self._cells(place, table))
        table = self._all()
        table = table.select(word=self._cells(place, table))
        for some in (table.limit(4 * _MOST_WORDS), table):  # some rows mostly tell
            if self._engine.number(some.word.nunique()) > _MOST_WORDS:
                return self._of_text(place, name)
        return self._of_words(place, name)

    def _of_values(self, name: str, cells: Callable[[Any], Any]) -> _Reading:
        """Read numbers, dates or times, as the engine compares them."""
        listed, listed_codes = dict[str, Any](), self.codes_of(name)

        def gaps(table: Any) -> tuple[Any, Any]:
            key = cells(table)
            codes = {value: expressions.has(key, value, number) for value, number in listed_codes.listed()}
            listed.update({value: found for value, found in codes.items() if found is not None})
            return expressions.gaps(key, [*listed.values()], self._engine.dialect)

        def known(table: Any) -> Any:
            return table.filter(~gaps(table)[0]).select("r", key=cells(table))

        table = self._all()
        infinite = gaps(table)[1].any()
        asked = {f"k{i}": found.any() for i, found in enumerate(listed.values())}
        (seen,) = self._engine.table(table.aggregate(infinite=infinite, **asked)).to_pylist()
        if seen.pop("infinite"):
            rows = self._table(_ORDER)
            wrong = self._engine.table(rows.filter(gaps(rows)[1]).select("r"))["r"]
            raise Unusable(f"{at_rows(np.sort(_numpy(wrong)), 'infinite value')}{INFINITE}")
        listed_codes.seen.update(value for value, found in zip(listed, seen.values(), strict=True) if found)
        return _Reading(known, lambda table: table.filter(gaps(table)[0]).select("r"))

    def _of_words(self, place: int, name: str) -> _Reading:
        """Read the different cells of a column here, and have the engine keep what each stands for."""

        def words(table: Any) -> Any:
            return table.select("r", word=self._cells(place, table))

        there = words(self._all())
        there = there.filter(there.word.notnull())
        text = self._engine.table(there.select("word").distinct())["word"].cast(_TEXT).combine_chunks()
        found = Cells(name, self._keys, self.codes_of(name), self.memory)
        found.add(text)
        try:
            values, missing, *_ = found.numbers()
        except Unusable as unusable:
            among = f" among its {len(text)} different cells"
            said = re.sub(", the first in data row [0-9]+", among, str(unusable))
            raise Unusable(said, unusable.fix) from None
        kept = pa.array(~missing)
        here = pa.table({"word": text.filter(kept).cast(pa.string()), "key": pa.array(values).filter(kept)})
        self._engine.put(f"{_WORDS}_{place}", here.to_reader())
        listed = ibis.table({"word": "string", "key": str(values.dtype)}, name=f"{_WORDS}_{place}")

        def without(table: Any) -> Any:
            joined = words(table).left_join(listed, "word").select("r", "key")
            return joined.filter(joined.key.isnull()).select("r")

        return _Reading(lambda table: words(table).join(listed, "word").select("r", "key"), without)

    def _of_text(self, place: int, name: str) -> _Reading:
        """Have the engine read a column of text with many different cells, all of one kind."""
        many, notation = f"text with more than {_MOST_WORDS:,} different cells", Notation(self._keys.csv)
        if name in self._keys.encode or name in self._keys.convert or self._engine.dialect == "sqlite":
            raise Unusable(f"{many}: cast it to a number or a date in the query, or leave it out (exclude)")
        nothing = [*self.codes_of(name).texts]

        def written(table: Any) -> tuple[Any, dict[str, Any]]:
            return expressions.written(self._cells(place, table), notation, nothing)

        table = self._all()
        asked = {kind: table.count(where=cells) for kind, cells in written(table)[1].items()}
        (counts,) = self._engine.table(table.aggregate(**asked)).to_pylist()
        known = self._count - counts["missing"]
        kinds = {"whole": "int64", "number": "float64", "date": "date", "time": "timestamp"}
        kind = next((kind for how, kind in kinds.items() if counts[how] == known), None)
        if kind is None:
            rows = self._table(_ORDER)
            found = written(rows)[1]
            first = self._engine.number(rows.r.min(where=~found["missing"] & ~found["number"]))
            what = count_of(known - counts["number"], "non-numeric value")
            raise Unusable(
                f"{what}, the first in data row {first + 1}, in {many}, which must be numbers as "
                "csv.decimal and csv.thousands say, or ISO dates: list what stands for missing values under "
                "missing_values, cast it in the query, or leave it out (exclude)"
            )
        grouped = kind == "float64" and self._keys.csv.thousands is None and counts["grouped"] == known
        if grouped and (counts["marked"] < known or notation.decimal == ","):
            how = "if it separates thousands, set csv.thousands to it, else to none"
            raise Unusable(f"three digits follow each {notation.decimal!r}: {how}")

        def values(table: Any) -> Any:
            plain, found = written(table)
            return found["missing"].ifelse(None, plain).cast(kind)

        try:
            reading = self._of_values(name, values)
            self._engine.number(reading.known(table).key.max())  # which converts every cell
            return reading
        except EngineFailed:
            raise Unusable("a number beyond 64 bits, or a date that does not exist") from None

    def rank(self, place: int, rows: Rows | None, out: NDArray[np.int32], *, flag: bool) -> Groups:
        """Have the engine rank a column over some rows (None: all), and take the ranks block by block.

        With `flag`, whether a value is missing is ranked.
        """
        order = _ORDER if rows is None else self._take(rows)
        gaps, n = self._missing(place, order), len(out)
        if flag:
            others = np.setdiff1d(np.arange(n), gaps, assume_unique=True)
            k = len(others)
            below = ((others, np.zeros(k, int), np.full(k, k)), (gaps, np.full(n - k, k), np.full(n - k, n)))
            return place_ranks(out, below, gaps[:0])
        known = self._readings[place].known(self._table(order))
        known, before = self._in_buckets(known, known.key, n)
        answer = self._engine.batches(self._engine.sql(expressions.ranks(known, before)))
        return place_ranks(out, (tuple(map(_numpy, batch.columns)) for batch in answer), gaps)

    def _take(self, rows: Rows) -> str:
        """Have the engine keep some rows, numbered in their order."""
        if self._chosen is not rows:
            parts = ((i, rows[i : i + _BLOCK]) for i in range(0, len(rows), _BLOCK))
            blocks = (pa.record_batch({"row": one, "place": np.arange(i, i + len(one))}) for i, one in parts)
            schema = pa.schema({"row": pa.int64(), "place": pa.int64()})
            self._engine.put(_COMMON, pa.RecordBatchReader.from_batches(schema, blocks))
            self._engine.keep(_CHOSEN, f"SELECT u, place AS r FROM {_ORDER} JOIN {_COMMON} ON r = row")
            self._chosen = rows
        return _CHOSEN


def _is_numeric(field: pa.Field) -> bool:
    """Tell whether a column is PostgreSQL's ``numeric``, which comes as text."""
    about = field.metadata or {}  # of version 1.12, the last for Python 3.10, under the second key alone
    return b"numeric" in (about.get(b"POSTGRESQL:type"), about.get(b"ADBC:postgresql:typname"))


def _numpy(column: Any) -> Any:
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
