r"""What is multiplied at ``coefficients``: ranks as they are, or, of more rows, columns scaled to one length.

Up to ``MAX_ROWS`` rows S = Σ_i x_i y_i fits 64 bits, and the coordinator opens it exactly. S grows with the
cube of the rows, the coefficient that it is for does not. So beyond, up to ``ranks.LARGEST``, each owner
shares ⌊F·x/‖x‖⌉ for each of its columns, as the target does at ``strengths``, with F nearly 2^31
(:mod:`mpc_spearman.levels.encoding` has the rounding, bounds and proofs, for one source of one column). A
coefficient is off by at most √n/F or so, in practice by 10^-9. From what is opened, the tie terms and n
follows S to within error·√((N - T_x)(N - T_y)). A column that is constant is zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import MAX_ROWS, Ranks, total
from mpc_spearman.engines.computation import Bounds
from mpc_spearman.levels.encoding import Encoding


@dataclass(frozen=True)
class Products:
    """The public numbers of a run at ``coefficients`` of n rows; every party computes the same."""

    n: int

    @cached_property
    def encoding(self) -> Encoding | None:
        """How columns are scaled; None for ranks as they are."""
        return None if self.n <= MAX_ROWS else Encoding.coefficients(self.n)

    @property
    def bounds(self) -> Bounds:
        """How large elements of a vector can be, on either side, their sum, and what is opened."""
        if self.encoding is None:
            return Bounds(self.n - 1, self.n - 1, self.n * (self.n - 1), total(self.n))
        return replace(self.encoding.bounds, value=self.encoding.target_scale)

    @property
    def error(self) -> float:
        """Coefficients are this close to exact ones; 0 for exactly."""
        return 0.0 if self.encoding is None else self.encoding.error

    def vectors(self, ranks: Ranks) -> NDArray[Any]:
        """Return what a data party shares, (m, n): a vector for each of its columns, int32."""
        if self.encoding is None:
            return ranks.matrix
        return self.encoding.column_vectors(ranks)

    def decode(
        self, opened: NDArray[Any], source_ties: Sequence[int], target_ties: Sequence[int]
    ) -> NDArray[Any]:
        """Return S of each pair from what was opened, (m_A, m_B); Python integers where it had been scaled.

        What honest parties' columns cannot give becomes N + 1, which no S reaches: nothing raises for it.
        """
        if self.encoding is None:
            return opened
        unit, error = self.encoding.target_scale**2, self.encoding.error
        result = np.empty(opened.shape, dtype=object)
        for p, row in enumerate(opened.tolist()):
            for q, value in enumerate(map(int, row)):
                root = math.isqrt((total(self.n) - source_ties[p]) * (total(self.n) - target_ties[q]))
                possible = value == 0 if root == 0 else abs(value / unit) <= 1 + error
                scaled = (2 * value * root + unit) // (2 * unit)
                result[p, q] = max(-root, min(root, scaled)) if possible else total(self.n) + 1
        return result
