"""What every homomorphic encryption scheme must do, whatever it is made of: see engines/he/scheme.py."""

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

from mpc_spearman.data.ranks import total
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, Effort, HeSettings, PublicKey, SecretKey, Sizes
from mpc_spearman.engines.he.schemes import new_products, secret_key
from mpc_spearman.errors import BoundError, ProtocolViolation
from support.he_single import decrypt, encrypt, export, load, subtract

# Keys that can be broken but are quick: what is tested here does not depend on their size.
SETTINGS = {
    "paillier": HeSettings(scheme="paillier", key_bits=512, randomness="short", insecure=True),
    "bfv": HeSettings(scheme="bfv"),
}
N = 300
DIFFERENCES = Sizes(N, 2, 2, N - 1, N - 1, N * (N - 1), 2 * (N - 1))
PRODUCTS = Sizes(N, 3, 2, N - 1, N - 1, N * (N - 1), total(N))


@pytest.fixture(params=SETTINGS)
def scheme(request) -> str:
    if request.param == "bfv" and importlib.util.find_spec("tenseal") is None:
        pytest.skip("TenSEAL is not installed (it has no build for Python 3.10)")
    return request.param


def generate(scheme: str, sizes: Sizes, operation: str) -> SecretKey:
    return secret_key(SETTINGS[scheme], sizes, operation)


@cache  # a key and its table of powers take longer to make than most tests do
def key(scheme: str, sizes: Sizes, operation: str, number: int = 0) -> SecretKey:
    return generate(scheme, sizes, operation)


def received(secret: SecretKey, scheme: str, sizes: Sizes, operation: str) -> PublicKey:
    """The public key as another party has it; what one party may export under one key can be limited."""
    return type(secret.public).from_bytes(secret.public.to_bytes(), SETTINGS[scheme], sizes, operation)


def chunks(values: np.ndarray, slots: int) -> list[np.ndarray]:
    return [values[start : start + slots] for start in range(0, len(values), slots)]


def differences(scheme: str, a: np.ndarray, b: np.ndarray, **options) -> np.ndarray:
    """a - b, as source, target and coordinator find it together."""
    secret = key(scheme, DIFFERENCES, "differences")
    source, target = (received(secret, scheme, DIFFERENCES, "differences") for _ in range(2))
    wire = [source.dump(c) for c in source.encrypt(chunks(a, source.slots))]
    assert {len(raw) for raw in wire} == {source.ciphertext_bytes}
    own = target.encrypt(chunks(b, target.slots))
    wire = target.export(target.subtract(target.load(wire), own), **options)
    assert {len(raw) for raw in wire} == {target.result_ciphertext_bytes}
    counts = [len(chunk) for chunk in chunks(a, source.slots)]
    return np.concatenate(secret.decrypt(wire, counts))


def products(scheme: str, sizes: Sizes, x: np.ndarray, y: np.ndarray, workers: int = 1) -> np.ndarray:
    """x yT, as source, target and coordinator find it together."""
    secret = key(scheme, sizes, "products")
    source, target = (received(secret, scheme, sizes, "products") for _ in range(2))
    sums = new_products(target)
    for start in range(0, sizes.n, source.rows):
        rows = slice(start, min(sizes.n, start + source.rows))
        block = source.encrypt_block(x[:, rows], Effort(workers))
        assert len(block) == source.ciphertexts_for(rows.stop - rows.start)
        wire = [source.dump(c) for c in block]
        assert {len(raw) for raw in wire} == {source.ciphertext_bytes}
        sums.add(target.load(wire), y[:, rows], Effort(workers))
    wire = sums.export(Effort(workers))
    assert [len(raw) for raw in wire] == [target.result_ciphertext_bytes] * target.product_ciphertexts
    return secret.open_products(wire, Effort(workers))


