"""Ranks as ranges: which places of a ranking the errors of strengths allow."""

from __future__ import annotations

import numpy as np

from mpc_spearman.config import Order, Strength
from mpc_spearman.data.ranks import Ranks
from mpc_spearman.statistics.columns import Floats, Ints

#: The most products of cells for which own correlations are computed: a second or so.
_MOST = 2e10


def own_correlations(ranks: Ranks, strength: Strength) -> Floats | None:
    """Return how strengths of one's own features correlate if all are independent of the sources, (m, m).

    Means of ρ correlate as the features do. None of means of |ρ|, or if there are too many cells.
    """
    if strength == "mean_abs" or float(ranks.m) ** 2 * ranks.n > _MOST:
        return None
    lengths = np.sqrt(np.diag(ranks.gram))
    norms = np.outer(lengths, lengths)
    return np.asarray(np.divide(ranks.gram, norms, out=np.zeros(norms.shape), where=norms > 0))


def difference_variances(
    error: Floats, noise: Floats | float = 0.0, correlations: Floats | None = None
) -> Floats:
    """Return an upper bound of the variance of the difference of each two strengths, (m, m).

    `error`, (m,), are standard errors without noise, and `noise` the standard deviations of the noise, which
    is independent. `correlations`, (m, m), are of the features with each other, which their owner knows:
    strengths of features that are independent of all source columns correlate as the features do. Without
    them the bound allows for any: features with a correlation of -0.8 differ by a third more than independent
    ones.
    """
    noise = np.broadcast_to(noise, error.shape)
    product = np.outer(error, error)
    apart = -1.0 if correlations is None else np.nan_to_num(correlations)
    squares = np.square(error)
    sampling = np.maximum(squares[:, None] + squares - 2 * apart * product, 0.0)
    return np.asarray(sampling + np.square(noise)[:, None] + np.square(noise))


def rank_ranges(
    strengths: Floats,
    variances: Floats,
    confidence: float,
    order: Order = "descending",
    *,
    withheld: bool = False,
) -> tuple[Ints, Ints]:
    """Return the first and the last place that each of m features can have, from 1.

    All m ranges hold together with probability `confidence`: a feature comes before another where the
    difference is more than z = Φ⁻¹(1 - α/(m(m-1))) standard deviations, for all m(m-1) ordered pairs
    (Bonferroni; as Mogstad, Romano, Shaikh and Wilhelm, Review of Economic Studies 91, 2024, at each step).

    `strengths`, (m,), are NaN where undefined, and these come last; or, with `withheld`, where they were not
    among those passed on as the strongest, and these may have any place. `variances`, (m, m), are of
    differences.
    """
    from scipy.special import ndtri

    defined, total = ~np.isnan(strengths), len(strengths)
    m = total if withheld else int(defined.sum())
    z = -float(ndtri((1 - confidence) / max(m * (m - 1), 1)))
    values = strengths * (1 if order == "descending" else -1)
    with np.errstate(invalid="ignore"):
        ahead = values[:, None] - values > z * np.sqrt(variances)  # of row over column; never with NaN
    first, last = 1 + ahead.sum(axis=0), m - ahead.sum(axis=1)
    return np.where(defined, first, 1 if withheld else m + 1), np.where(defined, last, total)
