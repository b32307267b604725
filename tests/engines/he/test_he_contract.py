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

from mpc_spearman.config import HeSettings
from mpc_spearman.data.ranks import total
from mpc_spearman.engines.computation import Bounds, Computation
from mpc_spearman.engines.he import engine
from mpc_spearman.engines.he.engine import keys_of
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, PublicKey, SecretKey, Sizes
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.parties import Party, Role
from support.he_parties import exact, exported, multiplied, products, rank_sizes, ranks

# Keys that can be broken but are quick: what is tested here does not depend on their size.
SETTINGS = {
    "paillier": HeSettings(scheme="paillier", key_bits=512, randomness="short", insecure=True),
    "bfv": HeSettings(scheme="bfv"),
}
N = 300
DIFFERENCES = rank_sizes(N, products=False)
PRODUCTS = rank_sizes(N, 3, 2)


@pytest.fixture(params=SETTINGS)
def scheme(request) -> str:
    if request.param == "bfv" and importlib.util.find_spec("tenseal") is None:
        pytest.skip("TenSEAL is not installed (it has no build for Python 3.10)")
    return request.param


@cache  # a key and its table of powers take longer to make than most tests do
def key(scheme: str, sizes: Sizes, number: int = 0) -> SecretKey:
    return keys_of(scheme)[0].generate(SETTINGS[scheme], sizes)


def received(secret: SecretKey, scheme: str, threads: int = 1) -> PublicKey:
    """Return the public key as another party has it, which may export only so much under it."""
    public = keys_of(scheme)[1].from_bytes(secret.public.to_bytes(), SETTINGS[scheme], secret.public.sizes)
    public.threads = secret.public.threads = threads
    return public


def difference(target: PublicKey, raws: list[bytes], b: np.ndarray) -> list[bytes]:
    return target.subtract(raws, b[None], [(0, 0)])


def differences(scheme: str, a: np.ndarray, b: np.ndarray, threads: int = 1) -> np.ndarray:
    """Return a - b, as source, target and coordinator compute it together."""
    secret = key(scheme, DIFFERENCES)
    source, target = (received(secret, scheme, threads) for _ in range(2))
    encrypted = source.encrypt(a[None])
    assert [len(raw) for raw in encrypted] == [source.ciphertext_bytes] * source.ciphertexts_for(len(a))
    raws = difference(target, encrypted, b)
    assert {len(raw) for raw in raws} == {target.result_ciphertext_bytes}
    return secret.decrypt(raws, 1, len(a))[0]


def computed_products(
    scheme: str, sizes: Sizes, x: np.ndarray, y: np.ndarray, threads: int = 1
) -> np.ndarray:
    """Return x yᵀ, as source, target and coordinator compute it together."""
    secret = key(scheme, sizes)
    public = received(secret, scheme, threads)
    encrypted = public.encrypt(x[:, : public.rows])
    count = public.ciphertexts_for(min(public.rows, x.shape[1]))
    assert [len(raw) for raw in encrypted] == [public.ciphertext_bytes] * count
    raws = multiplied(public, x, y)
    assert [len(raw) for raw in raws] == [public.result_ciphertext_bytes] * public.product_ciphertexts
    return products(secret, raws)


# --- homomorphism


@pytest.mark.parametrize("threads", [1, 3])
def test_differences_of_vectors_that_do_not_fill_their_last_ciphertext(scheme, threads):
    a, b = ranks(1, 2, N)
    assert N % key(scheme, DIFFERENCES).public.slots
    np.testing.assert_array_equal(differences(scheme, a, b, threads), a - b)


@pytest.mark.parametrize("sign", [1, -1])
def test_differences_at_the_bounds_leave_their_neighbours_alone(scheme, sign):
    a = (N - 1) * sign * np.resize([1, -1], N)
    np.testing.assert_array_equal(differences(scheme, a, -a), 2 * a)
    np.testing.assert_array_equal(differences(scheme, a, a), np.zeros(N))
    sparse = np.where(np.arange(N) % 3 == 1, a, 0)
    np.testing.assert_array_equal(differences(scheme, sparse, -sparse), 2 * sparse)


