"""Paillier's arithmetic against hand-computed numbers and another implementation; slots and powers."""

from __future__ import annotations

from functools import cache

import gmpy2
import numpy as np
import phe
import pytest
from gmpy2 import mpz
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.engines.he.paillier.arithmetic import PublicNumbers, SecretNumbers, generate
from mpc_spearman.engines.he.paillier.multiexp import best_width, power_product, signed_digits
from mpc_spearman.engines.he.paillier.packing import Slots
from mpc_spearman.engines.he.scheme import IMPOSSIBLE


@cache
def numbers(bits: int = 512, short: bool = False) -> tuple[SecretNumbers, PublicNumbers]:
    return generate(bits, short=short)


# n = 7 * 11 = 77, n² = 5929, the smallest modulus a worked example needs.
SMALL = SecretNumbers(mpz(7), mpz(11))


def encryptions(n: int, value: int) -> set[int]:
    """All ciphertexts of a value, by the formula with g = n + 1; `encrypt` must draw each, and no other."""
    return {(1 + value * n) * pow(r, n, n * n) % (n * n) for r in range(1, n) if gmpy2.gcd(r, n) == 1}


def test_a_published_example():
    # dev@pirk.incubator.apache.org, 19 September 2016: p = 3, q = 5, g = 16; Enc(12; r = 7) = 208.
    assert (1 + 12 * 15) * pow(7, 15, 225) % 225 == 208
    assert {int(PublicNumbers(mpz(15)).encrypt(mpz(12))) for _ in range(600)} == encryptions(15, 12)
    assert SecretNumbers(mpz(3), mpz(5)).decrypt(mpz(208)) == 12


def test_a_short_exponent_has_no_less_than_448_bits():
    public, h = PublicNumbers(mpz(77), mpz(77 - 9)), pow(77 - 9, 77, 77**2)
    powers = {pow(h, exponent, 77**2) for exponent in range(60)}
    assert {int(public.residue()) for _ in range(2000)} == powers  # all that the base makes
    assert [arithmetic.exponent_bytes(bits) * 8 for bits in (2048, 3072)] == [448, 512]


def test_ciphertexts_for_the_key_holder_use_exponents_above_the_modulus(monkeypatch):
    """By 40 bits: so it is within 2^-40 of uniform in the group that the base generates."""
    public, sizes, draw = numbers(512, short=True)[1], [], arithmetic.secrets.token_bytes

    def token_bytes(size: int) -> bytes:
        sizes.append(size)
        return draw(size)

    monkeypatch.setattr(arithmetic.secrets, "token_bytes", token_bytes)
    ciphertext = public.encrypt(mpz(5))
    assert public.rerandomise(ciphertext) != ciphertext
    assert sizes == [448 // 8, (512 + 40) // 8]


@pytest.mark.parametrize("h", [None, mpz(77 - 9)])
def test_every_plaintext_of_a_small_key_comes_back(h):
    public = PublicNumbers(mpz(77), h)
    for m in range(-38, 39):
        c = public.encrypt(mpz(m))
        assert gmpy2.gcd(c, 77) == 1
        assert SMALL.decrypt(c) == SMALL.decrypt(public.rerandomise(c)) == m % 77


@given(st.integers(), st.integers(), st.integers(-(10**6), 10**6), st.booleans())
@settings(max_examples=30)
def test_homomorphism(a, b, factor, short):
    secret, public = numbers(512, short)
    x, y = public.encrypt(mpz(a)), public.encrypt(mpz(b))
    assert secret.decrypt(x * y % public.square) == (a + b) % public.n
    assert secret.decrypt(x * gmpy2.invert(y, public.square) % public.square) == (a - b) % public.n
    assert secret.decrypt(gmpy2.powmod(x, factor, public.square)) == a * factor % public.n


@given(st.integers(0, 2**511))
@settings(max_examples=20)
def test_agreement_with_phe(m):
    for short in (False, True):
        secret, public = numbers(512, short)
        assume(m < public.n)
        phe_public = phe.PaillierPublicKey(int(public.n))
        phe_secret = phe.PaillierPrivateKey(phe_public, int(secret._p), int(secret._q))
        assert phe_secret.raw_decrypt(int(public.encrypt(mpz(m)))) == m
        assert secret.decrypt(mpz(phe_public.raw_encrypt(m))) == m


@pytest.mark.parametrize("bits", [64, 256, 512])
def test_keys_fulfil_what_the_encryption_requires(bits):
    for _ in range(3):
        secret, public = generate(bits, short=True)
        p, q = secret._p, secret._q
        assert p * q == public.n
        assert public.n.bit_length() == bits
        assert p.bit_length() == q.bit_length() == bits // 2
        assert gmpy2.is_prime(p, 50)
        assert gmpy2.is_prime(q, 50)
        assert p % 4 == q % 4 == 3
        assert gmpy2.gcd(p - 1, q - 1) == 2
        assert gmpy2.gcd(public.n, (p - 1) * (q - 1)) == 1
        assert bits < 256 or abs(p - q).bit_length() > bits // 2 - 100
        assert gmpy2.jacobi(public.h, p) == gmpy2.jacobi(public.h, q) == -1  # minus a square modulo both
        assert arithmetic.plausible_base(public.h, public.n)
        assert arithmetic.plausible_modulus(public.n, bits)


# --- packing

MODULUS = mpz(2**512 - 569)  # of 512 bits; slots do not care that it is a prime


@st.composite
def packed(draw) -> tuple[Slots, np.ndarray, mpz]:
    """A layout, slots often at their bounds, and a modulus it fits."""
    bound = draw(st.integers(1, 2**63 - 1) | st.sampled_from([1, 2**31 - 1, 2**31, 2**62, 2**63 - 1]))
    bits = draw(st.integers(65, 700))
    layout = Slots.fit(bound, 1, bits, packed=draw(st.booleans()))
    value = st.sampled_from([-bound, bound, 0, -1, 1]) | st.integers(-bound, bound)
    values = draw(st.lists(value, min_size=1, max_size=layout.count))
    n = draw(st.integers(2 ** (bits - 1), 2**bits - 1))
    return layout, np.array(values), mpz(n | 1)


@given(packed(), st.data())
def test_slots_come_back_and_add_like_integers_whatever_happens_on_the_way(case, data):
    layout, values, n = case
    assert layout.width <= 64
    np.testing.assert_array_equal(layout.decode(layout.encode(values) % n, n, len(values)), values)
    factors = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5))
    summands = data.draw(st.lists(st.integers(-1, 1), min_size=len(values), max_size=len(values)))
    m, summand = layout.encode(values), layout.encode(np.array(summands))
    for factor in factors:
        m = (m + factor * summand) % n
    m = (m - sum(factors) * summand) % n
    np.testing.assert_array_equal(layout.decode(m, n, len(values)), values)


