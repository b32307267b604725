"""BFV's parameters from public sizes: noise bounds, the flooding noise, and the limits.

docs/homomorphic-encryption.md proves the bounds (section "BFV's noise"), with the names used here. They are
worst cases: they hold with certainty, not on average. Everything is computed from public sizes with Python
integers, so all parties get the same parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

from gmpy2 import iroot, is_prime  # Baillie-PSW, which is right about every number below 2^64

from mpc_spearman.engines.he.scheme import Sizes
from mpc_spearman.errors import BoundError

#: Ring degree and the largest modulus, in bits, that leaves 128 bits of security with ternary secrets.
SECURITY = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
#: The flooding's total distance over a run is at most 2^-STATISTICAL.
STATISTICAL = 40
#: Every key is made for at least so many ciphertexts to the coordinator.
LEAST_RESULTS = 64

_ERROR = 21  # SEAL's centred binomial distribution: the largest error
_PRIME_BITS = 60  # SEAL's longest modulus, of ciphertexts and of plaintexts
_SPECIAL = 2**15  # p is the first suitable prime above: it makes 21 (2N + 1)/p small beside N/2


@dataclass(frozen=True)
class Layout:
    """How vectors lie in ciphertexts; see :mod:`mpc_spearman.engines.he.bfv.keys`.

    A ciphertext has `degree` N coefficients, or slots, and a product is computed under so many plaintext
    `moduli`. At products it holds `columns` of the source over `rows` rows, so that all columns of one of the
    `blocks` of rows take `groups` ciphertexts; at differences 1 column, N rows and 1 modulus. The flood is
    made for so many `results`: ciphertexts that may leave the target under one key.
    """

    degree: int
    moduli: int
    columns: int
    rows: int
    groups: int
    blocks: int
    results: int


@dataclass(frozen=True)
class Parameters:
    """A layout, its moduli, and its noise.

    Source and target work with ciphertexts modulo the primes `kept` and `dropped`, the coordinator with the
    kept ones alone; the prime p, `special`, is in the public key only. The plaintext moduli t, `plain`, are
    primes = 1 (mod 2N), so that each has N slots. The noise is at most `before` before flooding, which is
    uniform on [-2^k, 2^k) with k `flood_bits`, and at most `after` at the coordinator.
    """

    layout: Layout
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    special: int
    plain: tuple[int, ...]
    before: int
    flood_bits: int
    after: int

    @property
    def data(self) -> tuple[int, ...]:
        """Primes of the ciphertexts source and target work with; the kept ones come first."""
        return self.kept + self.dropped

    @property
    def budget(self) -> int:
        """What SEAL's ``invariant_noise_budget`` is at least, for every honest ciphertext, under every t."""
        return math.prod(self.kept).bit_length() - (max(self.plain) * self.after).bit_length() - 1


