"""Columns whose categories have no order (``encode: {region: flags}``): each category becomes a flag.

A flag is a column of 0 and 1, ranked as any other, with the name ``region=north``. Names of flags are sent to
other parties, as names of columns are. So a category of few people has no flag of its own: all of these make
one together, ``region=other``. Which flags there are depends on the owner's whole table alone, and so not on
the rows of a run, which partners may choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory, Rows
from mpc_spearman.data.cells import Numbers
from mpc_spearman.data.choice import check_length
from mpc_spearman.data.gaps import Codes
from mpc_spearman.data.notation import mask
from mpc_spearman.data.refusals import Unusable, show

#: The most different values of a column with categories; more are names or free text.
MOST = 1_000
#: The category that takes those of few people.
OTHER = "other"
_TEXT = pa.large_string()
_WHOLE = r"^(-?[0-9]+)\.0+$"  # as pandas writes whole numbers among which some are missing


class CategoryCells:
    """Reads a column block by block: each cell becomes its place in the list of categories.

    Blocks are of one type, text or any that Arrow writes as text, and none is of a dictionary.
    """

    def __init__(self, codes: Codes, memory: Memory) -> None:
        self._codes, self._memory = codes, memory
        self._categories, self._places = list[str](), list[npt.NDArray[np.int16]]()

    def add(self, block: pa.Array) -> None:
        """Add the next cells."""
        missing = mask(block.is_null())
        if block.type != _TEXT:
            missing |= self._codes.typed(block)
            if pa.types.is_floating(block.type):
                missing |= np.isnan(block.to_numpy(zero_copy_only=False))
            try:
                block = block.cast(_TEXT)
            except pa.ArrowException:
                raise Unusable(
                    f"{block.type}, of which flags cannot be made; leave it out (exclude)"
                ) from None
        text = pc.utf8_normalize(pc.utf8_trim_whitespace(block.fill_null("")), "NFC")
        missing |= self._codes.cells(text)
        text = pc.replace_substring_regex(text, _WHOLE, r"\1")
        if len(self._categories) <= MOST:
            new = text.filter(pa.array(~missing)).unique()
            new = new.filter(pc.invert(pc.is_in(new, value_set=pa.array(self._categories, _TEXT))))
            self._categories += new.slice(0, MOST + 1).to_pylist()
        places = pc.index_in(text, value_set=pa.array(self._categories[:MOST], _TEXT)).fill_null(-1)
        codes = places.to_numpy().astype(np.int16)
        codes[missing] = -1
        self._places.append(self._memory.keep(codes))

    def numbers(self) -> Numbers:
        """Return each cell's place among the sorted categories, once all cells have been added."""
        if len(self._categories) > MOST:
            raise Unusable(
                f"text with more than {MOST:,} different values, not categories that can become flags; group "
                "them into fewer in the table, or leave it out (exclude)"
            )
        names = sorted(self._categories, key=_sort_key)
        new_places = np.array([names.index(name) for name in self._categories] + [-1], np.int16)
        places, start = self._memory.zeros((sum(map(len, self._places)),), np.int16), 0
        for part in self._places:
            places[start : start + len(part)], start = new_places[part], start + len(part)
        return Numbers(places, places < 0, "categories without an order", categories=tuple(names))


def _sort_key(category: str) -> tuple[float, str]:
    """Return the key that sorts categories: whole numbers by their value, and before all other text."""
    return (float(category) if category.isascii() and category.isdigit() else np.inf, category)


@dataclass(frozen=True, eq=False, repr=False)
class CategoryFlags:
    """The flags of one column."""

    column: str
    #: Each row's category, (n,), by its place in a list; -1 where it is missing.
    places: npt.NDArray[np.int16]
    #: Which categories have 1, for each flag by its feature's name.
    categories_of: Mapping[str, npt.NDArray[np.int16]]
    #: What the owner should know.
    caution: str = ""

    def values(self, feature: str, rows: Rows | None) -> npt.NDArray[np.bool_]:
        """Return a flag's values in some rows (None: all), masked where its column has no value."""
        places = self.places if rows is None else self.places[rows]
        flag, missing = np.isin(places, self.categories_of[feature]), places < 0
        return np.ma.masked_array(flag, missing) if missing.any() else flag


def flags_of(
    column: str, places: npt.NDArray[np.int16], categories: Sequence[str], rows: Mask, fewest: int
) -> CategoryFlags:
    """Make the flags of a column, each of at least `fewest` rows; only rows marked in `rows`, (n,), count.

    Smaller categories are one together, which takes the next larger one as long as it is too small itself.
    Two categories make one flag, for the second one in alphabetical order that is not all others together.
    """
    counts = np.bincount(places[rows & (places >= 0)], minlength=len(categories))
    by_size = sorted(np.flatnonzero(counts).tolist(), key=lambda place: (counts[place], place))
    small = [place for place in by_size if counts[place] < fewest]
    while small and len(small) < len(by_size) and counts[small].sum() < fewest:
        small.append(by_size[len(small)])
    groups = {name: [place] for place, name in enumerate(categories) if counts[place] and place not in small}
    if small:
        groups[OTHER] = groups.pop(OTHER, []) + small
    if len(groups) < 2:
        raise Unusable(
            f"fewer than two of its categories have {fewest} rows (policy.min_rows); leave it out (exclude)"
        )
    if len(groups) == 2:
        last = max(groups, key=lambda name: (name != OTHER, [*groups].index(name)))
        groups = {last: groups[last]}
    for name in groups:
        check_length(f"{column}={name}", "a category's flag")
    categories_of = {f"{column}={name}": np.array(group, np.int16) for name, group in groups.items()}
    caution = (
        f"column {show(column)}: {len(small)} of its {len(by_size)} categories are one together, {OTHER!r}, "
        f"since some have fewer than {fewest} rows (policy.min_rows)"
    )
    return CategoryFlags(column, places, categories_of, caution if small else "")
