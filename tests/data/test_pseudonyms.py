"""Pseudonyms of ids: their values, an order that reveals nothing, and what several sets have in common."""

from __future__ import annotations

import hashlib
import hmac
from itertools import pairwise

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.data.pseudonyms import ascending, common, pseudonyms, shuffled

KEY = bytes(range(32))


def arrow(*texts: str) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def sorted_set(numbers: set[int]) -> np.ndarray:
    return np.array(sorted(number.to_bytes(16, "big") for number in numbers), "S16").reshape(-1)


def test_a_pseudonym_is_the_stated_hmac() -> None:
    subkey = hmac.new(KEY, b"mpc_spearman/1 pseudonyms", hashlib.sha256).digest()
    texts = ["p1", "", "pé", "x" * 300]
    for text, pseudonym in zip(texts, pseudonyms(arrow(*texts), KEY), strict=True):
        data = text.encode()
        message = len(data).to_bytes(8, "big") + data
        assert bytes(pseudonym).ljust(16, b"\0") == hmac.new(subkey, message, hashlib.sha256).digest()[:16]


def test_many_ids_are_taken_in_blocks_and_slices_as_they_are() -> None:
    ids = pa.array([f"p{i}" for i in range(150_000)], pa.large_string())
    whole = pseudonyms(ids, KEY)
    assert len(set(whole.tolist())) == len(ids)
    assert (pseudonyms(ids.slice(70_000, 70_000), KEY) == whole[70_000:140_000]).all()


def test_the_order_is_that_of_a_second_function_of_the_id() -> None:
    values = pseudonyms(arrow(*(f"p{i}" for i in range(400))), KEY)
    subkey = hmac.new(KEY, b"mpc_spearman/1 order of common rows", hashlib.sha256).digest()

    def place(value: bytes) -> bytes:
        return Cipher(algorithms.AES(subkey), modes.ECB()).encryptor().update(value.ljust(16, b"\0"))

    expected = sorted(range(400), key=lambda row: place(bytes(values[row])))
    assert shuffled(values, KEY).tolist() == expected
    assert shuffled(values, bytes(32)).tolist() != expected


#: Few values, so that many are common; zero bytes at both ends, which a string type might drop.
_SETS = st.sets(
    st.sampled_from([0, 1, 2, 255, 256, 1 << 64, 1 << 120, (1 << 120) + 1, (1 << 128) - 1, 7 << 96])
)


@given(st.lists(_SETS, min_size=1, max_size=4))
def test_common_members_are_those_of_every_set(sets: list[set[int]]) -> None:
    arrays = [sorted_set(one) for one in sets]
    in_all = sorted_set(set.intersection(*sets)).tolist()
    for array, marked in zip(arrays, common(arrays), strict=True):
        assert marked.shape == array.shape
        assert array[marked].tolist() == in_all


@given(st.lists(st.integers(0, 300), max_size=6))
def test_strictly_ascending_is_what_python_says(numbers: list[int]) -> None:
    values = np.array([(number << 3).to_bytes(16, "big") for number in numbers], "S16").reshape(-1)
    assert ascending(values) == all(a < b for a, b in pairwise(numbers))
