"""Arithmetic modulo the prime 2^61 − 1, in NumPy, for proofs about shared vectors.

Elements are int64 from 0 to p − 1. NumPy has no 128-bit product, so factors are split into 31 and 30 bits;
what weighs 2^61 comes back as 1. Everything goes block by block, so that temporary arrays fit a cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import blocks
from mpc_spearman.wire.keys import Stream

Elements = NDArray[np.int64]

#: The field's prime, a Mersenne prime: reduction takes a shift and an addition.
PRIME = (1 << 61) - 1
_BLOCK = 1 << 12
_LOW = (1 << 31) - 1
_MIDDLE = (1 << 30) - 1


def reduced(values: Elements) -> Elements:
    """Reduce integers from 0 to 2^63 − 1, int64, to elements."""
    folded = (values & PRIME) + (values >> 61)
    folded -= PRIME * (folded >= PRIME)
    return folded


def element(values: NDArray[np.signedinteger]) -> Elements:
    """Return signed integers above −p and below p as elements, int64 of the same shape."""
    whole = values.astype(np.int64)
    whole += PRIME * (whole < 0)
    return whole


def plus(a: Elements, b: Elements | int) -> Elements:
    """Add elements."""
    total = a + b
    total -= PRIME * (total >= PRIME)
    return total


def minus(a: Elements, b: Elements | int) -> Elements:
    """Subtract elements."""
    difference = a - b
    difference += PRIME * (difference < 0)
    return difference


def times(a: Elements, b: Elements | int) -> Elements:
    """Multiply two arrays of elements, of one shape, or an array with one element."""
    product = np.empty(a.shape, dtype=np.int64)
    for part in blocks(len(a), _BLOCK):
        product[part] = _times(a[part], b if isinstance(b, int) else b[part])
    return product


def dot(a: Elements, b: Elements) -> int:
    """Return Σ a_i·b_i, for arrays (k,)."""
    return sum(_sum(_times(a[part], b[part])) for part in blocks(len(a), _BLOCK)) % PRIME


def total(a: Elements) -> int:
    """Return Σ a_i, for an array (k,)."""
    return sum(_sum(a[part]) for part in blocks(len(a), _BLOCK)) % PRIME


def inverses(a: Elements) -> Elements:
    """Return 1/a_i of elements that are not zero, (k,): of products of pairs first, then of each."""
    if len(a) == 1:
        return np.array([pow(int(a[0]), -1, PRIME)], dtype=np.int64)
    even = a if len(a) % 2 == 0 else np.append(a, 1)
    of_pairs = inverses(times(even[::2], even[1::2]))
    inverse = np.empty_like(even)
    inverse[::2], inverse[1::2] = times(of_pairs, even[1::2]), times(of_pairs, even[::2])
    return inverse[: len(a)]


def fold(a: Elements, r: int) -> Elements:
    """Return a_lo + r·(a_hi − a_lo) of the two halves of (k,), in place; an odd end pairs with 0."""
    half = (len(a) + 1) // 2
    for part in blocks(half, _BLOCK):
        low, high = _halves(a, half, part)
        a[part] = plus(low, _times(minus(high, low), r))
    return a[:half]


def ends_of_round(f: Elements, g: Elements) -> tuple[int, int]:
    """Return ⟨f_lo, g_lo⟩ and ⟨f_hi − f_lo, g_hi − g_lo⟩ for the halves of f and g, (k,)."""
    half, at_zero, leading = (len(f) + 1) // 2, 0, 0
    for part in blocks(half, _BLOCK):
        (f_low, f_high), (g_low, g_high) = _halves(f, half, part), _halves(g, half, part)
        at_zero += _sum(_times(f_low, g_low))
        leading += _sum(_times(minus(f_high, f_low), minus(g_high, g_low)))
    return at_zero % PRIME, leading % PRIME


def drawn(stream: Stream, count: int) -> Elements:
    """Draw uniform elements, (count,), from a stream; both holders of its key draw the same.

    A draw of 61 bits that is p is replaced by a further draw.
    """
    elements = stream.ring((count,)) & PRIME
    while (places := np.flatnonzero(elements == PRIME)).size:
        elements[places] = stream.ring((places.size,)) & PRIME
    return elements


def valid(elements: Elements) -> bool:
    """Return whether all integers of an array are elements: what a peer sends may be anything."""
    return bool((elements.view(np.uint64) < PRIME).all())  # negative ones become large


def _halves(a: Elements, half: int, part: slice) -> tuple[Elements, Elements]:
    low, high = a[part], a[half + part.start : half + part.stop]
    if len(high) < len(low):
        high = np.append(high, 0)
    return low, high


def _sum(a: Elements) -> int:
    """Add up a block of elements, low and high bits by themselves, so that nothing wraps."""
    return int((a & _LOW).sum()) + (int((a >> 31).sum()) << 31)


def _times(a: Elements, b: Elements | int) -> Elements:
    """Multiply blocks.

    With a = a1·2^31 + a0 and b likewise, a·b is a1·b1·2^62 + (a1·b0 + a0·b1)·2^31 + a0·b0. Modulo p, 2^62 is
    2 and c·2^31 is (c >> 30) + (c & (2^30 − 1))·2^31. The summands are below 2^61, 2^32, 2^61 and 2^62, too
    much for 63 bits together, so the last one is reduced to 2^61 before it is added.
    """
    a0, a1 = a & _LOW, a >> 31
    b0, b1 = b & _LOW, b >> 31
    middle = a1 * b0
    middle += a0 * b1
    product = a0 * b0
    product = (product & PRIME) + (product >> 61)
    a1 *= b1
    a1 <<= 1
    product += a1
    product += middle >> 30
    middle &= _MIDDLE
    middle <<= 31
    product += middle
    return reduced(product)
