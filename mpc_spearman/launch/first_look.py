"""Correlate two tables on this machine without a plan: a first look from Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpc_spearman.config import Plan
from mpc_spearman.config.parties import LOCAL_PARTY_KEYS, TargetParty
from mpc_spearman.config.wording import nearest
from mpc_spearman.errors import PlanError, TableError
from mpc_spearman.launch.local import run_local

if TYPE_CHECKING:
    from mpc_spearman.data.sources import ArrowTable
    from mpc_spearman.results.result import Result

_SIDES = ("A", "B")
# Keys of a data party that are keywords here; `on` and the tables stand for the other two.
_OF_PARTIES = (LOCAL_PARTY_KEYS - {"id", "table"}) | {"adjust"}
# What errors of tables say of a plan's keys, and how the same is written in Python.
_IN_PYTHON = (
    (r"set id to the column of row ids", 'name it with on="...", or on=("... of A", "... of B")'),
    (r"\bset id to\b", "set on to"),
    (r"\bset csv\.(\w+) to\b", r'set csv={"\1": ...} to'),
    (
        r"list its order under encode \(flags if it has none\)",
        'give its order, or "flags" if it has none, with encode={"SIDE": {...}}',
    ),
    (r"leave it out \(exclude\)", 'leave it out with exclude={"SIDE": [...]}'),
    (r"write it in brackets, \[...\], or start each item with '- '", "write it in brackets, [...]"),
    (r"\bduplicates: (\w+)\b", r'duplicates={"SIDE": "\1"}'),
    (r"\bduplicates: \{(\w+): (\w+)\}", r'duplicates={"SIDE": {"\1": "\2"}}'),
    (
        r"\b(exclude|features|adjust|encode|convert|missing_values|duplicates)(: there is no column .*)",
        r'\1\2; for one table alone write \1={"A": ...} or \1={"B": ...}',
    ),
    (r"^plan: parties\.target\.", "B: "),
    (r"^plan: parties\.sources\.(0|A)\.", "A: "),
)


def correlate(
    A: ArrowTable | str | Path,
    B: ArrowTable | str | Path,
    on: str | Sequence[str] = "id",
    *,
    out: str | Path | None = None,
    **settings: Any,
) -> Result:
    """Correlate every column of one table with every column of another, over the people in both.

    A first look, on one machine: the two tables play the source and the target of a run whose coordinator
    opens the coefficients. Rows with a missing value are left out, unless `missing` says otherwise. A column
    of text is refused: leave it out (`exclude`), or say with `encode` in which order its categories are, or
    that each becomes a column of 0 and 1: ``encode={"A": {"grade": ["low", "high"], "region": "flags"}}``.
    Organisations that do not show each other their tables write a plan, and each runs its own role
    (``mpc-spearman join``).

    Parameters
    ----------
    A, B, out
        As in `run_local`.
    on : str, list or tuple
        The column that identifies people, or a list of columns that do so together, under the same names in
        both tables; a tuple of two such names or lists if A and B have others:
        ``on=("patient", "insured")``.
    **settings
        Top-level keys of the plan, as in `run_local`; `adjust`, the columns that features are adjusted for,
        as in ``adjust=["age", "sex"]``; and every key that a party's local file has, such as `features`,
        `exclude`, `encode`, `convert`, `missing`, `missing_values`, `duplicates`, `csv` and `policy`
        (docs/plan.md). It is for both tables, or a mapping with the keys A and B or one of them has one for
        each: ``exclude={"A": ["name"]}``.

    Returns
    -------
    Result
        `result.pairs()` lists pairs, strongest first; `result.plot()` draws them.

    Raises
    ------
    MpcSpearmanError
        As `run_local`; of a wrong keyword or table in the words of this function.
    """
    ids = on if isinstance(on, tuple) else (on, on)
    if len(ids) != len(_SIDES):
        raise PlanError(f'on: a tuple of {len(ids)}; write on=("column of A", "column of B"), or a list')
    sides: dict[str, dict[str, Any]] = {
        side: {"id": column, "missing": "drop_rows"} for side, column in zip(_SIDES, ids, strict=True)
    }
    for key in [*settings]:
        if key in _OF_PARTIES:
            for side, value in _of_each(settings.pop(key)).items():
                sides[side][key] = value
        elif key not in Plan.model_fields or key == "parties":
            hint = nearest(key, (*TargetParty.model_fields, *Plan.model_fields))
            raise PlanError(f"correlate: there is no keyword {key!r}{hint}; docs/plan.md lists the keys")
    plan = {
        "alignment": "intersect",
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B", **sides["B"]},
            "sources": [{"name": "A", **sides["A"]}],
        },
    }
    try:
        return run_local(plan, {"A": A, "B": B}, out=out, **settings)
    except (PlanError, TableError) as error:
        error.args = (_in_python(str(error)),)
        raise


def _of_each(value: Any) -> dict[str, Any]:
    """Return a keyword's value for each side that it is for."""
    if isinstance(value, Mapping) and value and set(value) <= set(_SIDES):
        return dict(value)
    return dict.fromkeys(_SIDES, value)


def _in_python(text: str) -> str:
    """Write an error's text with the keywords of `correlate`; each party's part begins with its name."""
    for pattern, replacement in _IN_PYTHON:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    parts = re.split("^(?=[AB]: )", text, flags=re.MULTILINE)
    return "".join(part.replace("SIDE", part[:1]) for part in parts)
