"""The best possible guess which of two rows is whose, by an attacker who knows everything else.

The guarantee (docs/guarantee.md) is about an attacker who has both tables that a pair of rows can make, and
one published copy. It has to decide between two normal distributions with known means. The likelihood ratio
is the best test (Neyman and Pearson): it is right with chance Φ(d′/2), where d′ is the distance of the two
means in standard deviations of the noise. So the guarantee is d′ ≤ μ. No other attack on such a pair does
better: equations and orders are functions of the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.attacks.simulated import Floats, Ints, unit
from mpc_spearman.privacy.gaussian import discrete_gaussian
from mpc_spearman.privacy.scales import Scales, add_scales, column_grid, deviations, sum_grid, width_of_sum

_FINE = 2**40  # the integer that stands for 1 where noise is drawn


@dataclass(frozen=True)
class Exchange:
    """The numbers that a run publishes about a table, and about the table with two rows exchanged, (k,).

    `numbers` are without noise, whose standard deviation in each is `noise`; 0 where the numbers are the
    same.
    """

    numbers: tuple[Floats, Floats]
    noise: Floats

    @property
    def separation(self) -> float:
        """d′, in standard deviations."""
        change, noisy = self.numbers[1] - self.numbers[0], self.noise > 0
        return float(np.sqrt(np.square(change[noisy] / self.noise[noisy]).sum()))

    def published(self, which: NDArray[np.bool_]) -> Floats:
        """Return published copies, (copies, k): of the exchanged table where `which`, else of the first."""
        exact = np.where(which[:, None], self.numbers[1], self.numbers[0])
        sigma = np.ceil(np.tile(self.noise, (len(which), 1)) * _FINE).astype(np.int64)
        return exact + discrete_gaussian(sigma) / _FINE

    def guesses(self, published: Floats) -> NDArray[np.bool_]:
        """Return for each copy whether the exchanged table is likelier, by the likelihood ratio."""
        first, second = self.numbers
        noisy = self.noise > 0
        weights = (second - first)[noisy] / np.square(self.noise[noisy])
        score: Floats = (published - (first + second) / 2)[:, noisy] @ weights
        return score > 0

    def guesses_from_order(self, published: Floats, top: int | None = None) -> NDArray[np.bool_]:
        """Return the guesses from the order of each copy's numbers, or from which are the `top` largest.

        Positions are added up with the weights that best distinguish the two tables' mean positions (Fisher's
        linear discriminant, from further copies of both).
        """

        def places(copies: Floats) -> Floats:
            ranks = np.argsort(np.argsort(-copies, axis=1), axis=1).astype(np.float64)
            return ranks if top is None else (ranks < top).astype(np.float64)

        which = np.repeat([False, True], 2000)
        positions = places(self.published(which))
        means = [positions[which == table].mean(axis=0) for table in (False, True)]
        spread = np.cov(positions - np.where(which[:, None], means[1], means[0]), rowvar=False)
        weights = np.linalg.solve(spread + 1e-6 * np.eye(len(spread)), means[1] - means[0])
        score: Floats = (places(published) - (means[0] + means[1]) / 2) @ weights
        return score > 0


def coefficients_of(x: Ints, y: Ints, rows: tuple[int, int], loss: float) -> Exchange:
    """Return the exchange of two rows of x, (m_A, n), if the owner of y, (m_B, n), gets coefficients."""
    noise = deviations(scales(x), scales(y), loss)
    numbers = tuple((unit(table) @ unit(y).T).ravel() for table in (x, exchanged(x, rows)))
    return Exchange((numbers[0], numbers[1]), noise.ravel())


def strengths_of(x: Ints, y: Ints, rows: tuple[int, int], loss: float) -> Exchange:
    """Return the exchange of two rows of x if the owner of y gets the mean of each column's coefficients."""
    noise = deviations(add_scales([mean_scales(x)]), scales(y), loss)
    numbers = tuple(unit(table).mean(axis=0) @ unit(y).T for table in (x, exchanged(x, rows)))
    return Exchange((numbers[0], numbers[1]), noise.ravel())


def together(runs: Iterable[Exchange]) -> Exchange:
    """Return the numbers of several runs as one exchange."""
    runs = list(runs)
    first, second = (np.concatenate([run.numbers[which] for run in runs]) for which in (0, 1))
    return Exchange((first, second), np.concatenate([run.noise for run in runs]))


def exchanged(x: Ints, rows: tuple[int, int]) -> Ints:
    """Return columns, (m, n), with two rows exchanged."""
    copy = x.copy()
    copy[:, rows] = x[:, rows[::-1]]
    return copy


def mean_scales(x: Ints) -> Scales:
    """Return the scales of the vector that a source contributes to strengths."""
    grid, lengths = sum_grid(x.shape[1], 1), np.sqrt((x * x).sum(axis=1))
    width = width_of_sum(x, (1 / (len(x) * lengths)).tolist())
    return Scales(np.array([grid.width(grid.step(width))]))


def scales(x: Ints) -> Scales:
    """Return the scales of columns if coefficients are published."""
    grid = column_grid(x.shape[1], "tie_corrected")
    return grid.scales(grid.stated(x, (1 / np.sqrt((x * x).sum(axis=1))).tolist()))


def worst_rows(x: Ints, y: Ints) -> tuple[int, int]:
    """Return the two rows of x whose exchange changes coefficients most, in units of their noise."""
    parts = [np.array([row / (row.max() - row.min()) for row in side], dtype=np.float64) for side in (x, y)]
    far = [
        np.square(part).sum(axis=0)[:, None] + np.square(part).sum(axis=0) - 2 * part.T @ part
        for part in parts
    ]
    i, j = np.unravel_index(np.argmax(far[0] * far[1]), far[0].shape)
    return int(i), int(j)
