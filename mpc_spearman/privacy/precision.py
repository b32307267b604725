"""The grid on which published correlations lie: no more digits than the statistics carry.

An exact coefficient is an integer equation in the other side's ranks, and a few dozen of them name flagged
rows. A tenth of its standard error loses nothing that a reader could use and most of what a solver needs:
the grid is the coarsest of 1, 2 and 5 times a power of ten that is fine enough for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: 1/δ of the coarsest grid: δ = 0.01.
_FEWEST_STEPS = 100


@dataclass(frozen=True)
class Grid:
    """The multiples of δ = 1/`steps` from -1 to 1, as the floats nearest to them.

    Every δ of the form {1, 2, 5}·10^-j is one over an integer, so a point is i/`steps` for an integer i, and
    one correctly rounded division gives the float nearest to the decimal: 0.03, never 0.030000000000000002.

    Attributes
    ----------
    steps : int
        1/δ, steps from 0 to 1: 1, 2 or 5 times a power of ten.

    Raises
    ------
    ValueError
        Another number of steps: a mistake of the caller.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1 or str(self.steps).rstrip("0") not in ("1", "2", "5"):
            raise ValueError("a grid has 1, 2 or 5 times a power of ten steps from 0 to 1")

    @property
    def step(self) -> float:
        """δ, the distance of two neighbours: the float nearest to it."""
        return 1 / self.steps

    @property
    def decimals(self) -> int:
        """How many decimals write every point in full."""
        # 1/(2·10^i) and 1/(5·10^i) take one more than 1/10^i
        return len(str(self.steps)) - str(self.steps).startswith("1")

    def __str__(self) -> str:
        """Write δ as a decimal, such as ``0.005``."""
        return f"{self.step:.{self.decimals}f}"

    def round(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move values to the nearest point, ties to the even one; clip to -1 … 1, keep NaN, drop -0.0.

        What lies within one unit in the last place of the middle between two points counts as a tie.

        Parameters
        ----------
        values : ndarray of float64, any shape

        Returns
        -------
        ndarray of float64, same shape
        """
        rounded: NDArray[np.float64] = np.rint(np.clip(values, -1.0, 1.0) * self.steps) / self.steps + 0.0
        return rounded

    def holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which values are points of the grid, to the last bit; NaN, which says nothing, counts.

        Returns
        -------
        ndarray of bool, same shape
        """
        on_it: NDArray[np.bool_] = (values == self.round(values)) | np.isnan(values)
        return on_it

    def within(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points as p-values are made from them: ±1 counts as ±(1 - δ/2), all others as they are.

        A published 1 stands for what lies within half a step of it; a p-value of exactly 0 would say that
        it is 1.
        """
        most = (2 * self.steps - 1) / (2 * self.steps)
        return np.clip(values, -most, most)


def coefficient_grid(n: int) -> Grid:
    """Return the grid of coefficients over `n` rows: the largest δ <= min(0.01, 1/(10 √n)).

    1/√n is about the standard error of a rank correlation, so that δ is at most a tenth of it.
    """
    return _coarsest(100 * int(n))


def strength_grid(n: int, k: int) -> Grid:
    """Return the grid of strengths over `n` rows: the largest δ <= min(0.01, 1/(8 √(n k))).

    Parameters
    ----------
    n : int
        Aligned rows.
    k : int
        The source columns that a strength is a mean over: the distinct ones that are not constant
        (:func:`mpc_spearman.privacy.groups.distinct_defined`), of all sources together.
    """
    return _coarsest(64 * int(n) * int(k))


def _coarsest(square: int) -> Grid:
    """Return the coarsest grid with δ <= 0.01 and δ² <= 1/`square`, decided on integers."""
    steps = _FEWEST_STEPS
    while steps * steps < square:
        # 1, 2, 5, 10: the next is twice as many, after 2 two and a half times
        steps = steps * 5 // 2 if str(steps).startswith("2") else steps * 2
    return Grid(steps)
