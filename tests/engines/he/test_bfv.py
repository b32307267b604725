"""BFV: parameters, exact integers at the bounds, the wire, and what a key refuses.

What every scheme must do is in test_he_contract.py, what ciphertexts give away in test_bfv_noise.py.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data.ranks import MAX_ROWS, total
from mpc_spearman.engines.computation import Bounds
from mpc_spearman.engines.he.bfv.parameters import SECURITY, Parameters, choose, fresh_noise, is_prime
from mpc_spearman.engines.he.scheme import Sizes
from mpc_spearman.errors import BoundError, ProtocolViolation
from support.he_parties import HAS_SEAL, SETTINGS, key, multiplied, products, rank_sizes, ranks, received

if HAS_SEAL:
    from mpc_spearman.engines.he.bfv import seal
    from mpc_spearman.engines.he.bfv.keys import BfvSecretKey
    from mpc_spearman.engines.he.bfv.seal import sealapi

with_seal = pytest.mark.skipif(
    not HAS_SEAL, reason="TenSEAL is not installed (it has no build for Python 3.10)"
)


# --- parameters


def assert_promises(parameters: Parameters, sizes: Sizes) -> None:
    """Check all that the docstring of parameters promises, recomputed."""
    layout, degree = parameters.layout, parameters.layout.degree
    moduli = (*parameters.data, parameters.special, *parameters.plain)
    assert len(set(moduli)) == len(moduli)
    assert all(prime % (2 * degree) == 1 and is_prime(prime) for prime in moduli)
    assert math.prod((*parameters.data, parameters.special)).bit_length() <= SECURITY[degree]
    assert math.prod(parameters.plain) > 4 * sizes.bounds.result
    assert layout.columns * layout.rows <= degree
    assert layout.groups * layout.columns >= sizes.m_source
    hidden = degree * layout.results * sizes.keys * (parameters.before + 1)
    assert Fraction(hidden, 2 ** (parameters.flood_bits + 1)) <= Fraction(1, 2**40)
    noise = Fraction(parameters.before + 2**parameters.flood_bits)
    for prime in parameters.dropped:
        noise = noise / prime + Fraction(1 + degree, 2)
    assert noise <= parameters.after
    assert 4 * max(parameters.plain) * parameters.after <= math.prod(parameters.kept)
    assert parameters.budget >= 1


@given(st.integers(3, MAX_ROWS), st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=60)
def test_parameters_for_any_table_keep_their_promises(n, m_source, m_target):
    scale, root = 2**10 * n, math.isqrt(n) + 1
    strengths = Sizes(n, 1, m_target, Bounds(2**40, scale, root * (scale + root), 2**62))
    for sizes in (dataclasses.replace(rank_sizes(n, m_source, m_target), keys=3), strengths):
        chosen = choose(sizes)
        assert_promises(chosen, sizes)
        fresh = fresh_noise(chosen.layout.degree, chosen.special)
        assert chosen.before >= sizes.bounds.target_sum * (fresh + Fraction(1, 2)) + fresh + 1
        assert chosen.layout.results >= chosen.layout.moduli * chosen.layout.groups * m_target
    sizes = dataclasses.replace(rank_sizes(n, m_source, m_target, products=False), keys=64)
    differences = choose(sizes)
    assert_promises(differences, sizes)
    assert len(differences.plain) == 1
    assert differences.layout.results >= (m_source + m_target - 1) * -(-n // differences.layout.degree)


def test_columns_share_a_ciphertext_where_that_is_cheaper():
    assert choose(rank_sizes(1_000, 14, 14)).layout.groups == 1
    assert choose(rank_sizes(200_000, 50, 50)).layout.groups > 1


def test_sizes_without_secure_flooded_parameters_are_refused():
    sizes = rank_sizes(10_000)
    assert choose(sizes).layout.degree == 8192
    for bits in (800, 2000):
        with pytest.raises(BoundError, match="no parameters of 128-bit security"):
            choose(Sizes(10_000, 1, 1, dataclasses.replace(sizes.bounds, target_sum=2**bits)))


@with_seal
def test_seal_has_the_same_table_of_security_and_refuses_more():
    for degree, bits in SECURITY.items():
        assert sealapi.CoeffModulus.MaxBitCount(degree, sealapi.SEC_LEVEL_TYPE.TC128) == bits
    parameters = choose(rank_sizes(10_000))
    seal.Ring(parameters, 0)
    more = tuple(modulus.value() for modulus in sealapi.CoeffModulus.Create(8192, [60]))
    with pytest.raises(ValueError, match="encryption parameters are not set correctly"):
        seal.Ring(dataclasses.replace(parameters, dropped=parameters.dropped + more), 0)


# --- exact integers


@with_seal
def test_columns_in_several_groups_the_last_of_them_not_full():
    sizes = rank_sizes(100_000, 11, 3)
    layout = choose(sizes).layout
    assert (layout.groups, 11 % layout.columns) == (3, 3)
    x, y = ranks(0, 11, sizes.n), ranks(1, 3, sizes.n)
    raws = multiplied(received(sizes), x, y)
    np.testing.assert_array_equal(products(key(sizes), raws), x @ y.T)  # which 64 bits hold


@with_seal
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_64_bit_sum_under_two_plaintext_moduli(sign):
    limit = 2**63 - 1
    sizes = Sizes(3, 1, 2, Bounds(limit, 1, 3, limit))
    x = np.array([[2**62, 2**62 - 1, 5]]) * sign
    assert len(received(sizes).rings) == 2
    # the second sum is beyond its bound, which is for whoever uses it to see
    for y, expected in (([1, 1, 0], limit), ([1, 1, 1], limit + 5)):
        raws = multiplied(received(sizes), x, np.array([y, [0, 0, 0]]))
        assert products(key(sizes), raws).tolist() == [[sign * expected, 0]]


# --- the wire, keys, and limits


@with_seal
def test_a_coefficient_is_below_its_prime_or_refused():
    public = received(rank_sizes(50))
    raw = bytearray(public.encrypt(ranks(1, 1, 50))[0])
    ring, prime = public.rings[0], public.parameters.data[0]
    width = (prime.bit_length() + 7) // 8
    raw[1 : 1 + width] = (prime - 1).to_bytes(width, "little")
    ring.from_bytes(bytes(raw), ring.first)
    raw[1 : 1 + width] = prime.to_bytes(width, "little")
    with pytest.raises(ProtocolViolation, match="not below its modulus"):
        ring.from_bytes(bytes(raw), ring.first)


@with_seal
def test_blocks_that_cancel_out_stop_no_run_whatever_the_targets_rows():
    """SEAL refuses a ciphertext whose second half is zero: a source must not see when that comes about."""
    sizes = rank_sizes(100)
    public, y = received(sizes), ranks(3, 1, 50)
    raw = public.encrypt(ranks(2, 1, 50))[0]
    ring = public.rings[0]
    coefficients = ring.read(ring.from_bytes(raw, ring.first)).copy()
    primes = np.array(public.parameters.data, dtype=np.uint64)[None, :, None]
    opposite = bytes([0]) + seal.pack((primes - coefficients) % primes, public.parameters.data)
    sums = public.multiply([([raw], y), ([opposite], y)])
    assert products(key(sizes), public.export(sums, [0])).tolist() == [[0]]
    coefficients[1] = 0
    with pytest.raises(ProtocolViolation, match="hides nothing"):
        ring.from_bytes(bytes([0]) + seal.pack(coefficients, public.parameters.data), ring.first)


@with_seal
def test_ciphertexts_under_the_wrong_plaintext_modulus_are_refused():
    sizes, ones = Sizes(10, 1, 1, Bounds(2**62, 9, 90, 2**63 - 1)), np.ones((1, 10), dtype=np.int64)
    public = received(sizes)
    with pytest.raises(ProtocolViolation, match="another plaintext modulus"):
        public.multiply([(public.encrypt(ones)[::-1], ones)])
    with pytest.raises(ProtocolViolation, match="another plaintext modulus"):
        products(key(sizes), multiplied(public, ones, ones)[::-1])


@with_seal
def test_no_more_results_leave_than_the_noise_bounds_count():
    public = received(rank_sizes(50))
    for _ in range(public.parameters.layout.results):
        public.export(public.multiply([]), [0])
    with pytest.raises(BoundError, match="is made for 64 ciphertexts"):
        public.export(public.multiply([]), [0])


@with_seal
def test_a_value_that_leaves_twice_is_encrypted_afresh_each_time():
    public = received(rank_sizes(50, 2, products=False))
    encrypted = public.encrypt(np.array([[7], [7]]))
    exported = public.subtract(encrypted, np.array([[9]]), [(None, 0), (0, 0), (0, 0), (None, 0)])
    for raws, primes in ((encrypted, public.parameters.data), (exported, public.parameters.kept)):
        c1 = [seal.unpack(raw[1:], primes, public.slots)[1] for raw in raws]
        assert all((a != b).mean() > 0.99 for i, a in enumerate(c1) for b in c1[:i])


@with_seal
def test_the_secret_key_is_never_saved(monkeypatch):
    def refuse(*args):
        raise AssertionError("a secret key is being saved")

    monkeypatch.setattr(sealapi.SecretKey, "save", refuse)
    secret, x = BfvSecretKey.generate(SETTINGS, rank_sizes(50)), ranks(1, 1, 50)
    assert products(secret, multiplied(secret.public, x, x)) == total(50)
    assert set(vars(secret)) == {"public", "_decryptors"}


@with_seal
def test_a_forked_process_does_not_repeat_its_parents_randomness():
    public, one = received(rank_sizes(50, products=False)), np.array([[1]])
    public.encrypt(one)
    read, write = os.pipe()
    with warnings.catch_warnings():  # Python 3.12 warns of threads, of which the child uses none
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.write(write, public.encrypt(one)[0][:64])
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 64) != public.encrypt(one)[0][:64]
    os.close(read), os.close(write)
