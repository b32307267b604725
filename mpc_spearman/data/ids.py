"""Row ids: their text, normalised and joined; their duplicates, digest and the target's tag.

Ids are compared as text. Text stays as it is written, whole numbers become their decimal digits and dates
their ISO form, ``2020-01-31``; nothing else can be an id. All but `map_text` is done by Arrow's kernels and
on Arrow's buffers, not row by row.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.arrays import Mask, Memory, Rows, blocks
from mpc_spearman.config.table_keys import Normalise
from mpc_spearman.data.cells import buffers_of, keep_text, large_text
from mpc_spearman.data.columns import is_text, storage, type_name
from mpc_spearman.data.notation import mask
from mpc_spearman.data.refusals import Unusable, at_rows, show
from mpc_spearman.files import read_or_create_key

#: Characters that nobody sees: zero-width spaces and joiners, the byte order mark, the soft hyphen.
NO_WIDTH = "[\u00ad\u200b-\u200d\u2060\ufeff]"
_AT_ONCE, _PART = 1 << 20, 1 << 22  # ids
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Numbers that a table of another program may hold as 7: with a point, an exponent or a sign.
_AS_TEXT = r"^(\+[0-9.]+|[+-]?[0-9]+\.[0-9]*|[+-]?[0-9.]+[eE][+-]?[0-9]+)$"
_NUMBER = "^[1-9][0-9]*$"
_MARKED = "^[0-9]+([-/ ][0-9]+)+$"
_BLOCK = 1 << 16  # ids at a time
_LABEL = b"mpc_spearman alignment 2"  # the digest of ids in a run's handshake is under other keys


def id_text(
    blocks: Iterable[pa.Array], normalise: Sequence[Normalise], memory: Memory
) -> pa.LargeStringArray:
    """Turn a column of ids into text, "" where an id is missing."""
    return _concatenated([_compact(_block_as_text(block, normalise), memory) for block in blocks], memory)


def _compact(text: pa.LargeStringArray, memory: Memory) -> pa.LargeStringArray:
    """Copy text out of Arrow's memory, of which a block that was built cell by cell takes twice its size."""
    if len(text) <= _BLOCK:
        return text
    ends, cells = buffers_of(text)
    return large_text(memory.keep(ends.copy()), memory.keep(cells.copy()))


def _block_as_text(block: pa.Array, normalise: Sequence[Normalise]) -> pa.LargeStringArray:
    array = storage(block)
    if pa.types.is_dictionary(array.type):
        array = storage(array.dictionary_decode())
    if not is_text(array.type):
        array = _ids_as_text(array)
    try:  # Parquet's strings need not be what they are called
        text = array.cast(pa.large_binary()).cast(pa.large_string()).fill_null("")
    except pa.ArrowInvalid:
        raise Unusable("ids that are not UTF-8") from None
    for step in normalise:
        text = _STEPS[step](text)
    return text


def _ids_as_text(array: pa.Array) -> pa.Array:
    """Turn a block of ids into text; `Unusable` if its type cannot be an id."""
    kind = array.type
    digits = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    if digits or pa.types.is_null(kind):
        return array.cast(pa.large_string())
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        days = array.cast(pa.date32())
        if pc.all(pc.equal(days.cast(kind), array)).as_py() in (True, None):
            return days.cast(pa.large_string())
    cast = "neither text, whole numbers nor dates: cast them to text or to int64"
    raise Unusable(f"ids of type {type_name(kind)}, {cast}")


def _concatenated(texts: list[pa.LargeStringArray], memory: Memory) -> pa.LargeStringArray:
    """Join blocks of text into one, which may be in a file, and free each block once it is copied."""
    if len(texts) == 1:
        return texts[0]
    n, size = sum(map(len, texts)), sum(pc.sum(pc.binary_length(text)).as_py() or 0 for text in texts)
    ends, cells, row, end = memory.zeros((n + 1,), np.int64), memory.zeros((size,), np.uint8), 0, 0
    for i, text in enumerate(texts):
        if len(text):
            ends_of_block, cells_of_block = buffers_of(text)
            ends[row + 1 : row + len(ends_of_block)] = ends_of_block[1:] + end
            cells[end : end + len(cells_of_block)] = cells_of_block
            row, end = row + len(text), end + len(cells_of_block)
        texts[i] = None  # so that text is not in memory twice for long
    return large_text(ends, cells)


