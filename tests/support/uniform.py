"""Is this noise? Tests of uniformity for ring elements.

Each test raises a false alarm with probability below 1e-15; all tests of one file, some ten thousand,
together with less than 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chisquare

_ALARM = 1e-15


def signs_of_pattern(values: np.ndarray, width: int = 8) -> list[str]:
    """Return the signs that ring elements of `width` bytes are not uniform.

    Bytes are tested by chi-square, where a cell has 30 or more expected counts; of a bit's count Hoeffding's
    inequality bounds the false alarm without approximation.
    """
    raw = np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    assert len(raw) >= 1000
    signs = []
    for name, cells in (("bytes", raw), *((f"byte {i}", raw[:, i]) for i in range(width))):
        if cells.size >= 30 * 256:
            test = chisquare(np.bincount(cells.ravel(), minlength=256))
            if test.pvalue < _ALARM:
                signs.append(f"{name}: chi-square {test.statistic:.0f} on 255 degrees of freedom")
    for i, count in enumerate(np.unpackbits(raw, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)):
        if not fair(int(count), len(raw)):
            signs.append(f"bit {i}: {count} of {len(raw)} set")
    return signs


def fair(count: int, bits: int) -> bool:
    """Return whether so many ones among independent fair bits are no surprise (Hoeffding)."""
    return abs(count - bits / 2) <= math.sqrt(bits * math.log(2 / _ALARM) / 2)
