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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory, blocks
from mpc_spearman.config import Query
from mpc_spearman.config.table_keys import Normalise, TableKeys
from mpc_spearman.data import ids as row_ids
from mpc_spearman.data.categories import CategoryFlags, flags_of
from mpc_spearman.data.choice import choose, flag_of, without_names
from mpc_spearman.data.combine import IdRows
from mpc_spearman.data.gaps import costs
from mpc_spearman.data.ranking import Place, rank_columns
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import Unusable, at, at_rows, count_of, listed, show
from mpc_spearman.data.source import Source
from mpc_spearman.data.sources import ArrowTable, open_source
from mpc_spearman.errors import SetupError, TableError
from mpc_spearman.installed import install

__all__ = ["Table", "read_table"]

_AT_ONCE = 1 << 20  # rows
MIN_ROWS = 3  # with two rows every rank correlation is -1, 1 or undefined
_NEEDED = f"a rank correlation needs at least {MIN_ROWS}"

#: Called with how many columns are done, and how many there are.
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """One party's checked table. Its columns are read when they are ranked."""

    party: str
    name: str  # of the file or query, for errors
    source: Source
    ids: pa.LargeStringArray  # as text, unique, none empty, in order
    features: tuple[str, ...]  # unique
    places: tuple[int, ...]  # in the source, of each feature's column, and then of each covariate's
    flags: frozenset[str]  # columns that say which values of their column are missing
    middle: bool  # whether cells without a value are ranked
    #: Which rows of the source are this table's, in order; None for all. Rows that became one count once.
    rows: npt.NDArray[np.int64] | None = None
    cautions: tuple[str, ...] = ()  # for the owner alone
    #: The columns that features are adjusted for.
    covariates: tuple[str, ...] = ()
    #: Of columns that are flags of categories (``encode: flags``), which flags these are.
    nominal: Mapping[str, CategoryFlags] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @property
    def m(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """The features, and after them the covariates."""
        return self.features + self.covariates

    @property
    def nominal_columns(self) -> tuple[str, ...]:
        """The column without an order that each feature is a flag of, (m,); "" for others."""
        return tuple(self.nominal[name].column if name in self.nominal else "" for name in self.features)

    def column(self, index: int) -> npt.NDArray[Any]:
        """Read the values of one column, (n,): contiguous int64, uint64, float64 or bool, and finite.

        Under ``missing: middle`` missing cells are masked (`numpy.ma`). It may be a view of the caller's
        data: do not write to it.
        """
        name, memory = self.columns[index], self.source.memory
        if name in self.nominal:
            return self.nominal[name].values(name, self.rows)
        try:
            values, missing, *_ = self.source.feature(self.places[index])
        except (Unusable, OSError):
            values, missing = np.empty(0), np.ones(0, dtype=bool)
        same_ids = self.source.same_ids
        changed = len(values) != (self.source.n if same_ids is None else same_ids.count)
        if self.rows is not None and not changed:
            values, missing = (_some(whole, self.rows, memory) for whole in (values, missing))
        has_gaps = bool(missing.any())
        if changed or (has_gaps and not self.middle):
            raise TableError(
                f"{self.party}: {self.name}: column {show(name)} changed while the table was used"
            )
        if name in self.flags:
            return missing.astype(np.int64)
        return np.ma.masked_array(values, missing) if has_gaps else values

    def ranks(
        self, *, workers: int = 1, tick: Callable[[], None] = lambda: None, place: Place | None = None
    ) -> Ranks:
        """Rank all columns, the features and then the covariates; see `rank_columns`."""
        count, memory = len(self.columns), self.source.memory
        columns = map(self.column, range(count))
        return rank_columns(columns, count, workers=workers, tick=tick, place=place, memory=memory)

    def take(self, rows: npt.NDArray[np.int64]) -> Table:
        """Return the table of these rows, in this order. No column is read for it."""
        chosen = rows if self.rows is None else self.rows[rows]
        return replace(self, ids=row_ids.take(self.ids, rows, self.source.memory), rows=chosen)

    def rows_in(self, whole: Table) -> npt.NDArray[np.int64]:
        """Return the places of these rows in the table that they are rows of."""
        if self.rows is None or whole.rows is None:
            return np.arange(self.n) if self.rows is None else self.rows
        return np.searchsorted(whole.rows, self.rows)

    def __repr__(self) -> str:
        """Show the shape only, so that a traceback or a log shows no cell."""
        return f"Table(party={self.party!r}, n={self.n}, m={self.m})"


def read_table(
    party: str,
    source: Path | Query | ArrowTable,
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

    `source` is a file, a folder of part files, a query, or a table of pandas, polars, pyarrow or another
    library that hands its tables to Arrow. A DataFrame's index is ignored. With `rows`, so many rows are read
    at most, and what follows them is not checked. `normalise` is done to ids, in its order. Columns to
    `adjust` for are no features, nor are flags of their missing values. `fewest` is how many rows a category
    without an order has at least, to be a column by itself. With `whole`, columns that are not used can be
    read from the table's source afterwards. Problems of several columns come in one error, a line each. What
    takes more than ``memory`` is in unnamed files in ``TMPDIR``. `tick` is called before each column.
    """
    name = str(source) if isinstance(source, (Path, Query)) else "the table"

    def fail(text: str) -> TableError:
        return TableError(f"{party}: {name}: {text}")

    try:
        if isinstance(source, Query):
            from mpc_spearman.data.answer import Answer  # here, as it needs libraries of its own

            opened: Source = Answer(source, keys, rows, whole=whole)
        else:
            opened = open_source(source, keys, rows)
        table = _read(party, name, opened, keys, normalise, adjust, fewest, tick)
        pa.default_memory_pool().release_unused()  # which it keeps otherwise
        return table
    except Unusable as unusable:
        raise fail(str(unusable)) from None
    except ImportError as error:
        why = f"{party}: {name} needs {error.name or 'grpcio'}, which is not installed"
        of_spark = "pyspark" in str(error) or error.name is None
        raise SetupError(f"{why}. Run: {install('spark' if of_spark else 'databases')}") from None
    except FileNotFoundError:
        raise fail("there is no such file") from None
    except OSError as error:  # permission denied, a broken disk, ...
        raise fail(f"it cannot be read ({error.strerror or type(error).__name__})") from None


def _read(
    party: str,
    name: str,
    source: Source,
    keys: TableKeys,
    normalise: Sequence[Normalise],
    adjust: Sequence[str],
    fewest: int,
    tick: Tick,
) -> Table:
    id_places, places = choose(source.names, keys, source.hint, adjust)
    source.prepare(id_places, places)
    ids, kept, repeats = _ids(source, id_places, keys, normalise)
    complete, used, flags = kept.copy(), dict[str, int](), dict[str, int]()
    gaps, problems, notes = dict[str, npt.NDArray[np.uint8]](), list[str](), list[str]()
    nominal = dict[str, tuple[npt.NDArray[np.int16], tuple[str, ...]]]()
    category_flags = dict[str, CategoryFlags]()
    for done, place in enumerate(places):
        tick(done, len(places))
        feature, problem = source.name(place), ""
        try:
            column = source.look(place)
        except Unusable as unusable:
            problem = str(unusable)
        else:
            missing = column.missing & kept
            if keys.missing_flags and missing.any() and flag_of(feature) not in keys.exclude:
                flags[flag_of(feature)] = place
            if missing.any() and (missing == kept).all():
                problem = f"all {len(missing):,} values are missing"
            elif missing.any() and keys.missing == "error":
                where = at_rows(source.data_rows(np.flatnonzero(missing)), "missing value")
                problem = (
                    f"{where}; missing: middle puts such cells in the "
                    "middle of the ranks; missing: drop_rows leaves such rows out, under alignment: intersect"
                )
        if problem:
            problems.append(f"column {show(feature)}: {problem}")
            continue
        if missing.any():
            gaps[feature] = np.packbits(missing)
        if keys.missing != "middle":
            complete &= ~missing
        used[feature] = place
        if column.categories:
            of_rows = source.memory.keep(np.where(column.missing, np.int16(-1), column.values))
            nominal[feature] = of_rows, column.categories
        notes += [f"column {show(feature)}: {column.note}"] if column.note else []
    for column_name, cells in nominal.items():
        try:
            category_flags[column_name] = flags_of(column_name, *cells, complete, fewest)
        except Unusable as unusable:
            problems.append(f"column {show(column_name)}: {unusable}")
    if len(problems) > 1:
        problems.insert(0, count_of(len(problems), "bad column"))
    if problems:
        raise Unusable("\n  ".join(problems))
    duplicates, n = len(ids) - int(kept.sum()), int(complete.sum())
    incomplete = len(ids) - duplicates - n
    if n < MIN_ROWS:
        others = f"{incomplete} incomplete and {duplicates} with a duplicate id"
        raise Unusable(f"{count_of(n, 'row')} left, without {others}; {_NEEDED}")
    rows = None if n == len(ids) else np.flatnonzero(complete)
    if twice := used.keys() & flags.keys():
        raise Unusable(f"missing_flags: there is a column {show(min(twice))} already; exclude or rename it")
    of_feature = dict[str, CategoryFlags]()
    for its in category_flags.values():
        if twice := (used.keys() | flags.keys() | of_feature.keys()) & its.categories_of.keys():
            raise Unusable(f"encode: there is a column {show(min(twice))} already; exclude or rename it")
        of_feature |= dict.fromkeys(its.categories_of, its)
    cautions = [repeats] if repeats else []
    cautions += [_cost_of(gaps, int(kept.sum()), incomplete)] if gaps else []
    cautions += [its.caution for its in category_flags.values() if its.caution]
    cautions += [*notes, without_names(source.names)] if without_names(source.names) else notes
    if unseen := source.unseen():
        cautions.append(f"missing_values lists values that no cell has: {listed(unseen)}")

    adjusting = {*adjust, *map(flag_of, adjust)}
    names = sorted({**used, **flags}, key=lambda name: name in adjusting)
    of_each = {
        name: category_flags[name].categories_of if name in category_flags else (name,) for name in names
    }
    columns = {column: {**used, **flags}[name] for name in names for column in of_each[name]}
    covariates = tuple(column for name in names if name in adjusting for column in of_each[name])
    return Table(
        party,
        name,
        source,
        ids if rows is None else row_ids.take(ids, rows, source.memory),
        features=tuple(columns)[: len(columns) - len(covariates)],
        places=tuple(columns.values()),
        flags=frozenset(flags),
        middle=keys.missing == "middle",
        rows=rows,
        cautions=tuple(cautions),
        covariates=covariates,
        nominal=of_feature,
    )


def _some(column: npt.NDArray[Any], rows: npt.NDArray[np.int64], memory: Memory) -> npt.NDArray[Any]:
    """Take some rows of a column that may be in a file."""
    some = memory.zeros((len(rows),), column.dtype.type)
    for part in blocks(len(rows), _AT_ONCE):
        some[part] = column[rows[part]]
    return some


def _cost_of(gaps: Mapping[str, npt.NDArray[np.uint8]], n: int, incomplete: int) -> str:
    if incomplete:
        return costs(gaps, n)
    most = max(int(np.unpackbits(bits).sum()) for bits in gaps.values())
    share = f"up to {most / n:.1%} of a column's cells, which weakens correlations"
    return f"missing cells of {listed([*gaps])} are put in the middle of the ranks, {share}"


def _ids(
    source: Source, places: Sequence[int], keys: TableKeys, normalise: Sequence[Normalise]
) -> tuple[pa.LargeStringArray, Mask, str]:
    """Read the ids, which rows can be kept by their ids, and what becomes of the others, in words.

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
        same = source.same_ids = IdRows.of(row_ids.first_copies(ids, source.memory))
        combined = f"{len(ids):,} rows became {same.count:,}, one for each id (duplicates)"
        whole = np.ones(same.count, dtype=bool)
        return row_ids.take(ids, same.first_rows, source.memory), whole, combined * (same.count < len(ids))
    all_copies, later = row_ids.repeated(ids, source.memory)
    if later.any() and keys.duplicates == "error":
        first = pc.index(ids, ids[int(later.argmax())]).as_py() + 1
        where = f"column{'s' if len(names) > 1 else ''} {listed(names)}"
        made = f" (after {', '.join(normalise)})" if normalise else ""
        how = (
            "duplicates: drop leaves out all rows with such ids, under alignment: intersect; duplicates: "
            "{COLUMN: sum} makes one row of them"
        )
        raise Unusable(f"{where}: {at(later, 'duplicate id', made)}, which repeats data row {first}; {how}")
    left_out = ""
    if later.any():
        several = f"all {int((all_copies & ~later).sum()):,} ids that have several"
        left_out = f"left out: {int(all_copies.sum()):,} rows, of {several} (duplicates: drop)"
    return ids, ~all_copies, left_out
