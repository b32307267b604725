"""The columns of row ids: their text, normalised as the plan says, joined, without duplicates.

Ids are compared as text. Text stays as it is written, whole numbers become their decimal digits and dates
their ISO form, ``2020-01-31``; nothing else can be an id. All is done by Arrow's kernels, not row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.columns import is_text, named, whole
from mpc_spearman.data.refusals import Unusable, at, show

#: Characters that nobody sees: zero-width spaces and joiners, the byte order mark, the soft hyphen.
NO_WIDTH = "[\u00ad\u200b-\u200d\u2060\ufeff]"
Mask = npt.NDArray[np.bool_]
_AT_ONCE = 1 << 20


def id_text(column: pa.ChunkedArray, normalise: Sequence[Normalise]) -> pa.LargeStringArray:
    """Turn one column of ids into text, null where an id is missing."""
    array = whole(column)
    if pa.types.is_dictionary(array.type):
        array = whole(pa.chunked_array([array.dictionary_decode()]))
    if not is_text(array.type):
        array = _written(array)
    try:  # Parquet's strings need not be what they are called
        text = array.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        raise Unusable("ids that are not UTF-8") from None
    for step in normalise:
        text = _STEPS[step](text)
    return text


def join(names: Sequence[str], columns: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    """Make one id of the columns of each row.

    Of several, each is written after its length in bytes and a colon, ``4:Anna10:1990-01-31``, so that no two
    rows that differ in a column have the same id.
    """
    for name, column in zip(names, columns, strict=True):
        empty = pc.or_(column.is_null(), pc.equal(column.fill_null(""), "")).to_numpy(zero_copy_only=False)
        if empty.any():
            raise Unusable(f"column {show(name)}: {at(empty, 'empty id')}; fill them in or remove the rows")
    if len(columns) == 1:
        return columns[0]
    parts = []
    for column in columns:
        parts += [pc.binary_length(column).cast(pa.large_string()), pa.scalar(":", pa.large_string()), column]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))


def repeated(ids: pa.LargeStringArray) -> tuple[Mask, Mask]:
    """Mark the rows with a duplicate id.

    Returns
    -------
    all_copies, later_copies : ndarray of bool, shape (n,)
    """
    later, copied = np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=bool)
    ends = np.zeros(len(ids), dtype=np.uint8)
    if len(ids) > _AT_ONCE:  # those with the same last byte by themselves: a dictionary takes 200 bytes an id
        ends = np.frombuffer(pc.binary_slice(ids.cast(pa.large_binary()), -1).buffers()[2], dtype=np.uint8)
    for end in np.flatnonzero(np.bincount(ends)):
        rows = np.flatnonzero(ends == end)
        # A dictionary lists values in the order in which they come first, so a place below the highest so far
        # is one that came before.
        places = ids.take(pa.array(rows)).dictionary_encode().indices.to_numpy()
        later[rows[1:]] = places[1:] <= np.maximum.accumulate(places)[:-1]
        copied[rows] = (np.bincount(places) > 1)[places]
    return copied, later


def _written(array: pa.Array) -> pa.Array:
    """Write ids that are whole numbers or dates as text."""
    kind = array.type
    if pa.types.is_null(kind):
        return array.cast(pa.large_string())
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return array.cast(pa.large_string())
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        days = array.cast(pa.date32())
        if pc.all(pc.equal(days.cast(kind), array)).as_py() in (True, None):
            return days.cast(pa.large_string())
    raise Unusable(
        f"ids of type {named(kind)}, neither text, whole numbers nor dates: cast them to text or to int64"
    )


def map_text(text: pa.LargeStringArray, change: Callable[[str], str]) -> pa.LargeStringArray:
    """Change each text by a function of Python's that changes what is between control characters by itself.

    Arrow has no case folding, and its normal forms differ from release to release. So all texts are changed
    as one, with a character between them that none holds.
    """
    filled, nothing = text.fill_null(""), pa.scalar("", text.type)
    marks = (mark for mark in map(chr, range(32)) if not pc.any(pc.match_substring(filled, mark)).as_py())
    mark = next(marks, None)
    if mark is None:
        raise Unusable("ids with control characters of every kind")
    data = pc.binary_join_element_wise(filled, pa.scalar(mark, text.type), nothing).buffers()[2]
    changed = change(data.to_pybytes().decode()) if data else ""
    apart = pc.split_pattern(pa.array([changed], text.type), mark).flatten().slice(0, len(text))
    return pc.if_else(text.is_null(), pa.scalar(None, text.type), apart)


_STEPS: dict[Normalise, Callable[[pa.LargeStringArray], pa.LargeStringArray]] = {
    "strip": lambda text: pc.utf8_trim_whitespace(pc.replace_substring_regex(text, NO_WIDTH, "")),
    "casefold": lambda text: map_text(text, str.casefold),
    "nfkc": lambda text: map_text(text, partial(normalize, "NFKC")),
    "digits": lambda text: pc.replace_substring_regex(text, "[^0-9]", ""),
}