def test_pairs_of_several_vectors_come_in_their_order(scheme):
    a, b = ranks(1, 2, N), ranks(2, 3, N)
    secret = key(scheme, rank_sizes(N, 2, 3, products=False))
    pairs = [(0, 2), (None, 1), (1, 0)]
    raws = received(secret, scheme).subtract(received(secret, scheme).encrypt(a), b, pairs)
    expected = [a[0] - b[2], b[1], a[1] - b[0]]
    np.testing.assert_array_equal(secret.decrypt(raws, 3, N), expected)


def test_values_encrypted_by_the_target_may_be_as_large_as_a_difference(scheme):
    secret, largest = key(scheme, DIFFERENCES), 2 * (N - 1)
    raw = exported(received(secret, scheme), largest, -largest)
    assert secret.decrypt([raw], 1, 2).tolist() == [[largest, -largest]]


@pytest.mark.parametrize(("m_source", "m_target"), [(3, 2), (40, 1)])
def test_products_are_those_of_the_plaintexts(scheme, m_source, m_target):
    x, y = ranks(1, m_source, N), ranks(2, m_target, N)
    opened = computed_products(scheme, rank_sizes(N, m_source, m_target), x, y)
    assert opened.shape == (m_source, m_target)
    assert all(isinstance(value, int) for value in opened.ravel())
    np.testing.assert_array_equal(opened, exact(x, y))


def test_products_over_many_blocks_up_to_the_largest(scheme):
    n = 9001
    x, y = ranks(3, 4, n), ranks(4, 2, n)
    x[0].sort(), y[0].sort()
    x[1], x[2] = -x[0], 0
    sizes = rank_sizes(n, 4, 2)
    public = key(scheme, sizes).public
    assert n > public.rows > n % public.rows > 0
    opened = computed_products(scheme, sizes, x, y, threads=2)
    assert opened[:3, 0].tolist() == [total(n), -total(n), 0]
    np.testing.assert_array_equal(opened, exact(x, y))


