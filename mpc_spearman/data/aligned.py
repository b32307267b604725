"""Files that an owner gets from a run over common rows: the ids of these rows, and its other rows.

The ids are CSV with one column, ``id``, as compared and in the order of the run; later runs can use these
rows. Only the owner can read both files; they hold only what its own table has, and are never sent.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mpc_spearman.config.table_keys import Csv
from mpc_spearman.data.csv_text import CsvText
from mpc_spearman.data.part_files import PARQUET
from mpc_spearman.data.refusals import Unusable
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import OutputError, TableError
from mpc_spearman.files import write_whole

_HEADER = "id"
_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def take_aligned(table: Table, file: Path) -> Table:
    """Return the rows of a table whose ids are in a file, in the order of the file."""
    try:
        ids = _read(file)
        places = pc.index_in(ids, value_set=table.ids)
        if places.null_count:
            reasons = "of incomplete rows, duplicate, or not in the table"
            raise Unusable(f"{places.null_count:,} of its {len(ids):,} ids are {reasons}")
        rows: NDArray[np.int64] = places.to_numpy().astype(np.int64)
        if len(np.unique(rows)) < len(rows):
            raise Unusable("it has duplicate ids")
    except (OSError, Unusable) as error:
        why = error if isinstance(error, Unusable) else f"it cannot be read ({error.strerror})"
        raise TableError(f"{table.party}: aligned: {file}: {why}") from None
    return table.take(rows)


def _read(file: Path) -> pa.LargeStringArray:
    if file.exists() and not file.is_file():  # a pipe could block for ever
        raise Unusable("it is not a regular file")
    text = CsvText(file, Csv(delimiter=","))
    if text.names != [_HEADER]:
        raise Unusable(f"it is not a CSV file with one column, {_HEADER!r}")
    return pa.concat_arrays([batch.column(0) for batch in text.read([0], None)])


def write_aligned(file: Path, ids: pa.LargeStringArray) -> None:
    """Write ids into a file, whole or not at all, readable by its owner alone."""
    _write(file, pa.table({_HEADER: ids}))


def write_unaligned(file: Path, aligned: Table) -> None:
    """Write the rows of a table's source that are not aligned, with all columns, as `write_aligned` does.

    They are in the source's order, also those that are incomplete or have a duplicate id. The file is Parquet
    by its name, or CSV, in which cells of CSV files stay as they are written.
    """
    source = aligned.source
    try:
        source.prepare(range(len(source.names)))
        columns, rows = [], None
        for place in range(len(source.names)):
            column = source.column(place)
            rows = _unaligned(aligned, len(column)) if rows is None else rows
            columns.append(_filtered(column, rows))
    except (Unusable, OSError, IndexError):
        changed = f"{file} cannot be written: the table of {aligned.party} changed while it was used"
        raise OutputError(changed) from None
    _write(file, pa.Table.from_arrays(columns, [str(name) for name in source.names]))


def _unaligned(aligned: Table, n: int) -> NDArray[np.bool_]:
    """Mark which of the n rows of a table's source are not aligned."""
    same_ids = aligned.source.same_ids
    unaligned = np.ones(n if same_ids is None else same_ids.count, dtype=bool)
    unaligned[slice(0, 0) if aligned.rows is None else aligned.rows] = False
    return unaligned if same_ids is None else unaligned[same_ids.of_row]


def check_places(*files: Path | None) -> None:
    """Refuse, before a run, files that could not be written at its end."""
    for file in files:
        if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
            why = "it is a folder, or its folder does not exist or is not writable"
            raise OutputError(f"{file} cannot be written: {why}")


def _write(file: Path, table: pa.Table) -> None:
    try:
        sink = pa.BufferOutputStream()
        write = pq.write_table if file.name.lower().endswith(PARQUET) else pa_csv.write_csv
        write(table, sink)
        write_whole(file, sink.getvalue())
    except (pa.ArrowException, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else "CSV cannot hold a column; try .parquet"
        raise OutputError(f"{file} cannot be written: {why}") from None


def _filtered(column: pa.ChunkedArray, rows: NDArray[np.bool_]) -> pa.ChunkedArray:
    """Return some rows of a column, of text and bytes in a form that Arrow can filter and write."""
    if pa.types.is_dictionary(column.type) and str(column.type.value_type) in _VIEWS:
        column = column.cast(column.type.value_type)
    return column.cast(_VIEWS.get(str(column.type), column.type)).filter(pa.array(rows))
