"""Every rank of untied columns from their differences, by the coordinator at ``reveal: differences``.

At this level each column minus the target's first is opened, row by row, in an unknown order of rows. One
number per row is missing, and there is one constraint per column: it must be a permutation of 1 … n.
Alternating projections onto the two constraints get stuck. The difference map (S. Gravel, V. Elser, Phys.
Rev. E 78, 2008) does not, and recovers all ranks exactly if there are enough columns (9 for 40 rows, 13 for
200, 30 for 1,000).
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.attacks.simulated import Floats, Ints


def ranks_of_first(differences: Ints, rounds: int = 5000) -> Floats:
    """Return the ranks of the target's first column, (n,), from which all other ranks follow.

    `differences`, (m, n), are the untied ranks of every other column, of both sides, minus the ranks of the
    first. Without a solution after so many `rounds` it is an estimate.
    """
    shifts = np.vstack([np.zeros_like(differences[:1]), differences])
    n = shifts.shape[1]
    lowest, highest = 1 - shifts.min(axis=0), n - shifts.max(axis=0)
    # Copies of the missing numbers, one per column, slightly different, or they would move together. NumPy's
    # generator is enough for that: nothing secret depends on it.
    copies = (lowest + highest) / 2 + np.random.default_rng(0).normal(size=shifts.shape) * (
        highest - lowest
    ) / 10
    agreed: Floats = copies.mean(axis=0)
    for _ in range(rounds):
        agreed = np.clip(copies.mean(axis=0), lowest, highest)
        ranked = (2 * agreed - copies + shifts).argsort(axis=1).argsort(axis=1) + 1 - shifts
        move = ranked - agreed
        if np.abs(move).max() < 0.5:
            break
        copies = copies + move
    return agreed
