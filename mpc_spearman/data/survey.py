"""What each column of a table holds, what prevents its use, and what would correct that.

For the table's owner alone, because suggestions under ``encode`` quote cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Memory
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.ids import id_text, repeated
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.source import Column, Source
from mpc_spearman.data.sources import open_source
from mpc_spearman.errors import TableError

_FEW = 10  # rows
# Names of columns of ids: by a word of theirs, or by an ending as in patientId; uric_acid is none.
_WORDS = "id|ids|key|nr|no|number|mrn|pid|uid|uuid|patient|person|subject|participant|member|insured"
_ID = re.compile(rf"(?i:(^|[^a-z])({_WORDS})([^a-z]|$))|[a-z](Id|ID|Nr|No)$")


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What was found of a table."""

    rows: int
    separator: str  # of a CSV file's cells, if it is not what the file's name says
    id: str  # the column that seems to hold the ids, if one does
    ids: pa.ChunkedArray  # its cells
    doubt: str  # why that may be wrong; "" if it is not likely
    repeated: int  # rows whose id another row has too
    columns: tuple[Column, ...]  # all others, in the table's order


def survey(table: Path) -> Survey:
    """See what each column of a table holds, before there is a plan for it."""
    try:
        source, separator = _opened(table)
        every = [place for place, name in enumerate(source.names) if str(name).strip()]
        source.prepare(every, every)
        columns = {source.name(place): source.look(place) for place in every}
        texts = {source.name(place): source.column(place) for place in every}
    except (Unusable, OSError) as error:
        raise TableError(f"{table}: {error.strerror if isinstance(error, OSError) else error}") from None
    ids, copies, doubt = _ids(columns, texts)
    others = tuple(_useful(column) for name, column in columns.items() if name != ids)
    cells = texts[ids] if ids else pa.chunked_array([], pa.large_string())
    return Survey(source.n, separator, ids, cells, doubt, copies, others)


def _opened(table: Path) -> tuple[Source, str]:
    """Open a table; if what separates its cells is not what its name says, by the first mark that does."""
    keys, first = TableKeys(), None
    for mark in ("", ";", "\t", "|"):
        csv = keys.csv.model_copy(update={"delimiter": mark or None})
        try:
            source = open_source(table, keys.model_copy(update={"csv": csv}), None)
        except Unusable as unusable:  # as for a quote that is misplaced between other separators
            first = first or unusable
            continue
        if len(source.names) > 1:
            return source, mark
    raise first or Unusable("it has one column only")


def _useful(column: Column) -> Column:
    """Mark a column that says nothing: of one value, of which a run only warns, or of row numbers."""
    known = column.values[~column.missing]
    if column.problem or (len(known) and (known != known[0]).any() and not _row_numbers(column)):
        return column
    what = "all its values are the same" if len(known) else "all its values are missing"
    what = "its values are row numbers" if _row_numbers(column) else what
    return replace(column, problem=f"{what}; leave it out (exclude)")


def _row_numbers(column: Column) -> bool:
    """Return whether a column counts the rows from 0 or 1; of few rows it may do so by chance."""
    n, values = len(column.values), column.values
    if column.problem or column.kind != "whole numbers" or n < _FEW or values[0] not in (0, 1):
        return False
    return not column.missing.any() and bool((np.diff(values) == 1).all())


def _ids(columns: Mapping[str, Column], texts: Mapping[str, pa.ChunkedArray]) -> tuple[str, int, str]:
    """Find the column of ids, how many rows have another row's, and why it may be another column.

    It is `id`, the plan's default; or one whose name says so, or with a value in each row and none twice,
    best both. Row numbers are ids only if nothing else can be.
    """
    copies, memory = dict[str, int](), Memory()
    for name, cells in texts.items():
        if columns[name].kind in ("real numbers", "dates or times", "true or false") and name != "id":
            continue
        with suppress(Unusable):
            ids = id_text(cells.chunks, ["strip"], memory)
            if name == "id" or not pc.any(pc.equal(ids, "")).as_py():
                copies[name] = int(repeated(ids, memory)[0].sum())
    counted = {name for name in copies if _row_numbers(columns[name])}
    named = {name for name in copies if _ID.search(name)}
    likely = [name for name in copies if name == "id" or name in named or not copies[name]]
    if not likely:
        return "", 0, ""
    best, *others = sorted(
        likely, key=lambda name: (name in counted, name != "id", name not in named, copies[name] > 0)
    )
    also = [name for name in others if name in named and not copies[name] and name not in counted]
    if best in counted:
        return best, copies[best], "These are row numbers. Do the other parties have the same numbers?"
    if best not in named or also:
        no_name = "" if best in named else "Its name does not say that it is an id. "
        return best, copies[best], f"{no_name}Is it this column{''.join(f', or {name!r}' for name in also)}?"
    return best, copies[best], ""
