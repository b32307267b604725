"""Confidence intervals: by hand, and how often they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpc_spearman.data.ranks import total
from mpc_spearman.statistics.columns import Columns, Ties, ties
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pairs import Pairs
from support.references import sampled_coefficients

CONFIDENCE = 0.95


def column(tied: Ties = Ties.NONE, skewness: float = 0.0) -> Columns:
    return Columns(np.array([tied]), np.array([skewness]))


def interval(
    rho: float,
    n: int,
    *,
    source: Columns | None = None,
    target: Columns | None = None,
    confidence: float = CONFIDENCE,
    noise: float = 0.0,
) -> list[float]:
    source, target = source or column(), target or column()
    ends = intervals(np.array([[rho]]), Pairs(n, source.rows, target, noise=noise), confidence)
    return [float(end[0, 0]) for end in ends]


def test_an_interval_is_bonett_and_wrights() -> None:
    # By hand: z = 0.5493, sqrt((1 + 0.125)/97) = 0.10769, times 1.95996 is 0.21107.
    low, high = interval(0.5, 100)
    ends = [math.tanh(math.atanh(0.5) + width) for width in (-0.211078, 0.211078)]
    assert [low, high] == pytest.approx(ends, abs=2e-6)
    assert interval(-0.5, 100) == [pytest.approx(-high), pytest.approx(-low)]


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99])
def test_more_confidence_takes_a_wider_interval(confidence: float) -> None:
    wide, narrow = interval(0.3, 60, confidence=confidence + 0.005), interval(0.3, 60, confidence=confidence)
    assert wide[0] < narrow[0] < 0.3 < narrow[1] < wide[1]


def test_a_coefficient_of_one_has_an_interval_that_ends_there() -> None:
    low, high = interval(1.0, 50)
    assert high == 1
    assert 0.98 < low < 1
    assert interval(-1.0, 50) == [-high, -low]


# --- ties ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "n", "tied", "tied_target", "skewness", "defined"),
    [
        (0.4, 3, Ties.NONE, Ties.NONE, 0, False),
        (0.4, 4, Ties.NONE, Ties.NONE, 0, True),
        (0.9, 500, Ties.SOME, Ties.MANY, 0, True),  # one column with many ties
        (0.9, 500, Ties.TWO_VALUES, Ties.NONE, 4, True),
        (0.3, 5000, Ties.MANY, Ties.MANY, 0.5, True),
        (0.9, 5000, Ties.MANY, Ties.MANY, 1.4, True),  # however large a coefficient is
        (0.1, 5000, Ties.MANY, Ties.TWO_VALUES, 1.5, False),  # 2.25 is beyond 2
        (0.9, 5000, Ties.MANY, Ties.MANY, -1.5, False),
        (0.8, 5000, Ties.TWO_VALUES, Ties.TWO_VALUES, 1.5, True),
        (0.8, 500, Ties.TWO_VALUES, Ties.TWO_VALUES, 4.2, False),  # skewed by 0.79
        (math.nan, 500, Ties.NONE, Ties.NONE, 0, False),
        (0.3, 500, Ties.CONSTANT, Ties.NONE, 0, False),
    ],
)
def test_which_pairs_have_intervals(
    rho: float, n: int, tied: Ties, tied_target: Ties, skewness: float, defined: bool
) -> None:
    target = column(tied_target, 0 if tied_target is Ties.NONE else skewness)
    ends = interval(rho, n, source=column(tied, skewness), target=target)
    assert [not math.isnan(end) for end in ends] == [defined, defined]


def test_skewed_columns_widen_intervals_by_at_most_a_tenth() -> None:
    widths = [
        math.atanh(interval(0.3, 500, source=column(Ties.MANY, skewness), target=column(Ties.MANY))[1])
        - math.atanh(0.3)
        for skewness in (0.0, 1.0, -2.0, 5.0)
    ]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 1.025, 1.1, 1.1])


def test_classes_of_columns() -> None:
    n = 1000
    of = [0, 1, int(0.06 * total(n)), int(0.3 * total(n)), total(n)]
    assert ties(of, [False, False, False, True, False], n).tolist() == list(Ties)


@pytest.mark.parametrize(("n", "upper", "rho"), [(500, 100, 0.3), (5000, 1000, -0.2), (20_000, 1000, 0.5)])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_intervals_of_two_flags_cover_as_stated(n: int, upper: int, rho: float, noise: float) -> None:
    """Where the present variance of columns without ties would cover 49 to 90 %."""
    generator = np.random.default_rng(n)
    p, samples = upper / n, 20_000
    in_both = p * p + rho * p * (1 - p)
    counts = generator.multinomial(n, [in_both, p - in_both, p - in_both, 1 - 2 * p + in_both], samples)
    k, a, b = counts[:, 0], counts[:, 0] + counts[:, 1], counts[:, 0] + counts[:, 2]
    rhos = (n * k - a * b) / np.sqrt(a * (n - a) * b.astype(float) * (n - b))
    s = noise / math.sqrt(n - 1)
    sides = [
        Columns(np.full(samples, Ties.TWO_VALUES), (n - 2 * side) / np.sqrt(side * (n - side)))
        for side in (a, b)
    ]
    low, high = intervals(rhos + s * generator.normal(size=samples), Pairs(n, *sides, noise=s), CONFIDENCE)
    defined = ~np.isnan(low)
    assert defined.mean() > 0.99
    assert 0.93 <= np.mean((low <= rho) & (rho <= high)) <= 0.965


# --- noise ---------------------------------------------------------------------------------------------


def test_noise_widens_an_interval_by_its_variance() -> None:
    # Around 0 both are normal: 1.96^2 (1/(n - 3) + s^2).
    low, high = interval(0.0, 10_003, noise=0.02)
    assert high == -low == pytest.approx(1.95996 * math.sqrt(1e-4 + 4e-4), rel=1e-3)


def test_a_noisy_coefficient_beyond_all_reach_has_the_nearest_end() -> None:
    assert interval(1.05, 100, noise=0.1)[1] == 1
    # By hand, at 0.846: artanh 1.242, and 0.2437 above it tanh is 0.9025, so 0.0565^2 + 0.196^2 = 0.204^2.
    assert interval(1.05, 100, noise=0.1)[0] == pytest.approx(0.846, abs=1e-3)
    assert interval(-2.0, 100, noise=0.1) == [-1, -1]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("noise", [0.0, 4.0])
@pytest.mark.parametrize("n", [50, 500])
def test_intervals_cover_as_often_as_they_state(n: int, rho: float, noise: float) -> None:
    """Bivariate normal columns; noise in standard errors."""
    generator, samples, s = np.random.default_rng(n), 4000, noise / math.sqrt(n - 1)
    rhos = sampled_coefficients(rho, n, samples, generator) + s * generator.normal(size=samples)
    low, high = intervals(rhos, Pairs(n, column(), column(), noise=s), CONFIDENCE)
    assert 0.93 <= np.mean((low <= rho) & (rho <= high)) <= 0.975
