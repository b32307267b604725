"""Which column of a table seems to identify people, and what makes the ids of two tables equal, if anything.

For owners of tables alone; of ids nothing is said but how many there are and what form they have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

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
_SOME = 10_000  # ids, to see their form
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
)
# What takes more away; by chance other ids become equal too.
_DIGITS: tuple[tuple[Normalise, ...], ...] = (("digits",), ("digits", "unpad"))


@dataclass(frozen=True, eq=False, repr=False)
class LikelyIds:
    """The column that seems to hold a table's ids."""

    name: str  # "" if none does
    cells: pa.ChunkedArray
    doubt: str  # why it may be another column; "" if that is not likely
    #: Other columns that may be the ids.
    others: Mapping[str, pa.ChunkedArray]

    def text(self, steps: Sequence[Normalise]) -> pa.LargeStringArray:
        """Return the ids as they are compared."""
        return id_text(self.cells.chunks, steps, Memory())

    def same(self, steps: Sequence[Normalise]) -> IdRows:
        """Return which rows have the same id."""
        return IdRows.of(first_copies(self.text(steps), Memory()))

    @property
    def shortened(self) -> int:
        """How many ids have fewer digits than most, as where a spreadsheet removed leading zeros."""
        text = self.text(["strip"])
        if not pc.all(pc.match_substring_regex(text, "^[1-9][0-9]*$")).as_py():
            return 0
        lengths = np.bincount(pc.binary_length(text).to_numpy())
        most = len(lengths) - 1
        shorter = int(lengths[:-1].sum())
        return shorter if most > 4 and 0 < shorter < len(text) / 4 else 0


@dataclass(frozen=True)
class Match:
    """What makes most ids of two tables equal."""

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
    counted = {name for name in copies if is_row_numbers(columns[name])}
    named = {name for name in copies if _ID.search(name)}
    likely = [name for name in copies if name == "id" or name in named or not copies[name]]
    if not likely:
        many = [name for name in copies if _MANY * pc.count_distinct(cells[name]).as_py() >= len(cells[name])]
        return LikelyIds(
            "", pa.chunked_array([], pa.large_string()), "", {name: cells[name] for name in many}
        )
    best, *others = sorted(
        likely, key=lambda name: (name in counted, name != "id", name not in named, copies[name] > 0)
    )
    also = [name for name in others if name in named and not copies[name] and name not in counted]
    doubt = ""
    if best in counted:
        doubt = "These are row numbers. Do the other parties have the same numbers?"
    elif best not in named or also:
        no_name = "" if best in named else "Its name does not say that it is an id. "
        doubt = f"{no_name}Is it this column{''.join(f', or {name!r}' for name in also)}?"
    rest = [name for name in others if name in named - counted or not columns[name].kind]  # "": text
    return LikelyIds(best, cells[best], doubt, {name: cells[name] for name in rest})


def is_row_numbers(column: Numbers) -> bool:
    """Return whether a column counts the rows from 0 or 1; of few rows it may do so by chance."""
    n, values = len(column.values), column.values
    if column.kind != "whole numbers" or n < _FEW or values[0] not in (0, 1):
        return False
    return not column.missing.any() and bool((np.diff(values) == 1).all())


def matching(one: LikelyIds, other: LikelyIds) -> tuple[LikelyIds, LikelyIds, Match]:
    """Return the columns of ids of two tables that have most ids in common, and what makes them equal.

    Columns other than the likeliest are only tried if these have no id in common. If no column of a table is
    likely, a column has to share many values: ages may all be among ids 1 to 1000.
    """
    match = _match(one, other)
    if match.common:
        return one, other, match
    pairs = [(left, right) for left in _each(one) for right in _each(other)]
    left, right, best = max(((*pair, _match(*pair)) for pair in pairs), key=lambda tried: tried[2].common)
    values = max(pc.count_distinct(ids.cells).as_py() for ids in (left, right))
    least = 1 if one.name and other.name else max(_FEW, values / 4)
    if best.common < least:
        return one, other, match
    doubt = "Of all columns that may be ids only these have any in common."
    return replace(left, doubt=doubt), replace(right, doubt=doubt), best


def _each(ids: LikelyIds) -> list[LikelyIds]:
    return [ids, *(LikelyIds(name, cells, "", {}) for name, cells in ids.others.items())]


def _match(one: LikelyIds, other: LikelyIds) -> Match:
    best, few = Match((), 0), 0.0
    for steps in (*_STEPS, *_DIGITS):
        left, right = (pc.unique(ids.text(steps)) for ids in (one, other))
        if pc.any(pc.equal(left, "")).as_py() or pc.any(pc.equal(right, "")).as_py():
            continue  # ids without a digit become empty
        rare = _RARE * min(len(left), len(right))
        common = int(pc.sum(pc.is_in(left, value_set=right)).as_py() or 0)
        if common > (max(1.5 * best.common, rare) if "digits" in steps else best.common):
            best, few = Match(steps, common, _doubt(steps, one, other)), rare
    if 0 < best.common < few:
        return replace(
            best, doubt=f"{best.doubt} Only few ids are common: are these the right columns?".strip()
        )
    return best


def _doubt(steps: Sequence[Normalise], one: LikelyIds, other: LikelyIds) -> str:
    """Say why ids that become equal may still be different people; "" if that is not likely."""
    if "unpad" in steps:
        begin = [pc.match_substring_regex(ids.text(["strip"]), "^0.") for ids in (one, other)]
        padded = [pc.sum(rows).as_py() or 0 for rows in begin]
        which = f"{padded[0]:,} ids of the first table and {padded[1]:,} of the second begin with 0"
        return f"{which}; unpad removes it, as spreadsheets do. Are 007 and 7 the same?"
    if "digits" in steps:
        return "Ids are only equal without their letters and marks. Are A7 and B-7 the same?"
    return ""


def why_none(one: LikelyIds, other: LikelyIds, names: tuple[str, str]) -> str:
    """Say why two tables may have no id in common: what one has before all its ids, or the ids' forms."""
    if missing := [name for ids, name in zip((one, other), names, strict=True) if not ids.name]:
        which = f"no column of {' and '.join(missing)} seems to hold ids"
        return f"{which}; write id: and the column that does, or id: [...] of several"
    texts = [ids.text(["strip"]) for ids in (one, other)]
    for text, name, others in zip(texts, names, texts[::-1], strict=True):
        if start := _common_start(text):
            bare = pc.replace_substring_regex(text, f"^{re.escape(start)}", "")
            if common := pc.sum(pc.is_in(pc.unique(bare), value_set=pc.unique(others))).as_py():
                more = f"without that {common:,} would be common: remove it there"
                return f"all ids of {name} begin with {start!r}; {more}"
    forms = [f"{name} has ids such as {_form(text)}" for text, name in zip(texts, names, strict=True)]
    return (
        f"{' and '.join(forms)} (A stands for a letter, 9 for a digit): are these the right columns of ids?"
    )


def _common_start(text: pa.LargeStringArray) -> str:
    """Return what all ids begin with, but for digits at its end."""
    ends = [end or "" for end in pc.min_max(text).as_py().values()]
    alike = [len(set(letters)) == 1 for letters in zip(*ends, strict=False)]
    return re.sub("[0-9]+$", "", ends[0][: [*alike, False].index(False)])


def _form(text: pa.LargeStringArray) -> str:
    """Return the form that most ids have, such as AA-9999."""
    some = text.slice(0, _SOME).to_pylist()
    forms = Counter(re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", one)) for one in some)
    return repr(forms.most_common(1)[0][0][:40])
