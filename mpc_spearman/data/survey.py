"""What each column of a table holds, what stands in the way of its use, and what would mend that.

For the table's owner alone, because suggestions under ``encode`` quote cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.data.id_columns import id_text, repeated
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.sources import Source, open_source
from mpc_spearman.errors import TableError

_ID = re.compile(r"(?i)(^|[^a-z])(id|key|nr|no|number)([^a-z]|$)|id$")


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """What was found of one column.

    Attributes
    ----------
    place : int
        Where it is in the table.
    problem : str
        Why it cannot be used as the plan has it, and what to do; "" if it can. It quotes no cell.
    fix : mapping
        A key of the plan and its value for this column that would mend it: ``convert``, ``encode``, whose
        order only the owner knows. Empty if there is none: then ``exclude`` leaves the column out.
    kind : str
        What its cells are, in words; "" where they cannot be read.
    values : ndarray of int64, uint64 or float64
        Anything where one is missing.
    missing : ndarray of bool
    note : str
        What its owner should know of how it was read.
    """

    name: str
    place: int
    problem: str = ""
    fix: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    values: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    missing: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """What was found of a table.

    Attributes
    ----------
    separator : str
        What separates the cells of a CSV file, if that is not what its name says; "" if it is.
    id : str
        The column that seems to hold the ids; "" if none does.
    ids : ChunkedArray
        Its cells.
    repeated : int
        Rows whose id another row has too.
    columns : tuple of Column
        All others, in the table's order.
    """

    rows: int
    separator: str
    id: str
    ids: pa.ChunkedArray
    repeated: int
    columns: tuple[Column, ...]


def look(source: Source, place: int) -> Column:
    """Read a column of a source that is prepared for it; what stands in the way is part of the answer."""
    name = source.name(place)
    try:
        values, missing, kind, note = source.numbers(place)
    except Unusable as unusable:
        return Column(name, place, str(unusable), unusable.fix)
    return Column(name, place, "", {}, kind, values, missing, note)


def survey(table: Path) -> Survey:
    """See what each column of a table holds, before there is a plan for it."""
    try:
        source, separator = _opened(table)
        every = range(len(source.names))
        source.prepare(every, every)
        columns = [look(source, place) for place in every]
        texts = [source.column(place) for place in every]
    except (Unusable, OSError) as error:
        raise TableError(f"{table}: {error.strerror if isinstance(error, OSError) else error}") from None
    cells = dict(zip(map(source.name, every), texts, strict=True))
    ids, copies = _ids(cells)
    others = tuple(_useful(column) for column in columns if column.name != ids)
    found = cells[ids] if ids else pa.chunked_array([], pa.large_string())
    return Survey(len(texts[0]), separator, ids, found, copies, others)


def _opened(table: Path) -> tuple[Source, str]:
    """Open a table; if what separates its cells is not what its name says, by what does."""
    keys, refused, marks = TableKeys(), None, ""
    try:
        source = open_source(table, keys, None)
        if not source.separator:
            return source, ""
        marks = source.separator
    except Unusable as unusable:  # a quote, say, that is misplaced between other separators
        refused, marks = unusable, ";\t|"
    for mark in marks:
        csv = keys.csv.model_copy(update={"delimiter": mark})
        try:
            source = open_source(table, keys.model_copy(update={"csv": csv}), None)
        except Unusable:
            continue
        if len(source.names) > 1:
            return source, mark
    raise refused or Unusable("it has one column only")


def _useful(column: Column) -> Column:
    """Add that a column with one value or none has no rank correlation, which a run would only warn of."""
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
    copies: dict[str, int] = {}
    for name, column in texts.items():
        with suppress(Unusable):
            ids = id_text(column, ["strip"])
            if name == "id" or not ids.null_count:
                copies[name] = int(repeated(ids)[0].sum())
    unique = [name for name, rows in copies.items() if not rows]
    named = [name for name in [*unique, *copies] if _ID.search(name)]
    found = next((name for name in ["id", *named, *unique] if name in copies), "")
    return found, copies.get(found, 0)
