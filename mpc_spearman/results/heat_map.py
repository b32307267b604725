"""The report's heat map: a table whose cells have the colour of their coefficient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpc_spearman.results.charts import STEPS, number
from mpc_spearman.results.evidence import Pair

#: Rows and columns that fit a page; of a larger matrix the map has those with coefficients farthest from 0.
LONGEST_SIDE = 30


@dataclass(frozen=True)
class HeatMap:
    """What the template draws: pairs row by row, each beside its colour class (``n`` for undefined)."""

    rows: tuple[tuple[tuple[Pair, str], ...], ...]
    bound: float
    undefined: bool
    whole: bool


def heat_map(pairs: Sequence[Sequence[Pair]]) -> HeatMap:
    """Choose the rows and columns of the map, in the order given, and their colours."""
    values = np.array([[pair.rho for pair in row] for row in pairs])
    sizes = np.nan_to_num(np.abs(values), nan=-1.0)
    rows, columns = (
        np.sort(np.argsort(-sizes.max(axis=axis), kind="stable")[:LONGEST_SIDE]) for axis in (1, 0)
    )
    shown = values[np.ix_(rows, columns)]
    bound = _bound(float(sizes.max(initial=0.0)))
    shades = np.rint((np.nan_to_num(shown) / bound + 1) / 2 * (STEPS - 1)).astype(int)
    return HeatMap(
        tuple(
            tuple(
                (pairs[i][j], "n" if math.isnan(pairs[i][j].rho) else str(shade))
                for j, shade in zip(columns, line, strict=True)
            )
            for i, line in zip(rows, shades, strict=True)
        ),
        bound,
        bool(np.isnan(shown).any()),
        shown.shape == values.shape,
    )


def title(pair: Pair, confidence: float) -> str:
    """Write what a cell tells on hover."""
    told = pair.told(confidence)
    return f"{pair.source} × {pair.target}: {number(pair.rho)}" + (f" ({told})" if told else "")


def _bound(largest: float) -> float:
    """Round up to where the scale ends: weak correlations must still show, and the ends be round numbers."""
    return next((b for b in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= b), 1.0)
