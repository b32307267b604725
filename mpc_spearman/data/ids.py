"""Row ids: their text, normalised and joined; their duplicates, digest and the target's tag.

Ids are compared as text. Text stays as it is written, whole numbers become their decimal digits and dates
their ISO form, ``2020-01-31``; nothing else can be an id. All but `map_text` is done by Arrow's kernels and
on Arrow's buffers, not row by row.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.columns import is_text, named, whole
from mpc_spearman.data.refusals import Unusable, at, show
from mpc_spearman.files import own_key

#: Characters that nobody sees: zero-width spaces and joiners, the byte order mark, the soft hyphen.
NO_WIDTH = "[\u00ad\u200b-\u200d\u2060\ufeff]"
Mask = npt.NDArray[np.bool_]
_AT_ONCE = 1 << 20
# Numbers that a table of another program may hold as 7: with zeros in front, a point, an exponent or a sign.
_AS_TEXT = r"^(\+[0-9.]+|[+-]?0[0-9]+|[+-]?[0-9]+\.[0-9]*|[+-]?[0-9.]+[eE][+-]?[0-9]+)$"
_BLOCK = 1 << 16  # ids at a time
_LABEL = b"mpc_spearman alignment 2"  # the digest of ids in a run's handshake is under other keys


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
    """Mark the rows with a duplicate id: all copies, and all but the first of each."""
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
    kind = array.type
    digits = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    if digits or pa.types.is_null(kind):
        return array.cast(pa.large_string())
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        days = array.cast(pa.date32())
        if pc.all(pc.equal(days.cast(kind), array)).as_py() in (True, None):
            return days.cast(pa.large_string())
    what = "neither text, whole numbers nor dates: cast them to text or to int64"
    raise Unusable(f"ids of type {named(kind)}, {what}")


def map_text(text: pa.LargeStringArray, change: Callable[[str], str]) -> pa.LargeStringArray:
    """Change each text by a function of Python's.

    Arrow has no case folding, and its normal forms differ from release to release.
    """
    blocks = (text.slice(start, _BLOCK).to_pylist() for start in range(0, len(text), _BLOCK))
    changed = [pa.array([one and change(one) for one in block], text.type) for block in blocks]
    return pa.concat_arrays([text.slice(0, 0), *changed])


_STEPS: dict[Normalise, Callable[[pa.LargeStringArray], pa.LargeStringArray]] = {
    "strip": lambda text: pc.utf8_trim_whitespace(pc.replace_substring_regex(text, NO_WIDTH, "")),
    "casefold": lambda text: map_text(text, str.casefold),
    "nfkc": lambda text: map_text(text, partial(normalize, "NFKC")),
    "digits": lambda text: pc.replace_substring_regex(text, "[^0-9]", ""),
}


def id_digest(ids: pa.LargeStringArray, key: bytes) -> bytes:
    """Digest ids and their order, so that two parties can compare them without showing them; 32 bytes.

    HMAC-SHA256 over the number of ids and, for each, the length of its UTF-8 form and that form; lengths
    are 8 bytes, big-endian, so that ("ab", "c") and ("a", "bc") differ. `key` is the two parties' alone:
    with it, guesses at the whole list can be tried; without it, the digest says nothing about the ids.
    """
    mac = hmac.new(key, len(ids).to_bytes(8, "big"), hashlib.sha256)
    nothing = pa.scalar(b"", pa.large_binary())
    for start in range(0, len(ids), _BLOCK):
        block = ids.slice(start, _BLOCK).cast(pa.large_binary())
        lengths = pc.binary_length(block).to_numpy().astype(">i8")
        places = np.arange(len(block) + 1, dtype=np.int64) * 8
        heads = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(block), [None, pa.py_buffer(places), pa.py_buffer(lengths)]
        )
        joined = pc.binary_join_element_wise(heads, block, nothing).buffers()[2]
        mac.update(memoryview(joined)[: int(lengths.sum()) + 8 * len(block)])
    return mac.digest()


def id_help(ids: pa.LargeStringArray, common: pa.LargeStringArray | None = None) -> str:
    """Return why a party's ids may differ from the others'; "" if nothing is odd.

    What is true of some ids in `common` as well is no reason. Contains counts only. It is for the party alone
    and must not be sent.
    """
    odd = _odd(ids)
    usual = _odd(common) if common is not None and any(odd.values()) else {}
    found = [f"{count:,} {what}" for what, count in odd.items() if count and not usual.get(what)]
    return f"Of the {len(ids):,} ids here, " + ", ".join(found) if found else ""


def _odd(ids: pa.LargeStringArray) -> dict[str, int]:
    nfc = map_text(ids, partial(normalize, "NFC"))
    odd = {
        "have spaces around them (normalise: [strip])": pc.not_equal(ids, pc.utf8_trim_whitespace(ids)),
        "have zero-width characters (normalise: [strip])": pc.match_substring_regex(ids, NO_WIDTH),
        "are not in Unicode's normal form NFC (normalise: [nfkc])": pc.not_equal(ids, nfc),
        "have upper-case letters (normalise: [casefold])": pc.not_equal(ids, pc.utf8_lower(ids)),
        "look like numbers written as text, such as 007, 7.0 or 1e3": pc.match_substring_regex(ids, _AS_TEXT),
    }
    return {what: pc.sum(rows).as_py() or 0 for what, rows in odd.items()}


def alignment_tag(key_file: Path, ids: pa.LargeStringArray) -> str:
    """Tag row ids, in whatever order they are, so that two results over the same rows can be recognised.

    It is 64 hexadecimal digits: the `id_digest` of the ids in ascending order of their UTF-8 forms, under
    HMAC-SHA256 of a fixed label under the file's key (`own_key`). The key and the tag stay with the target.
    Without the key the tag says nothing about the ids; with it, guesses at the whole list can be tried.
    """
    key = own_key(key_file, "parties.target.alignment_key")
    ordered = ids.take(pc.sort_indices(ids))
    return id_digest(ordered, hmac.digest(key, _LABEL, hashlib.sha256)).hex()
