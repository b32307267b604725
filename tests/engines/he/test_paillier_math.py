"""Paillier's arithmetic, against hand-computed numbers and another implementation."""

from __future__ import annotations

from functools import cache

import gmpy2
import phe
import pytest
from gmpy2 import mpz
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.engines.he.paillier.arithmetic import PublicNumbers, SecretNumbers, generate


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


def test_decryption_of_an_example_with_another_generator():
    # n = 77, g = 5652; Enc(42; r = 23) = 4624. With lambda = 30, L(g^30) = 51 and L(4624^30) = 63. Under
    # g = n + 1 a plaintext is L(c^30)/30 mod 77, and 1/30 = 18 mod 77:
    assert SMALL.decrypt(mpz(5652)) == 51 * 18 % 77 == 71
    assert SMALL.decrypt(mpz(4624)) == 63 * 18 % 77 == 56
    assert 56 * pow(71, -1, 77) % 77 == 42


def test_encryption_computed_by_hand():
    # 2^77 mod 5929, in steps: 2^11 = 2048; 2^22 = 2048² = 4194304 = 707 * 5929 + 2501;
    # 2^44 = 2501² = 6255001 = 1054 * 5929 + 5835; 2^66 = 5835 * 2501 = 14593335 = 2461 * 5929 + 2066;
    # 2^77 = 2066 * 2048 = 4231168 = 713 * 5929 + 3791.
    # So Enc(5; r = 2) = (1 + 5 * 77) * 3791 = 386 * 3791 = 1463326 = 246 * 5929 + 4792.
    assert 4792 in encryptions(77, 5)
    # 0, 7 and 22 have no inverse modulo 77. One of the 60 that do is missed with probability 4e-13.
    drawn = {int(PublicNumbers(mpz(77)).encrypt(mpz(5))) for _ in range(2000)}
    assert drawn == encryptions(77, 5)
    assert {SMALL.decrypt(mpz(c)) for c in drawn} == {5}


def test_a_short_exponent_has_no_less_than_448_bits():
    public, h = PublicNumbers(mpz(77), mpz(77 - 9)), pow(77 - 9, 77, 77**2)
    powers = {pow(h, exponent, 77**2) for exponent in range(60)}
    assert {int(public.residue()) for _ in range(2000)} == powers  # all that the base makes
    assert [arithmetic.exponent_bytes(bits) * 8 for bits in (2048, 3072)] == [448, 512]


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
        theirs = phe.PaillierPublicKey(int(public.n))
        private = phe.PaillierPrivateKey(theirs, int(secret._p), int(secret._q))
        assert private.raw_decrypt(int(public.encrypt(mpz(m)))) == m
        assert secret.decrypt(mpz(theirs.raw_encrypt(m))) == m
        assert theirs.raw_encrypt(m, r_value=3) == (1 + m * public.n) * pow(3, public.n, public.square) % (
            public.square
        )


@pytest.mark.parametrize("bits", [64, 256, 512])
def test_keys_are_what_the_encryption_asks_for(bits):
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
