"""The Paillier scheme: its keys, layout, wire and randomness, and that secrets stay.

What all schemes must do is in test_he_contract.py; arithmetic, slots and powers are in test_paillier_math.py.
"""

from __future__ import annotations

import sys
from functools import cache

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.paillier.arithmetic import PublicNumbers
from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, Sizes
from mpc_spearman.errors import ProtocolViolation
from support.he_parties import exported, rank_sizes

DIFFERENCES = rank_sizes(100, products=False)
PRODUCTS = rank_sizes(100, 3, 2)


def settings(**changes) -> HeSettings:
    return HeSettings(**{"key_bits": 512, "randomness": "short", "insecure": True} | changes)


@cache
def key(sizes: Sizes = DIFFERENCES, **changes) -> PaillierSecretKey:
    return PaillierSecretKey.generate(settings(**changes), sizes)


def received(secret: PaillierSecretKey, **changes) -> PaillierPublicKey:
    return PaillierPublicKey.from_bytes(secret.public.to_bytes(), settings(**changes), secret.public.sizes)


def encrypted(public: PaillierPublicKey, *values: int) -> list[bytes]:
    return public.encrypt(np.array([values]))


def factors(secret: PaillierSecretKey) -> tuple[mpz, mpz]:
    return secret._numbers._p, secret._numbers._q


# --- keys


def test_weak_keys_come_with_a_caution():
    assert "protected nothing" in str(key().public.caution)
    n = mpz(1) << 2047 | 1
    weak, strong = (
        PaillierPublicKey(PublicNumbers(n), HeSettings(key_bits=bits), DIFFERENCES).caution
        for bits in (2048, 3072)
    )
    assert "112 bits" in str(weak)
    assert strong is None


def test_a_modulus_that_cannot_be_one_is_refused():
    public = key().public
    p, _ = factors(key())
    prime, small = gmpy2.next_prime(public.n), 1999 * gmpy2.next_prime(2**501)
    assert small.bit_length() == (p * p).bit_length() == 512
    for n in (mpz(0), public.n + 1, prime, p * p, public.n >> 1, small):
        raw = int(n).to_bytes(64, "big")
        with pytest.raises(ProtocolViolation, match="modulus"):
            PaillierPublicKey.from_bytes(raw, settings(randomness="full"), DIFFERENCES)


def test_a_base_of_randomness_that_cannot_be_one_is_refused():
    public = key().public
    not_square = next(h for h in range(2, 100) if gmpy2.jacobi(h, public.n) == -1)
    p, _ = factors(key())
    for h in (0, 1, not_square, p, public.n - 1, public.n, public.n + 4):
        raw = int(public.n).to_bytes(64, "big") + int(h).to_bytes(64, "big")
        with pytest.raises(ProtocolViolation, match="base"):
            PaillierPublicKey.from_bytes(raw, settings(), DIFFERENCES)


def test_a_key_of_the_other_kind_of_randomness_has_the_wrong_length():
    with pytest.raises(ProtocolViolation, match="128 bytes, not 64"):
        received(key(), randomness="full")
    with pytest.raises(ProtocolViolation, match="64 bytes, not 128"):
        received(key(randomness="full"))


# --- layout


def test_the_papers_form_has_one_rank_per_ciphertext():
    assert key(form="literal").public.slots == 1
    assert key(rank_sizes(100, 3, products=False), form="literal").public.ciphertexts_for(5) == 3 * 5
    assert key(PRODUCTS).public.ciphertexts_for(5) == 5


# --- the wire


@pytest.mark.parametrize("count", [1, 7])
def test_what_is_no_unit_modulo_the_square_is_refused(count):
    secret = key()
    public, (p, q) = secret.public, factors(secret)
    valid = encrypted(public, 1)
    cases = {
        "between": (mpz(0), public.square, public.square + 1, (mpz(1) << 1024) - 1),
        "factor": (p, q, p * p, public.n, public.square - q),
    }
    for message, values in cases.items():
        for value in values:
            raws = valid * (count - 2) + [int(value).to_bytes(128, "big")] + valid * (count > 1)
            with pytest.raises(ProtocolViolation, match=message):
                public.read(raws)
            with pytest.raises(ProtocolViolation, match=message):
                secret.decrypt(raws, len(raws), 1)


