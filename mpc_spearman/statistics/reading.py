"""Help for reading coefficients: what n rows can show, which columns are weakened, the limits of flags."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from mpc_spearman.statistics.columns import Columns, Flags, Floats, upper_share

#: A test that "shows" something finds it with this probability, at this level.
POWER, LEVEL = 0.8, 0.05
_HALVINGS = 52
#: Rows expected outside the largest group below which a random choice of rows may weaken a column.
FEW_OUTSIDE = 60
_STATED_LARGER = 1.21


def detectable(n: int, tests: int = 1, noise: float = 0.0) -> float:
    """About the smallest |rho| of untied columns that a test finds with probability `POWER`; 1 if none.

    There are n >= 4 rows; each of the `tests` is at `LEVEL` divided by their number (Bonferroni); `noise` is
    the standard deviation of the noise in a coefficient. r is taken as normal.
    """
    normal = NormalDist()  # SciPy's would take time to import in a process that needs nothing else of it
    critical = -normal.inv_cdf(LEVEL / tests / 2) * np.sqrt(1 / (n - 1) + noise**2)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rho = (low + high) / 2
        spread = np.sqrt((1 - rho**2) ** 2 * (1 + rho**2 / 2) / (n - 3) + noise**2)
        low, high = (low, rho) if rho - normal.inv_cdf(POWER) * spread > critical else (rho, high)
    return high


def weakened(ranges: Floats, n: int) -> Flags:
    """Flag the columns that a choice of n rows from a table may often weaken, by their stated ranges.

    `ranges` are in ranges of a column without ties, and stated up to 1.21 times as large as they are in the
    whole table (docs/guarantee.md, "Other rows than all"). That of a flag which a share p of the rows has is
    1/√(12·p·(1 - p)). If some `FEW_OUTSIDE` rows or fewer are expected to have it, a random choice has now
    and then so few that the range is beyond what is stated. No range is beyond √2, that of a single row.
    """
    whole = ranges / _STATED_LARGER
    few = n < FEW_OUTSIDE * 12 * np.square(whole)
    return np.asarray((ranges > 1.02) & (whole < math.sqrt(n / 6)) & few)


def largest(flags: Columns, n: int) -> Floats:
    """Largest |rho| that a flag can have with a column without ties: sqrt((N - T)/N).

    Reached if all rows of one value come before all of the other; about sqrt(3 p (1 - p)).
    """
    p = upper_share(flags.skewness)
    return np.sqrt(3 * p * (1 - p) / (1 - 1 / n**2))


def auc(rho: Floats, flags: Columns, n: int) -> Floats:
    """Estimate how often a row with a flag's upper value has the larger value of a column without ties.

    1/2 + S/(2 (N - T)) with T of the flag, which is 1/2 + rho/(2 `largest`): the area under the curve of the
    column as a classifier of the flag.
    """
    return 0.5 + rho / (2 * largest(flags, n))