def join(names: Sequence[str], columns: Sequence[pa.LargeStringArray], memory: Memory) -> pa.LargeStringArray:
    """Join the columns of each row into one id.

    Of several, each is written after its length in bytes and a colon, ``4:Anna10:1990-01-31``, so that no two
    rows that differ in a column have the same id.
    """
    for name, column in zip(names, columns, strict=True):
        empty = mask(pc.equal(pc.binary_length(column), 0))
        if empty.any():
            raise Unusable(
                f"column {show(name)}: {at_rows(empty, 'empty id')}; fill them in or remove the rows"
            )
    if len(columns) == 1:
        return columns[0]
    joined = []
    for start in range(0, len(columns[0]), _AT_ONCE):
        parts = []
        for column in (column.slice(start, _AT_ONCE) for column in columns):
            lengths = pc.binary_length(column).cast(pa.large_string())
            parts += [lengths, pa.scalar(":", pa.large_string()), column]
        text = pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))
        joined.append(keep_text(text, memory))
    return _concatenated(joined, memory)


def take(ids: pa.LargeStringArray, rows: Rows, memory: Memory) -> pa.LargeStringArray:
    """Return the ids of some rows, in their order."""
    some = (ids.take(pa.array(rows[part])) for part in blocks(len(rows), _AT_ONCE))
    return _concatenated([keep_text(text, memory) for text in some] or [ids.slice(0, 0)], memory)


def repeated(ids: pa.LargeStringArray, memory: Memory) -> tuple[Mask, Mask]:
    """Mark the rows with a duplicate id: all copies, and all but the first of each."""
    later, copied = (memory.zeros((len(ids),), np.bool_) for _ in range(2))
    for rows, places in _numbered_candidates(ids, memory):
        later[rows[1:]] = places[1:] <= np.maximum.accumulate(places)[:-1]  # a number that came before
        copied[rows] = (np.bincount(places) > 1)[places]
    return copied, later


def first_copies(ids: pa.LargeStringArray, memory: Memory) -> Rows:
    """Return for each row the first row with the same id, (n,)."""
    first = memory.zeros((len(ids),), np.int64)
    for part in blocks(len(ids), _AT_ONCE):
        first[part] = np.arange(part.start, part.stop)
    for rows, places in _numbered_candidates(ids, memory):
        first[rows] = rows[np.unique(places, return_index=True)[1]][places]
    return first


def _numbered_candidates(ids: pa.LargeStringArray, memory: Memory) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows that may have a duplicate id, and a number for each one's id."""
    for rows in _duplicate_candidates(ids, memory):
        # A dictionary lists values in the order in which they come first.
        yield rows, ids.take(pa.array(rows)).dictionary_encode().indices.to_numpy()


