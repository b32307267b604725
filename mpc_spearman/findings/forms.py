"""The form of a result's tables: a level declares it, and results, files and merging follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_string_dtype

#: Numbers of a run that a party has, by the names of the message fields that carry them.
Numbers = Mapping[str, NDArray[Any]]
#: So many pairs at most are also in CSV files by default: more take seconds to write, and few programs for
#: tables open them.
CSV_PAIRS = 100_000
#: The types of a table's columns, by their names.
Types = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Labels:
    """Names of the sources' features, (party, feature), and of the target's, as far as a party knows them."""

    sources: Sequence[tuple[str, str]] = ()
    target: Sequence[str] = ()

    def every_feature(self, target: str) -> list[tuple[str, str]]:
        """Return all features as (party, feature), those of the party `target` last."""
        return [*self.sources, *((target, name) for name in self.target)]


@dataclass(frozen=True)
class Form:
    """The form of a table.

    Attributes
    ----------
    words : str
        What sentences call it.
    file : str
        The CSV file that shows it to people; empty for none.
    index : tuple of str
        What names its rows; empty where they are numbered.
    columns : mapping
        Its columns' types; None for a matrix: a row for each feature of the sources, or one for each name in
        `pair`, and a column of float64 for each feature of the target.
    every_feature : bool
        Whether it has a row for each feature of both sides.
    coordinator : str
        Why nobody but the coordinator may have it; empty if others may.
    pair : tuple of str
        The names of a matrix's columns in the table of all pairs.
    """

    words: str
    file: str = ""
    index: tuple[str, ...] = ("party", "feature")
    columns: Types | None = None
    every_feature: bool = False
    coordinator: str = ""
    pair: tuple[str, ...] = ()

    def rows(self, labels: Labels, target: str) -> list[Any] | None:
        """Return the names of the rows in a result with these labels; None if a table's rows are its own."""
        if self.columns is None:
            ends: list[Any] = [(name,) for name in self.pair] if len(self.pair) > 1 else [()]
            return [(*row, *end) for row in labels.sources for end in ends]
        if self.index == ("feature",):
            return [*labels.target]
        return labels.every_feature(target) if self.every_feature else None

    @property
    def is_series(self) -> bool:
        """Whether it has one value for each target feature."""
        return self.columns is not None and self.index == ("feature",) and len(self.columns) == 1

    def plain(self, table: Any) -> Any:
        """Return a copy of a table in this form; `ValueError` if it does not fit."""
        columns: Types = self.columns or dict.fromkeys(table.columns, float)
        if self.is_series:
            table = table.to_frame(*columns)
        alike = list(table.columns) == list(columns) and table.index.nlevels == max(1, len(self.index))
        if not (alike and table.index.is_unique and table.columns.is_unique):
            labels = (*self.index, *(self.columns or ("the target's features",)))
            raise ValueError(f"the {self.words} have the columns {', '.join(labels)}, and no label twice")
        index = labelled(table.index, self.index) if self.index else None
        if self.columns is None:
            names = [str(name) for name in columns]
            return pd.DataFrame(table.to_numpy(dtype=np.float64, copy=True), index=index, columns=names)
        plain = {name: [kind(cell) for cell in table[name]] for name, kind in columns.items()}
        copied = pd.DataFrame(plain, index=index)
        return copied.squeeze(axis=1) if self.is_series else copied

    def check(self, table: Any, labels: Labels, target: str) -> None:
        """Refuse a table with other rows or columns than a result's labels; `ValueError`."""
        rows = self.rows(labels, target)
        differs = rows is not None and list(table.index) != rows
        if differs or (self.columns is None and list(table.columns) != list(labels.target)):
            raise ValueError(f"the {self.words} are of other columns than the rest")


def pair_table(matrices: Sequence[tuple[Form, pd.DataFrame]]) -> pd.DataFrame:
    """Convert matrices to one long table: a row for each pair, sorted by distance from 0 in the first matrix.

    The columns are ``party`` and ``source`` (a source and its feature), ``target``, and the names that the
    forms have for pairs.
    """
    first = matrices[0][1]
    rows, columns = first.shape
    table = {
        "party": np.repeat(first.index.get_level_values(0), columns),
        "source": np.repeat(first.index.get_level_values(1), columns),
        "target": np.tile(first.columns, rows),
    }
    for form, matrix in matrices:
        values = matrix.to_numpy().reshape(rows, len(form.pair), columns)
        table |= {name: values[:, k].ravel() for k, name in enumerate(form.pair)}
    order = np.argsort(-np.abs(first.to_numpy().ravel()), kind="stable")  # NaN comes last
    return pd.DataFrame(table).iloc[order].reset_index(drop=True)


def matrix_of(form: Form, pairs: pd.DataFrame, labels: Labels) -> pd.DataFrame:
    """Return a matrix from a table of pairs, NaN where it lacks one.

    `ValueError` if it has a pair twice, or one of other columns.
    """
    rows: Any = pd.MultiIndex.from_tuples(list(labels.sources), names=["party", "feature"])
    columns, shape = pd.Index(list(labels.target)), (len(labels.sources), len(labels.target))
    at_row = rows.get_indexer(pd.MultiIndex.from_frame(pairs[["party", "source"]]))
    at_column = columns.get_indexer(pd.Index(pairs["target"]))
    place = np.where(at_column < 0, -1, at_row * shape[1] + at_column)
    if (place < 0).any() or len(np.unique(place)) < len(place):
        raise ValueError("the table of pairs has not each pair of its columns once")
    values = np.full((shape[0] * shape[1], len(form.pair)), np.nan)
    values[place] = pairs[[*form.pair]].to_numpy(np.float64)
    values = values.reshape(*shape, -1).transpose(0, 2, 1).reshape(-1, shape[1])
    index: Any = pd.MultiIndex.from_tuples(form.rows(labels, "") or (), names=form.index)
    return pd.DataFrame(values, index, columns)


def labelled(keys: Any, names: tuple[str, ...]) -> pd.Index[Any]:
    """Return the index with those keys and names; one name has none, as with the target's features."""
    if len(names) == 1:
        return pd.Index([str(key) for key in keys])
    kinds = [int if name == "number" else str for name in names]
    if (
        isinstance(keys, pd.MultiIndex)
        and tuple(keys.names) == names
        and int not in kinds
        and all(map(is_string_dtype, keys.levels))
    ):
        return keys  # as most are: to make it anew takes as long as the rest of a small result
    labels = [tuple(kind(label) for kind, label in zip(kinds, key, strict=True)) for key in keys]
    return pd.MultiIndex.from_tuples(labels, names=names)


def series(words: str, name: str, kind: type = float) -> Form:
    """Declare one value for each target feature."""
    return Form(words, "", ("feature",), {name: kind})
