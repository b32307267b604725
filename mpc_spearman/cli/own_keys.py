"""A data party's local keys for its table, as commented lines of YAML, from what a survey found.

Lines with ``# ?`` are for the owner to decide: what only it knows is asked, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

import numpy as np

from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.source import Column
from mpc_spearman.data.survey import Survey
from mpc_spearman.units import printable

# Text that needs no quotes in YAML, whatever its rules for numbers and dates.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off)$)[A-Za-z_][A-Za-z0-9_.-]*")
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
WIDTH = 100


def table_keys(table: str, about: Survey, steps: Sequence[Normalise]) -> list[str]:
    """Return a party's local keys for a table; `table` is its path, `steps` what is done to ids."""
    lines = [f"table: {table if _PATH.fullmatch(table) else json.dumps(table, ensure_ascii=False)}"]
    lines += [*_ids(about, steps), *_csv(about.csv), f"# Columns used: {len(about.used)}."]
    by_kind = dict[str, list[str]]()
    for column in about.used:
        by_kind.setdefault(column.kind, []).append(column.name)
    for kind, names in by_kind.items():
        lines += _comment(f"  {kind}: {', '.join(map(printable, names))}")
    if convert := {name: one.convert for name, one in about.readings.items() if one.convert}:
        lines += ["convert:", *(f"  {scalar(name)}: {how}" for name, how in convert.items())]
    return [*lines, *_flags(about), *_gaps(about), *_missing_values(about), *_left_out(about)]


def _ids(about: Survey, steps: Sequence[Normalise]) -> Iterator[str]:
    if not about.ids.name:
        yield "# ? Which column identifies people? If none does alone, which columns together?"
        yield "# id: [name, birth_date]"
        return
    if about.ids.doubt:
        yield f"# ? {printable(about.ids.doubt)}"
    yield f"id: {scalar(about.ids.name)}"
    same_ids = about.ids.same(steps)
    if several := int((np.bincount(same_ids.of_row) > 1).sum()) if about.rows else 0:
        differing = about.differing(same_ids)
        yield from _comment(
            f"? {several:,} of {same_ids.count:,} ids have several rows. What becomes of these? Runs stop "
            "until you decide. To make one row of them, remove the # from the next line"
            + (", and write sum, mean, max, min or count for each HOW" if differing else "")
            + " (count also takes text, which is then not to be excluded). To leave these ids out, remove it "
            "from the line below."
        )
        yield f"# duplicates: {{{', '.join(f'{scalar(name)}: HOW' for name in differing)}}}"
        yield "# duplicates: drop"


def _csv(keys: Mapping[str, object]) -> Iterator[str]:
    if "encoding" in keys:
        yield f"# ? It is not UTF-8. Are accents and umlauts right as {keys['encoding']}?"
    if "thousands" in keys:
        mark = keys["thousands"]
        yield f"# ? Numbers such as 1{mark}234 are read as 1234. Is {mark!r} no decimal mark?"
    if keys:
        yield f"csv: {{{', '.join(f'{key}: {json.dumps(value)}' for key, value in keys.items())}}}"


def _flags(about: Survey) -> Iterator[str]:
    if nominal := [column for column in about.used if column.categories]:
        yield "# Each category becomes a column of 0 and 1, whose name others learn; rare ones are together."
        yield "# ? If the values of a column have an order, write it in place of flags, lowest first."
        yield "encode:"
        yield from (
            f"  {scalar(column.name)}: flags  # {printable(_listed(column.fix['encode']))}"
            for column in nominal
        )


def _gaps(about: Survey) -> Iterator[str]:
    if gaps := [column for column in about.used if column.missing.any()]:
        lost = int(np.logical_or.reduce([column.missing for column in gaps]).sum())
        names = ", ".join(printable(column.name) for column in gaps)
        yield from _comment(f"In {lost:,} of {about.rows:,} rows a value is missing, in {names}")
        yield "# ? Leave these rows out (drop_rows, which needs alignment: intersect in the plan), or put"
        yield "#   such cells in the middle of the ranks (middle)?"
        yield f"missing: {'middle' if 5 * lost > about.rows else 'drop_rows'}"


def _missing_values(about: Survey) -> Iterator[str]:
    """Yield what stands for missing values: words that certainly do, and comments on what may."""
    codes = {column.name: dict(column.codes) for column in about.used}
    words = {name: one.words for name, one in about.readings.items() if one.words}
    certain = {name: its for name, its in words.items() if name in codes}
    asked: dict[str, Mapping[str, int]] = {
        name: its for name, its in codes.items() if its and name not in certain
    }
    asked |= {name: its for name, its in words.items() if name not in codes}
    gaps = any(column.missing.any() for column in about.used)
    if asked:
        others = [*(() if certain else ["the first"]), *(() if gaps else ["the last"])]
        which = f", and from {' and '.join(others)}" if others else ""
        yield f"# ? Which of these stand for missing values? Remove the # from their lines{which}."
    if asked or certain:
        yield "missing_values:" if certain else "# missing_values:"
    for name, its in certain.items():
        more = f". ? Perhaps also {_counted(codes[name])}" if codes[name] else ""
        yield f"  {scalar(name)}: [{', '.join(map(scalar, its))}]  # {_counted(its)}{more}"
    for name, its in asked.items():
        yield f"#   {scalar(name)}: [{', '.join(map(_code, its))}]  # {_counted(its)}"
    if asked and not gaps:
        yield "# missing: drop_rows  # leaves such rows out; middle puts the cells in the middle of the ranks"


def _counted(words: Mapping[str, int]) -> str:
    return printable(", ".join(f"{word} in {rows:,} cells" for word, rows in words.items()))


def _left_out(about: Survey) -> Iterator[str]:
    left_out = [column for column in about.columns if column.problem]
    if not left_out:
        return
    yield "# Columns left out, and why. Once a column is fixed, remove it from this list."
    yield "exclude:"
    for column in left_out:
        asks = column.fix or column.name in about.readings
        asks = asks or any(key in column.problem for key in ("convert", "csv."))
        yield f"  - {scalar(column.name)}  # {'? ' if asks else ''}{printable(column.problem)}"
    yield from _orders(left_out, any(column.categories for column in about.used))


def _orders(left_out: Iterable[Column], begun: bool) -> Iterator[str]:
    """Yield the orders that columns of text may have; `begun` if ``encode`` already stands above."""
    ordered = [(column.name, column.fix["encode"]) for column in left_out if "encode" in column.fix]
    if ordered:
        where = "under encode above" if begun else "here"
        yield f"# Text with few values. List these {where}, lowest first; without an order, write flags."
        yield from () if begun else ("# encode:",)
    yield from (f"#   {scalar(name)}: {_listed(categories)}" for name, categories in ordered)


def _listed(categories: object) -> str:
    assert isinstance(categories, list)
    return f"[{', '.join(scalar(str(one)) for one in categories)}]"


def scalar(text: str) -> str:
    """Write a text for YAML, in quotes if it could be read as something else."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _code(text: str) -> str:
    """Write a value that may be a code: a number or a day as it is."""
    return text if re.fullmatch(r"-?[0-9.]+|[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else scalar(text)


def _comment(text: str) -> list[str]:
    """Write a comment on as many lines as it needs."""
    return wrap(
        f"# {text}", WIDTH, subsequent_indent="#     ", break_long_words=False, break_on_hyphens=False
    )
