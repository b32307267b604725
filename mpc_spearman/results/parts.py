"""The parts of a result: the form, file and receivers of each, and their consistency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_string_dtype

from mpc_spearman.config import GRANTS, LEVELS, OUTSIDE, within
from mpc_spearman.results import cells
from mpc_spearman.statistics.columns import Ties
from mpc_spearman.wire import meter

RoleName = Literal["coordinator", "target", "source"]

_READ: dict[Callable[[Any], Any], Callable[[str], Any]] = {float: cells.number, int: int}


@dataclass(frozen=True)
class Part:
    """The form of a table.

    A party has it at the level of ``reveal``, and data parties at the grant of ``results``, that it `needs`;
    `words` is what sentences call it. It is saved in `file`: ``result.json`` for a series by target feature.
    `index` names its rows; it is empty where they are numbered. `columns` are its columns' types by name;
    None where the columns are the target's features, of float64.
    """

    needs: str
    words: str
    file: str
    index: tuple[str, ...] = ("party", "feature")
    columns: Mapping[str, Callable[[Any], Any]] | None = None

    def plain(self, table: Any) -> Any:
        """Copy a table into its one form, whoever made it; `ValueError` if it has another."""
        columns: Mapping[str, Callable[[Any], Any]] = self.columns or dict.fromkeys(table.columns, float)
        if self.file == "result.json":
            table = table.to_frame(*columns)
        # A ranking can be known without strengths.
        columns = {name: kind for name, kind in columns.items() if name != "strength" or name in table}
        alike = list(table.columns) == list(columns) and table.index.nlevels == max(1, len(self.index))
        if not (alike and table.index.is_unique and table.columns.is_unique):
            labels = (*self.index, *(self.columns or ("the target's features",)))
            raise ValueError(f"the {self.words} have the columns {', '.join(labels)}, and no label twice")
        index = _labels(table.index, self.index) if self.index else None
        if self.columns is None:
            names = [str(name) for name in columns]
            return pd.DataFrame(table.to_numpy(dtype=np.float64, copy=True), index=index, columns=names)
        plain = {name: [kind(cell) for cell in table[name]] for name, kind in columns.items()}
        copied = pd.DataFrame(plain, index=index)
        return copied.squeeze(axis=1) if self.file == "result.json" else copied

    def text(self, table: pd.DataFrame) -> str:
        """Write the table as CSV."""
        keys = table.index.to_frame().itertuples(index=False, name=None) if self.index else [()] * len(table)
        rows = table.itertuples(index=False, name=None)
        lines = ([*key, *row] for key, row in zip(keys, rows, strict=True))
        return cells.csv_text([*self.index, *table.columns], lines)

    def read(self, text: str) -> pd.DataFrame:
        """Read what `text` wrote; `ValueError` if it is something else."""
        header, rows = cells.read_csv(text)
        k = len(self.index)
        names = list(map(cells.read, header[k:]))
        values: Any
        if self.columns is None:
            values = np.array([[cells.number(cell) for cell in row[k:]] for row in rows])
        else:
            read = [_READ.get(kind, cells.read) for kind in self.columns.values()]
            values = [[of(cell) for of, cell in zip(read, row[k:], strict=True)] for row in rows]
        keys = [tuple(map(cells.read, row[:k])) for row in rows]
        index = _labels(keys if k > 1 else [key for (key,) in keys], self.index) if k else None
        table: pd.DataFrame = self.plain(pd.DataFrame(values, index=index, columns=names))
        return table


def _labels(keys: Any, names: tuple[str, ...]) -> pd.Index[Any]:
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


def _series(needs: str, words: str, name: str, kind: type) -> Part:
    return Part(needs, words, "result.json", ("feature",), {name: kind})


_COEFFICIENTS = "coefficients"
#: Every part that a party can be given; a property of `Result` says what it is.
PARTS = {
    "coefficients": Part(_COEFFICIENTS, "coefficients", "matrix.csv"),
    "columns": Part(
        _COEFFICIENTS, "columns' ties", "columns.csv",
        columns={"ties": lambda word: Ties.named(word).word, "skewness": float},
    ),
    "noise": Part(_COEFFICIENTS, "noise", "noise.csv"),
    "pvalues": Part(_COEFFICIENTS, "p-values", "pvalues.csv"),
    "intervals": Part(_COEFFICIENTS, "confidence intervals", "intervals.csv", ("party", "feature", "bound")),
    "qvalues": Part(_COEFFICIENTS, "q-values", "qvalues.csv"),
    "strengths": _series("strengths", "strengths", "strength", float),
    "counts": _series("strengths", "counts", "count", int),
    "errors": _series("strengths", "standard errors of the strengths", "error", float),
    "ranking": Part(
        "ranking", "ranking", "ranking.csv", (), {"position": int, "feature": str, "strength": float}
    ),
    "estimators": Part(
        _COEFFICIENTS, "strengths under both estimators", "estimators.csv", ("feature",),
        {"tie_corrected": float, "paper": float},
    ),
    "explained": Part(
        "explained", "shares that are explained", "explained.csv",
        columns={
            "r2": float, "noise": float, "k": int, "dispersion": float, "predictive": float, "p": float,
            "q": float,
        },
    ),
    "canonical": Part(
        "canonical", "canonical correlations", "canonical.csv", ("party", "number"),
        {
            "correlation": float, "noise": float, "k_source": int, "k_target": int, "dispersion": float,
            "chance": float, "trace": float, "p": float,
        },
    ),
}  # fmt: skip
#: What a run cost; docs/costs.md says what its columns count.
COST = Part(
    "",
    "costs",
    "cost.csv",
    (),
    {
        name: str if name in ("party", "phase") else float if name.endswith("seconds") else int
        for name in meter.COLUMNS
    },
)


def _within(need: str, level: str) -> bool:
    return within(need, level) or (need == "ranking" and level == "explained")


def beyond(part: str, plan: Mapping[str, Any], role: RoleName) -> str | None:
    """Return why the plan does not give this party a part; None if it does."""
    need, level = PARTS[part].needs, str(plan.get("reveal"))
    if plan.get("opened_to") == "target" and role != "target":
        return "not in this result: the order was opened to the target alone (opened_to)"
    if level in LEVELS and not _within(need, level):
        return f"not in this result: the run revealed no more than {level!r} (reveal)"
    if role == "coordinator":
        return None
    if part == "estimators":
        return "the coordinator's alone: they reveal all ties"
    key = "target" if role == "target" else "sources"
    grant = str((plan.get("results") or {}).get(key))
    if grant in GRANTS and not _within(need, grant):
        return f"not in this result: the coordinator passes {grant!r} on to the {key} (results.{key})"
    return None


def check(plan: Mapping[str, Any], party: str, role: RoleName, parts: Mapping[str, Any]) -> None:
    """Refuse inconsistent labels, and parts that the plan does not give this party; `ValueError`."""
    parties = plan["parties"]
    target, sources = parties["target"]["name"], [source["name"] for source in parties["sources"]]
    if party not in (sources if role == "source" else [parties[role]["name"]]):
        raise ValueError(f"{party} is not the {role} of its plan")
    for part in parts:
        if beyond(part, plan, role) is not None:
            raise ValueError(f"the plan in it does not give {part} to this party")
    # A ranking has the same features in an order of its own; what is outside the scale has rows of its own.
    features = list(parts["strengths"].index) if "strengths" in parts else []
    rows = list(parts["coefficients"].index) if "coefficients" in parts else []
    if not {owner for owner, _ in rows} <= set(sources):
        raise ValueError("the coefficients' rows are not those of this plan's sources")
    expected = {
        **dict.fromkeys(("coefficients", "noise", "pvalues", "qvalues"), rows),
        "columns": [*rows, *((target, name) for name in features)],
        "intervals": [(*row, bound) for row in rows for bound in ("low", "high")],
    }
    for part in parts.keys() - {"ranking", *OUTSIDE}:
        table, wide = parts[part], PARTS[part].columns is None
        if list(table.index) != expected.get(part, features) or (wide and list(table.columns) != features):
            raise ValueError(f"the {PARTS[part].words} are of other columns than the rest")
