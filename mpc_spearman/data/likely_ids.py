"""Which column of a table seems to hold ids, and which ``normalise`` makes the ids of two tables equal.

For owners of tables alone; of ids nothing is said but how many there are and what form they have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product, takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Memory
from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.cells import Numbers
from mpc_spearman.data.combine import IdRows
from mpc_spearman.data.ids import first_copies, id_text, repeated
from mpc_spearman.data.refusals import Unusable

_FEW = 10  # rows, or ids in common
_RARE = 0.1  # of the smaller table's ids, so many in common may be by chance
_SAMPLE = 10_000  # ids, to see their form
_MANY = 20  # rows of one id on average, at most
# The name of a column of ids has one of these words, or an ending as in patientId, personid or Kundennr;
# uric_acid is none.
_PERSON = "patient|person|subject|participant|member|insured"
_WORDS = f"id|ids|key|nr|no|number|nummer|mrn|pid|uid|uuid|{_PERSON}"
_ID = re.compile(
    rf"(?i:(^|[^a-z])({_WORDS})([^a-z]|$)|(nr|nummer)\.?$|({_PERSON})(en)?id$)|[a-z](Id|ID|Nr|No)$"
)
# What may be done to ids, least first.
_STEPS: tuple[tuple[Normalise, ...], ...] = (
    (),
    ("strip",),
    ("strip", "casefold"),
    ("strip", "nfkc", "casefold"),
    ("strip", "unpad"),
    ("strip", "casefold", "unpad"),
    ("digits",),  # which removes more: by chance other ids become equal too
    ("digits", "unpad"),
)


@dataclass(frozen=True, eq=False, repr=False)
class LikelyIds:
    """The column that seems to hold a table's ids."""

    name: str  # "" if none does
    cells: pa.ChunkedArray
    doubt: str = ""  # why it may be another column; "" if that is not likely
    #: Other columns that may be the ids.
    alternatives: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    def text(self, steps: Sequence[Normalise]) -> pa.LargeStringArray:
        """Return the ids as they are compared."""
        return id_text(self.cells.chunks, steps, Memory())

    def same_ids(self, steps: Sequence[Normalise]) -> IdRows:
        """Return which rows have the same id."""
        return IdRows.of(first_copies(self.text(steps), Memory()))

    @property
    def shortened(self) -> int:
        """How many ids have fewer digits than most, as where a spreadsheet removed leading zeros."""
        text = self.text(["strip"])
        if not self.name or not pc.all(pc.match_substring_regex(text, "^[1-9][0-9]*$")).as_py():
            return 0
        lengths = np.bincount(pc.binary_length(text).to_numpy())
        shorter = int(lengths[:-1].sum())
        return shorter if len(lengths) > 5 and shorter < len(text) / 4 else 0

    def columns(self) -> list[LikelyIds]:
        """Return this column and the alternatives that may be the ids."""
        return [self, *(LikelyIds(name, cells) for name, cells in self.alternatives.items())]


@dataclass(frozen=True)
class Match:
    """The steps of ``normalise`` that make most ids of two tables equal, and how many become equal."""

    steps: tuple[Normalise, ...]
    common: int
    doubt: str = ""  # why equal ids may still be different people


def likely_ids(columns: Mapping[str, Numbers], cells: Mapping[str, pa.ChunkedArray]) -> LikelyIds:
    """Find the column of ids.

    It is `id`, the plan's default; or one whose name says so, or with a value in each row and none twice,
    best both. Row numbers are ids only if nothing else can be.
    """
    copies, memory = dict[str, int](), Memory()
    for name, column in cells.items():
        if columns[name].kind in ("real numbers", "dates or times", "true or false") and name != "id":
            continue
        with suppress(Unusable):
            ids = id_text(column.chunks, ["strip"], memory)
            if name == "id" or not pc.any(pc.equal(ids, "")).as_py():
                copies[name] = int(repeated(ids, memory)[0].sum())
    numbered = {name for name in copies if is_row_numbers(columns[name])}
    named = {name for name in copies if _ID.search(name)}
    likely = [name for name in copies if name == "id" or name in named or not copies[name]]
    if not likely:
        few_rows = [name for name in copies if _MANY * _distinct(cells[name]) >= len(cells[name])]
        return LikelyIds(
            "", pa.chunked_array([], pa.large_string()), "", {name: cells[name] for name in few_rows}
        )
    best, *alternatives = sorted(
        likely, key=lambda name: (name in numbered, name != "id", name not in named, copies[name] > 0)
    )
    as_likely = [name for name in alternatives if name in named - numbered and not copies[name]]
    doubt = ""
    if best in numbered:
        doubt = "These are row numbers. Do the other parties have the same numbers?"
    elif best not in named or as_likely:
        no_name = "" if best in named else "Its name does not say that it is an id. "
        doubt = f"{no_name}Is it this column{''.join(f', or {name!r}' for name in as_likely)}?"
    text = {name for name in alternatives if not columns[name].kind}
    possible = {name: cells[name] for name in alternatives if name in named - numbered | text}
    return LikelyIds(best, cells[best], doubt, possible)


