"""What BFV ciphertexts give away: masks, noise and its flooding, and the attacks that they stop.

The coordinator's attacks use its secret key, and more than it would ever see: the source's ciphertexts, and
the target's before they shrink.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.engines.computation import Bounds
from mpc_spearman.engines.he.bfv import parameters
from mpc_spearman.engines.he.bfv.parameters import fresh_noise
from mpc_spearman.engines.he.scheme import Sizes
from mpc_spearman.wire.keys import Stream

pytest.importorskip("tenseal", reason="TenSEAL is not installed (it has no build for Python 3.10)")

from mpc_spearman.engines.he.bfv import seal
from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey
from mpc_spearman.engines.he.bfv.seal import sealapi
from support.he_parties import (
    assert_uniform,
    divided,
    exact,
    exported,
    key,
    multiplied,
    noise,
    products,
    rank_sizes,
    ranks,
    received,
)

# --- noise: bounds, flooding and the attack


class Watched(BfvPublicKey):
    """The target's key, with the coefficients of what is about to shrink and leave; it may flood nothing."""

    floods = True
    zero = None  # coefficients in place of fresh ones

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.before = []

    def fresh_zero(self, index):
        ring = self.rings[index]
        return super().fresh_zero(index) if self.zero is None else ring.write(self.zero, ring.first)

    def flooded(self, ciphertext, index, stream):
        return super().flooded(ciphertext, index, stream) if self.floods else self.shrunk(ciphertext, index)

    def shrunk(self, ciphertext, index):
        self.before.append(self.rings[index].read(ciphertext))
        return super().shrunk(ciphertext, index)


def largest(values: np.ndarray) -> float:
    return float(abs(values).max())


def test_fresh_noise_is_within_its_bound():
    secret, public = key(rank_sizes(8192)), received(rank_sizes(8192))
    bound = fresh_noise(8192, public.parameters.special)
    ring = public.rings[0]
    zeros = [largest(noise(secret, ring.read(public.fresh_zero(0)))) for _ in range(3)]
    assert max(zeros) <= bound
    assert max(zeros) > 20  # there is noise, some rounded Gaussian's of standard deviation 21
    fresh = ring.from_bytes(public.encrypt(ranks(1, 1, 8192))[0], ring.first)
    assert largest(noise(secret, ring.read(fresh))) <= bound + 0.5


def test_noise_before_flooding_is_within_its_bound():
    n = 20_000
    secret, public = key(rank_sizes(n)), received(rank_sizes(n), Watched)
    public.floods = False
    y = (n - 1) * np.where(np.arange(n) % 2, 1, -1)[None]
    multiplied(public, ranks(1, 1, n), y)
    assert 2**20 < largest(noise(secret, public.before[0])) <= public.parameters.before
    sizes = rank_sizes(n, products=False)
    secret, public = key(sizes), received(sizes, Watched)
    public.floods = False
    y = y[:, : public.slots]
    public.subtract(public.encrypt(y), -y, [(0, 0)])
    assert 20 < largest(noise(secret, public.before[0])) <= public.parameters.before


@pytest.mark.parametrize("of_products", [True, False])
def test_noise_after_flooding_is_what_the_formula_says(of_products):
    n = 8192
    sizes = rank_sizes(n, products=of_products)
    secret, public = key(sizes), received(sizes, Watched)
    x, y = ranks(1, 1, n), ranks(2, 1, n)
    raw = multiplied(public, x, y)[0] if of_products else exported(public, *x[0, : public.slots])
    parameters, degree = public.parameters, public.parameters.layout.degree
    flooded, scale = noise(secret, public.before[0]), 2.0**parameters.flood_bits
    assert largest(flooded) <= scale + parameters.before
    # uniform on [-2^k, 2^k): the mean of N of them, their squares' mean, and 64 equal cells
    units = flooded / scale
    assert abs(units.mean()) < 8 / math.sqrt(3 * degree)
    assert abs((units**2).mean() - 1 / 3) < 8 * math.sqrt(4 / 45 / degree)
    assert_uniform(((units + 1) / 2).clip(0, 1 - 1e-12))
    # after shrinking: the bound of the formula, and SEAL's own measure of it
    coefficients = seal.unpack(raw[1:], parameters.kept, degree)
    assert largest(noise(secret, coefficients)) <= parameters.after
    ring = public.rings[0]
    budget = secret._decryptors[0].invariant_noise_budget(ring.write(coefficients, ring.kept))
    assert parameters.budget <= budget <= parameters.budget + 12


