"""Whitening: which directions are kept, and how they are rotated."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import total
from mpc_spearman.levels import whitening
from mpc_spearman.wire.keys import Stream


def test_whitening_keeps_no_direction_of_few_rows_even_after_an_exchange() -> None:
    random = np.random.default_rng(25)
    frame = pd.DataFrame(
        {"a": random.normal(size=2000), "rare": np.arange(2000) < 12, "b": random.normal(size=2000)}
    )
    ranks = rank_columns([frame[name].to_numpy() for name in frame])
    weights = whitening.directions(ranks)
    scores = weights @ ranks.matrix
    np.testing.assert_allclose(scores @ scores.T, np.eye(2), atol=1e-12)
    assert np.square(scores).sum(axis=0).max() <= 10 * 2 / 2000
    frame.iloc[[3, 1500]] = frame.iloc[[1500, 3]].to_numpy()
    exchanged = rank_columns([frame[name].to_numpy(float) for name in frame])
    np.testing.assert_array_equal(whitening.directions(exchanged), weights)
    np.testing.assert_array_equal(exchanged.gram, ranks.gram)


def test_a_leverage_exactly_at_its_limit_exceeds_it_in_no_row() -> None:
    """A flag of 1 row in 11 has it, to what float64 rounds, which differs from row to row."""
    for rare in (90, 55, 120):
        flag = np.arange(11 * rare) < rare
        for start in (0, 7, 10 * rare):
            assert len(whitening.directions(rank_columns([np.roll(flag, start)] * 3))) == 1


def test_the_gram_matrix_is_exact_where_one_float64_sum_is_not() -> None:
    random = np.random.default_rng(25)
    n = 400_000
    ranks = rank_columns([np.arange(n), random.permutation(n)])
    x, y = (row.tolist() for row in ranks.matrix)
    assert ranks.gram[0, 0] == float(total(n))
    assert ranks.gram[0, 1] == float(sum(a * b for a, b in zip(x, y, strict=True)))


def test_rotations_are_uniform_orthogonal_and_fresh() -> None:
    drawn = np.array([whitening.rotation(3, Stream(bytes([seed] * 32))) for seed in range(250)])
    np.testing.assert_allclose(drawn @ drawn.transpose(0, 2, 1), np.tile(np.eye(3), (250, 1, 1)), atol=1e-12)
    # every entry of a uniform rotation in three dimensions is uniform on [-1, 1]; both determinants come
    for entry in drawn.reshape(250, 9).T:
        assert stats.kstest(entry, stats.uniform(-1, 2).cdf).pvalue > 1e-5
    assert 0.35 < (np.linalg.det(drawn) > 0).mean() < 0.65
    ranks = rank_columns(list(np.random.default_rng(3).normal(size=(2, 300))))
    assert (whitening.whitened(ranks, 1 << 20) != whitening.whitened(ranks, 1 << 20)).any()