def _duplicate_candidates(ids: pa.LargeStringArray, memory: Memory) -> Iterator[Rows]:
    """Yield, in parts, the rows that may have a duplicate id; rows with one id are in one part, in order.

    Of many ids a hash is sorted, in parts by its first bits; a dictionary of all would take 200 bytes an id.
    """
    n = len(ids)
    if n <= _AT_ONCE:
        yield np.arange(n)
        return
    hashes, bits = memory.zeros((n,), np.uint64), np.uint64(64 - (n // _PART).bit_length())
    for part in blocks(n, _BLOCK):
        hashes[part] = _hashed(ids.slice(part.start, part.stop - part.start))
    for first_bits in range(1 << (64 - int(bits))):
        rows = np.concatenate(
            [part.start + np.flatnonzero(hashes[part] >> bits == first_bits) for part in blocks(n, _AT_ONCE)]
        )
        of_rows = hashes[rows]
        ordered = np.sort(of_rows)
        twice = np.isin(of_rows, np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
        if not twice.any():
            continue
        rows, of_rows = rows[twice], of_rows[twice]
        order = np.argsort(of_rows, kind="stable")
        ends = np.flatnonzero(np.diff(of_rows[order])) + 1  # of equal hashes
        cuts = ends[np.unique(np.searchsorted(ends, range(0, len(rows), _AT_ONCE), side="right") - 1)[1:]]
        yield from np.split(rows[order], cuts)


def _hashed(ids: pa.LargeStringArray) -> npt.NDArray[np.uint64]:
    """Return a hash of each id, to find ids that may be equal; it hides nothing."""
    ends, cells = buffers_of(ids)
    padded = np.concatenate((cells, np.zeros(8, np.uint8)))
    words = np.ndarray((len(cells) + 1,), np.uint64, padded, strides=(1,))  # one begins at each byte
    starts, sizes = ends[:-1], np.diff(ends)
    hashes, rows = sizes.astype(np.uint64), np.arange(len(ids))
    while len(rows):
        bits = np.uint64(8) * np.minimum(sizes, 7).astype(np.uint64)
        of_id = np.where(sizes < 8, (np.uint64(1) << bits) - np.uint64(1), ~np.uint64(0))
        mixed = (hashes[rows] ^ (words[starts] & of_id)) * _FACTOR
        hashes[rows] = mixed ^ (mixed >> np.uint64(29))
        longer = sizes > 8
        rows, starts, sizes = rows[longer], starts[longer] + 8, sizes[longer] - 8
    return hashes * _FACTOR


def map_text(text: pa.LargeStringArray, change: Callable[[str], str]) -> pa.LargeStringArray:
    """Apply a Python function to each text.

    Arrow has no case folding, and its normal forms differ from release to release.
    """
    lists = (text.slice(start, _BLOCK).to_pylist() for start in range(0, len(text), _BLOCK))
    changed = [pa.array([cell and change(cell) for cell in cells], text.type) for cells in lists]
    return pa.concat_arrays([text.slice(0, 0), *changed])


_STEPS: dict[Normalise, Callable[[pa.LargeStringArray], pa.LargeStringArray]] = {
    "strip": lambda text: pc.utf8_trim_whitespace(pc.replace_substring_regex(text, NO_WIDTH, "")),
    "casefold": lambda text: map_text(text, str.casefold),
    "nfkc": lambda text: map_text(text, partial(normalize, "NFKC")),
    "digits": lambda text: pc.replace_substring_regex(text, "[^0-9]", ""),
    "unpad": lambda text: pc.replace_substring_regex(text, "(?s)^0+(.)", r"\1"),
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
    """Return why a party's ids may differ from the others', in counts; "" if nothing is odd.

    What is true of some ids in `common` as well is no reason. It is for the party alone and must not be sent.
    """
    ids_and_common = [ids] if common is None else [ids, common]
    numbers = [some.filter(pc.match_substring_regex(some, _NUMBER)) for some in ids_and_common]
    most_digits = max(pc.max(pc.binary_length(some)).as_py() or 0 for some in numbers)
    oddities = [_oddities(some, most_digits) for some in ids_and_common]
    clauses = [
        f"{count:,} {oddity}"
        for oddity, count in oddities[0].items()
        if count and not any(usual[oddity] for usual in oddities[1:])
    ]
    return f"Of the {len(ids):,} ids here, " + ", ".join(clauses) if clauses else ""


def _oddities(ids: pa.LargeStringArray, most_digits: int) -> dict[str, int]:
    """Count the ids that may differ from others', by reason; each reason names the key that helps."""
    nfc = map_text(ids, partial(normalize, "NFC"))
    fewer_digits = pc.and_(
        pc.match_substring_regex(ids, _NUMBER), pc.less(pc.binary_length(ids), most_digits)
    )
    odd = {
        "have spaces around them (normalise: [strip])": pc.not_equal(ids, pc.utf8_trim_whitespace(ids)),
        "have zero-width characters (normalise: [strip])": pc.match_substring_regex(ids, NO_WIDTH),
        "are not in Unicode's normal form NFC (normalise: [nfkc])": pc.not_equal(ids, nfc),
        "have upper-case letters (normalise: [casefold])": pc.not_equal(ids, pc.utf8_lower(ids)),
        "have marks between digits (normalise: [digits])": pc.match_substring_regex(ids, _MARKED),
        "begin with 0, which others may have lost (normalise: [unpad])": pc.match_substring_regex(ids, "^0."),
        "have fewer digits than the longest, as if zeros were lost (normalise: [unpad])": fewer_digits,
        "look like numbers written as text, such as 7.0 or 1e3": pc.match_substring_regex(ids, _AS_TEXT),
    }
    return {oddity: pc.sum(rows).as_py() or 0 for oddity, rows in odd.items()}


def alignment_tag(key_file: Path, ids: pa.LargeStringArray) -> str:
    """Compute a tag of row ids, in any order, which is equal in results over the same rows.

    It is 64 hexadecimal digits: the `id_digest` of the ids in ascending order of their UTF-8 forms, under
    HMAC-SHA256 of a fixed label under the file's key (`read_or_create_key`). The key and the tag stay with
    the target. Without the key the tag says nothing about the ids; with it, guesses at the whole list can be
    tried.
    """
    key = read_or_create_key(key_file, "parties.target.alignment_key")
    ordered = ids.take(pc.sort_indices(ids))
    return id_digest(ordered, hmac.digest(key, _LABEL, hashlib.sha256)).hex()