def from_noise(secret: BfvSecretKey, source: np.ndarray, target: list[np.ndarray], rows: int) -> np.ndarray:
    """Return the attack's guess: a product's noise is near y v, with v the source's noise."""
    v = noise(secret, source)
    return np.concatenate([divided(noise(secret, sent), v)[rows - 1 :: -1] for sent in target])


@pytest.mark.parametrize("flooded", [False, True])
def test_ranks_come_back_from_noise_unless_it_is_flooded(flooded):
    n, m_target = 8192, 4
    sizes = rank_sizes(n, 1, m_target)
    secret = key(sizes)
    x, y = ranks(1, 1, n), ranks(2, m_target, n)
    for _ in range(4):  # once in a few thousand times a frequency of the noise is too weak to divide by
        public = received(sizes, Watched)
        public.floods = flooded
        (raw,) = public.encrypt(x)
        opened = products(secret, public.export(public.multiply([([raw], y)]), [0] * m_target))
        np.testing.assert_array_equal(opened, exact(x, y))
        ring = public.rings[0]
        guess = from_noise(secret, ring.read(ring.from_bytes(raw, ring.first)), public.before, n)
        if flooded or (np.rint(guess) == y.ravel()).all():
            break
    if flooded:
        assert abs(np.corrcoef(guess, y.ravel())[0, 1]) < 0.05
    else:
        assert (np.rint(guess) == y.ravel()).all()


