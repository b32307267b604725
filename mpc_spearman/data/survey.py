"""What each column of a table holds, what stands in the way of its use, and what would mend that.

For the owner of the table alone, and on its own machine: what is suggested under ``encode`` are cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpc_spearman.config.tables import TableKeys
from mpc_spearman.data.id_columns import id_text, repeated
from mpc_spearman.data.sources import ArrowTable, Source, open_source
from mpc_spearman.data.words import Unusable
from mpc_spearman.errors import TableError

_ID = re.compile(r"(?i)(^|[^a-z])(id|key|nr|no|number)([^a-z]|$)|id$")


@dataclass(frozen=True, eq=False)
class Column:
    """What was found of one column.

    Attributes
    ----------
    name : str
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


@dataclass(frozen=True, eq=False)
class Survey:
    """What was found of a table.

    Attributes
    ----------
    rows : int
    separator : str
        What separates the cells of a CSV file, if that is not what its name says; "" if it is.
    id : str
        The column that seems to hold the ids; "" if none does.
    columns : tuple of Column
        All others, in the table's order.
    """

    rows: int
    separator: str
    id: str
    columns: tuple[Column, ...]


def look(source: Source, place: int) -> Column:
    """Read a column of a source that is prepared for it; what stands in the way is part of the answer."""
    name = str(source.names[place])
    try:
        values, missing, kind, note = source.numbers(place)
    except Unusable as unusable:
        return Column(name, place, str(unusable), unusable.fix)
    return Column(name, place, "", {}, kind, values, missing, note)


def survey(table: Path | ArrowTable, keys: TableKeys | None = None, rows: int | None = None) -> Survey:
    """See what each column of a table holds, before there is a plan for it.

    Parameters
    ----------
    table : Path or table in memory
    keys : TableKeys, optional
        What is known already.
    rows : int, optional
        Look at the first `rows` rows only.

    Raises
    ------
    TableError
        The table cannot be read at all.
    """
    keys = keys or TableKeys()
    try:
        source = open_source(table, keys, rows)
        if separator := source.separator:
            csv = keys.csv.model_copy(update={"delimiter": separator})
            source = open_source(table, keys.model_copy(update={"csv": csv}), rows)
        every = range(len(source.names))
        source.prepare(every, every)
        columns = [look(source, place) for place in every]
        texts = [source.column(place) for place in every]
    except (Unusable, OSError) as error:
        name = str(table) if isinstance(table, Path) else "the table"
        raise TableError(f"{name}: {error.strerror if isinstance(error, OSError) else error}") from None
    ids = _ids(dict(zip(map(str, source.names), texts, strict=True)), keys)
    others = tuple(_useful(column) for column in columns if column.name != ids)
    return Survey(len(texts[0]), separator, ids, others)


def _useful(column: Column) -> Column:
    """Add that a column with one value or none has no rank correlation, which a run would only warn of."""
    known = column.values[~column.missing]
    if column.problem or (len(known) and (known != known[0]).any()):
        return column
    what = "all its values are the same" if len(known) else "all its values are missing"
    return replace(column, problem=f"{what}; leave it out (exclude)")


def _ids(texts: Mapping[str, pa.ChunkedArray], keys: TableKeys) -> str:
    """Find the column of ids: the plan's, or one with a value in each row and none twice."""
    if keys.id[0] in texts:
        return keys.id[0]
    unique = []
    for name, column in texts.items():
        try:
            ids = id_text(column, ["strip"])
        except Unusable:
            continue
        if len(ids) and not ids.null_count and not repeated(ids)[1].any():
            unique.append(name)
    named = [name for name in unique if _ID.search(name)]
    return next(iter(named + unique), "")
