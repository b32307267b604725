"""Pseudonyms: the coordinator matches them in place of ids, and learns no id.

A pseudonym is HMAC-SHA256 of the length-prefixed id, cut to 128 bits, under a key that the data parties of
one run have and the coordinator does not (docs/protocol.md#common-rows). Without the key sets of pseudonyms
reveal only their sizes and overlaps. With 10^8 ids, two have the same pseudonym with a chance of 2^-76.

Sets of pseudonyms are arrays of NumPy's type ``S16``, ascending: compared byte by byte, which for strings of
one length is exact.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

#: Bytes of a pseudonym.
SIZE = 16
_TYPE = np.dtype(f"S{SIZE}")
_CHUNK = 1 << 16
_MATCH, _ORDER = b"mpc_spearman/1 pseudonyms", b"mpc_spearman/1 order of common rows"


def pseudonyms(ids: pa.LargeStringArray, key: bytes) -> NDArray[np.bytes_]:
    """Return the pseudonyms of unique ids, in their order, under this run's key of 32 bytes."""
    subkey = hmac.digest(key, _MATCH, sha256)
    values = np.empty(len(ids), _TYPE)
    for start in range(0, len(ids), _CHUNK):
        texts = ids.slice(start, _CHUNK).cast(pa.large_binary()).to_pylist()
        digests = [hmac.digest(subkey, len(text).to_bytes(8, "big") + text, "sha256") for text in texts]
        halves = np.frombuffer(b"".join(digests), _TYPE)
        values[start : start + _CHUNK] = halves[::2]  # the first of each two
    return values


def shuffled(pseudonyms: NDArray[np.bytes_], key: bytes) -> NDArray[np.int64]:
    """Order rows by AES-256, under another subkey, of their pseudonyms; return positions in `pseudonyms`.

    No two pseudonyms are equal. Parties with the same ids and the key get the same order. Without the key
    nobody can link it to the ids, to the order of the pseudonyms or to another run.
    """
    subkey = hmac.digest(key, _ORDER, sha256)
    cipher = Cipher(algorithms.AES(subkey), modes.ECB()).encryptor()
    return np.argsort(np.frombuffer(cipher.update(pseudonyms.tobytes()), _TYPE))


def ascending(values: NDArray[np.bytes_]) -> bool:
    """Return whether pseudonyms are strictly ascending, and so without duplicates."""
    return bool((values[1:] > values[:-1]).all())


def common(sets: Sequence[NDArray[np.bytes_]]) -> list[NDArray[np.bool_]]:
    """Mark, in each of several strictly ascending sets, the members that are in all sets."""
    in_all = sets[0]
    for pseudonyms in sets[1:]:
        in_all = in_all[_mark_members(in_all, pseudonyms)]
    return [_mark_members(pseudonyms, in_all) for pseudonyms in sets]


def _mark_members(values: NDArray[np.bytes_], members: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    places = np.searchsorted(members, values)
    present = places < len(members)
    present[present] = members[places[present]] == values[present]
    return present