def test_products_of_wide_vectors_up_to_62_bits(scheme):
    n, wide = 200, math.isqrt(2**62 // 200)
    rng = np.random.default_rng(5)
    x, y = rng.integers(-wide, wide, (1, n)), rng.integers(-wide, wide, (3, n))
    x[0], y[0], y[1] = wide, wide, -wide
    opened = computed_products(scheme, Sizes(n, 1, 3, Bounds(wide, wide, wide * n, 2**62)), x, y)
    np.testing.assert_array_equal(opened, exact(x, y))
    assert opened[0, 0] == -opened[0, 1] > 0.99 * 2**62


@pytest.mark.parametrize(
    ("operation", "summed", "expected"),
    [
        ("differences", False, Sizes(60, 1, 3, Bounds(59, 59, 3_540, 10**5), 2, "differences")),
        ("inner_products", False, Sizes(60, 1, 3, Bounds(59, 59, 3_540, 10**5), 2)),
        ("inner_products", True, Sizes(120, 1, 3, Bounds(59, 59, 7_080, 10**5), 1)),
    ],
)
def test_sums_of_all_sources_use_one_key_and_joined_rows(operation, summed, expected):
    sources = tuple(Party(name, Role.SOURCE, number) for number, name in ((2, "A"), (3, "D")))
    bounds = Bounds(59, 59, 3_540, 10**5)
    computation = Computation(operation, 60, dict.fromkeys(sources, 1), 3, bounds, summed)
    assert engine.sizes(computation, sources if summed else sources[1:]) == expected


# --- what is refused


def test_more_than_the_noise_bound_allows_is_not_multiplied(scheme):
    public = key(scheme, Sizes(4, 3, 2, Bounds(9, 9, 19, 300))).public
    encrypted = public.encrypt(np.ones((3, 3), np.int64))
    for y in ([[9, -9, 2], [0, 0, 0]], [[0, 0, 0], [9, 9, 9]]):  # 20 and 27, whatever their signs
        with pytest.raises(BoundError, match="add up to more"):
            public.multiply([(encrypted, np.array(y))])
    half = (encrypted, np.array([[5, 5, 0], [0, 0, 0]]))
    with pytest.raises(BoundError, match="add up to more"):
        public.multiply([half, half])


def test_a_value_beyond_its_bound_is_neither_encrypted_nor_multiplied(scheme):
    subtracting, multiplying = (key(scheme, sizes).public for sizes in (DIFFERENCES, PRODUCTS))
    encrypted = multiplying.encrypt(np.zeros((3, 1), np.int64))
    for value in (N, -N, -(2**63)):
        for public in (subtracting, multiplying):
            with pytest.raises(BoundError):
                public.encrypt(np.full((public.sizes.m_source, 1), value))
        with pytest.raises(BoundError):
            multiplying.multiply([(encrypted, np.full((2, 1), value))])
    for value in (2 * N - 1, 1 - 2 * N, 2**63 - 1, -(2**63)):
        with pytest.raises(BoundError):
            exported(subtracting, value)


def test_a_difference_beyond_the_bound_is_undefined_and_stops_no_run(scheme, monkeypatch):
    secret, public = key(scheme, DIFFERENCES), received(key(scheme, DIFFERENCES), scheme)
    monkeypatch.setattr(f"mpc_spearman.engines.he.{scheme}.keys.check", lambda *given: None)
    beyond = public.encrypt(np.array([[2 * (N - 1)]]))  # the source breaks its own bound
    opened = secret.decrypt(difference(public, beyond, np.array([-1])), 1, 1)
    assert opened.dtype == np.int64
    assert not abs(int(opened[0, 0])) <= DIFFERENCES.bounds.result


def test_products_beyond_the_result_bound_are_no_products_and_stop_nothing(scheme):
    sizes, x = Sizes(4, 1, 1, Bounds(10, 10, 40, 300)), np.full((1, 4), 10)
    assert computed_products(scheme, sizes, x, np.array([[10, 10, 10, 0]])) == 300
    assert abs(computed_products(scheme, sizes, x, np.array([[10, 10, 10, 1]]))[0, 0]) > 300


def test_what_is_no_ciphertext_is_refused(scheme):
    secret, one = key(scheme, DIFFERENCES), np.array([1])
    public = received(secret, scheme)
    encrypted = public.encrypt(one[None])
    for raws, take in (
        (encrypted, lambda raws: difference(public, raws, one)),
        (difference(public, encrypted, one), lambda raws: secret.decrypt(raws, 1, 1)),
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

    def opened(raws: list[bytes], opener: SecretKey) -> np.ndarray:
        return opener.decrypt(difference(target, raws, values), 1, len(values))

    assert not opened(target.encrypt(values[None]), secret).any()
    for encrypting, opener in ((other.public, secret), (target, other)):
        try:
            assert (opened(encrypting.encrypt(values[None]), opener) == IMPOSSIBLE).all()
        except ProtocolViolation:  # not even in the range of the key it is read with
            continue


def test_a_changed_ciphertext_is_caught_or_changes_nothing(scheme):
    secret, rng = key(scheme, DIFFERENCES), np.random.default_rng(7)
    public = received(secret, scheme)
    values = np.arange(min(public.slots, N))
    raw = exported(public, *values)
    caught = 0
    for _ in range(30):
        changed = bytearray(raw)
        changed[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        try:
            (opened,) = secret.decrypt([bytes(changed)], 1, len(values))
        except ProtocolViolation:  # no ciphertext at all
            caught += 1
            continue
        bound = DIFFERENCES.bounds.result
        beyond = ((opened > bound) | (opened < -bound)).any()
        caught += beyond
        assert beyond or np.array_equal(opened, values)
    assert caught > 5


def test_only_equal_keys_have_the_same_fingerprint(scheme):
    one, two = (key(scheme, DIFFERENCES, number) for number in (0, 1))
    again = received(one, scheme)
    assert again.fingerprint == one.public.fingerprint == hashlib.sha256(again.to_bytes()).digest()
    assert one.public.fingerprint != two.public.fingerprint


# --- nothing secret leaves


def test_keys_can_be_neither_pickled_nor_copied_and_show_nothing(scheme):
    one, two = (key(scheme, DIFFERENCES, number) for number in (0, 1))
    for keys in (one, one.public):
        for move in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                move(keys)
    assert repr(one) == repr(two)
    assert str(one) == str(two)
    assert not {"to_bytes", "__bytes__", "dump", "export", "save"} & set(dir(one))
