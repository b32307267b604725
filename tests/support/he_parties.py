"""Parties under homomorphic encryption in one process, and what BFV's coordinator can compute."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import chisquare

from mpc_spearman.arrays import blocks
from mpc_spearman.config import HeSettings
from mpc_spearman.data.ranks import total
from mpc_spearman.engines.computation import Bounds
from mpc_spearman.engines.he.scheme import PublicKey, SecretKey, Sizes

HAS_SEAL = importlib.util.find_spec("tenseal") is not None
if HAS_SEAL:
    from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey
    from mpc_spearman.engines.he.bfv.seal import sealapi

SETTINGS = HeSettings(scheme="bfv")


def rank_sizes(n: int, m_source: int = 1, m_target: int = 1, *, products: bool = True) -> Sizes:
    result = total(n) if products else 2 * (n - 1)
    bounds = Bounds(n - 1, n - 1, n * (n - 1), result)
    return Sizes(n, m_source, m_target, bounds, 1, "inner_products" if products else "differences")


def ranks(seed: int, count: int, n: int) -> np.ndarray:
    rows = np.tile(np.arange(1 - n, n, 2), (count, 1))
    return np.random.default_rng(seed).permuted(rows, axis=1)


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.astype(object) @ y.astype(object).T


def exported(public: PublicKey, *values: int) -> bytes:
    """Return what the target sends the coordinator of integers of its own."""
    return public.subtract([], np.array([values]), [(None, 0)])[0]


def multiplied(
    public: PublicKey, x: np.ndarray, y: np.ndarray, added: Sequence[int] | None = None
) -> list[bytes]:
    """Return what the target sends the coordinator for x yᵀ and what it adds."""
    cut = blocks(x.shape[1], public.rows)
    sums = public.multiply((public.encrypt(x[:, rows]), y[:, rows]) for rows in cut)
    return public.export(sums, [0] * public.product_residues if added is None else added)


def products(secret: SecretKey, raws: Sequence[bytes]) -> np.ndarray:
    """Return the products that the coordinator decrypts, to which it has nothing to add."""
    return secret.decrypt_products(raws, [0] * secret.public.product_residues)


@cache
def key(sizes: Sizes) -> BfvSecretKey:
    return BfvSecretKey.generate(SETTINGS, sizes)


def received(sizes: Sizes, kind: type[BfvPublicKey] | None = None) -> BfvPublicKey:
    """Return the key as another party has read it, perhaps of a class that does something else with it."""
    return (kind or BfvPublicKey).from_bytes(key(sizes).public.to_bytes(), SETTINGS, sizes)


def secret_polynomial(secret: BfvSecretKey, index: int = 0) -> np.ndarray:
    """Return s, read through decryption alone: (0, floor(q/t)) decrypts to s."""
    ring, parameters = secret.public.rings[index], secret.public.parameters
    q = math.prod(parameters.data)
    crafted = np.zeros((2, len(parameters.data), ring.degree), dtype=np.uint64)
    crafted[1, :, 0] = [q // ring.plain % prime for prime in parameters.data]
    opened = sealapi.Plaintext()
    secret._decryptors[index].decrypt(ring.write(crafted, ring.first), opened)
    s = np.array([opened[i] for i in range(opened.coeff_count())])
    s = np.where(s == ring.plain - 1, -1, s)
    assert set(s.tolist()) == {-1, 0, 1}
    return np.pad(s, (0, ring.degree - len(s)))


def twist(degree: int) -> np.ndarray:
    return np.exp(1j * np.pi * np.arange(degree) / degree)


def negacyclic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a b mod z^N + 1, for real coefficients."""
    twists = twist(len(a))
    return (np.fft.ifft(np.fft.fft(a * twists) * np.fft.fft(b * twists)) / twists).real


def divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b mod z^N + 1, over the reals."""
    twists = twist(len(a))
    return (np.fft.ifft(np.fft.fft(a * twists) / np.fft.fft(b * twists)) / twists).real


def scaled_noise(secret: BfvSecretKey, coefficients: np.ndarray, index: int = 0) -> np.ndarray:
    """Return t v = t (c0 + c1 s) - q m, Python integers: all that the coordinator sees but m."""
    primes, t = secret.public.parameters.data[: coefficients.shape[1]], secret.public.rings[index].plain
    s, q = secret_polynomial(secret, index), math.prod(primes)
    phase = np.zeros(len(s), dtype=object)
    for i, prime in enumerate(primes):
        residue = coefficients[0, i].astype(object)
        for bits in (0, 20, 40):  # limbs whose products with s are exact in float64
            limb = (coefficients[1, i] >> np.uint64(bits)) & np.uint64(2**20 - 1)
            residue += np.rint(negacyclic(limb.astype(float), s)).astype(np.int64).astype(object) << bits
        phase += residue % prime * (q // prime * pow(q // prime, -1, prime))
    phase %= q
    message = (phase * t + q // 2) // q
    return phase * t - message * q


def noise(secret: BfvSecretKey, coefficients: np.ndarray, index: int = 0) -> np.ndarray:
    """Return v, to the precision of float64."""
    return (scaled_noise(secret, coefficients, index) / secret.public.rings[index].plain).astype(float)


def assert_uniform(units: np.ndarray, cells: int = 64) -> None:
    """Check that values in [0, 1) are uniform, by a chi-square test that errs once in 10^12."""
    assert chisquare(np.bincount((units * cells).astype(int), minlength=cells)).pvalue > 1e-12