def _distinct(cells: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(cells).as_py())


def is_row_numbers(column: Numbers) -> bool:
    """Return whether a column numbers the rows from 0 or 1; among few rows that may be chance."""
    n, values = len(column.values), column.values
    if column.kind != "whole numbers" or n < _FEW or values[0] not in (0, 1):
        return False
    return not column.missing.any() and bool((np.diff(values) == 1).all())


def matching(first: LikelyIds, second: LikelyIds) -> tuple[LikelyIds, LikelyIds, Match]:
    """Return the two id columns, one of each table, that have most ids in common, and their `Match`.

    Columns other than the likeliest are only tried if these have no id in common. If no column of a table is
    likely, a column has to share many values: ages may all be among ids 1 to 1000.
    """
    match = _match(first, second)
    if match.common:
        return first, second, match
    pairs = product(first.columns(), second.columns())
    matches = [(*pair, _match(*pair)) for pair in pairs]
    first_ids, second_ids, best = max(matches, key=lambda tried: tried[2].common)
    quarter = max(_distinct(ids.cells) for ids in (first_ids, second_ids)) / 4
    fewest = 1 if first.name and second.name else max(_FEW, quarter)
    if best.common < fewest:
        return first, second, match
    doubt = "Of all columns that may be ids only these have any in common."
    return replace(first_ids, doubt=doubt), replace(second_ids, doubt=doubt), best


def _match(first: LikelyIds, second: LikelyIds) -> Match:
    best, rare_for_best = Match((), 0), 0.0
    for steps in _STEPS:
        first_ids, second_ids = (pc.unique(ids.text(steps)) for ids in (first, second))
        if pc.any(pc.equal(first_ids, "")).as_py() or pc.any(pc.equal(second_ids, "")).as_py():
            continue  # ids without a digit become empty
        rare = _RARE * min(len(first_ids), len(second_ids))
        common = int(pc.sum(pc.is_in(first_ids, value_set=second_ids)).as_py() or 0)
        if common > (max(1.5 * best.common, rare) if "digits" in steps else best.common):
            best, rare_for_best = Match(steps, common, _doubt(steps, first, second)), rare
    if 0 < best.common < rare_for_best:
        few = "Only few ids are common: are these the right columns?"
        return replace(best, doubt=f"{best.doubt} {few}".strip())
    return best


def _doubt(steps: Sequence[Normalise], first: LikelyIds, second: LikelyIds) -> str:
    """Say why ids that become equal may still be different people; "" if that is not likely."""
    if "unpad" in steps:
        padded = [pc.match_substring_regex(ids.text(["strip"]), "^0.") for ids in (first, second)]
        counts = [pc.sum(rows).as_py() or 0 for rows in padded]
        which = f"{counts[0]:,} ids of the first table and {counts[1]:,} of the second begin with 0"
        return f"{which}; unpad removes it, as spreadsheets do. Are 007 and 7 the same?"
    if "digits" in steps:
        return "Ids are only equal without their letters and marks. Are A7 and B-7 the same?"
    return ""


def why_none(first: LikelyIds, second: LikelyIds, names: tuple[str, str]) -> str:
    """Say why two tables may have no id in common: a prefix of all ids in one table, or different forms."""
    if without_ids := [name for ids, name in zip((first, second), names, strict=True) if not ids.name]:
        which = f"no column of {' and '.join(without_ids)} seems to hold ids"
        return f"{which}; write id: and the column that does, or id: [...] of several"
    texts = [ids.text(["strip"]) for ids in (first, second)]
    for text, name, other_text in zip(texts, names, texts[::-1], strict=True):
        ends = [end or "" for end in pc.min_max(text).as_py().values()]
        alike = takewhile(lambda letters: letters[0] == letters[1], zip(*ends, strict=False))
        start = re.sub("[0-9]+$", "", "".join(letter for letter, _ in alike))
        bare = pc.replace_substring_regex(text, f"^{re.escape(start)}", "")
        if start and (common := pc.sum(pc.is_in(pc.unique(bare), value_set=pc.unique(other_text))).as_py()):
            advice = f"without that {common:,} would be common: remove it there"
            return f"all ids of {name} begin with {start!r}; {advice}"
    forms = [f"{name} has ids such as {_form(text)}" for text, name in zip(texts, names, strict=True)]
    return (
        f"{' and '.join(forms)} (A stands for a letter, 9 for a digit): are these the right columns of ids?"
    )


def _form(text: pa.LargeStringArray) -> str:
    """Return the form that most ids have, such as AA-9999."""
    sample = text.slice(0, _SAMPLE).to_pylist()
    forms = Counter(re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", written)) for written in sample)
    return repr(forms.most_common(1)[0][0][:40])
