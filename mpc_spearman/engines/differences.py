"""What engines need to open differences: a secret order of rows, and exact sums of squared differences."""

from __future__ import annotations

import numpy as np

from mpc_spearman.arrays import reordered
from mpc_spearman.engines.ring import matmul
from mpc_spearman.parties import Party
from mpc_spearman.run import Run
from mpc_spearman.wire.keys import Purpose, Stream


def shuffled(run: Run, source: Party, ranks: np.ndarray) -> np.ndarray:
    """Return the columns of (m, n) in an order drawn from the key that only source and target hold.

    Drawing the order takes 32 bytes of memory a row. Rows of two sessions can still be linked by their
    contents: the target's y_q − y_1 are the same in each.
    """
    peer = run.roster.target if run.roster.me == source else source
    stream = Stream(run.keys[peer].subkey(Purpose.SHUFFLE, source.name))
    return reordered(ranks, stream.permutation(ranks.shape[1]))


class Squares:
    """Adds up Q_pq = Σ_i (x_pi − y_qi)² = Σ_i (2 d_pq^i)² over blocks of rows; Q can reach 4N > 2^63.

    Opened values may be anything. A vector with an element beyond 2(n - 1), for n rows, is not a difference
    of ranks: its pairs have no sum.

    A block's Q is summed twice, modulo 2^64 and as float64, which together give it exactly: the second is off
    by less than 2^63, since Q ≤ 16·rows·n² and its relative error is about rows·2^-53 at most, for
    rows·n < 2^56. A block is a message, of which the rows are far below 2^24.
    """

    def __init__(self, m_source: int, m_target: int, n: int) -> None:
        self._sums = np.zeros((m_source, m_target), dtype=object)
        self._impossible = np.zeros((m_source, m_target), dtype=bool)
        self._bound = 2 * (n - 1)

    @property
    def total(self) -> np.ndarray:
        """The sums, Python int (m_A, m_B). An impossible pair has -1 - Q, with Q from clipped differences."""
        return np.where(self._impossible, -1 - self._sums, self._sums)

    def add_basis(self, opened: np.ndarray) -> None:
        """Add a block of the basis {x_p − y_1} ∪ {y_q − y_1, q ≥ 2}, int64 (m_A + m_B − 1, rows).

        Every pair's difference is (x_p − y_1) − (y_q − y_1), so with a and b the two parts (b_1 = 0),
        Q_pq = Σ a_p² + Σ b_q² − 2 Σ a_p b_q.
        """
        m_source = len(self._sums)
        opened, beyond = self._clip(opened)
        self._impossible |= beyond[:m_source, None]
        self._impossible[:, 1:] |= beyond[m_source:]
        a, b = opened[:m_source], np.vstack([np.zeros_like(opened[:1]), opened[m_source:]])
        a_floats, b_floats = a.astype(np.float64), b.astype(np.float64)
        self._add(
            _squares(a)[:, None] + _squares(b) - 2 * matmul(a, b, self._bound),
            _squares(a_floats)[:, None] + _squares(b_floats) - 2 * a_floats @ b_floats.T,
        )

    def add_pairs(self, opened: np.ndarray) -> None:
        """Add a block of all pairs' differences, int64 (m_A·m_B, rows), source column by source column."""
        opened, beyond = self._clip(opened)
        shape = self._sums.shape
        self._impossible |= beyond.reshape(shape)
        self._add(_squares(opened).reshape(shape), _squares(opened.astype(np.float64)).reshape(shape))

    def _add(self, low: np.ndarray, rounded: np.ndarray) -> None:
        """Add exact sums: `low` has them modulo 2^64, int64, and `rounded` about, as float64."""
        turns = np.rint((rounded - low) * 2.0**-64).astype(np.int64)
        self._sums += low.astype(object) + (turns.astype(object) << 64)

    def _clip(self, opened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the opened values, clipped to the bound, and which vectors exceeded it."""
        clipped = np.clip(opened, -self._bound, self._bound)
        return clipped, (clipped != opened).any(axis=1)


def _squares(values: np.ndarray) -> np.ndarray:
    """Return the sum of squares of each row."""
    sums: np.ndarray = (values * values).sum(axis=1)
    return sums
