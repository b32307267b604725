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
from mpc_spearman.data.ranks import total
from mpc_spearman.engines.he.paillier.arithmetic import PublicNumbers
from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, Sizes
from mpc_spearman.errors import PlanError, ProtocolViolation

N = 100
DIFFERENCES = Sizes(N, 1, 1, N - 1, N - 1, N * (N - 1), 2 * (N - 1), operation="differences")
PRODUCTS = Sizes(N, 3, 2, N - 1, N - 1, N * (N - 1), total(N))


def plan(**changes) -> HeSettings:
    return HeSettings(**{"key_bits": 512, "randomness": "short", "insecure": True} | changes)


@cache
def key(sizes: Sizes = DIFFERENCES, **changes) -> PaillierSecretKey:
    return PaillierSecretKey.generate(plan(**changes), sizes)


def received(secret: PaillierSecretKey, **changes) -> PaillierPublicKey:
    return PaillierPublicKey.from_bytes(secret.public.to_bytes(), plan(**changes), secret.public.sizes)


def exported(public: PaillierPublicKey, *values: int) -> bytes:
    return public.subtract([], [np.array(values)], [(None, 0)], rerandomise=True)[0]


def factors(secret: PaillierSecretKey) -> tuple[mpz, mpz]:
    return secret._numbers._p, secret._numbers._q


# --- keys


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key_bits": 1024, "insecure": False}, "1024"),
        ({"key_bits": 2056, "insecure": False}, "2056"),
        ({"key_bits": 520}, "520"),
    ],
)
def test_other_key_sizes_are_refused_by_all_parties(changes, said):
    with pytest.raises(PlanError, match=f"key_bits: {said}"):
        PaillierSecretKey.generate(plan(**changes), DIFFERENCES)
    with pytest.raises(PlanError, match=f"key_bits: {said}"):
        PaillierPublicKey.from_bytes(b"", plan(**changes), DIFFERENCES)


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
            PaillierPublicKey.from_bytes(raw, plan(randomness="full"), DIFFERENCES)


def test_a_base_of_randomness_that_cannot_be_one_is_refused():
    public = key().public
    not_square = next(h for h in range(2, 100) if gmpy2.jacobi(h, public.n) == -1)
    p, _ = factors(key())
    for h in (0, 1, not_square, p, public.n - 1, public.n, public.n + 4):
        raw = int(public.n).to_bytes(64, "big") + int(h).to_bytes(64, "big")
        with pytest.raises(ProtocolViolation, match="base"):
            PaillierPublicKey.from_bytes(raw, plan(), DIFFERENCES)


def test_a_key_of_the_other_kind_of_randomness_has_the_wrong_length():
    with pytest.raises(ProtocolViolation, match="128 bytes, not 64"):
        received(key(), randomness="full")
    with pytest.raises(ProtocolViolation, match="64 bytes, not 128"):
        received(key(randomness="full"))


# --- layout


def test_the_paper_s_form_has_one_rank_per_ciphertext():
    assert key(form="literal").public.slots == 1
    products = key(PRODUCTS, form="literal").public
    assert products.ciphertexts_for(5) == 5 * PRODUCTS.m_source
    assert products.product_ciphertexts == PRODUCTS.m_source * PRODUCTS.m_target
    assert key(PRODUCTS).public.ciphertexts_for(5) == 5


# --- the wire


@pytest.mark.parametrize("many", [False, True])
def test_what_is_no_unit_modulo_the_square_is_refused(many):
    secret = key()
    public, (p, q) = secret.public, factors(secret)
    good = public.encrypt([np.array([1])])
    cases = {
        "between": (mpz(0), public.square, public.square + 1, (mpz(1) << 1024) - 1),
        "factor": (p, q, p * p, public.n, public.square - q),
    }
    for said, values in cases.items():
        for value in values:
            raws = good * 5 * many + [int(value).to_bytes(128, "big")] + good * many
            with pytest.raises(ProtocolViolation, match=said):
                public.read(raws)
            with pytest.raises(ProtocolViolation, match=said):
                secret.decrypt(raws, [1] * len(raws))


def test_a_ciphertext_replaced_by_a_random_one_is_caught():
    secret, rng = key(form="literal"), np.random.default_rng(4)
    for _ in range(20):
        assert secret.decrypt([b"\0" + rng.bytes(127)], [1])[0] == [IMPOSSIBLE]


def test_a_ciphertext_of_more_values_than_are_asked_for_is_not_read():
    secret = key()
    assert secret.decrypt([exported(secret.public, 1, -2)], [1])[0] == [IMPOSSIBLE]


