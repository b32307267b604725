"""Signs that a table has several rows for one person, or people who are related: no p-value holds then."""

from __future__ import annotations

import numpy as np

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.data.refusals import listed

_LARGE = 0.2  # a share of rows that is worth a warning
_BY_CHANCE = 0.02  # and one that chance may explain
_MOST = 1 << 20  # rows looked at: the first of a larger table
_FACTOR = 0x9E3779B97F4A7C15


def row_cautions(ranks: Ranks, names: tuple[str, ...]) -> list[str]:
    """Warn if many rows repeat another row in all columns, or neighbouring rows are too similar.

    Both are heuristics. The first compares how many rows have a twin with how many would have one if columns
    were independent. The second counts how often neighbouring rows have the same value of a column, against
    random rows. One such column means a table sorted by it; several mean rows of the same people.
    """
    n, varying = min(ranks.n, _MOST), np.flatnonzero(~np.array(ranks.constant)).tolist()
    if not varying:
        return []
    row_hash, chance = np.zeros(n, dtype=np.uint64), np.zeros(n)
    patterns, runs = set[bytes](), list[str]()
    for place, i in enumerate(varying):
        column = ranks.matrix[i, :n]
        row_hash += column.astype(np.uint64) * np.uint64(pow(_FACTOR, place + 1, 1 << 64))  # modulo 2^64
        _, group, size = np.unique(column, return_inverse=True, return_counts=True)
        if (pattern := group.tobytes()) in patterns:
            continue  # a copy makes no coincidence less likely
        patterns.add(pattern)
        chance += np.log(size / n)[group]
        share, at_random = (column[1:] == column[:-1]).mean(), float(((size / n) ** 2).sum())
        if share > at_random + 0.5 * (1 - at_random):
            runs.append(names[i])
    _, twin, copies = np.unique(row_hash, return_inverse=True, return_counts=True)
    repeated = float((copies[twin] > 1).mean())
    expected = float(-np.expm1((n - 1) * np.log1p(-np.minimum(np.exp(chance), 0.5))).mean())
    why = "If a person has several rows, p-values and intervals do not hold: keep one row per person"
    warnings = []
    if repeated >= _LARGE and expected <= _BY_CHANCE:
        warnings.append(f"{repeated:.0%} of the rows repeat another row in all columns. {why}")
    if len(runs) > 1:
        warnings.append(f"rows come in runs with equal values of {listed(runs)}. {why}")
    return warnings
