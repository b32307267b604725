"""Sums of squared rank differences, exact: Σ_i (x_pi − y_qi)² for every pair, from opened differences."""

from __future__ import annotations

import numpy as np

from mpc_spearman.protocols.ring import matmul


class Squares:
    """Adds up Q_pq = Σ_i (x_pi − y_qi)² = Σ_i (2 d_pq^i)² over blocks of rows; Q can reach 4N > 2^63.

    Parameters
    ----------
    m_source, m_target : int
        Columns of either side.
    n : int
        Rows in all: |x − y| ≤ 2(n − 1).

    Notes
    -----
    What is opened may be anything. A vector with an element beyond 2(n - 1) is no difference of ranks: its
    pairs have no sum.
    """

    def __init__(self, m_source: int, m_target: int, n: int) -> None:
        self._sums = np.zeros((m_source, m_target), dtype=object)
        self._impossible = np.zeros((m_source, m_target), dtype=bool)
        self._bound = 2 * (n - 1)
        # Within so many rows every sum below is at most 4·rows·bound² ≤ 2^62.
        self._rows = max(1, (1 << 60) // self._bound**2)

    @property
    def total(self) -> np.ndarray:
        """Python int, (m_A, m_B); -1 for pairs without a sum."""
        return np.where(self._impossible, -1, self._sums)

    def add_basis(self, opened: np.ndarray) -> None:
        """Add a block of the basis {x_p − y_1} ∪ {y_q − y_1, q ≥ 2}, int64 (m_A + m_B − 1, rows).

        Every pair's difference is (x_p − y_1) − (y_q − y_1), so with a and b the two parts (b_1 = 0),
        Q_pq = Σ a_p² + Σ b_q² − 2 Σ a_p b_q.
        """
        m_source = len(self._sums)
        opened, beyond = self._within(opened)
        self._impossible |= beyond[:m_source, None]
        self._impossible[:, 1:] |= beyond[m_source:]
        for start in range(0, opened.shape[1], self._rows):
            block = opened[:, start : start + self._rows]
            a, b = block[:m_source], np.vstack([np.zeros_like(block[:1]), block[m_source:]])
            own = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :]
            self._sums += (own - 2 * matmul(a, b, self._bound)).astype(object)

    def add_pairs(self, opened: np.ndarray) -> None:
        """Add a block of all pairs' differences, int64 (m_A·m_B, rows), source column by source column."""
        opened, beyond = self._within(opened)
        self._impossible |= beyond.reshape(self._sums.shape)
        for start in range(0, opened.shape[1], self._rows):
            block = opened[:, start : start + self._rows]
            self._sums += (block * block).sum(axis=1).reshape(self._sums.shape).astype(object)

    def _within(self, opened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Clip what was opened to the bound; tell which vectors were beyond it."""
        clipped = np.clip(opened, -self._bound, self._bound)
        return clipped, (clipped != opened).any(axis=1)
