"""Files that a run over common rows leaves its owner: the ids of these rows, which later runs can take.

Such a file is CSV with one column, ``id``: the ids as they are compared, in the order of the run. It is its
owner's alone, holds nothing that the owner's own table does not, and is never sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from mpc_spearman.data.tables import Table
from mpc_spearman.errors import OutputError, TableError
from mpc_spearman.files import write_whole

_HEADER = "id"


def take_aligned(table: Table, file: Path) -> Table:
    """Return the rows of a table whose ids are in a file, in the order of the file.

    Raises
    ------
    TableError
        The file cannot be read, names an id twice, or names ids that the table does not have.
    """

    def fail(text: str) -> TableError:
        return TableError(f"{table.party}: aligned: {file}: {text}")

    ids = _read(file, fail)
    found = pc.index_in(ids, value_set=table.ids)
    if found.null_count:
        gone = "incomplete, there more than once, or not in the table at all"
        raise fail(f"{found.null_count} of its {len(ids)} ids are {gone}")
    rows: NDArray[np.int64] = found.to_numpy().astype(np.int64)
    if len(np.unique(rows)) < len(rows):
        raise fail("it names an id more than once")
    return table.take(rows)


def _read(file: Path, fail: Callable[[str], TableError]) -> pa.LargeStringArray:
    text = pa_csv.ConvertOptions(column_types={_HEADER: pa.large_string()}, strings_can_be_null=False)
    try:
        if file.exists() and not file.is_file():  # a pipe could block for ever
            raise fail("it is not a regular file")
        with file.open("rb") as opened:
            lines = pa_csv.ParseOptions(newlines_in_values=True)
            read = pa_csv.read_csv(opened, parse_options=lines, convert_options=text)
    except OSError as error:
        raise fail(f"it cannot be read ({error.strerror or type(error).__name__})") from None
    except (pa.ArrowException, ValueError):  # whose text may quote an id
        raise fail("it is not a CSV file of ids") from None
    if read.column_names != [_HEADER]:
        raise fail(f"it is not a CSV file with one column, {_HEADER!r}")
    return read.column(0).combine_chunks()


def write_aligned(file: Path, ids: pa.LargeStringArray) -> None:
    """Write ids into a file, whole or not at all, readable by its owner alone.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(pa.table({_HEADER: ids}), sink)
    try:
        write_whole(file, sink.getvalue())
    except OSError as error:
        raise OutputError(f"{file} cannot be written: {error.strerror}") from None


def check_place(file: Path) -> None:
    """Refuse, before anything runs, a place where a file could not be written.

    Raises
    ------
    OutputError
    """
    if file.is_dir() or not os.access(file.parent, os.W_OK):
        raise OutputError(f"{file} cannot be written: it is a folder, or there is none to write it in")
