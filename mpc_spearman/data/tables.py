"""A party's table: read it, refuse what cannot be ranked, leave out what its owner excludes.

Everything here happens at one party; nothing is sent. A table leaves as a `Table`: ids as text, features as
64-bit columns without an infinite value, and without a missing one unless the plan says ``missing: middle``.
Any problem raises a `TableError` that names the party, the table, the column, how many cells, and the first
data row (counted from 1, without header and blank lines), but never a cell or an id: an error travels further
than a table may.

Kept exactly: every integer of int64 or uint64, every float64, every decimal, and ids as written. Numbers in a
CSV file with a decimal point or an exponent are float64, so two that differ only beyond 17 digits tie, and so
do whole numbers beyond 2^53 that share a column with such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory, Rows, blocks
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import Normalise, TableKeys
from mpc_spearman.data import ids as row_ids
from mpc_spearman.data.categories import CategoryFlags, flags_of
from mpc_spearman.data.choice import choose, flag_of, without_names
from mpc_spearman.data.combine import IdRows
from mpc_spearman.data.gaps import costs
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import Unusable, at_rows, count_of, listed, show
from mpc_spearman.data.source import Source
from mpc_spearman.data.sources import ArrowTable, open_source
from mpc_spearman.errors import SetupError, TableError
from mpc_spearman.installed import install

__all__ = ["Table", "read_table"]

_AT_ONCE = 1 << 20  # rows
MIN_ROWS = 3  # with two rows every rank correlation is -1, 1 or undefined
_NEEDED = f"a rank correlation needs at least {MIN_ROWS}"
_MISSING = (
    "; missing: middle puts such cells in the middle of the ranks; missing: drop_rows leaves such rows out, "
    "under alignment: intersect"
)

#: Called with how many columns are done, and how many there are.
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class RankedColumn:
    """A feature or covariate of a table, and the column of the source that it comes from."""

    name: str
    place: int  # in the source
    is_covariate: bool
    marks_missing: bool = False  # it is 1 where that column has no value
    flags: CategoryFlags | None = None  # the flags of that column's categories, of which it is one


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """One party's checked table. Its columns are read when they are ranked."""

    party: str
    name: str  # of the file or query, for errors
    source: Source
    ids: pa.LargeStringArray  # as text, unique, none empty, in order
    ranked: tuple[RankedColumn, ...]  # the features, and after them the covariates; names are unique
    m: int  # number of features
    middle: bool  # whether cells without a value are ranked
    #: Which rows of the source are this table's, in order; None for all. Rows that became one count once.
    rows: Rows | None = None
    cautions: tuple[str, ...] = ()  # for the owner alone

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features, and after them of the covariates."""
        return tuple(column.name for column in self.ranked)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, (m,)."""
        return self.columns[: self.m]

    @property
    def covariates(self) -> tuple[str, ...]:
        """The names of the columns that features are adjusted for."""
        return self.columns[self.m :]

    @property
    def nominal_columns(self) -> tuple[str, ...]:
        """The column without an order that each feature is a flag of, (m,); "" for others."""
        return tuple(column.flags.column if column.flags else "" for column in self.ranked[: self.m])

    def column(self, index: int) -> npt.NDArray[Any]:
        """Read the values of one column, (n,): contiguous int64, uint64, float64 or bool, and finite.

        Under ``missing: middle`` missing cells are masked (`numpy.ma`). Do not write to it.
        """
        column = self.ranked[index]
        if column.flags is not None:
            return column.flags.values(column.name, self.rows)
        try:
            values, missing, *_ = self.source.feature(column.place)
        except (Unusable, OSError):
            values, missing = np.empty(0), np.ones(0, dtype=bool)
        same_ids = self.source.same_ids
        changed = len(values) != (self.source.n if same_ids is None else same_ids.count)
        if self.rows is not None and not changed:
            values, missing = (
                _take_rows(cells, self.rows, self.source.memory) for cells in (values, missing)
            )
        has_gaps = bool(missing.any())
        if changed or (has_gaps and not self.middle):
            raise TableError(
                f"{self.party}: {self.name}: column {show(column.name)} changed while the table was used"
            )
        if column.marks_missing:
            return missing.astype(np.int64)
        return np.ma.masked_array(values, missing) if has_gaps else values

    def ranks(
        self,
        *,
        workers: int = 1,
        tick: Callable[[], None] = lambda: None,
        matrix: npt.NDArray[np.int32] | None = None,
    ) -> Ranks:
        """Rank all columns, the features and then the covariates; see `rank_columns`."""
        count, memory = len(self.ranked), self.source.memory
        if matrix is None:
            matrix = memory.zeros((count, self.n), np.int32)
        return rank_columns(map(self.column, range(count)), matrix, workers=workers, tick=tick, memory=memory)

    def take(self, rows: Rows) -> Table:
        """Return the table of these rows, in this order. No column is read for it."""
        chosen = rows if self.rows is None else self.rows[rows]
        return replace(self, ids=row_ids.take(self.ids, rows, self.source.memory), rows=chosen)

    def rows_in(self, whole: Table) -> Rows:
        """Return the places of this table's rows in `whole`, of which this table is a part."""
        if self.rows is None or whole.rows is None:
            return np.arange(self.n) if self.rows is None else self.rows
        return np.searchsorted(whole.rows, self.rows)

    def __repr__(self) -> str:
        """Show the shape only, so that a traceback or a log shows no cell."""
        return f"Table(party={self.party!r}, n={self.n}, m={self.m})"


