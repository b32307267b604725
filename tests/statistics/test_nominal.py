"""η² and V from coefficients of flags: SciPy's numbers without noise, and the right size with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics.columns import Columns, rounded
from mpc_spearman.statistics.nominal import Side, association


def side(*columns: np.ndarray, nominal: bool = True) -> tuple[Side, np.ndarray]:
    """Return a side, and its columns' ranks as unit vectors."""
    ranks = rank_columns([*columns])
    units = ranks.matrix / np.linalg.norm(ranks.matrix.astype(float), axis=1)[:, None]
    return Side(Columns.of(ranks), nominal), units


def flags(categories: np.ndarray) -> tuple[Side, np.ndarray]:
    kinds = np.unique(categories)
    return side(*((categories == kind) for kind in (kinds if len(kinds) > 2 else kinds[1:])))


def associated(source: tuple[Side, np.ndarray], target: tuple[Side, np.ndarray], noise: float = 0.0) -> Any:
    rho = source[1] @ target[1].T
    return association(rho, np.full(rho.shape, noise), source[1].shape[1], source[0], target[0])


@pytest.mark.parametrize("seed", range(20))
def test_without_noise_they_are_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, m = int(rng.integers(60, 400)), int(rng.integers(2, 7)), int(rng.integers(2, 5))
    region, ward = (rng.permutation(np.arange(n) % count) for count in (k, m))
    region[rng.random(n) < 0.3] = 0
    y = rng.integers(0, rng.integers(4, 50), n) + region * (seed % 2)
    kruskal = stats.kruskal(*(y[region == kind] for kind in range(k)))
    related = associated(flags(region), side(y, nominal=False))
    assert (n - 1) * related.square == pytest.approx(kruskal.statistic, rel=1e-11)
    assert related.p == pytest.approx(kruskal.pvalue, rel=1e-9)
    turned = associated(side(y, nominal=False), flags(region))
    assert (turned.square, turned.p) == pytest.approx((related.square, related.p), rel=1e-12)
    crossed = np.histogram2d(region, ward, (k, m))[0]
    chi2 = stats.chi2_contingency(crossed, correction=False)
    related = associated(flags(region), flags(ward))
    assert related.freedom == chi2.dof
    assert n * related.square * (min(k, m) - 1) == pytest.approx(chi2.statistic, rel=1e-10, abs=1e-10)
    assert related.p == pytest.approx(chi2.pvalue, rel=1e-9)
    assert related.square**0.5 == pytest.approx(
        stats.contingency.association(crossed.astype(int), method="cramer"), rel=1e-10, abs=1e-9
    )


def test_with_noise_the_statistic_is_the_quadratic_form() -> None:
    rng = np.random.default_rng(3)
    n, region, ward = 300, rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    (source, x), (target, y) = flags(region), flags(ward)
    factors = rng.uniform(0.02, 0.1, 4), rng.uniform(0.5, 2, 3)
    noise = np.outer(*factors)
    rho = x @ y.T + noise * rng.normal(size=noise.shape)
    related = association(rho, noise, n, source, target)
    p, q = (np.bincount(values) / n for values in (region, ward))
    weights = np.outer(np.sqrt(1 - p), np.sqrt(1 - q)).ravel()
    # the covariance of unrelated columns' weighted coefficients, on the space that they can be in
    projections = [np.eye(len(of)) - np.sqrt(np.outer(of, of)) for of in (p, q)]
    project = np.kron(*projections)
    covariance = project / n + project @ np.diag((weights * noise.ravel()) ** 2) @ project
    w = weights * rho.ravel()
    statistic = w @ np.linalg.pinv(covariance, rcond=1e-10) @ w
    assert related.p == pytest.approx(stats.chi2.sf(statistic, 6), rel=1e-8)
    square = (weights**2 * (rho**2 - noise**2).ravel()).sum() / 2
    assert related.square == pytest.approx(square, rel=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_unrelated_columns_are_found_as_often_as_they_should(noise: float) -> None:
    """With shares as they are stated, rounded; a seeded sample, of 4 standard errors of the share."""
    rng, n, p = np.random.default_rng(11), 500, list[float]()
    region = rng.choice(4, n, p=[0.7, 0.2, 0.06, 0.04])
    exact, x = flags(region)
    stated = Side(
        Columns(exact.columns.ties, rounded(exact.columns.skewness), exact.columns.gaps), nominal=True
    )
    widths = np.sqrt(1 / (n * np.bincount(region) / n * (1 - np.bincount(region) / n)))
    s = (noise * widths / widths.mean())[:, None]
    untied = side(np.arange(n), nominal=False)
    for _ in range(3000):
        rho = x @ rng.permutation(untied[1][0])[:, None] + s * rng.normal(size=s.shape)
        p.append(association(rho, s, n, stated, untied[0]).p)
    for level in (0.05, 0.01):
        assert abs(np.mean(np.array(p) <= level) - level) < 4.5 * (level * (1 - level) / 3000) ** 0.5


def test_noise_in_common_never_makes_tests_find_more() -> None:
    """Noise on the other side's inputs moves all flags of a column together."""
    rng, n = np.random.default_rng(12), 400
    region = rng.integers(0, 3, n)
    flagged, x = flags(region)
    untied, y = side(np.arange(n), nominal=False)
    s, p = 0.2, list[float]()
    for _ in range(2000):
        noisy = rng.permutation(y[0]) + s * rng.normal(size=n)
        related = association(x @ noisy[:, None], np.full((3, 1), s), n, flagged, untied, on_inputs=True)
        p.append(related.p)
    assert np.mean(np.array(p) <= 0.05) < 0.05 + 4.5 * (0.05 * 0.95 / 2000) ** 0.5


def test_skewed_pairs_and_too_few_rows_have_no_p_value() -> None:
    rare = np.zeros(1000, dtype=int)
    rare[:5], rare[5:400] = 1, 2
    assert np.isnan(associated(flags(rare), side(np.arange(1000) < 5, nominal=False)).p)
    assert not np.isnan(associated(flags(rare), side(np.arange(1000), nominal=False)).p)
    gaps = np.ma.masked_array(np.arange(1000) % 3, np.arange(1000) > 2)
    gappy = side(*(np.ma.masked_array(gaps == kind, gaps.mask) for kind in range(3)))
    assert np.isnan(associated(gappy, gappy).p)
