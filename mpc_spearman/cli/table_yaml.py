"""A data party's local keys for its table, as commented lines of YAML, from what a survey shows.

Lines with ``# ?`` are for the owner to decide: what only it knows is asked, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

import numpy as np

from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.survey import Column, Survey
from mpc_spearman.units import printable

# Text that needs no quotes in YAML, whatever its rules for numbers and dates.
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off)$)[A-Za-z_][A-Za-z0-9_.-]*")
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
WIDTH = 100


def table_keys(table: str, survey: Survey, steps: Sequence[Normalise]) -> list[str]:
    """Return a party's local keys for a table; `table` is its path, `steps` what is done to ids."""
    used_columns, left_out = survey.used_columns, [column for column in survey.columns if column.problem]
    lines = [f"table: {table if _PATH.fullmatch(table) else json.dumps(table, ensure_ascii=False)}"]
    lines += [*_ids(survey, steps), *_csv(survey.csv), f"# Columns used: {len(used_columns)}."]
    by_kind = dict[str, list[str]]()
    for column in used_columns:
        by_kind.setdefault(column.numbers.kind, []).append(column.name)
    for kind, names in by_kind.items():
        lines += _comment(f"  {kind}: {', '.join(map(printable, names))}")
    if converted := [column for column in survey.columns if column.convert]:
        lines += ["convert:", *(f"  {scalar(column.name)}: {column.convert}" for column in converted)]
    if nominal := [column for column in used_columns if column.flags]:
        lines += [
            "# Each category becomes a column of 0 and 1, whose name others learn; rare ones are together.",
            "# ? If the values of a column have an order, write it in place of flags, lowest first.",
            "encode:",
            *(f"  {scalar(one.name)}: flags  # {printable(_listed(one.categories))}" for one in nominal),
        ]
    gaps = [column for column in used_columns if column.numbers.missing.any()]
    lines += [*_gaps(gaps, survey.rows), *_missing_values(survey.columns, has_gaps=bool(gaps))]
    if left_out:
        lines += [
            "# Columns left out, and why. Once a column is fixed, remove it from this list.",
            "exclude:",
        ]
        lines += map(_excluded, left_out)
    if unordered := [column for column in left_out if column.categories]:
        where = "under encode above" if nominal else "here"
        lines.append(
            f"# Text with few values. List these {where}, lowest first; without an order, write flags."
        )
        lines += [] if nominal else ["# encode:"]
        lines += [f"#   {scalar(column.name)}: {_listed(column.categories)}" for column in unordered]
    return lines


def _ids(survey: Survey, steps: Sequence[Normalise]) -> Iterator[str]:
    if not survey.ids.name:
        yield "# ? Which column identifies people? If none does alone, which columns together?"
        yield "# id: [name, birth_date]"
        return
    if survey.ids.doubt:
        yield f"# ? {printable(survey.ids.doubt)}"
    yield f"id: {scalar(survey.ids.name)}"
    same_ids = survey.ids.same_ids(steps)
    if several := int((np.bincount(same_ids.of_row) > 1).sum()):
        differing = survey.differing(same_ids)
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


def _gaps(gaps: Sequence[Column], rows: int) -> Iterator[str]:
    if gaps:
        incomplete = int(np.logical_or.reduce([column.numbers.missing for column in gaps]).sum())
        names = ", ".join(printable(column.name) for column in gaps)
        yield from _comment(f"In {incomplete:,} of {rows:,} rows a value is missing, in {names}")
        yield "# ? Leave these rows out (drop_rows, which needs alignment: intersect in the plan), or put"
        yield "#   such cells in the middle of the ranks (middle)?"
        yield f"missing: {'middle' if 5 * incomplete > rows else 'drop_rows'}"


def _missing_values(columns: Iterable[Column], *, has_gaps: bool) -> Iterator[str]:
    """Yield what stands for missing values: words that certainly do, and comments on what may."""
    certain, uncertain = list[str](), list[str]()
    for column in columns:
        words, codes = column.words, dict(column.numbers.codes)
        if words and not column.problem:
            more = f". ? Perhaps also {_counted(codes)}" if codes else ""
            values = ", ".join(map(scalar, words))
            certain.append(f"  {scalar(column.name)}: [{values}]  # {_counted(words)}{more}")
        elif maybe := words if column.problem else codes:
            values = ", ".join(map(_code, maybe))
            uncertain.append(f"#   {scalar(column.name)}: [{values}]  # {_counted(maybe)}")
    if uncertain:
        places = [*(() if certain else ["the first"]), *(() if has_gaps else ["the last"])]
        which = f", and from {' and '.join(places)}" if places else ""
        yield f"# ? Which of these stand for missing values? Remove the # from their lines{which}."
    if certain or uncertain:
        yield "missing_values:" if certain else "# missing_values:"
    yield from (*certain, *uncertain)
    if uncertain and not has_gaps:
        yield "# missing: drop_rows  # leaves such rows out; middle puts the cells in the middle of the ranks"


def _counted(words: Mapping[str, int]) -> str:
    return printable(", ".join(f"{word} in {rows:,} cells" for word, rows in words.items()))


def _excluded(column: Column) -> str:
    """Return the line of a column that is left out, marked if its owner can mend it."""
    named = any(key in column.problem for key in ("convert", "csv."))
    mendable = named or column.categories or column.words or column.convert
    return f"  - {scalar(column.name)}  # {'? ' if mendable else ''}{printable(column.problem)}"


def _listed(categories: Iterable[str]) -> str:
    return f"[{', '.join(map(scalar, categories))}]"


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