def read_table(
    party: str,
    table: Path | Query | ArrowTable,
    keys: TableKeys,
    *,
    rows: int | None = None,
    normalise: Sequence[Normalise] = (),
    adjust: Sequence[str] = (),
    fewest: int = 1,
    whole: bool = False,
    tick: Tick = lambda done, of: None,
) -> Table:
    """Read and check a party's table; `TableError` if it cannot be read or used.

    `table` is a file, a folder of part files, a query, or a table of pandas, polars, pyarrow or another
    library that hands its tables to Arrow. A DataFrame's index is ignored. With `rows`, so many rows are read
    at most, and what follows them is not checked. `normalise` is done to ids, in its order. Columns to
    `adjust` for are no features, nor are flags of their missing values. `fewest` is how many rows a category
    without an order has at least, to be a column by itself. With `whole`, columns that are not used can be
    read from the table's source afterwards. Problems of several columns come in one error, a line each. What
    takes more than ``memory`` is in unnamed files in ``TMPDIR``. `tick` is called before each column.
    """
    name = str(table) if isinstance(table, (Path, Query)) else "the table"
    with _table_errors(party, name):
        source = open_source(table, keys, rows, whole=whole)
        id_places, places = choose(source.names, keys, source.hint, adjust)
        source.prepare(id_places, places)
        ids, with_id, cautions = _read_ids(source, id_places, keys, normalise)
        columns, complete, notes = _read_columns(source, places, keys, adjust, with_id, fewest, tick)
        cautions += notes
        if unnamed := without_names(source.names):
            cautions.append(unnamed)
        if unseen := source.unseen():
            cautions.append(f"missing_values lists values that no cell has: {listed(unseen)}")
        rows_used = None if complete.all() else np.flatnonzero(complete)
        pa.default_memory_pool().release_unused()  # which it keeps otherwise
        return Table(
            party,
            name,
            source,
            ids if rows_used is None else row_ids.take(ids, rows_used, source.memory),
            ranked=tuple(sorted(columns, key=lambda column: column.is_covariate)),
            m=sum(not column.is_covariate for column in columns),
            middle=keys.missing == "middle",
            rows=rows_used,
            cautions=tuple(cautions),
        )


@contextmanager
def _table_errors(party: str, name: str) -> Iterator[None]:
    """Restate an error as one that names a party and its table."""
    try:
        yield
        return
    except Unusable as unusable:
        problem = str(unusable)
    except ImportError as error:
        needed = f"{party}: {name} needs {error.name or 'grpcio'}, which is not installed"
        of_spark = "pyspark" in str(error) or error.name is None
        raise SetupError(f"{needed}. Run: {install('spark' if of_spark else 'databases')}") from None
    except FileNotFoundError:
        problem = "there is no such file"
    except OSError as error:  # permission denied, a broken disk, ...
        problem = f"it cannot be read ({error.strerror or type(error).__name__})"
    raise TableError(f"{party}: {name}: {problem}") from None


