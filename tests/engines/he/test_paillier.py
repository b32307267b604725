"""The Paillier scheme: its keys, layout, wire and randomness, and that secrets stay.

What all schemes must do is in test_he_contract.py; the arithmetic is in test_paillier_math.py, and slots,
powers and threads are in test_paillier_parts.py.
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
from mpc_spearman.engines.he.paillier import products
from mpc_spearman.engines.he.paillier.arithmetic import PublicNumbers
from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey
from mpc_spearman.engines.he.scheme import IMPOSSIBLE, Effort, Operation, Sizes
from mpc_spearman.engines.he.schemes import new_products
from mpc_spearman.errors import BoundError, PlanError, ProtocolViolation
from support.he_single import decrypt, encrypt, export, load, subtract

N = 100
DIFFERENCES = Sizes(N, 1, 1, N - 1, N - 1, N * (N - 1), 2 * (N - 1))
PRODUCTS = Sizes(N, 3, 2, N - 1, N - 1, N * (N - 1), total(N))


def plan(**changes) -> HeSettings:
    return HeSettings(**{"key_bits": 512, "randomness": "short", "insecure": True} | changes)


@cache
def key(operation: Operation = "differences", **changes) -> PaillierSecretKey:
    sizes = DIFFERENCES if operation == "differences" else PRODUCTS
    return PaillierSecretKey.generate(plan(**changes), sizes, operation)


def received(secret: PaillierSecretKey, operation: Operation = "differences", **changes) -> PaillierPublicKey:
    sizes = DIFFERENCES if operation == "differences" else PRODUCTS
    return PaillierPublicKey.from_bytes(secret.public.to_bytes(), plan(**changes), sizes, operation)


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
        PaillierSecretKey.generate(plan(**changes), DIFFERENCES, "differences")
    with pytest.raises(PlanError, match=f"key_bits: {said}"):
        PaillierPublicKey.from_bytes(b"", plan(**changes), DIFFERENCES, "differences")


def test_weak_keys_come_with_a_caution():
    assert "protected nothing" in str(key().public.caution)
    n = mpz(1) << 2047 | 1
    cautions = [
        PaillierPublicKey(PublicNumbers(n), HeSettings(key_bits=bits), DIFFERENCES, "differences").caution
        for bits in (2048, 3072)
    ]
    assert "112 bits" in str(cautions[0])
    assert cautions[1] is None


def test_a_modulus_that_cannot_be_one_is_refused():
    public = key().public
    p, _ = factors(key())
    prime, small = gmpy2.next_prime(public.n), 1999 * gmpy2.next_prime(2**501)
    assert small.bit_length() == (p * p).bit_length() == 512
    for n in (mpz(0), public.n + 1, prime, p * p, public.n >> 1, small):
        raw = int(n).to_bytes(64, "big")
        with pytest.raises(ProtocolViolation, match="modulus"):
            PaillierPublicKey.from_bytes(raw, plan(randomness="full"), DIFFERENCES, "differences")


def test_a_base_of_randomness_that_cannot_be_one_is_refused():
    public = key().public
    not_square = next(h for h in range(2, 100) if gmpy2.jacobi(h, public.n) == -1)
    p, _ = factors(key())
    for h in (0, 1, not_square, p, public.n - 1, public.n, public.n + 4):
        raw = int(public.n).to_bytes(64, "big") + int(h).to_bytes(64, "big")
        with pytest.raises(ProtocolViolation, match="base"):
            PaillierPublicKey.from_bytes(raw, plan(), DIFFERENCES, "differences")


def test_a_key_of_the_other_kind_of_randomness_has_the_wrong_length():
    with pytest.raises(ProtocolViolation, match="128 bytes, not 64"):
        received(key(), randomness="full")
    with pytest.raises(ProtocolViolation, match="64 bytes, not 128"):
        received(key(randomness="full"))


# --- layout


def test_the_paper_s_form_has_one_rank_per_ciphertext():
    public = key(form="literal").public
    assert public.slots == 1
    products = PaillierSecretKey.generate(plan(form="literal"), PRODUCTS, "products").public
    assert products.ciphertexts_for(5) == 5 * PRODUCTS.m_source
    assert products.product_ciphertexts == PRODUCTS.m_source * PRODUCTS.m_target
    assert key("products").public.ciphertexts_for(5) == 5


def test_rows_are_multiplied_up_in_several_goes(monkeypatch):
    monkeypatch.setattr(products, "_ROWS", 31)
    secret = key("products")
    source, target = received(secret, "products"), received(secret, "products")
    rng = np.random.default_rng(2)
    x, y = rng.integers(1 - N, N, (3, N)), rng.integers(-20, 20, (2, N))
    sums, told = new_products(target), []
    for start in range(0, N, 7):
        block = source.encrypt_block(x[:, start : start + 7])
        raws = [source.dump(c) for c in block]
        sums.add(target.load(raws), y[:, start : start + 7], Effort(tick=told.append))
    assert told == [17, 35] * 2  # 35 rows are 5 blocks; half of them after each target column
    np.testing.assert_array_equal(secret.open_products(sums.export()), x @ y.T)


def test_blocks_and_integers_that_do_not_belong_together_are_refused():
    public = key("products").public
    block = public.encrypt_block(np.zeros((3, 4), dtype=np.int64))
    for y in (np.zeros((2, 5), np.int64), np.zeros((1, 4), np.int64), np.zeros(4, np.int64)):
        with pytest.raises(ValueError, match="belong together"):
            new_products(public).add(block, y)
    with pytest.raises(ValueError, match="another key"):
        new_products(received(key("products"), "products")).add(block, np.zeros((2, 4), np.int64))


# --- the wire


@pytest.mark.parametrize("many", [False, True])
def test_what_is_no_unit_modulo_the_square_is_refused(many):
    secret = key()
    public, (p, q) = secret.public, factors(secret)
    good = public.dump(encrypt(public, np.array([1])))
    cases = {
        "between": (mpz(0), public.square, public.square + 1, (mpz(1) << 1024) - 1),
        "factor": (p, q, p * p, public.n, public.square - q),
    }
    for said, values in cases.items():
        for value in values:
            raws = [good] * 5 * many + [int(value).to_bytes(128, "big")] + [good] * many
            with pytest.raises(ProtocolViolation, match=said):
                public.load(raws)
            with pytest.raises(ProtocolViolation, match=said):
                secret.decrypt(raws, [1] * len(raws))


def test_ciphertexts_are_big_endian_and_padded():
    public = key().public
    assert public.dump(encrypt(public, np.array([1]))) != b""
    c = load(public, (2).to_bytes(128, "big"))
    difference = subtract(public, c, encrypt(public, np.array([0])))
    assert export(public, difference, rerandomise=False)[:4] != bytes(4)
    assert c.value == 2
    assert public.read([b"\0" * 127 + b"\x05"]) == [5]


def test_a_ciphertext_replaced_by_a_random_one_is_caught():
    secret, rng = key(form="literal"), np.random.default_rng(4)
    for _ in range(20):
        raw = b"\0" + rng.bytes(127)
        assert decrypt(secret, raw, 1) == [IMPOSSIBLE]


def test_a_change_made_with_the_public_key_in_range_is_not_caught():
    # Documented: whoever may write to the link can add to a plaintext; the links' encryption is against that.
    secret = key()
    public = secret.public
    c = public.read([export(public, encrypt(public, np.array([3, 4])))])[0]
    c = c * (1 + public.n) % public.square
    np.testing.assert_array_equal(decrypt(secret, int(c).to_bytes(128, "big"), 2), [4, 4])


def test_ciphertexts_of_two_keys_do_not_mix_in_memory():
    mine, other = key().public, received(key())
    a, b = encrypt(mine, np.array([1])), encrypt(other, np.array([1]))
    for use in (lambda: subtract(mine, a, b), lambda: export(mine, b), lambda: mine.dump(b)):
        with pytest.raises(ValueError, match="another key"):
            use()


@pytest.mark.parametrize("values", [np.zeros(0, np.int64), np.zeros((1, 1), np.int64), np.zeros(2)])
def test_values_of_another_shape_or_type_are_not_encrypted(values):
    with pytest.raises(ValueError, match="ciphertext holds"):
        encrypt(key().public, values)


def test_a_difference_that_could_overflow_its_slots_is_refused():
    public = key().public
    layout, large = public.layout, np.array([2 * (N - 1)])
    assert layout.capacity == 255
    fine = subtract(public, encrypt(public, np.array([-57])), encrypt(public, large))
    with pytest.raises(BoundError, match="overflow"):
        subtract(public, encrypt(public, np.array([-58])), encrypt(public, large))
    with pytest.raises(BoundError, match="overflow"):
        subtract(public, fine, encrypt(public, np.array([1])))


def test_the_number_of_values_asked_for_must_be_possible():
    secret = key()
    raw = export(secret.public, encrypt(secret.public, np.array([1])))
    for count in (0, -1, secret.public.slots + 1):
        with pytest.raises(ValueError, match="holds"):
            decrypt(secret, raw, count)
    two = encrypt(secret.public, np.array([1, -2]))
    assert decrypt(secret, export(secret.public, two), 1) == [IMPOSSIBLE]


# --- randomness of what leaves


def test_without_rerandomising_a_difference_is_the_quotient_and_nothing_more():
    source, target = key().public, received(key())
    a = load(target, source.dump(encrypt(source, np.array([5]))))
    b = encrypt(target, np.array([3]))
    quotient = a.value * gmpy2.invert(b.value, target.square) % target.square
    d = subtract(target, a, b)
    plain = export(target, d, rerandomise=False)
    assert plain == int(quotient).to_bytes(128, "big")
    assert len({plain, export(target, d), export(target, d)}) == 3
    told: list[int] = []
    assert target.export([d, b], Effort(tick=told.append), rerandomise=False)[0] == plain
    assert told == [2]


def test_what_carries_no_randomness_of_one_s_own_must_be_rerandomised():
    source, target = key().public, received(key())
    a, b = (load(target, source.dump(encrypt(source, np.array([x])))) for x in (5, 3))
    own = encrypt(target, np.array([1]))
    cancelled = subtract(target, subtract(target, a, own), subtract(target, b, own))
    # In the third own's randomness is gone.
    for doubtful in (a, subtract(target, a, b), cancelled, subtract(target, own, own)):
        with pytest.raises(ValueError, match="re-randomised"):
            export(target, doubtful, rerandomise=False)
    np.testing.assert_array_equal(decrypt(key(), export(target, subtract(target, a, b)), 1), [2])


def test_the_source_cannot_recognise_products_of_its_own_ciphertexts():
    secret = key("products")
    source, target = received(secret, "products"), received(secret, "products")
    x, y = np.arange(12).reshape(3, 4), np.array([[1, -2, 3, 0], [0, 0, 0, 1]])
    block = source.encrypt_block(x)
    sums = new_products(target)
    sums.add(target.load([source.dump(c) for c in block]), y)
    for q, (raw, again) in enumerate(zip(sums.export(), sums.export(), strict=True)):
        guess = mpz(1)
        for c, exponent in zip(block, y[q].tolist(), strict=True):
            guess = guess * gmpy2.powmod(c.value, exponent, source.square) % source.square
        leaving = target.read([raw])[0]
        assert secret._numbers.decrypt(leaving) == secret._numbers.decrypt(guess)
        # Nor by the randomness alone, which is what a ciphertext is modulo n.
        assert len({leaving % source.n, guess % source.n, target.read([again])[0] % source.n}) == 3


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_every_encryption_draws_its_own_randomness(randomness):
    public = key(randomness=randomness).public
    fresh = public.encrypt([np.array([7])] * 50, Effort(3))
    assert len({c.value % public.n for c in fresh}) == 50
    symbols = {gmpy2.jacobi(c.value, public.n) for c in fresh}
    assert symbols == ({1, -1} if randomness == "full" else {1})  # full reaches all of Z_n^*


# --- secrets stay


def test_neither_factor_is_in_anything_that_leaves_or_is_shown():
    secret = key("products")
    public = received(secret, "products")
    sums = new_products(public)
    block = public.encrypt_block(np.ones((3, 5), dtype=np.int64))
    sums.add(block, np.ones((2, 5), dtype=np.int64))
    sent = b"".join([secret.public.to_bytes(), public.fingerprint, *map(public.dump, block), *sums.export()])
    shown = "".join(map(repr, (secret, secret.public, public, block, sums, vars(secret), secret._numbers)))
    for prime in factors(secret):
        raw = int(prime).to_bytes(32, "big")
        assert raw not in sent
        assert raw[::-1] not in sent
        assert not any(text in shown for text in (str(prime), f"{prime:x}"))
    assert "mpz" not in shown


def test_an_error_s_traceback_holds_no_factor():
    secret = key()
    bad = export(secret.public, encrypt(secret.public, np.array([1, 2])))
    frames = 0
    for raw, count in ((bad[:-1], 1), (bytes(128), 1), (bad, 0)):
        try:
            decrypt(secret, raw, count)
        except (ProtocolViolation, ValueError):
            trace = sys.exc_info()[2].tb_next
        while trace:
            frames += 1
            seen = repr(trace.tb_frame.f_locals)
            assert not any(str(prime) in seen for prime in factors(secret))
            trace = trace.tb_next
    assert frames > 6


# --- at full size


@pytest.mark.parametrize("randomness", ["full", "short"])
def test_a_key_of_2048_bits(randomness):
    n = 10_000
    he = HeSettings(key_bits=2048, randomness=randomness)
    sizes = Sizes(n, 1, 1, n - 1, n - 1, n * (n - 1), 2 * (n - 1))
    secret = PaillierSecretKey.generate(he, sizes, "differences")
    public = PaillierPublicKey.from_bytes(secret.public.to_bytes(), he, sizes, "differences")
    assert (public.slots, public.ciphertext_bytes) == (127, 512)
    assert public.ciphertext_bytes / public.slots < 6  # bytes per rank
    a = np.random.default_rng(6).integers(1 - n, n, 2 * public.slots)
    halves = np.split(a, 2)
    fresh = public.encrypt(halves, Effort(2))
    theirs = public.load([public.dump(c) for c in fresh])
    own = public.encrypt([-half for half in halves])
    raws = public.export(public.subtract(theirs, own))
    np.testing.assert_array_equal(np.concatenate(secret.decrypt(raws, [127] * 2, Effort(2))), 2 * a)