def vectors(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    """Rank vectors without ties, in random order."""
    return rng.permuted(np.tile(np.arange(1 - n, n, 2), (count, 1)), axis=1)


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.astype(object) @ y.astype(object).T


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


def test_differences_of_a_table_that_does_not_fill_its_last_ciphertext(scheme):
    a, b = vectors(np.random.default_rng(1), 2, N)
    assert N % key(scheme, DIFFERENCES, "differences").public.slots
    np.testing.assert_array_equal(differences(scheme, a, b), a - b)
    np.testing.assert_array_equal(differences(scheme, a, b, rerandomise=False), a - b)


@pytest.mark.parametrize("first", [1, -1])
def test_differences_at_the_bounds_leave_their_neighbours_alone(scheme, first):
    a = (N - 1) * first * np.resize([1, -1], N)
    np.testing.assert_array_equal(differences(scheme, a, -a), 2 * a)
    np.testing.assert_array_equal(differences(scheme, a, a), np.zeros(N))
    lone = np.where(np.arange(N) % 3 == 1, a, 0)
    np.testing.assert_array_equal(differences(scheme, lone, -lone), 2 * lone)


def test_what_the_target_encrypts_for_the_coordinator_alone_may_be_as_large_as_a_difference(scheme):
    secret = key(scheme, DIFFERENCES, "differences")
    target = received(secret, scheme, DIFFERENCES, "differences")
    values = np.array([2 * (N - 1), -2 * (N - 1)])[: target.slots]
    raw = export(target, encrypt(target, values), rerandomise=False)
    np.testing.assert_array_equal(decrypt(secret, raw, len(values)), values)


@pytest.mark.parametrize(("m_source", "m_target"), [(1, 1), (3, 2), (40, 1)])
def test_products_are_those_of_the_plaintexts(scheme, m_source, m_target):
    rng = np.random.default_rng(m_source)
    x, y = vectors(rng, m_source, N), vectors(rng, m_target, N)
    sizes = Sizes(N, m_source, m_target, N - 1, N - 1, N * (N - 1), total(N))
    found = products(scheme, sizes, x, y)
    assert found.shape == (m_source, m_target)
    assert all(isinstance(value, int) for value in found.ravel())
    np.testing.assert_array_equal(found, exact(x, y))


def test_products_over_many_blocks_up_to_the_largest(scheme):
    n = 9001
    x, y = vectors(np.random.default_rng(3), 4, n), vectors(np.random.default_rng(4), 2, n)
    x[0].sort(), y[0].sort()
    x[1], x[2] = -x[0], 0
    sizes = Sizes(n, 4, 2, n - 1, n - 1, n * (n - 1), total(n))
    public = key(scheme, sizes, "products").public
    assert n > public.rows > n % public.rows > 0
    found = products(scheme, sizes, x, y, workers=2)
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


# --- what is refused


def test_a_value_beyond_its_bound_is_neither_encrypted_nor_multiplied(scheme):
    public = key(scheme, DIFFERENCES, "differences").public
    for value in (2 * N - 1, 1 - 2 * N, 2**63 - 1, -(2**63)):
        with pytest.raises(BoundError):
            encrypt(public, np.array([value]))
    public = key(scheme, PRODUCTS, "products").public
    x, y = (np.zeros((columns, 4), np.int64) for columns in (PRODUCTS.m_source, PRODUCTS.m_target))
    block = public.encrypt_block(x)
    for value in (N, -N, -(2**63)):
        x[-1, -1] = y[-1, -1] = value
        with pytest.raises(BoundError):
            public.encrypt_block(x)
        with pytest.raises(BoundError):
            new_products(public).add(block, y)


def test_what_does_not_fit_a_ciphertext_or_a_block_is_refused(scheme):
    public = key(scheme, DIFFERENCES, "differences").public
    with pytest.raises(ValueError, match="ciphertext"):
        encrypt(public, np.zeros(public.slots + 1, dtype=np.int64))
    public = key(scheme, PRODUCTS, "products").public
    with pytest.raises(ValueError, match="block"):
        public.encrypt_block(np.zeros((PRODUCTS.m_source, public.rows + 1), dtype=np.int64))


def test_a_difference_beyond_the_result_bound_is_no_difference_and_stops_nothing(scheme):
    secret, large = key(scheme, DIFFERENCES, "differences"), np.array([2 * (N - 1)])
    public = received(secret, scheme, DIFFERENCES, "differences")
    source = received(secret, scheme, DIFFERENCES, "differences")
    beyond = load(public, source.dump(encrypt(source, large)))  # the source broke its own bound
    found = decrypt(secret, export(public, subtract(public, beyond, encrypt(public, np.array([-1])))), 1)
    assert found.dtype == np.int64
    assert found[0] > DIFFERENCES.result_bound or found[0] < -DIFFERENCES.result_bound


def test_products_beyond_the_result_bound_are_no_products_and_stop_nothing(scheme):
    sizes = Sizes(4, 1, 1, 10, 10, 40, 300)
    x = np.full((1, 4), 10)
    assert products(scheme, sizes, x, np.array([[10, 10, 10, 0]])) == 300
    assert abs(products(scheme, sizes, x, np.array([[10, 10, 10, 1]]))[0, 0]) > 300


def test_ciphertexts_of_the_wrong_form_are_refused(scheme):
    secret = key(scheme, DIFFERENCES, "differences")
    public = received(secret, scheme, DIFFERENCES, "differences")
    fresh = encrypt(public, np.arange(-1, min(public.slots, 3) - 1))
    for raw, take in (
        (public.dump(fresh), lambda raw: load(public, raw)),
        (export(public, fresh), lambda raw: decrypt(secret, raw, min(public.slots, 3))),
    ):
        take(raw)
        for bad in (b"", raw[:-1], raw + b"\0", b"\xff" * len(raw)):
            with pytest.raises(ProtocolViolation):
                take(bad)


def test_products_of_the_wrong_number_or_form_are_refused(scheme):
    secret = key(scheme, PRODUCTS, "products")
    raws = new_products(received(secret, scheme, PRODUCTS, "products")).export()
    assert not secret.open_products(raws).any()
    for bad in ([], raws[:-1], [*raws, raws[0]], [*raws[:-1], raws[-1][:-1]], [*raws[:-1], b""]):
        with pytest.raises(ProtocolViolation):
            secret.open_products(bad)


@pytest.mark.parametrize("operation", ["differences", "products"])
def test_a_public_key_that_is_not_one_is_refused(scheme, operation):
    sizes = DIFFERENCES if operation == "differences" else PRODUCTS
    public = key(scheme, sizes, operation).public
    raw = public.to_bytes()
    for bad in (b"", raw[:-1], raw + b"\0", bytes(len(raw)), b"\xff" * len(raw)):
        with pytest.raises(ProtocolViolation):
            type(public).from_bytes(bad, SETTINGS[scheme], sizes, operation)


def test_a_key_serves_the_purpose_it_was_made_for(scheme):
    public, one = key(scheme, DIFFERENCES, "differences").public, np.array([1])
    for use in (lambda: new_products(public), lambda: public.encrypt_block(one[None])):
        with pytest.raises(ValueError, match="for products"):
            use()
    with pytest.raises(ValueError, match="for differences"):
        encrypt(key(scheme, PRODUCTS, "products").public, one)


# --- other keys, and changes on the way


def test_the_wrong_secret_key_finds_nothing(scheme):
    secret, other = (key(scheme, DIFFERENCES, "differences", number) for number in (0, 1))
    public = received(secret, scheme, DIFFERENCES, "differences")
    count = min(public.slots, N)
    raw = export(public, encrypt(public, np.arange(count)))
    np.testing.assert_array_equal(decrypt(secret, raw, count), np.arange(count))
    try:
        found = decrypt(other, raw, count)
    except ProtocolViolation:  # not even in that key's range
        return
    assert (found == IMPOSSIBLE).all()


def test_a_ciphertext_under_another_key_is_found_at_the_latest_by_the_coordinator(scheme):
    secret, other = (key(scheme, DIFFERENCES, "differences", number) for number in (0, 1))
    target = received(secret, scheme, DIFFERENCES, "differences")
    values = np.arange(min(target.slots, N))
    foreign = other.public.dump(encrypt(other.public, values))

    def find(raw: bytes) -> np.ndarray:
        mixed = subtract(target, load(target, raw), encrypt(target, values))
        return decrypt(secret, export(target, mixed), len(values))

    assert not find(target.dump(encrypt(target, values))).any()
    try:
        found = find(foreign)
    except ProtocolViolation:  # not even in the range of the key it is read with
        return
    assert (found == IMPOSSIBLE).all()


def test_a_changed_ciphertext_is_caught_or_changes_nothing(scheme):
    secret, rng = key(scheme, DIFFERENCES, "differences"), np.random.default_rng(7)
    public = received(secret, scheme, DIFFERENCES, "differences")
    values = np.arange(min(public.slots, N))
    raw = export(public, encrypt(public, values))
    caught = 0
    for _ in range(30):
        changed = bytearray(raw)
        changed[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        try:
            found = decrypt(secret, bytes(changed), len(values))
        except ProtocolViolation:  # no ciphertext at all
            caught += 1
            continue
        beyond = (found > DIFFERENCES.result_bound) | (found < -DIFFERENCES.result_bound)
        caught += beyond.any()
        assert beyond.any() or np.array_equal(found, values)
    assert caught > 5


def test_keys_that_are_the_same_have_the_same_fingerprint_and_others_do_not(scheme):
    one, two = (key(scheme, DIFFERENCES, "differences", number) for number in (0, 1))
    again = received(one, scheme, DIFFERENCES, "differences")
    assert again.fingerprint == one.public.fingerprint == hashlib.sha256(again.to_bytes()).digest()
    assert one.public.fingerprint != two.public.fingerprint
    assert again.name == scheme


# --- fresh randomness, constant lengths


def test_equal_values_give_different_ciphertexts(scheme):
    public = received(key(scheme, DIFFERENCES, "differences"), scheme, DIFFERENCES, "differences")
    same = [np.array([5])] * 6
    fresh = public.encrypt(same)
    assert len({public.dump(c) for c in fresh}) == 6
    results = public.export(fresh) + public.export(fresh[:1] * 6)
    assert len({*results, *(public.dump(c) for c in fresh)}) == len(results) + 6


def test_equal_products_give_different_ciphertexts(scheme):
    secret = key(scheme, PRODUCTS, "products")
    targets = [received(secret, scheme, PRODUCTS, "products") for _ in range(3)]
    nothing = [raw for target in targets for raw in new_products(target).export()]
    assert len(set(nothing)) == len(nothing)


def test_only_a_fresh_encryption_goes_from_source_to_target(scheme):
    public = key(scheme, DIFFERENCES, "differences").public
    a, b = encrypt(public, np.array([2])), encrypt(public, np.array([1]))
    for stale in (subtract(public, a, b), load(public, public.dump(a))):
        with pytest.raises(ValueError, match="encrypt"):
            public.dump(stale)


@pytest.mark.parametrize(("sizes", "operation"), [(DIFFERENCES, "differences"), (PRODUCTS, "products")])
def test_lengths_depend_on_public_sizes_only(scheme, sizes, operation):
    keys = [key(scheme, sizes, operation, number).public for number in (0, 1)]
    names = ("ciphertext_bytes", "result_ciphertext_bytes", "slots", "rows")
    lengths = [[len(public.to_bytes()), *(getattr(public, name) for name in names)] for public in keys]
    assert lengths[0] == lengths[1]


# --- nothing secret leaves


def test_keys_can_be_neither_pickled_nor_copied_and_show_nothing(scheme):
    one, two = (key(scheme, DIFFERENCES, "differences", number) for number in (0, 1))
    for thing in (one, one.public):
        for move in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                move(thing)
    assert repr(one) == repr(two)
    assert str(one) == str(two)
    assert not {"to_bytes", "__bytes__", "dump", "export", "save"} & set(dir(one))


def test_workers_change_no_result_and_progress_is_told(scheme):
    secret, rng = key(scheme, DIFFERENCES, "differences"), np.random.default_rng(9)
    values = [rng.integers(1 - N, N, min(secret.public.slots, 9)) for _ in range(30)]
    for workers in (1, 3):
        public, told = received(secret, scheme, DIFFERENCES, "differences"), []

        def finished(result: list, told: list[int] = told) -> list:
            assert len(result) == 30
            assert told == sorted(told)
            assert told[-1] == 30
            told.clear()
            return result

        fresh = finished(public.encrypt(values, Effort(workers, told.append)))
        raws = finished(public.export(fresh, Effort(workers, told.append)))
        counts = [len(v) for v in values]
        opened = finished(secret.decrypt(raws, counts, Effort(workers, told.append)))
        np.testing.assert_array_equal(np.concatenate(opened), np.concatenate(values))


def test_what_progress_raises_ends_the_work(scheme):
    public = key(scheme, DIFFERENCES, "differences").public

    def lost(done: int) -> None:
        raise ConnectionError

    for workers in (1, 3):
        with pytest.raises(ConnectionError):
            public.encrypt([np.array([1])] * 40, Effort(workers, lost))