def _read_columns(
    source: Source,
    places: Sequence[int],
    keys: TableKeys,
    adjust: Sequence[str],
    with_id: Mask,
    fewest: int,
    tick: Tick,
) -> tuple[list[RankedColumn], Mask, list[str]]:
    """Read columns; return the features and covariates, a mask of the rows in use, and notes for the owner.

    After the columns themselves come the flags of their missing values.
    """
    complete, gaps = with_id.copy(), dict[str, npt.NDArray[np.uint8]]()
    columns, gap_flags, problems, notes = list[RankedColumn](), list[RankedColumn](), list[str](), list[str]()
    categories_of = dict[str, tuple[npt.NDArray[np.int16], tuple[str, ...]]]()
    for done, place in enumerate(places):
        tick(done, len(places))
        name = source.name(place)
        try:
            numbers = source.look(place)
            missing = numbers.missing & with_id
            if missing.any() and (missing == with_id).all():
                raise Unusable(f"all {len(missing):,} values are missing")
            if missing.any() and keys.missing == "error":
                gap_rows = source.data_rows(np.flatnonzero(missing))
                raise Unusable(at_rows(gap_rows, "missing value") + _MISSING)
        except Unusable as unusable:
            problems.append(f"column {show(name)}: {unusable}")
            continue
        columns.append(RankedColumn(name, place, name in adjust))
        if missing.any():
            gaps[name] = np.packbits(missing)
            if keys.missing_flags and flag_of(name) not in keys.exclude:
                gap_flags.append(RankedColumn(flag_of(name), place, name in adjust, marks_missing=True))
        if keys.missing != "middle":
            complete &= ~missing
        if numbers.categories:
            codes = np.where(numbers.missing, np.int16(-1), numbers.values)
            categories_of[name] = source.memory.keep(codes), numbers.categories
        notes += [f"column {show(name)}: {numbers.note}"] if numbers.note else []
    ranked, cautions = list[RankedColumn](), list[str]()
    for column in columns:
        if column.name not in categories_of:
            ranked.append(column)
            continue
        try:
            flags = flags_of(column.name, *categories_of[column.name], complete, fewest)
        except Unusable as unusable:
            problems.append(f"column {show(column.name)}: {unusable}")
            continue
        ranked += [replace(column, name=flag, flags=flags) for flag in flags.categories_of]
        cautions += [flags.caution] if flags.caution else []
    ranked += gap_flags
    if len(problems) > 1:
        problems.insert(0, count_of(len(problems), "bad column"))
    if problems:
        raise Unusable("\n  ".join(problems))
    n, incomplete = int(complete.sum()), int((with_id & ~complete).sum())
    if n < MIN_ROWS:
        reasons = f"{incomplete} incomplete and {int((~with_id).sum())} with a duplicate id"
        raise Unusable(f"{count_of(n, 'row')} left, without {reasons}; {_NEEDED}")
    names = sorted(column.name for column in ranked)
    if twice := [name for name, following in pairwise(names) if name == following]:
        raise Unusable(f"two columns would have the name {show(twice[0])}; exclude or rename one of them")
    return ranked, complete, [*_gap_notes(gaps, int(with_id.sum()), incomplete), *cautions, *notes]


def _take_rows(column: npt.NDArray[Any], rows: Rows, memory: Memory) -> npt.NDArray[Any]:
    """Take some rows of a column that may be in a file."""
    taken = memory.zeros((len(rows),), column.dtype.type)
    for part in blocks(len(rows), _AT_ONCE):
        taken[part] = column[rows[part]]
    return taken


def _gap_notes(gaps: Mapping[str, npt.NDArray[np.uint8]], n: int, incomplete: int) -> list[str]:
    if not gaps or incomplete:
        return [costs(gaps, n)] if gaps else []
    most = max(int(np.unpackbits(bits).sum()) for bits in gaps.values())
    share = f"up to {most / n:.1%} of a column's cells, which weakens correlations"
    return [f"missing cells of {listed([*gaps])} are put in the middle of the ranks, {share}"]


def _read_ids(
    source: Source, places: Sequence[int], keys: TableKeys, normalise: Sequence[Normalise]
) -> tuple[pa.LargeStringArray, Mask, list[str]]:
    """Read the ids; return them, a mask of the rows whose ids can be used, and notes about the other rows.

    Under ``duplicates: {...}`` these are rows made of all with one id.
    """
    if source.n < MIN_ROWS:
        raise Unusable(f"{count_of(source.n, 'row')}; {_NEEDED}")
    names, columns = [source.name(place) for place in places], []
    for name, place in zip(names, places, strict=True):
        try:
            columns.append(row_ids.id_text(source.blocks(place), normalise, source.memory))
        except Unusable as unusable:
            raise Unusable(f"column {show(name)}: {unusable}") from None
    ids = row_ids.join(names, columns, source.memory)
    if isinstance(keys.duplicates, dict):
        same_ids = source.same_ids = IdRows.of(row_ids.first_copies(ids, source.memory))
        combined = [f"{len(ids):,} rows became {same_ids.count:,}, one for each id (duplicates)"]
        all_rows = np.ones(same_ids.count, dtype=bool)
        ids_once = row_ids.take(ids, same_ids.first_rows, source.memory)
        return ids_once, all_rows, combined if same_ids.count < len(ids) else []
    all_copies, later = row_ids.repeated(ids, source.memory)
    if later.any() and keys.duplicates == "error":
        first = pc.index(ids, ids[int(later.argmax())]).as_py() + 1
        where = f"column{'s' if len(names) > 1 else ''} {listed(names)}"
        normalised = f" (after {', '.join(normalise)})" if normalise else ""
        how = (
            "duplicates: drop leaves out all rows with such ids, under alignment: intersect; duplicates: "
            "{COLUMN: sum} makes one row of them"
        )
        raise Unusable(
            f"{where}: {at_rows(later, 'duplicate id', normalised)}, which repeats data row {first}; {how}"
        )
    if not later.any():
        return ids, ~all_copies, []
    several = f"all {int((all_copies & ~later).sum()):,} ids that have several"
    return ids, ~all_copies, [f"left out: {int(all_copies.sum()):,} rows, of {several} (duplicates: drop)"]
