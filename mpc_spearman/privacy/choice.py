"""The choice of the k strongest of some numbers, so that the choice itself hides whose row is whose.

OpenDP's noisy top k adds Gumbel noise to every score and returns the k largest (Durfee and Rogers, NeurIPS
2019), in exact arithmetic. If an exchange of two rows changes each score by at most Δ, noise of scale σ costs
k·(2Δ/σ)²/8 of the privacy loss. OpenDP is imported only where a choice is made. Of k numbers or
fewer nothing is chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpc_spearman.errors import SetupError
from mpc_spearman.statistics.columns import Flags, Floats, Ints

#: Scores are rounded to multiples of 2^-20.
_BITS = 20


def noise_factor(k: int | None, items: int, spread: float) -> float:
    """Return the noise of the k strongest of some items, in multiples of the noise of all items.

    `spread` is D_A·D_B. An exchange of rows changes all items together by at most √(D_A·D_B), in units of
    what it changes one of them, and k of them also by at most √k. Half of the loss is left for noise. Of
    no more than k items, and without k, nothing is chosen.
    """
    return math.sqrt(2 * min(k, spread) / spread) if k is not None and k < items else 1.0


def strongest(scores: Floats, k: int, loss: float) -> Ints:
    """Choose the k largest of some scores, (m,), for the privacy loss ρ = `loss`; return their places.

    An exchange of two rows changes no score by more than 1. They are below 2^40 in size.
    """
    dp = _opendp()
    sensitivity = (1 << _BITS) + 1  # rounding adds less than one unit
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    distance = dp.linf_distance(T="i64", monotonic=False)
    scale = sensitivity * math.sqrt(k / (2 * loss)) * (1 + 2.0**-30)
    mechanism = dp.m.make_noisy_top_k(
        domain, distance, dp.zero_concentrated_divergence(), k=min(k, len(scores)), scale=scale
    )
    assert mechanism.map(sensitivity) <= loss
    whole = np.rint(np.ldexp(scores, _BITS)).astype(np.int64)
    return np.sort(np.array(mechanism(whole.tolist()), dtype=np.int64))


def chosen(exact: Floats, most: Floats, usual: float, candidates: Flags, k: int, loss: float) -> Flags:
    """Choose the k strongest of the candidates.

    Scores are sizes over the `most` that an exchange of rows changes each number, or over what is `usual`, of
    columns without ties, if that is more: else a flag of half of the rows would seem stronger than an equal
    coefficient of columns without ties.
    """
    flags = np.zeros_like(candidates)
    places = np.flatnonzero(candidates)
    if len(places):
        scores = abs(exact.ravel()[places]) / np.maximum(most.ravel()[places], usual)
        flags.ravel()[places[strongest(scores, min(k, len(places)), loss)]] = True
    return flags


def check_installed() -> None:
    """Refuse to go on without the library; `SetupError`."""
    _opendp()


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        how = "pip install 'mpc_spearman[strongest]'"
        raise SetupError(f"results.strongest needs OpenDP, which is not installed. Run: {how}") from None
    dp.enable_features("contrib")
    return dp