@pytest.mark.parametrize("fresh", [False, True])
def test_ranks_come_back_without_any_key_unless_zero_is_added(fresh):
    n = 8192
    public = received(rank_sizes(n), Watched)
    ring, primes = public.rings[0], public.parameters.data
    stale = np.zeros((2, len(primes), n), dtype=np.uint64)
    if not fresh:
        stale[1, :, 0] = 1  # SEAL refuses all zeros
        public.zero = stale
    y = ranks(2, 1, n)
    encrypted = public.encrypt(ranks(1, 1, n))
    public.export(public.multiply([(encrypted, y)]), [0])
    # c1 is y times the c1 the source sent; division in transformed form, modulo the first prime
    source = ring.from_bytes(encrypted[0], ring.first)
    target = ring.write(public.before[0] - stale, ring.first)
    for ciphertext in (source, target):
        ring.evaluator.transform_to_ntt_inplace(ciphertext)
    above, below = ring.read(target)[1, 0].tolist(), ring.read(source)[1, 0].tolist()
    prime = primes[0]
    quotient = np.zeros((2, len(primes), n), dtype=np.uint64)
    quotient[:, 0] = [a * pow(b, -1, prime) % prime for a, b in zip(above, below, strict=True)]
    ciphertext = sealapi.Ciphertext()
    ring._load(ciphertext, ring._ciphertext_head(quotient, ring.first, transformed=True), quotient)
    ring.evaluator.transform_from_ntt_inplace(ciphertext)
    guess = ring.read(ciphertext)[0, 0].astype(np.int64)
    guess = np.where(guess > prime // 2, guess - prime, guess)[::-1]
    if fresh:
        assert abs(np.corrcoef(guess.astype(float), y[0])[0, 1]) < 0.08
    else:
        np.testing.assert_array_equal(guess, y[0])


# --- masks


def opened(secret: BfvSecretKey, raws: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """The coordinator's plaintexts, as slots and as coefficients, over t."""
    slots, coefficients = [], []
    ring = secret.public.rings[0]
    for raw in raws:
        plaintext = secret._decrypt(raw, 0)
        slots += secret.public.encoder.decode_uint64(plaintext)
        coefficients += [plaintext[i] for i in range(plaintext.coeff_count())]
    return np.array(slots) / ring.plain, np.array(coefficients) / ring.plain


@pytest.mark.parametrize("n", [50, 8192])
def test_the_coordinators_slots_are_uniform_before_they_are_summed(n, monkeypatch):
    sizes = rank_sizes(n, 2, 3)
    secret, sorted_ranks = key(sizes), np.tile(np.arange(1 - n, n, 2), (3, 1))
    x, y = sorted_ranks[:2], sorted_ranks
    one, two = (multiplied(received(sizes), x, y) for _ in range(2))
    slots, coefficients = opened(secret, one)
    assert_uniform(slots)
    assert_uniform(coefficients)
    for of_ciphertext in np.split(slots, len(one)):
        assert_uniform(of_ciphertext)
    again, _ = opened(secret, two)
    assert_uniform((slots - again) % 1)
    for raws in (one, two):
        np.testing.assert_array_equal(products(secret, raws), exact(x, y))
    # without masks they are not
    monkeypatch.setattr(seal, "uniform", lambda stream, count, t: np.zeros(count, dtype=np.int64))
    slots, coefficients = opened(secret, multiplied(received(sizes), x, y))
    with pytest.raises(AssertionError):
        assert_uniform(coefficients)


def test_masks_differ_between_moduli_and_leave_only_the_results():
    sizes = Sizes(10, 2, 1, Bounds(2**62, 9, 90, 2**63 - 1))
    secret, public = key(sizes), received(sizes)
    x, y = np.zeros((2, 10), dtype=np.int64), np.zeros((1, 10), dtype=np.int64)
    raws = multiplied(public, x, y)
    assert len(raws) == len(public.rings) * public.parameters.layout.groups == 2
    plaintexts = []
    for index, raw in enumerate(raws):
        plaintext = secret._decrypt(raw, index)
        plaintexts.append([plaintext[i] if i < plaintext.coeff_count() else 0 for i in range(public.slots)])
    results = {*public.places(0)[0]}
    for values in plaintexts:
        zeros = {i for i, value in enumerate(values) if value == 0}
        assert results <= zeros
        assert len(zeros - results) < 2  # once in 370,000 runs a mask is 0 as well
    assert np.mean(np.array(plaintexts[0]) == np.array(plaintexts[1])) < 0.01


@given(st.integers(2, 2**60), st.integers(0, 2**32))
@settings(max_examples=30)
def test_uniform_draws_stay_below_their_bound(bound, seed):
    drawn = seal.uniform(Stream(seed.to_bytes(32, "big")), 3000, bound)
    assert drawn.shape == (3000,)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    if bound > 2**20:
        assert_uniform(drawn / bound)


@given(st.integers(0, 59), st.integers(1, 2**59), st.integers(0, 2**48 - 1), st.integers(0, 2**60))
@settings(max_examples=300)
def test_reduction_is_exact(bits, prime, limb, value):
    prime = max(3, prime >> bits) if prime >> bits > 2**33 else prime % 2**26 + 2**34
    for v in {value % prime, 0, prime - 1}:
        for low in {limb, 0, 2**48 - 1}:
            reduced = seal._shifted(np.array([v], np.uint64), np.array([low], np.uint64), prime)
            assert int(reduced[0]) == ((v << 48) + low) % prime


@pytest.mark.parametrize("bits", [31, 63, 64, 70, 97, 130])
def test_flooding_noise_is_uniform_and_the_same_integer_under_every_prime(bits):
    degree = 4096
    primes = parameters._take_primes(parameters._downwards(2**56, 2 * degree), 3)
    residues = seal.flood(Stream(bytes(31) + bytes([bits])), degree, bits, primes)
    q = math.prod(primes)
    joined = sum(
        residues[i].astype(object) * (q // prime * pow(q // prime, -1, prime))
        for i, prime in enumerate(primes)
    )
    integers = np.array([value - q if value > q // 2 else value for value in joined % q], dtype=object)
    assert -(2**bits) <= integers.min() < -(2**bits) * 0.99
    assert 2**bits * 0.99 < integers.max() < 2**bits
    assert_uniform(((integers + 2**bits) / 2 ** (bits + 1)).astype(float))
    low = np.array([int(value) & 63 for value in integers])
    assert_uniform(low / 64)
