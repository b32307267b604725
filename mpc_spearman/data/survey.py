"""What each column of a table holds, what prevents its use, and what would correct that.

For the table's owner alone, because suggestions under ``encode`` quote cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Memory
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.ids import id_text, repeated
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.source import Column, Source
from mpc_spearman.data.sources import open_source
from mpc_spearman.errors import TableError

_ID = re.compile(r"(?i)(^|[^a-z])(id|key|nr|no|number)([^a-z]|$)|id$")


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What was found of a table."""

    rows: int
    separator: str  # of a CSV file's cells, if it is not what the file's name says
    id: str  # the column that seems to hold the ids, if one does
    ids: pa.ChunkedArray  # its cells
    repeated: int  # rows whose id another row has too
    columns: tuple[Column, ...]  # all others, in the table's order


def survey(table: Path) -> Survey:
    """See what each column of a table holds, before there is a plan for it."""
    try:
        source, separator = _opened(table)
        every = range(len(source.names))
        source.prepare(every, every)
        columns = [source.look(place) for place in every]
        texts = [source.column(place) for place in every]
    except (Unusable, OSError) as error:
        raise TableError(f"{table}: {error.strerror if isinstance(error, OSError) else error}") from None
    cells = dict(zip(map(source.name, every), texts, strict=True))
    ids, copies = _ids(cells)
    others = tuple(_useful(column) for column in columns if column.name != ids)
    found = cells[ids] if ids else pa.chunked_array([], pa.large_string())
    return Survey(len(texts[0]), separator, ids, found, copies, others)


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
    """Mark a column without two different values, which has no rank correlation; a run only warns."""
    known = column.values[~column.missing]
    if column.problem or (len(known) and (known != known[0]).any()):
        return column
    what = "all its values are the same" if len(known) else "all its values are missing"
    return replace(column, problem=f"{what}; leave it out (exclude)")


def _ids(texts: Mapping[str, pa.ChunkedArray]) -> tuple[str, int]:
    """Find the column of ids, and how many rows have another row's.

    It is `id`, the plan's default; or one whose name says so, or with a value in each row and none twice,
    best both.
    """
    copies, memory = dict[str, int](), Memory()
    for name, column in texts.items():
        with suppress(Unusable):
            ids = id_text(column.chunks, ["strip"], memory)
            if name == "id" or not pc.any(pc.equal(ids, "")).as_py():
                copies[name] = int(repeated(ids, memory)[0].sum())
    unique = [name for name, rows in copies.items() if not rows]
    named = [name for name in [*unique, *copies] if _ID.search(name)]
    found = next((name for name in ["id", *named, *unique] if name in copies), "")
    return found, copies.get(found, 0)
