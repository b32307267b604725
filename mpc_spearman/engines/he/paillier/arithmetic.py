"""Paillier's arithmetic on whole integers: no layout, no wire format.

With n = pq and g = n + 1, a plaintext m modulo n is encrypted as (1 + mn) ρ mod n². The n-th residue ρ is
r^n with uniform r (``he.randomness: full``), or (h^n)^a with a random exponent a of 4κ bits at κ bits of
security (``short``). Products of ciphertexts decrypt to sums of plaintexts. docs/homomorphic-encryption.md
("Paillier") has the assumptions and references, and why what goes to the coordinator, who has p and q, gets
a longer a. Both run in time that depends on the secrets they touch (GMP's ordinary exponentiation, tables
looked up by random bytes).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cached_property

from gmpy2 import gcd, invert, is_prime, is_strong_bpsw_prp, jacobi, mpz, powmod, primorial

from mpc_spearman.engines.he.scheme import StaysHere

# GMP's is_prime does a Baillie-PSW test and Miller-Rabin for every round above 24. The candidates are random,
# for which 40 rounds leave far less than 2^-128 (Damgård, Landrock, Pomerance 1993).
_PRIME_ROUNDS = 24 + 40
# A modulus from the wire is tried by all primes below 2000: an honest one has no factor near it.
_SMALL_PRIMES = primorial(2000)
# Largest modulus, in bits, that counts as no stronger than so many bits.
_STRENGTHS = ((2048, 112), (3072, 128), (7680, 192))
# Bits of an exponent beyond those of the order it is taken modulo: the bias left is 2 to minus these.
_STATISTICAL = 40
# FIPS 186-5, A.1.3: primes closer than 2^(bits/2 - 100) could be found from n's square root.
_FIPS_DISTANCE = 100


class PublicNumbers(StaysHere):
    """The public key: the modulus n, and the base h of short randomness, None where it is drawn in full."""

    def __init__(self, n: mpz, h: mpz | None = None) -> None:
        self.n, self.h = n, h
        self.square = n * n
        self._limit = int(n)  # what `secrets` takes

    def encrypt(self, m: mpz) -> mpz:
        """Encrypt an integer of either sign, taken modulo n, with fresh randomness."""
        return (1 + m % self.n * self.n) * self.residue() % self.square

    def rerandomise(self, c: mpz) -> mpz:
        """Return a new encryption of the same plaintext; even with p nobody can relate the two."""
        return c * self.wide_residue() % self.square

    @cached_property
    def residue(self) -> Callable[[], mpz]:
        """A function that returns random n-th residues modulo n². Short exponents need a table, made here."""
        return self._residue_function(exponent_bytes(self.n.bit_length()))

    @cached_property
    def wide_residue(self) -> Callable[[], mpz]:
        """Like `residue`, with longer exponents, for ciphertexts that go to the coordinator."""
        return self._residue_function((self.n.bit_length() + _STATISTICAL) // 8)

    def _residue_function(self, exponent_size: int) -> Callable[[], mpz]:
        if self.h is None:
            return lambda: powmod(self._unit(), self.n, self.square)
        return _random_power(powmod(self.h, self.n, self.square), self.square, exponent_size)

    def _unit(self) -> mpz:
        while True:
            r = mpz(secrets.randbelow(self._limit))
            if gcd(r, self.n) == 1:
                return r


def _random_power(base: mpz, modulus: mpz, size: int) -> Callable[[], mpz]:
    """Return a function that returns random powers of a base, with exponents of `size` bytes.

    A power takes a multiplication per byte of its exponent, and the function's table 256 per byte.
    """
    table: list[list[mpz]] = []  # table[j][d] is base^(d 256^j)
    for _ in range(size):
        powers = [mpz(1)]
        for _ in range(256):
            powers.append(powers[-1] * base % modulus)
        base = powers.pop()
        table.append(powers)

    def random_power() -> mpz:
        product = mpz(1)
        for powers, digit in zip(table, secrets.token_bytes(size), strict=True):
            product = product * powers[digit] % modulus
        return product

    return random_power


class SecretNumbers(StaysHere):
    """The factors of n, different primes with gcd(pq, (p - 1)(q - 1)) = 1.

    No method returns them, and no code that can see them raises an error.
    """

    def __init__(self, p: mpz, q: mpz) -> None:
        self._p, self._q = p, q
        self._p_square, self._q_square = p * p, q * q
        self._to_q = invert(q, p)
        # c^(p-1) = 1 + (p - 1) m n mod p², whose L-value is -q m mod p; likewise with p and q exchanged.
        self._p_factor, self._q_factor = invert(-q, p), invert(-p, q)

    def decrypt(self, c: mpz) -> mpz:
        """Return the plaintext in [0, n) of a unit modulo n², by the Chinese remainder theorem."""
        of_p = (powmod(c, self._p - 1, self._p_square) - 1) // self._p * self._p_factor % self._p
        of_q = (powmod(c, self._q - 1, self._q_square) - 1) // self._q * self._q_factor % self._q
        return of_q + (of_p - of_q) * self._to_q % self._p * self._q


def exponent_bytes(bits: int) -> int:
    """Bytes of a short exponent, 4κ bits, for a modulus of `bits`; κ as in NIST SP 800-57 part 1, table 2."""
    strength = next((strength for largest, strength in _STRENGTHS if bits <= largest), 256)
    return 4 * strength // 8


def generate(bits: int, *, short: bool) -> tuple[SecretNumbers, PublicNumbers]:
    """Make a key whose modulus has exactly `bits` bits, from the operating system's randomness.

    p and q have the same length and their top two bits set, so pq has exactly twice that length. For short
    randomness -1 must not be a square, so p = q = 3 mod 4, and squares must be cyclic: gcd(p - 1, q - 1) = 2.
    """
    half = bits // 2
    while True:
        p, q = _random_prime(half), _random_prime(half)
        apart = abs(p - q).bit_length() > half - _FIPS_DISTANCE
        if apart and gcd(p - 1, q - 1) == 2 and gcd(p * q, (p - 1) * (q - 1)) == 1:
            break
    n = p * q
    public = PublicNumbers(n)
    if short:
        public = PublicNumbers(n, n - public._unit() ** 2 % n)
    return SecretNumbers(p, q), public


def plausible_modulus(n: mpz, bits: int) -> bool:
    """Return whether a number from the wire may be a modulus, as far as can be seen without its factors."""
    return bool(
        n.bit_length() == bits
        and gcd(n, _SMALL_PRIMES) == 1
        and not n.is_power()
        and not is_prime(n, _PRIME_ROUNDS)
    )


def plausible_base(h: mpz, n: mpz) -> bool:
    """Return whether a number from the wire may be -x² mod n for p = q = 3 mod 4: its Jacobi symbol is 1."""
    return bool(1 < h < n - 1 and jacobi(h, n) == 1)


def are_units(numbers: list[mpz], n: mpz) -> bool:
    """Return whether all numbers have an inverse modulo n, that is, whether their product has one."""
    product = mpz(1)
    for number in numbers:
        product = product * number % n
    return bool(gcd(product, n) == 1)


def _random_prime(bits: int) -> mpz:
    """Return a prime of `bits` bits, 3 mod 4, with its top two bits set; all are equally likely."""
    fixed = mpz(0b11) << (bits - 2) | 0b11
    while True:
        candidate = mpz(secrets.randbits(bits)) | fixed
        if is_prime(candidate, _PRIME_ROUNDS) and is_strong_bpsw_prp(candidate):
            return candidate