def fresh_noise(degree: int, special: int) -> int:
    """Return a bound on the noise of a fresh encryption, without the 1/2 that rounding its plaintext adds."""
    return -(-_ERROR * (2 * degree + 1) // special) + degree // 2 + 1


@lru_cache(maxsize=16)
def choose(sizes: Sizes) -> Parameters:
    """Choose the cheapest parameters that are secure, exact and flooded; `BoundError` if there are none."""
    for layout in sorted(_layouts(sizes), key=lambda layout: _cost(layout, sizes)):
        parameters = _fill(layout, sizes)
        if parameters is not None:
            return parameters
    raise BoundError(
        f"BFV has no parameters of 128-bit security for {sizes.operation.replace('_', ' ')} of "
        f"{sizes.m_source} x {sizes.m_target} columns of {sizes.n:,} rows "
        f"with noise flooding to 2^-{STATISTICAL}. Use he.scheme: paillier"
    )


def _layouts(sizes: Sizes) -> Iterator[Layout]:
    for degree in SECURITY:
        if sizes.operation == "differences":
            blocks = -(-sizes.n // degree)
            vectors = sizes.m_source + sizes.m_target - 1
            yield Layout(degree, 1, 1, degree, sizes.m_source, blocks, max(vectors * blocks, LEAST_RESULTS))
            continue
        # Every way to cut the source's columns into equal groups, but for the last one.
        cuts = {-(-sizes.m_source // groups) for groups in range(1, sizes.m_source + 1)}
        for columns in sorted(cut for cut in cuts if cut <= degree):
            rows, groups = min(degree // columns, sizes.n), -(-sizes.m_source // columns)
            for moduli in (1, 2, 3):
                results = max(moduli * groups * sizes.m_target, LEAST_RESULTS)
                yield Layout(degree, moduli, columns, rows, groups, -(-sizes.n // rows), results)


def _cost(layout: Layout, sizes: Sizes) -> int:
    """Estimate all parties' time together, in nanoseconds, with 8 ns for a byte on the wire.

    Measured on one core, per coefficient, with L primes: encryption 90 + 43 L, reading a ciphertext out of
    SEAL 25 L, its transform 20 L, a plaintext's 9 L, multiply and add 6 L.
    """
    primes = _data_count(layout, sizes)
    from_source = layout.groups * layout.blocks * (90 + 200 * primes)
    for_coordinator = layout.groups * sizes.m_target * layout.blocks * (410 + 90 * primes)
    multiplied = 0
    if sizes.operation == "inner_products":
        for_coordinator //= layout.blocks
        multiplied = sizes.m_target * layout.blocks * (16 + 15 * primes + 6 * primes * layout.groups)
    return layout.moduli * layout.degree * (from_source + multiplied + for_coordinator)


def _data_count(layout: Layout, sizes: Sizes) -> int:
    """Estimate how many primes the ciphertexts have that source and target work with."""
    before, flood_bits = _noise(layout, sizes, _SPECIAL)
    return _prime_count(4 * _plain_least(layout, sizes) * (before + (1 << flood_bits)))


def _plain_least(layout: Layout, sizes: Sizes) -> int:
    """Return the least plaintext modulus. All moduli together are twice as large as the range needs.

    So the difference of any two vectors that `encrypt` takes cannot wrap, and half of all random values are
    beyond the result's bound.
    """
    return _root(4 * sizes.bounds.result + 1, layout.moduli)


def _noise(layout: Layout, sizes: Sizes, special: int) -> tuple[int, int]:
    """Return the parameters `before` and `flood_bits`."""
    fresh = fresh_noise(layout.degree, special)
    products = sizes.operation == "inner_products"
    before = (sizes.bounds.target_sum + 1) * (fresh + 1) if products else 3 * fresh + 1
    hidden = layout.degree * layout.results * sizes.keys * (before + 1) << STATISTICAL
    return before, (hidden - 1).bit_length() - 1


def _fill(layout: Layout, sizes: Sizes) -> Parameters | None:
    """Return the parameters of a layout; None if its primes would be too long to be secure."""
    step = 2 * layout.degree
    least = _plain_least(layout, sizes)
    if least.bit_length() >= _PRIME_BITS:
        return None
    plain = _take_primes(_upwards(least, step), layout.moduli)
    special = _take_primes(_upwards(_SPECIAL, step), 1, plain)[0]
    before, flood_bits = _noise(layout, sizes, special)
    # Whole bytes first: the coefficients' bytes are sent anyway, and more room makes tampering show.
    for whole_bytes in (True, False):
        kept, dropped = _data_primes(
            layout.degree, max(plain), before + (1 << flood_bits), (*plain, special), whole_bytes
        )
        if math.prod((*kept, *dropped, special)).bit_length() <= SECURITY[layout.degree]:
            break
    else:
        return None
    after = before + (1 << flood_bits)
    for prime in reversed(dropped):
        after = -(-after // prime) + layout.degree // 2 + 1
    if 4 * max(plain) * after > math.prod(kept):
        raise AssertionError("the kept primes are chosen so that this holds")
    return Parameters(layout, kept, dropped, special, plain, before, flood_bits, after)


def _data_primes(
    degree: int, plain: int, noise: int, avoid: tuple[int, ...], whole_bytes: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the kept and the dropped primes: as few as the flooded noise needs, of about equal length."""
    step, rounding = 2 * degree, degree // 2 + 3
    least = 4 * plain * 2 * rounding
    count = _prime_count(least)
    kept_least = max(least, _root(4 * plain * noise, max(count, _prime_count(4 * plain * noise))) ** count)
    kept = _split(kept_least, step, avoid, whole_bytes)
    tolerated = math.prod(kept) // (4 * plain) - rounding
    return kept, _split(-(-noise // tolerated), step, (*avoid, *kept), whole_bytes)


def _prime_count(product: int) -> int:
    return -(-product.bit_length() // (_PRIME_BITS - 1))


def _split(product: int, step: int, avoid: Sequence[int], whole_bytes: bool) -> tuple[int, ...]:
    """Return primes = 1 (mod step), about equal, whose product is at least that large."""
    least = max(_root(product, _prime_count(product)), 2 * _SPECIAL)
    if whole_bytes:
        top = min(-(-least.bit_length() // 8) * 8, _PRIME_BITS)
        primes = _take_primes(_downwards(1 << top, step), _prime_count(product), avoid)
        if min(primes) >= least:
            return primes
    return _take_primes(_upwards(least, step), _prime_count(product), avoid)


def _root(value: int, degree: int) -> int:
    """Return the `degree`-th root of `value`, rounded up."""
    root, exact = iroot(value, degree)
    return int(root) if exact else int(root) + 1


def _take_primes(primes: Iterable[int], count: int, avoid: Sequence[int] = ()) -> tuple[int, ...]:
    return tuple(islice((prime for prime in primes if prime not in avoid), count))


def _upwards(least: int, step: int) -> Iterable[int]:
    return filter(is_prime, count(-(-(least - 1) // step) * step + 1, step))


def _downwards(below: int, step: int) -> Iterable[int]:
    return filter(is_prime, range((below - 2) // step * step + 1, 1, -step))
