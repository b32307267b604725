"""What ``mpc-spearman init`` writes about a table: a party's local keys, and questions to its owner."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import numpy as np

from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.ids import id_text
from mpc_spearman.data.sources import Column
from mpc_spearman.data.survey import Survey

# Text that needs no quotes in YAML, whatever its rules for numbers and dates.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off)$)[A-Za-z_][A-Za-z0-9_.-]*")
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_WIDTH = 100
# What may be done to ids, least first.
_STEPS: tuple[tuple[Normalise, ...], ...] = (
    (),
    ("strip",),
    ("strip", "casefold"),
    ("strip", "nfkc", "casefold"),
)


def own_keys(table: Path, found: Survey) -> tuple[list[str], str]:
    """Return a party's local keys for a table as lines of YAML, and a sentence on what was found.

    The table's path is written unchanged, relative to the folder of the file with these keys.
    """
    used = [one for one in found.columns if not one.problem or "convert" in one.fix]
    lines = list(_lines(table, found, used))
    asked = sum("# ?" in line for line in lines)
    text = f"{table}: {found.rows:,} rows, {len(used)} of {len(found.columns)} columns are used"
    return lines, text + (f"; {asked} for you to decide, marked `# ?`" if asked else "")


def normalise(one: Survey, other: Survey) -> tuple[str, int]:
    """Find the steps that make most ids of two tables equal: a line of YAML, and how many are common."""
    best: tuple[int, tuple[Normalise, ...]] = (-1, ())
    for steps in _STEPS:
        ours, theirs = (set(id_text(table.ids, steps).to_pylist()) for table in (one, other))
        best = max(best, (len(ours & theirs), steps), key=lambda each: each[0])  # the first of equals
    common, steps = best
    return f"normalise: [{', '.join(steps)}]  # makes {common:,} ids common to both", common


def _lines(table: Path, found: Survey, used: list[Column]) -> Iterator[str]:
    name = str(table)
    yield f"table: {name if _PATH.fullmatch(name) else json.dumps(name, ensure_ascii=False)}"
    if found.id:
        yield f"id: {scalar(found.id)}"
        if found.repeated:
            yield f"# ? {found.repeated:,} rows have duplicate ids: leave them out?"
            yield "duplicates: drop"
    else:
        yield "# ? No column identifies every row. Which columns together do?"
        yield "# id: [name, birth_date]"
    if found.separator:
        yield f"csv: {{delimiter: {json.dumps(found.separator)}}}"
    by_kind: dict[str, list[str]] = {}
    for column in used:
        kind = column.kind or str(column.fix["convert"])
        by_kind.setdefault(kind, []).append(column.name)
    gaps = [one.name for one in used if one.missing.any()]
    if found.repeated or gaps:
        yield "# Leaving out rows needs alignment: intersect in the shared plan."
    yield f"# Columns used: {len(used)}."
    for kind, names in by_kind.items():
        yield from _wrapped(f"#   {kind}: ", names)
    if convert := {one.name: one.fix["convert"] for one in used if one.problem}:
        yield "convert:"
        yield from (f"  {scalar(name)}: {how}" for name, how in convert.items())
    if gaps:
        read = [one.missing for one in used if not one.problem]  # of others the cells were not read yet
        lost = int(np.logical_or.reduce(read).sum())
        yield from _wrapped(f"# In {lost:,} of {found.rows:,} rows a value is missing, in ", gaps)
        yield "# ? Leave these rows out (drop_rows), or rank a missing cell as its column's median (middle)?"
        yield f"missing: {'middle' if 5 * lost > found.rows else 'drop_rows'}"
    left_out = [one for one in found.columns if one not in used]
    if left_out:
        yield "# Columns left out, and why. Once a column is fixed, remove it from this list."
        yield "exclude:"
        for column in left_out:
            categories = column.fix.get("encode")
            mark = "? " if categories or "convert" in column.problem or "csv." in column.problem else ""
            yield f"  - {scalar(column.name)}  # {mark}{_one_line(column.problem)}"
    ordered = [(one.name, one.fix["encode"]) for one in left_out if "encode" in one.fix]
    if ordered:
        yield "# Text with few values. If the values have an order, list them in it, lowest first."
        yield "# encode:"
        for name, categories in ordered:
            assert isinstance(categories, list)
            yield f"#   {scalar(name)}: [{', '.join(scalar(str(one)) for one in categories)}]"


def scalar(text: str) -> str:
    """Write a text for YAML, in quotes if it could be read as something else."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    """Write a text into a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


def _wrapped(start: str, names: list[str]) -> list[str]:
    text = start + ", ".join(map(_one_line, names))
    return wrap(text, _WIDTH, subsequent_indent="#     ", break_long_words=False, break_on_hyphens=False)
