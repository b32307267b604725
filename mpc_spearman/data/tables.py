"""A party's table: read it, and refuse what cannot be ranked.

Everything here happens at one party; nothing is sent. A table comes from a CSV file (UTF-8, comma, a
header line), a Parquet file, or a pandas DataFrame, and leaves as a `Table`: ids as text, features as 64-bit
columns without a missing or infinite value. Whatever stands in the way of that is a `TableError` that names
the party, the file, the column, how many cells, and the first data row (counted from 1, without the header
and without blank lines), but never a cell or an id: an error travels further than a table may.

What is kept exactly: every integer of int64 or uint64, every float64, ids as written. Numbers with a decimal
point or an exponent are float64, so two that differ only beyond 17 digits tie, and so do whole numbers beyond
2^53 that share a column with such numbers.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mpc_spearman.data.columns import (
    MISSING,
    WhyNot,
    at,
    count_of,
    dtype_name,
    gaps_in,
    listed,
    looks_like_a_number,
    numbers,
    show,
    why_not_cells,
    why_not_numbers,
)
from mpc_spearman.errors import TableError

__all__ = ["Table", "read_table"]

MIN_ROWS = 3  # with two rows every rank correlation is -1, 1 or undefined
MAX_NAME_BYTES = 500  # a feature's name travels in a message of bounded size and labels a report
CSV_SUFFIXES = (".csv",)
PARQUET_SUFFIXES = (".parquet", ".pq")

Fail = Callable[[str], TableError]
Pick = Callable[[Sequence[object]], "list[int]"]

# A pandas index without a name, which pandas writes into a Parquet file as a column.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
# Before 3.1 pandas reads some floats a last digit off unless told not to; 3.1 does not, and would warn.
_EXACT_FLOATS: dict[str, Any] = (
    {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """One party's checked table.

    Attributes
    ----------
    party : str
        Whose table it is.
    ids : LargeStringArray, length n
        Row ids as text, unique, none empty. In order.
    features : tuple of str, length m
        Feature names, unique.
    read : callable
        Reads the values of a feature, by its position; see `column`.
    rows : ndarray of int64, shape (n,), optional
        Which of the values that `read` returns are this table's, in order; None for all.
    incomplete, duplicates : int
        Rows of the source that were left out: those with a missing value, and those whose id is there more
        than once.
    """

    party: str
    ids: pa.LargeStringArray
    features: tuple[str, ...]
    read: Callable[[int], npt.NDArray[Any]]
    rows: npt.NDArray[np.int64] | None = None
    incomplete: int = 0
    duplicates: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.ids)

    @property
    def m(self) -> int:
        """Number of features."""
        return len(self.features)

    def column(self, index: int) -> npt.NDArray[Any]:
        """Return the values of one feature; they are read anew, and kept by whoever asks.

        Returns
        -------
        ndarray of int64, uint64 or float64, shape (n,)
            Contiguous and finite. It may be a view of the caller's data: do not write to it.
        """
        values = self.read(index)
        return values if self.rows is None else values[self.rows]

    def take(self, rows: npt.NDArray[np.int64]) -> Table:
        """Return the table of these rows, in this order. No column is read for it."""
        chosen = rows if self.rows is None else self.rows[rows]
        return replace(self, ids=self.ids.take(pa.array(rows)), rows=chosen)

    def __repr__(self) -> str:
        """Show the shape only, so that a traceback or a log shows no cell."""
        return f"Table(party={self.party!r}, n={self.n}, m={self.m})"


def read_table(
    party: str,
    source: Path | pd.DataFrame | pa.Table,
    *,
    id: str,
    features: Sequence[str] | None,
    exclude: Sequence[str],
    rows: int | None,
) -> Table:
    """Read and check a party's table.

    Parameters
    ----------
    party : str
        Whose table it is; every error begins with it.
    source : Path, DataFrame or Table of pyarrow
        A ``.csv``, ``.parquet`` or ``.pq`` file, or a DataFrame, whose index is ignored.
    id : str
        The column of row ids: text, or whole numbers, which become their decimal text.
    features : sequence of str or None
        The feature columns, in this order. None takes every column but `id` and `exclude`, in the table's.
    exclude : sequence of str
        Columns to leave aside. Their cells are not interpreted, so they may hold anything.
    rows : int or None
        Read at most the first `rows` rows; what follows them is not checked.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        Where the table cannot be read or used. Problems of several columns come in one error, a line each.
    """
    if isinstance(source, pd.DataFrame):
        name = "the DataFrame"
    elif isinstance(source, pa.Table):
        name = "the Arrow table"
    else:
        source = Path(source)
        name = str(source)

    def fail(text: str) -> TableError:
        return TableError(f"{party}: {name}: {text}")

    def pick(labels: Sequence[object]) -> list[int]:
        return _pick(fail, labels, id, features, exclude)

    if isinstance(source, pd.DataFrame):
        names, ids, columns, why_not = _from_frame(fail, source, pick, rows)
    elif isinstance(source, pa.Table):
        names, ids, columns, why_not = _from_arrow(source, pick, rows)
    else:
        names, ids, columns, why_not = _from_file(fail, source, pick, rows)
    if not len(ids):
        raise fail("it has no rows")
    if len(ids) < MIN_ROWS:
        raise fail(f"{count_of(len(ids), 'row')}, and a rank correlation takes at least {MIN_ROWS}")
    checked = _check_ids(fail, id, ids)
    arrays, problems = [], []
    for label, column in zip(names, columns, strict=True):
        array, problem = numbers(column, why_not)
        arrays.append(array)
        if problem:
            problems.append(f"column {show(label)}: {problem}")
    if len(problems) > 1:
        problems.insert(0, count_of(len(problems), "bad column"))
    if problems:
        raise fail("\n  ".join(problems))
    return Table(party, pa.array(checked, pa.large_string()), tuple(names), arrays.__getitem__)


# ---- which columns --------------------------------------------------------------------------------------


def _pick(
    fail: Fail, labels: Sequence[object], id: str, features: Sequence[str] | None, exclude: Sequence[str]
) -> list[int]:
    """Positions of the id column and of the features, in that order."""
    names = [label for label in labels if isinstance(label, str)]
    if len(names) < len(labels):
        first = next(i for i, label in enumerate(labels, 1) if not isinstance(label, str))
        count = count_of(len(labels) - len(names), "column label")
        raise fail(f"{count} not text, the first at column {first}: name the columns with strings")
    blank = [i for i, name in enumerate(names, 1) if not name.strip()]
    if blank:
        raise fail(
            f"{count_of(len(blank), 'column')} with an empty name, the first at column {blank[0]} "
            "(a table saved with its row numbers? pandas: index=False)"
        )
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    # A first line with numbers in it may be a row of data: then no word of it may get into an error.
    numbers = sum(map(looks_like_a_number, names))
    twice = [i for i, name in enumerate(names) if place[name] != i]
    if twice:
        name = names[twice[0]]
        what = "is the header line missing?" if numbers else show(name)
        raise fail(
            f"{count_of(len(twice), 'column')} with the name of an earlier one, the first at column "
            f"{twice[0] + 1}, as column {place[name] + 1}: {what}"
        )

    def known(name: str, role: str, among: list[str]) -> str:
        if name in place:
            return name
        if numbers and role == "id":
            cells = f"{numbers} of the {len(names)} column names are numbers: is the header line missing?"
            raise fail(f"{role}: there is no column {show(name)}; {cells}")
        if len(names) == 1 and (separator := next((mark for mark in ";\t|" if mark in names[0]), "")):
            kind = {";": "semicolons", "\t": "tabs", "|": "bars"}[separator]
            raise fail(
                f"{role}: there is no column {show(name)}; it is separated by {kind}: save it with commas"
            )
        folded = {other.casefold(): other for other in among}
        near = difflib.get_close_matches(name.casefold(), folded, n=1)
        hint = f"did you mean {show(folded[near[0]])}?" if near else f"it has {listed(names)}"
        raise fail(f"{role}: there is no column {show(name)}; {hint}")

    known(id, "id", names)
    others = [name for name in names if name != id]
    left_out = {known(name, "exclude", others) for name in exclude}
    if features is None:
        chosen = [name for name in others if name not in left_out]
    else:
        chosen = [known(name, "features", others) for name in features]
        if id in chosen:
            raise fail(f"features: {show(id)} is the id column")
        both = [name for name in chosen if name in left_out]
        if both:
            raise fail(f"features and exclude both list {listed(both)}")
        if len(set(chosen)) < len(chosen):
            raise fail(f"features lists {listed([name for name in place if chosen.count(name) > 1])} twice")
    if not chosen:
        raise fail(f"no feature column is left beside the id column {show(id)}")
    for name in chosen:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise fail(f"the name of column {place[name] + 1} is not valid Unicode") from None
        if size > MAX_NAME_BYTES:
            raise fail(
                f"the name of column {place[name] + 1}, {show(name)}, is {size} bytes of UTF-8, "
                f"more than {MAX_NAME_BYTES}"
            )
    return [place[id], *(place[name] for name in chosen)]


# ---- where it comes from --------------------------------------------------------------------------------

# Feature names, ids, feature columns, and what explains a column that holds no numbers.
Parts = tuple["list[str]", "pd.Series[Any] | list[str]", "list[pd.Series[Any]]", WhyNot]


def _from_frame(fail: Fail, frame: pd.DataFrame, pick: Pick, rows: int | None) -> Parts:
    labels: list[Any] = list(frame.columns)
    first, *others = pick(labels)
    frame = frame.iloc[:rows]
    columns = [frame.iloc[:, i] for i in others]
    return [labels[i] for i in others], frame.iloc[:, first], columns, why_not_numbers


def _from_arrow(table: pa.Table, pick: Pick, rows: int | None) -> Parts:
    labels = table.column_names
    first, *others = (
        table.column(i).slice(0, rows).to_pandas(types_mapper=pd.ArrowDtype) for i in pick(labels)
    )
    return [labels[i] for i in pick(labels)][1:], first, others, why_not_numbers


def _from_file(fail: Fail, path: Path, pick: Pick, rows: int | None) -> Parts:
    suffix = path.suffix.lower()
    try:
        if path.exists() and not path.is_file():  # a pipe could block for ever
            raise fail("it is a directory" if path.is_dir() else "it is not a regular file")
        if suffix not in (*CSV_SUFFIXES, *PARQUET_SUFFIXES):
            allowed = ", ".join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))
            raise fail(f"its name ends in {suffix!r}; a table file's name ends in one of {allowed}")
        read = _from_csv if suffix in CSV_SUFFIXES else _from_parquet
        return read(fail, path, pick, rows)
    except FileNotFoundError:
        raise fail("there is no such file") from None
    except OSError as error:  # permission denied, a broken disk, ...
        raise fail(f"it cannot be read ({error.strerror or type(error).__name__})") from None


def _from_csv(fail: Fail, path: Path, pick: Pick, rows: int | None) -> Parts:
    """Read ids and the shape with the csv module, then the features with pandas.

    pandas alone would rename duplicate columns, fill short lines with missing values, drop the ends of long
    ones. Both read the same open file and the ids, and must agree on them: where they see different rows (as
    with some mixed line ends), ids would be paired with other rows' values.
    """
    ids: list[str] = []
    wrong: list[tuple[int, int]] = []  # data row, fields
    number = blank = 0

    def filled(reader: Iterable[list[str]]) -> Iterator[list[str]]:
        nonlocal blank
        for line in reader:
            if line:
                yield line
            else:
                blank += 1

    with path.open("rb") as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        lines = filled(csv.reader(text, strict=True))
        limit = csv.field_size_limit(2**31 - 1)  # an excluded column may hold whole documents
        try:
            header = next(lines, None)
            if header is None:
                raise fail("the file is empty: not even a header line")
            first, *others = pick(header)
            for number, line in enumerate(islice(lines, rows), 1):
                if len(line) == len(header):
                    ids.append(line[first])
                else:
                    wrong.append((number, len(line)))
        except UnicodeDecodeError:
            raise fail("it is not UTF-8 text; save it as CSV in UTF-8") from None
        except csv.Error as error:
            after = f"in or after data row {number + 1}"
            raise fail(f"it is not a well-formed CSV file: {error}, {after}") from None
        finally:
            csv.field_size_limit(limit)
        if wrong:
            row, fields = wrong[0]
            what = f"{count_of(len(wrong), 'row')} with too many or too few fields"
            raise fail(f"{what}, the first in data row {row}: {fields} where the header has {len(header)}")
        names = [header[i] for i in others]
        if not ids:
            return names, ids, [], why_not_cells
        if blank and isinstance(text.newlines, tuple) and "\r" in text.newlines:
            # "\n\r" before a space sends pandas before 3 into a loop that ends when memory does.
            raise fail("it has blank lines and mixed line ends: save it with one kind of line end")
        file.seek(0)
        try:
            frame = pd.read_csv(
                file,
                header=0,
                names=header,
                index_col=False,
                usecols=[header[first], *names],
                dtype={header[first]: str},
                keep_default_na=False,
                na_values=dict.fromkeys(names, MISSING),
                nrows=rows,
                low_memory=False,
                **_EXACT_FLOATS,
            )
        except (ValueError, OverflowError) as error:  # whose text may quote cells
            raise fail(f"pandas cannot read it as CSV ({type(error).__name__})") from None
    if frame[header[first]].tolist() != ids:
        raise fail("two CSV readers see different rows in it: check its quotes and line ends")
    return names, ids, [frame[name] for name in names], why_not_cells


def _from_parquet(fail: Fail, path: Path, pick: Pick, rows: int | None) -> Parts:
    """Read only the columns needed, with missing whole numbers kept apart from floats."""
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        try:
            parquet = pq.ParquetFile(file)
            labels = [name for name in parquet.schema_arrow.names if not _UNNAMED_INDEX.fullmatch(name)]
            names = [labels[i] for i in pick(labels)]
            table = parquet.read(columns=names).slice(0, rows)
            frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
        except (pa.ArrowException, ValueError, OSError) as error:  # whose text may quote the file
            raise fail(f"it is not a readable Parquet file ({type(error).__name__})") from None
    return names[1:], frame[names[0]], [frame[name] for name in names[1:]], why_not_numbers


# ---- what is in it --------------------------------------------------------------------------------------


def _check_ids(fail: Fail, id: str, ids: pd.Series[Any] | list[str]) -> tuple[str, ...]:
    column = f"column {show(id)}"
    text: list[str | None] = []
    wrong: list[int] = []
    if isinstance(ids, list):
        text += ids
    else:
        try:
            values = ids.tolist()
        except UnicodeDecodeError:  # Parquet's strings need not be what they are called
            raise fail(f"{column}: ids that are not UTF-8") from None
        for row, (value, gap) in enumerate(zip(values, gaps_in(ids).tolist(), strict=True), 1):
            if isinstance(value, str):
                text.append(value)
            elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
                text.append(str(value))
            else:
                text.append(None)
                wrong += [] if gap else [row]
    if wrong:
        what = f"neither text nor whole numbers (dtype {dtype_name(ids)})"
        raise fail(f"{column}: {count_of(len(wrong), 'id')} {what}, the first in data row {wrong[0]}")
    empty = [not value for value in text]
    if any(empty):
        raise fail(f"{column}: {at(empty, 'empty id')}")
    checked = tuple(value for value in text if value)
    try:
        "".join(checked).encode()
    except UnicodeEncodeError:
        raise fail(f"{column}: ids that are not valid Unicode") from None
    again = pd.Series(checked, dtype=object).duplicated().to_numpy()
    if again.any():
        earlier = checked.index(checked[int(again.argmax())]) + 1
        raise fail(f"{column}: {at(again, 'duplicate id')}, which repeats data row {earlier}")
    return checked