@given(st.integers(0, 2**512))
def test_residues_that_hold_no_slots_are_not_read(m):
    n = MODULUS
    layout = Slots.fit(198, 1, 512, packed=True)
    values = layout.decode(m % n, n, 3)
    if values is not None and (values != IMPOSSIBLE).all():
        assert layout.encode(values) % n == m % n
    assert layout.decode(layout.encode(np.array([1, 2, 3, 4])) % n, n, 3) is None
    assert layout.decode(layout.encode(np.array([1, 2, 3, -4])) % n, n, 3) is None


def test_an_integer_beyond_the_bound_leaves_other_slots_intact():
    n, layout = MODULUS, Slots.fit(198, 1, 512, packed=True)
    beyond = layout.encode(np.array([7, 198, -5])) + (gmpy2.mpz(20) << layout.width)
    assert layout.decode(beyond % n, n, 3).tolist() == [7, IMPOSSIBLE, -5]


# --- multi-exponentiation

exponents = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 127, 128, -128])


@given(
    st.lists(st.tuples(st.integers(1, 5928), exponents), min_size=1, max_size=40),
    st.integers(2, 14),
)
def test_power_product_is_the_product_of_powers(terms, width):
    terms = [(base, y) for base, y in terms if base % 7 and base % 11] or [(2, 3)]
    bases, y = [mpz(base) for base, _ in terms], np.array([y for _, y in terms])
    expected = 1
    for base, exponent in terms:
        expected = expected * pow(base, exponent, 5929) % 5929
    assert power_product(bases, y, width, mpz(5929)) == expected


@given(st.lists(exponents), st.integers(2, 14))
def test_signed_digits_are_small_and_sum_to_the_exponent(y, width):
    digits = signed_digits(np.array(y, dtype=np.int64), width)
    half = 1 << (width - 1)
    assert all(-half <= digit.min() <= digit.max() < half for digit in digits)
    assert (
        sum((digit.astype(object) << width * k for k, digit in enumerate(digits)), np.array(y) * 0).tolist()
        == y
    )


def test_more_terms_are_cut_into_wider_digits():
    assert [best_width(9_999, terms) for terms in (10, 300, 4096)] == [3, 5, 8]
