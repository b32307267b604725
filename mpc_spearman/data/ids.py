"""Row ids: their order and digest, and the target's tag, which shows that two results are over the same rows.

Ids are an Arrow array of text, and what is done to them is done to its buffers, not row by row.

The tag is an HMAC under a key that the target alone keeps, in the file ``parties.target.alignment_key``. It
stays in the target's own result. Without the key it says nothing about the ids; whoever has both could test
guesses of the whole list, so the key is never written anywhere else.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import partial
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpc_spearman.data.id_columns import NO_WIDTH, map_text
from mpc_spearman.files import own_key

# Numbers that a table of another program may hold as 7: with zeros in front, a point, an exponent or a sign.
_AS_TEXT = r"^(\+[0-9.]+|[+-]?0[0-9]+|[+-]?[0-9]+\.[0-9]*|[+-]?[0-9.]+[eE][+-]?[0-9]+)$"
_BLOCK = 1 << 16  # ids at a time
_LABEL = b"mpc_spearman alignment 2"  # the digest of ids in a run's handshake is under other keys


def id_digest(ids: pa.LargeStringArray, key: bytes) -> bytes:
    """Digest ids and their order, so that two parties can compare them without showing them.

    HMAC-SHA256 over the number of ids and, for each, the length of its UTF-8 form and that form; lengths
    are 8 bytes, big-endian. The lengths make the encoding injective: ("ab", "c") and ("a", "bc") differ.
    Without `key` the digest says nothing about the ids; with it, guesses at the whole list can be tried.

    Parameters
    ----------
    key : bytes
        Shared by the two parties and nobody else.

    Returns
    -------
    bytes
        32 bytes.
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


def id_help(ids: pa.LargeStringArray) -> str:
    """Say what of a party's own ids may be why they are not the others'; "" if nothing is odd.

    Counts only. For the party alone: it must not be sent.
    """
    nfc = map_text(ids, partial(normalize, "NFC"))
    odd = {
        "have spaces around them (normalise: [strip])": pc.not_equal(ids, pc.utf8_trim_whitespace(ids)),
        "have zero-width characters (normalise: [strip])": pc.match_substring_regex(ids, NO_WIDTH),
        "are not in Unicode's normal form NFC (normalise: [nfkc])": pc.not_equal(ids, nfc),
        "have upper-case letters (normalise: [casefold])": pc.not_equal(ids, pc.utf8_lower(ids)),
        "look like numbers written as text, such as 007, 7.0 or 1e3": pc.match_substring_regex(ids, _AS_TEXT),
    }
    found = [f"{count:,} {what}" for what, rows in odd.items() if (count := pc.sum(rows).as_py() or 0)]
    return f"Of the {len(ids):,} ids here, " + ", ".join(found) if found else ""


def alignment_tag(key_file: Path, ids: pa.LargeStringArray) -> str:
    """Tag row ids, in whatever order they are.

    HMAC-SHA256 of the length-prefixed ids (`id_digest`) in ascending order of their UTF-8 forms, under
    HMAC-SHA256 of a fixed label under the file's key.

    Parameters
    ----------
    key_file : Path
        32 random bytes, its owner's alone. Made where missing, and never replaced.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    PlanError
        The file cannot be made or read, has another size, or others may read it.
    """
    key = own_key(key_file, "parties.target.alignment_key")
    ordered = ids.take(pc.sort_indices(ids))
    return id_digest(ordered, hmac.digest(key, _LABEL, hashlib.sha256)).hex()