def test_a_ciphertext_replaced_by_a_random_one_is_caught():
    secret, rng = key(form="literal"), np.random.default_rng(4)
    for _ in range(20):
        assert secret.decrypt([b"\0" + rng.bytes(127)], 1, 1) == [[IMPOSSIBLE]]


def test_a_ciphertext_of_more_values_than_are_asked_for_is_not_read():
    secret = key()
    assert secret.decrypt([exported(secret.public, 1, -2)], 1, 1) == [[IMPOSSIBLE]]


# --- randomness of what leaves


class Watched(PublicNumbers):
    def encrypt(self, m):
        self.last = super().encrypt(m)
        return self.last


@pytest.mark.parametrize("form", ["literal", "packed"])
def test_only_in_the_papers_form_a_difference_is_the_bare_quotient(form):
    secret = key(form=form)
    source, target = received(secret, form=form), received(secret, form=form)
    target._numbers = Watched(target.n, target._numbers.h)
    raws = encrypted(source, 5)
    (raw,) = target.subtract(raws, np.array([[3]]), [(0, 0)])
    inverse = gmpy2.invert(target._numbers.last, target.square)
    quotient = int.from_bytes(raws[0], "big") * inverse % target.square
    assert (target.read([raw]) == [quotient]) is (form == "literal")
    assert secret.decrypt([raw], 1, 1) == [[2]]


def test_the_source_cannot_recognise_products_of_its_own_ciphertexts():
    secret = key(PRODUCTS)
    source, target = received(secret), received(secret)
    x, y = np.arange(12).reshape(3, 4), np.array([[1, -2, 3, 0], [0, 0, 0, 1]])
    raws = source.encrypt(x)
    whole = target.multiply([(raws, y)])
    cut = target.multiply([(raws[:2], y[:, :2]), (raws[2:], y[:, 2:])])
    exports = [target.read(target.export(sums, [0, 0])) for sums in (whole, cut)]
    for q, (leaving, again) in enumerate(zip(*exports, strict=True)):
        guess = mpz(1)
        for c, exponent in zip(source.read(raws), y[q].tolist(), strict=True):
            guess = guess * gmpy2.powmod(c, exponent, source.square) % source.square
        assert secret._numbers.decrypt(leaving) == secret._numbers.decrypt(guess)
        # Nor by the randomness alone, which is what a ciphertext is modulo n.
        assert len({leaving % source.n, guess % source.n, again % source.n}) == 3


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_every_encryption_draws_its_own_randomness(randomness):
    public = key(randomness=randomness, form="literal").public
    public.threads = 3
    fresh = public.read(encrypted(public, *[7] * 50))
    assert len({c % public.n for c in fresh}) == 50
    symbols = {gmpy2.jacobi(c, public.n) for c in fresh}
    assert symbols == ({1, -1} if randomness == "full" else {1})  # full reaches all of Z_n^*


# --- secrets stay


def test_neither_factor_is_shown():
    secret = key(PRODUCTS)
    shown = "".join(map(repr, (secret, secret.public, vars(secret), secret._numbers)))
    assert not any(text in shown for prime in factors(secret) for text in (str(prime), f"{prime:x}"))
    assert "mpz" not in shown


def test_an_errors_traceback_holds_no_factor():
    secret, frames = key(), 0
    for raws in ([bytes(128)], [b"\xff" * 128], []):
        try:
            secret.decrypt(raws, 1, 1)
        except (ProtocolViolation, ValueError):
            trace = sys.exc_info()[2].tb_next
        while trace:
            frames += 1
            variables = repr(trace.tb_frame.f_locals)
            assert not any(str(prime) in variables for prime in factors(secret))
            trace = trace.tb_next
    assert frames > 4


# --- at full size


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_a_key_of_2048_bits(randomness):
    he, sizes = HeSettings(key_bits=2048, randomness=randomness), rank_sizes(10_000, products=False)
    secret = PaillierSecretKey.generate(he, sizes)
    public = PaillierPublicKey.from_bytes(secret.public.to_bytes(), he, sizes)
    assert (public.slots, public.ciphertext_bytes) == (127, 512)
    assert public.ciphertext_bytes / public.slots < 6  # bytes per rank
    a = np.random.default_rng(6).integers(-9_999, 10_000, (1, 2 * public.slots))
    public.threads = 2
    raws = public.subtract(public.encrypt(a), -a, [(0, 0)])
    np.testing.assert_array_equal(secret.decrypt(raws, 1, a.size), 2 * a)
