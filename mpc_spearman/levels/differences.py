"""``differences``: the paper's protocol. The coordinator opens every within-row difference of ranks.

From these it computes the products that `coefficients` opens; the rest is the same.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Reveal
from mpc_spearman.data.ranks import LARGEST, total
from mpc_spearman.engines.computation import Bounds, Computation
from mpc_spearman.levels import rows
from mpc_spearman.levels.coefficients import STATED, Coefficients
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Floats
from mpc_spearman.wire.kinds import Row


class Differences(Coefficients):
    """C opens x_p − y_q of every pair, row by row in a random order (paper, steps 2 and 3)."""

    name: ClassVar[Reveal] = "differences"
    opens = (
        "the differences of ranks within every row, and so nearly all ranks, each side's own correlations "
        "and the exact coefficients"
    )
    sent: ClassVar[tuple[Row, ...]] = (*STATED, *rows.opened(opens, ("basis", "rows")))
    granted: ClassVar[tuple[Row, ...]] = ()  # differences are the coordinator's alone

    @property
    def whole_rows(self) -> int:
        """The most rows that 32 bits rank: differences of ranks fit, however many rows there are."""
        return LARGEST

    def computation(self, shapes: Shapes) -> Computation:
        """Ask for differences of each pair of columns: doubled ranks are from 1 − n to n − 1."""
        n = shapes.n
        bounds = Bounds(n - 1, n - 1, n * (n - 1), 2 * (n - 1))
        return Computation("differences", n, shapes.features, shapes.m_target, bounds=bounds)

    def ratios(self, opened: NDArray[Any], shapes: Shapes) -> Floats:
        """Return ratios from sums of squared differences Q: 2S = (N - T_x) + (N - T_y) - Q.

        Impossible differences, clipped, have ratios too: noise must hide that they are impossible.
        """
        norms = self._norms(shapes)
        ties = (np.array(terms, dtype=object) for terms in self._ties(shapes))
        twice = 2 * total(shapes.n) - np.add.outer(*ties) - np.where(opened < 0, -1 - opened, opened)
        exact: Floats = twice.astype(np.float64) / 2
        return np.divide(exact, norms, out=np.zeros(norms.shape), where=norms > 0)

    def products(self, opened: NDArray[Any], shapes: Shapes) -> NDArray[Any]:
        return estimators.products_from_differences(opened, *self._ties(shapes), shapes.n)
