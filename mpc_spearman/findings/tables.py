"""The form of a result's tables: what a level declares, whoever makes one and wherever it is kept."""

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
#: The types of a table's columns, by their names.
Types = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Labels:
    """Names of the sources' features, (party, feature), and of the target's, as far as a party knows them."""

    sources: Sequence[tuple[str, str]] = ()
    target: Sequence[str] = ()


#: The rows of a table, from the labels of a result and the target's name; None for rows of its own.
Rows = Callable[[Labels, str], Sequence[Any]] | None


def source_features(labels: Labels, target: str) -> Sequence[Any]:
    """Return a row for each feature of the sources."""
    return labels.sources


def target_features(labels: Labels, target: str) -> Sequence[Any]:
    """Return a row for each feature of the target."""
    return labels.target


@dataclass(frozen=True)
class Form:
    """The form of a table.

    Attributes
    ----------
    words : str
        What sentences call it.
    file : str
        Where it is saved: in a CSV file of its own, or ``result.json`` for one value a target feature.
    rows, index : function, tuple of str
        What its rows are, and what names them; an empty `index` where they are numbered.
    columns : mapping
        Its columns' types; None where the columns are the target's features, of float64.
    coordinator : str
        Why nobody but the coordinator may have it; empty if others may.
    """

    words: str
    file: str
    index: tuple[str, ...] = ("party", "feature")
    columns: Types | None = None
    rows: Rows = None
    coordinator: str = ""

    @property
    def is_series(self) -> bool:
        """Whether it has one value for each target feature, without a file of its own."""
        return self.file == "result.json"

    def plain(self, table: Any) -> Any:
        """Copy a table into its one form, whoever made it; `ValueError` if it has another."""
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
        rows = self.rows is None or list(table.index) == list(self.rows(labels, target))
        if not rows or (self.columns is None and list(table.columns) != list(labels.target)):
            raise ValueError(f"the {self.words} are of other columns than the rest")


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
    return Form(words, "result.json", ("feature",), {name: kind}, target_features)
