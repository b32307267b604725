"""Selective failure: bits of the target's ranks from whether a run stops.

A source that adds 2^63·e_i or 2^62·e_i to the ranks it shares changes what is opened by a multiple of
that and of the target's rank in row i, modulo 2^64. If opened values beyond their bound stop a run, all
can see the bit. The source departs from the protocol here. Therefore values beyond their bound become NaN
(selective failure: Y. Lindell, B. Pinkas, EUROCRYPT 2007).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpc_spearman.attacks.simulated import Ints


def crafted(x: Ints, row: int) -> Ints:
    """Return ranks, (n,), changed in one row so that a bit of the target's rank there decides a sign.

    Without ties an encoded rank is 2r − (n + 1). For odd n it is even, and 2^62 times it flips the sign bit
    of the opened sum if r + (n + 1)/2 is odd; for even n it always flips it.
    """
    changed = x.copy()
    changed[row] += np.int64(1) << 62
    return changed


def parities(x: Ints, y: Ints, stops: Callable[[int], bool]) -> Ints:
    """Return one bit of each of the target's ranks, with one run for each row: whether y/2 is odd, (n,).

    `x` is the source's column, encoded and untied, n odd; the target's column `y` is used only to compute the
    product that each run opens. `stops` returns whether a run stops that opens such a product.
    """
    bits = [stops(int(crafted(x, row) @ y)) for row in range(len(x))]  # int64 wraps: modulo 2^64
    return np.array(bits, dtype=np.int64)