# --- randomness of what leaves


class Watched(PublicNumbers):
    def encrypt(self, m):
        self.last = super().encrypt(m)
        return self.last


def test_without_rerandomising_a_difference_is_the_bare_quotient():
    secret, target = key(), received(key())
    target._numbers = Watched(target.n, target._numbers.h)
    wire = received(key()).encrypt([np.array([5])])
    for rerandomise in (False, True):
        (raw,) = target.subtract(wire, [np.array([3])], [(0, 0)], rerandomise=rerandomise)
        quotient = (
            int.from_bytes(wire[0], "big") * gmpy2.invert(target._numbers.last, target.square) % target.square
        )
        assert (target.read([raw]) == [quotient]) is not rerandomise
        assert secret.decrypt([raw], [1])[0] == [2]


def test_the_source_cannot_recognise_products_of_its_own_ciphertexts():
    secret = key(PRODUCTS)
    source, target = received(secret), received(secret)
    x, y = np.arange(12).reshape(3, 4), np.array([[1, -2, 3, 0], [0, 0, 0, 1]])
    block = source.encrypt_block(x)
    whole, cut = target.products(), target.products()
    whole.add(block, y)
    cut.add(block[:2], y[:, :2])
    cut.add(block[2:], y[:, 2:])
    for q, (raw, again) in enumerate(zip(whole.export(), cut.export(), strict=True)):
        guess = mpz(1)
        for c, exponent in zip(source.read(block), y[q].tolist(), strict=True):
            guess = guess * gmpy2.powmod(c, exponent, source.square) % source.square
        leaving = target.read([raw])[0]
        assert secret._numbers.decrypt(leaving) == secret._numbers.decrypt(guess)
        # Nor by the randomness alone, which is what a ciphertext is modulo n.
        assert len({leaving % source.n, guess % source.n, target.read([again])[0] % source.n}) == 3


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_every_encryption_draws_its_own_randomness(randomness):
    public = key(randomness=randomness).public
    public.threads = 3
    fresh = public.read(public.encrypt([np.array([7])] * 50))
    assert len({c % public.n for c in fresh}) == 50
    symbols = {gmpy2.jacobi(c, public.n) for c in fresh}
    assert symbols == ({1, -1} if randomness == "full" else {1})  # full reaches all of Z_n^*


# --- secrets stay


def test_neither_factor_is_in_anything_that_leaves_or_is_shown():
    secret = key(PRODUCTS)
    public = received(secret)
    sums = public.products()
    block = public.encrypt_block(np.ones((3, 5), dtype=np.int64))
    sums.add(block, np.ones((2, 5), dtype=np.int64))
    sent = b"".join([secret.public.to_bytes(), public.fingerprint, *block, *sums.export()])
    shown = "".join(map(repr, (secret, secret.public, public, sums, vars(secret), secret._numbers)))
    for prime in factors(secret):
        raw = int(prime).to_bytes(32, "big")
        assert raw not in sent
        assert raw[::-1] not in sent
        assert not any(text in shown for text in (str(prime), f"{prime:x}"))
    assert "mpz" not in shown


def test_an_error_s_traceback_holds_no_factor():
    secret, frames = key(), 0
    for raws in ([bytes(128)], [b"\xff" * 128], []):
        try:
            secret.decrypt(raws, [1])
        except (ProtocolViolation, ValueError):
            trace = sys.exc_info()[2].tb_next
        while trace:
            frames += 1
            seen = repr(trace.tb_frame.f_locals)
            assert not any(str(prime) in seen for prime in factors(secret))
            trace = trace.tb_next
    assert frames > 4


# --- at full size


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_a_key_of_2048_bits(randomness):
    n = 10_000
    he = HeSettings(key_bits=2048, randomness=randomness)
    sizes = Sizes(n, 1, 1, n - 1, n - 1, n * (n - 1), 2 * (n - 1), operation="differences")
    secret = PaillierSecretKey.generate(he, sizes)
    public = PaillierPublicKey.from_bytes(secret.public.to_bytes(), he, sizes)
    assert (public.slots, public.ciphertext_bytes) == (127, 512)
    assert public.ciphertext_bytes / public.slots < 6  # bytes per rank
    a = np.random.default_rng(6).integers(1 - n, n, 2 * public.slots)
    halves = np.split(a, 2)
    public.threads = 2
    wire = public.encrypt(halves)
    raws = public.subtract(wire, [-half for half in halves], [(0, 0), (1, 1)], rerandomise=True)
    np.testing.assert_array_equal(np.concatenate(secret.decrypt(raws, [127] * 2)), 2 * a)
