"""What every homomorphic encryption scheme must do: see engines/he/scheme.py."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import math
import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mpc_spearman.config import HeSettings
from mpc_spearman.data.ranks import total
from mpc_spearman.engines.computation import Bounds, Computation
from mpc_spearman.engines.he.engine import sizes as layout
from mpc_spearman.engines.he.keys import keys_of
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, PublicKey, SecretKey, Sizes
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.parties import Party, Role
from support.bfv_parties import exact, ranks

# Keys that can be broken but are quick: what is tested here does not depend on their size.
SETTINGS = {
    "paillier": HeSettings(scheme="paillier", key_bits=512, randomness="short", insecure=True),
    "bfv": HeSettings(scheme="bfv"),
}
N = 300
DIFFERENCES = Sizes(N, 2, 2, N - 1, N - 1, N * (N - 1), 2 * (N - 1), operation="differences")
PRODUCTS = Sizes(N, 3, 2, N - 1, N - 1, N * (N - 1), total(N))


@pytest.fixture(params=SETTINGS)
def scheme(request) -> str:
    if request.param == "bfv" and importlib.util.find_spec("tenseal") is None:
        pytest.skip("TenSEAL is not installed (it has no build for Python 3.10)")
    return request.param


@cache  # a key and its table of powers take longer to make than most tests do
def key(scheme: str, sizes: Sizes, number: int = 0) -> SecretKey:
    return keys_of(scheme)[0].generate(SETTINGS[scheme], sizes)


def received(secret: SecretKey, scheme: str, threads: int = 1) -> PublicKey:
    """The public key as another party has it; what one party may export under one key can be limited."""
    found = keys_of(scheme)[1].from_bytes(secret.public.to_bytes(), SETTINGS[scheme], secret.public.sizes)
    found.threads = secret.public.threads = threads
    return found


def chunks(values: np.ndarray, slots: int) -> list[np.ndarray]:
    return [values[start : start + slots] for start in range(0, len(values), slots)]


def subtracted(target: PublicKey, wire: list[bytes], own: list[np.ndarray], **options) -> list[bytes]:
    pairs = [(i, i) for i in range(len(own))]
    return target.subtract(wire, own, pairs, **{"rerandomise": True} | options)


def differences(scheme: str, a: np.ndarray, b: np.ndarray, threads: int = 1, **options) -> np.ndarray:
    """a - b, as source, target and coordinator find it together."""
    secret = key(scheme, DIFFERENCES)
    source, target = (received(secret, scheme, threads) for _ in range(2))
    wire = source.encrypt(chunks(a, source.slots))
    assert {len(raw) for raw in wire} == {source.ciphertext_bytes}
    wire = subtracted(target, wire, chunks(b, target.slots), **options)
    assert {len(raw) for raw in wire} == {target.result_ciphertext_bytes}
    counts = [len(chunk) for chunk in chunks(a, source.slots)]
    return np.concatenate(secret.decrypt(wire, counts))


def products(scheme: str, sizes: Sizes, x: np.ndarray, y: np.ndarray, threads: int = 1) -> np.ndarray:
    """x yT, as source, target and coordinator find it together."""
    secret = key(scheme, sizes)
    source, target = (received(secret, scheme, threads) for _ in range(2))
    sums = target.products()
    for start in range(0, x.shape[1], source.rows):
        rows = slice(start, min(x.shape[1], start + source.rows))
        wire = source.encrypt_block(x[:, rows])
        assert [len(raw) for raw in wire] == [source.ciphertext_bytes] * source.ciphertexts_for(
            rows.stop - rows.start
        )
        sums.add(wire, y[:, rows])
    wire, public = sums.export(), secret.public
    assert [len(raw) for raw in wire] == [public.result_ciphertext_bytes] * public.product_ciphertexts
    return secret.open_products(wire)


# --- homomorphism


def columns(n: int = 40, bound: int = N - 1):
    return hnp.arrays(np.int64, st.shared(st.integers(1, n), key="rows"), elements=st.integers(-bound, bound))


@given(columns(), columns())
@settings(max_examples=20)
@pytest.mark.parametrize("name", SETTINGS)
def test_differences_are_those_of_the_plaintexts(name, a, b):
    if name == "bfv":
        pytest.importorskip("tenseal")
    np.testing.assert_array_equal(differences(name, a, b), a - b)


@pytest.mark.parametrize("threads", [1, 3])
def test_differences_of_a_table_that_does_not_fill_its_last_ciphertext(scheme, threads):
    a, b = ranks(np.random.default_rng(1), 2, N)
    assert N % key(scheme, DIFFERENCES).public.slots
    for rerandomise in (True, False):
        np.testing.assert_array_equal(differences(scheme, a, b, threads, rerandomise=rerandomise), a - b)


@pytest.mark.parametrize("first", [1, -1])
def test_differences_at_the_bounds_leave_their_neighbours_alone(scheme, first):
    a = (N - 1) * first * np.resize([1, -1], N)
    np.testing.assert_array_equal(differences(scheme, a, -a), 2 * a)
    np.testing.assert_array_equal(differences(scheme, a, a), np.zeros(N))
    lone = np.where(np.arange(N) % 3 == 1, a, 0)
    np.testing.assert_array_equal(differences(scheme, lone, -lone), 2 * lone)


def test_values_encrypted_by_the_target_may_be_as_large_as_a_difference(scheme):
    secret = key(scheme, DIFFERENCES)
    values = np.array([2 * (N - 1), -2 * (N - 1)])
    raws = received(secret, scheme).subtract([], [values], [(None, 0)], rerandomise=True)
    np.testing.assert_array_equal(secret.decrypt(raws, [2])[0], values)


@pytest.mark.parametrize(("m_source", "m_target"), [(1, 1), (3, 2), (40, 1)])
def test_products_are_those_of_the_plaintexts(scheme, m_source, m_target):
    rng = np.random.default_rng(m_source)
    x, y = ranks(rng, m_source, N), ranks(rng, m_target, N)
    sizes = Sizes(N, m_source, m_target, N - 1, N - 1, N * (N - 1), total(N))
    found = products(scheme, sizes, x, y)
    assert found.shape == (m_source, m_target)
    assert all(isinstance(value, int) for value in found.ravel())
    np.testing.assert_array_equal(found, exact(x, y))


def test_products_over_many_blocks_up_to_the_largest(scheme):
    n = 9001
    x, y = ranks(np.random.default_rng(3), 4, n), ranks(np.random.default_rng(4), 2, n)
    x[0].sort(), y[0].sort()
    x[1], x[2] = -x[0], 0
    sizes = Sizes(n, 4, 2, n - 1, n - 1, n * (n - 1), total(n))
    public = key(scheme, sizes).public
    assert n > public.rows > n % public.rows > 0
    found = products(scheme, sizes, x, y, threads=2)
    assert found[:3, 0].tolist() == [total(n), -total(n), 0]
    np.testing.assert_array_equal(found, exact(x, y))


def test_products_of_wide_vectors_up_to_62_bits(scheme):
    n, wide = 200, math.isqrt(2**62 // 200)
    rng = np.random.default_rng(5)
    x, y = rng.integers(-wide, wide, (1, n)), rng.integers(-wide, wide, (3, n))
    x[0], y[0], y[1] = wide, wide, -wide
    sizes = Sizes(n, 1, 3, wide, wide, wide * n, 2**62)
    found = products(scheme, sizes, x, y)
    np.testing.assert_array_equal(found, exact(x, y))
    assert found[0, 0] == -found[0, 1] > 0.99 * 2**62


@pytest.mark.parametrize(
    ("operation", "summed", "keys", "n"),
    [("differences", False, 2, 60), ("inner_products", False, 2, 60), ("inner_products", True, 1, 120)],
)
def test_sums_of_all_sources_use_one_key_and_joined_rows(operation, summed, keys, n):
    one, other = (Party(name, Role.SOURCE, number) for number, name in ((2, "A"), (3, "D")))
    whole = Computation(operation, 60, {one: 4, other: 1}, 3, Bounds(59, 59, 3_540, 10**5), summed)
    found = layout(whole, None if summed else other)
    assert (found.keys, found.n) == (keys, n)


# --- what is refused


def test_more_than_the_noise_bound_allows_is_not_multiplied(scheme):
    public = key(scheme, Sizes(4, 3, 2, 9, 9, 19, 300)).public
    x = np.ones((3, 3), np.int64)
    for y in ([[9, -9, 2], [0, 0, 0]], [[0, 0, 0], [9, 9, 9]]):  # 20 and 27, whatever their signs
        with pytest.raises(BoundError):
            public.products().add(public.encrypt_block(x), np.array(y))


def test_a_value_beyond_its_bound_is_neither_encrypted_nor_multiplied(scheme):
    public = key(scheme, DIFFERENCES).public
    for value in (2 * N - 1, 1 - 2 * N, 2**63 - 1, -(2**63)):
        with pytest.raises(BoundError):
            public.encrypt([np.array([value])])
    public = key(scheme, PRODUCTS).public
    x, y = (np.zeros((columns, 4), np.int64) for columns in (PRODUCTS.m_source, PRODUCTS.m_target))
    block = public.encrypt_block(x)
    for value in (N, -N, -(2**63)):
        x[-1, -1] = y[-1, -1] = value
        with pytest.raises(BoundError):
            public.encrypt_block(x)
        with pytest.raises(BoundError):
            public.products().add(block, y)


def test_a_difference_beyond_the_bound_is_undefined_and_stops_no_run(scheme):
    secret = key(scheme, DIFFERENCES)
    beyond = received(secret, scheme).encrypt([np.array([2 * (N - 1)])])  # the source broke its own bound
    found = secret.decrypt(subtracted(received(secret, scheme), beyond, [np.array([-1])]), [1])[0]
    assert found.dtype == np.int64
    assert found[0] > DIFFERENCES.result_bound or found[0] < -DIFFERENCES.result_bound


def test_products_beyond_the_result_bound_are_no_products_and_stop_nothing(scheme):
    sizes = Sizes(4, 1, 1, 10, 10, 40, 300)
    x = np.full((1, 4), 10)
    assert products(scheme, sizes, x, np.array([[10, 10, 10, 0]])) == 300
    assert abs(products(scheme, sizes, x, np.array([[10, 10, 10, 1]]))[0, 0]) > 300


def test_what_is_no_ciphertext_is_refused(scheme):
    secret, one = key(scheme, DIFFERENCES), np.array([1])
    public = received(secret, scheme)
    wire = public.encrypt([one])
    for raws, take in (
        (wire, lambda raws: subtracted(public, raws, [one])),
        (subtracted(public, wire, [one]), lambda raws: secret.decrypt(raws, [1])),
    ):
        take(raws)
        with pytest.raises(ProtocolViolation):
            take([b"\xff" * len(raws[0])])


@pytest.mark.parametrize("sizes", [DIFFERENCES, PRODUCTS])
def test_a_public_key_that_is_not_one_is_refused(scheme, sizes):
    raw = key(scheme, sizes).public.to_bytes()
    for bad in (b"", raw[:-1], raw + b"\0", bytes(len(raw)), b"\xff" * len(raw)):
        with pytest.raises(ProtocolViolation):
            keys_of(scheme)[1].from_bytes(bad, SETTINGS[scheme], sizes)


# --- other keys, and changes on the way


def test_the_coordinator_at_the_latest_detects_a_ciphertext_of_another_key(scheme):
    secret, other = (key(scheme, DIFFERENCES, number) for number in (0, 1))
    target = received(secret, scheme)
    values = np.arange(min(target.slots, N))

    def find(wire: list[bytes], opener: SecretKey) -> np.ndarray:
        return opener.decrypt(subtracted(target, wire, [values]), [len(values)])[0]

    assert not find(target.encrypt([values]), secret).any()
    for wire, opener in (
        (other.public.encrypt([values]), secret),
        (target.encrypt([values]), other),
    ):
        try:
            found = find(wire, opener)
        except ProtocolViolation:  # not even in the range of the key it is read with
            continue
        assert (found == IMPOSSIBLE).all()


def test_a_changed_ciphertext_is_caught_or_changes_nothing(scheme):
    secret, rng = key(scheme, DIFFERENCES), np.random.default_rng(7)
    public = received(secret, scheme)
    values = np.arange(min(public.slots, N))
    (raw,) = public.subtract([], [values], [(None, 0)], rerandomise=True)
    caught = 0
    for _ in range(30):
        changed = bytearray(raw)
        changed[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        try:
            (found,) = secret.decrypt([bytes(changed)], [len(values)])
        except ProtocolViolation:  # no ciphertext at all
            caught += 1
            continue
        beyond = (found > DIFFERENCES.result_bound) | (found < -DIFFERENCES.result_bound)
        caught += beyond.any()
        assert beyond.any() or np.array_equal(found, values)
    assert caught > 5


# --- fresh randomness, constant lengths


def test_only_equal_keys_have_the_same_fingerprint(scheme):
    one, two = (key(scheme, DIFFERENCES, number) for number in (0, 1))
    again = received(one, scheme)
    assert again.fingerprint == one.public.fingerprint == hashlib.sha256(again.to_bytes()).digest()
    assert one.public.fingerprint != two.public.fingerprint


# --- nothing secret leaves


def test_keys_can_be_neither_pickled_nor_copied_and_show_nothing(scheme):
    one, two = (key(scheme, DIFFERENCES, number) for number in (0, 1))
    for thing in (one, one.public):
        for move in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                move(thing)
    assert repr(one) == repr(two)
    assert str(one) == str(two)
    assert not {"to_bytes", "__bytes__", "dump", "export", "save"} & set(dir(one))
