r"""BFV's parameters from public sizes: noise bounds, the noise that floods them, and what must fit.

A ciphertext (c0, c1) of ring degree N encrypts the polynomial m mod t if  c0 + c1 s = q m / t + v  (mod q)
in Z[z]/(z^N + 1), for the coordinator's secret s with coefficients in {-1, 0, 1}. v is its **noise**,
rational because q m / t is; |v| stands for its largest coefficient. The bounds below are worst cases: they
hold with certainty, not on average.

*Fresh.* SEAL draws u as it draws s, and errors of at most 21 (a centred binomial of 2 x 21 bits). It
encrypts with one more prime p in the modulus, |e u + e1 + e2 s| <= 21 (2N + 1), then divides by p and rounds
both parts, which adds at most (1 + N)/2. Adding the plaintext rounds q m / t to an integer: at most 1/2.

    fresh = ceil(21 (2N + 1) / p) + N/2 + 1         |v| <= fresh + 1/2;   for Enc(0), |v| <= fresh

*Differences.* Noise adds up: a - b and a fresh Enc(0) make  before = 3 fresh + 1.

*Products.* A plaintext polynomial y (coefficients centred, as SEAL lifts them) turns v into y v, and
q m / t into q y m / t, which is q (y m mod t) / t modulo q. Over all blocks the |y_i| of one target column
add up to at most target_sum, and a coefficient of y v is a signed sum of them times those of v. Then come the
mask (rounded: 1/2) and a fresh Enc(0):

    before = target_sum * (fresh + 1) + fresh + 1

*Flooding.* What the coordinator reads besides m is the integer e = c0 + c1 s - round(q m / t), with
|e| <= before + 1. It is hidden by adding to c0 an integer polynomial f with independent coefficients uniform
on [-2^k, 2^k). Shifting such a coefficient by e_i moves its distribution by |e_i| / 2^(k+1) in total
variation. So all that the coordinator sees of e in a whole run is, as a distribution, within

    distance = coefficients * (before + 1) / 2^(k+1),    coefficients = N * (ciphertexts under a key) * keys

of what it would see if every e were 0, whatever the ranks and whoever's ciphertexts it has seen; k is the
smallest for which distance <= 2^-40. (f comes from AES-256, so this "is" holds for who cannot break AES.)
With several sources a run may have several keys: each then takes its equal share of that distance.

*Switching.* Dropping a prime r of q is rounding division: |v| becomes at most |v|/r + (1 + N)/2. It is
public and deterministic, so it undoes nothing. The primes fall into those that are kept and those that only
make room for the flood, chosen so that in the end  4 t |v| <= q: half of what decryption allows.

*Security.* The whole modulus, p included, obeys the 128-bit row for ternary secrets of the standard, which
is also SEAL's own check. None of the rest depends on it.

Everything is computed from public sizes with Python integers, so all parties get the same parameters.

References
----------
M. Albrecht et al., "Homomorphic Encryption Security Standard", HomomorphicEncryption.org, 2018, table 1.
C. Gentry, "A fully homomorphic encryption scheme", thesis, Stanford, 2009, section 21.1 (flooding).
J. Fan, F. Vercauteren, "Somewhat practical fully homomorphic encryption", ePrint 2012/144.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from gmpy2 import iroot, is_prime  # Baillie-PSW, which is right about every number below 2^64

from mpc_spearman.engines.he.scheme import Operation, Sizes
from mpc_spearman.errors import BoundError

#: Ring degree and the largest modulus, in bits, that leaves 128 bits of security with ternary secrets.
SECURITY = {4096: 109, 8192: 218, 16384: 438, 32768: 881}
#: The flooding's total distance over a run is at most 2^-STATISTICAL.
STATISTICAL = 40
#: Every key is made for at least so many ciphertexts to the coordinator.
LEAST_RESULTS = 64

_ERROR = 21  # SEAL's centred binomial distribution: the largest error
_PRIME_BITS = 60  # SEAL's longest modulus, of ciphertexts and of plaintexts
_MEMORY = 1 << 30  # bytes of sums the target should not exceed, where there is a choice
_SPECIAL = 2**15  # p is the first suitable prime above: it makes 21 (2N + 1)/p small beside N/2


@dataclass(frozen=True)
class Layout:
    """How vectors lie in ciphertexts; see :mod:`mpc_spearman.engines.he.bfv.keys`.

    Attributes
    ----------
    degree : int
        N: coefficients, and slots, of a ciphertext.
    moduli : int
        Plaintext moduli a product is computed under; 1 at differences.
    columns, rows : int
        Columns of the source, and rows, in one ciphertext at products; 1 and N at differences.
    groups : int
        Ciphertexts that hold all the source's columns for one block of rows.
    blocks : int
        Blocks of rows.
    results : int
        Ciphertexts the coordinator may get under one key, of all moduli together: what it needs, or
        ``LEAST_RESULTS`` if that is more. The flood is made for so many, and no more leave the target.
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

    Attributes
    ----------
    operation : str
    layout : Layout
    kept : tuple of int
        Primes of the modulus of a ciphertext sent to the coordinator.
    dropped : tuple of int
        Primes beyond, in the ciphertexts source and target work with.
    special : int
        The prime p, in the public key only.
    plain : tuple of int
        Plaintext moduli t: primes = 1 (mod 2N), so that each has N slots.
    before : int
        Bound on the noise of what is about to be flooded.
    flood_bits : int
        k: the flooding noise is uniform on [-2^k, 2^k).
    after : int
        Bound on the noise of what the coordinator gets.
    """

    operation: Operation
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
    """Bound on the noise of a fresh encryption, but for the half its plaintext's rounding adds."""
    return -(-_ERROR * (2 * degree + 1) // special) + degree // 2 + 1


@lru_cache(maxsize=16)
def choose(sizes: Sizes, operation: Operation) -> Parameters:
    """Choose the cheapest parameters that are secure, exact and flooded.

    Raises
    ------
    BoundError
        No parameters of 128-bit security hold these sizes together with their flooding.
    """
    layouts = sorted(_layouts(sizes, operation), key=lambda one: _cost(one, sizes, operation))
    for layout in sorted(layouts, key=lambda one: _sums_bytes(one, sizes, operation) > _MEMORY):
        found = _fill(layout, sizes, operation)
        if found is not None:
            return found
    raise BoundError(
        f"BFV has no parameters of 128-bit security for {operation} of {sizes.m_source} x {sizes.m_target} "
        f"columns of {sizes.n} rows with noise flooding to 2^-{STATISTICAL}. Use he.scheme: paillier"
    )


def _layouts(sizes: Sizes, operation: Operation) -> Iterator[Layout]:
    for degree in SECURITY:
        if operation == "differences":
            blocks = -(-sizes.n // degree)
            vectors = sizes.m_source + sizes.m_target - 1
            yield Layout(degree, 1, 1, degree, sizes.m_source, blocks, max(vectors * blocks, LEAST_RESULTS))
            continue
        for columns in _group_sizes(sizes.m_source, degree):
            rows, groups = min(degree // columns, sizes.n), -(-sizes.m_source // columns)
            for moduli in (1, 2, 3):
                results = max(moduli * groups * sizes.m_target, LEAST_RESULTS)
                yield Layout(degree, moduli, columns, rows, groups, -(-sizes.n // rows), results)


def _group_sizes(columns: int, degree: int) -> list[int]:
    """Every way to cut columns into equal groups, but for the last one, of at most `degree`."""
    return sorted({size for groups in range(1, columns + 1) if (size := -(-columns // groups)) <= degree})


def _cost(layout: Layout, sizes: Sizes, operation: Operation) -> int:
    """Nanoseconds of all parties together, roughly, with 8 ns for a byte on the wire.

    Measured on one core, per coefficient, with L primes: encryption 90 + 43 L, reading a ciphertext out of
    SEAL 25 L, its transform 20 L, a plaintext's 9 L, multiply and add 6 L.
    """
    primes = _data_count(layout, sizes, operation)
    from_source = layout.groups * layout.blocks * (90 + 200 * primes)
    for_coordinator = layout.groups * sizes.m_target * layout.blocks * (410 + 90 * primes)
    multiplied = 0
    if operation == "products":
        for_coordinator //= layout.blocks
        multiplied = sizes.m_target * layout.blocks * (16 + 15 * primes + 6 * primes * layout.groups)
    return layout.moduli * layout.degree * (from_source + multiplied + for_coordinator)


def _sums_bytes(layout: Layout, sizes: Sizes, operation: Operation) -> int:
    """Memory of the sums a target keeps until they are sent; differences go as they come."""
    if operation == "differences":
        return 0
    polynomials = 2 * layout.moduli * layout.groups * sizes.m_target * _data_count(layout, sizes, operation)
    return 8 * layout.degree * polynomials


def _data_count(layout: Layout, sizes: Sizes, operation: Operation) -> int:
    """Primes of the ciphertexts that source and target work with, about."""
    before, flood_bits = _noise(layout, sizes, operation, _SPECIAL)
    return _count(4 * _plain_least(layout, sizes) * (before + (1 << flood_bits)))


def _plain_least(layout: Layout, sizes: Sizes) -> int:
    """Least plaintext modulus. Together they are twice as large as the range needs.

    So the difference of any two vectors that `encrypt` takes cannot wrap, and half of all random values are
    beyond the result's bound.
    """
    return _root(4 * sizes.result_bound + 1, layout.moduli)


def _noise(layout: Layout, sizes: Sizes, operation: Operation, special: int) -> tuple[int, int]:
    """Return `before` and `flood_bits`: see the module's text."""
    fresh = fresh_noise(layout.degree, special)
    before = 3 * fresh + 1 if operation == "differences" else sizes.target_sum * (fresh + 1) + fresh + 1
    hidden = layout.degree * layout.results * sizes.keys * (before + 1) << STATISTICAL
    return before, (hidden - 1).bit_length() - 1


def _fill(layout: Layout, sizes: Sizes, operation: Operation) -> Parameters | None:
    """Find the primes of a layout, or None if they would exceed what is secure."""
    step = 2 * layout.degree
    least = _plain_least(layout, sizes)
    if least.bit_length() >= _PRIME_BITS:
        return None
    plain = _first(_upwards(least, step), layout.moduli)
    if max(plain).bit_length() > _PRIME_BITS:
        return None
    special = _first(_upwards(_SPECIAL, step), 1, plain)[0]
    before, flood_bits = _noise(layout, sizes, operation, special)
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
    return Parameters(operation, layout, kept, dropped, special, plain, before, flood_bits, after)


def _data_primes(
    degree: int, plain: int, noise: int, avoid: tuple[int, ...], whole_bytes: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the kept and the dropped primes: as few as the flooded noise needs, about equally long."""
    step, rounding = 2 * degree, degree // 2 + 3
    least = 4 * plain * 2 * rounding
    count = _count(least)
    kept_least = max(least, _root(4 * plain * noise, max(count, _count(4 * plain * noise))) ** count)
    kept = _split(kept_least, step, avoid, whole_bytes)
    room = math.prod(kept) // (4 * plain) - rounding
    return kept, _split(-(-noise // room), step, (*avoid, *kept), whole_bytes)


def _count(product: int) -> int:
    return -(-product.bit_length() // (_PRIME_BITS - 1))


def _split(product: int, step: int, avoid: Sequence[int], whole_bytes: bool) -> tuple[int, ...]:
    """Return primes = 1 (mod step), about equal, whose product is at least that large."""
    least = max(_root(product, _count(product)), 2 * _SPECIAL)
    if whole_bytes:
        top = min(-(-least.bit_length() // 8) * 8, _PRIME_BITS)
        primes = _first(_downwards(1 << top, step), _count(product), avoid)
        if min(primes) >= least:
            return primes
    return _first(_upwards(least, step), _count(product), avoid)


def _root(value: int, degree: int) -> int:
    """Return the least integer whose power of that degree is at least `value`."""
    root, exact = iroot(value, degree)
    return int(root) if exact else int(root) + 1


def _first(primes: Iterable[int], count: int, avoid: Sequence[int] = ()) -> tuple[int, ...]:
    return tuple(islice((prime for prime in primes if prime not in avoid), count))


def _upwards(least: int, step: int) -> Iterator[int]:
    candidate = -(-(least - 1) // step) * step + 1
    while True:
        if is_prime(candidate):
            yield candidate
        candidate += step


def _downwards(below: int, step: int) -> Iterator[int]:
    for candidate in range((below - 2) // step * step + 1, 1, -step):
        if is_prime(candidate):
            yield candidate
