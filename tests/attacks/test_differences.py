"""What the coordinator learns from differences of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.attacks import differences
from mpc_spearman.attacks.simulated import untied


@pytest.mark.parametrize(
    ("n", "columns"), [(40, 9), (178, 13), (200, 20), pytest.param(1000, 30, marks=pytest.mark.long)]
)
def test_differences_of_untied_columns_give_every_rank(n, columns):
    ranks = (untied(columns, n, np.random.default_rng(1)) + n + 1) // 2
    estimated = differences.ranks_of_first(ranks[1:] - ranks[0])
    assert np.array_equal(np.rint(estimated), ranks[0])


def test_differences_of_few_columns_give_ranks_within_a_tenth_of_the_rows():
    ranks = (untied(5, 200, np.random.default_rng(1)) + 201) // 2
    estimated = differences.ranks_of_first(ranks[1:] - ranks[0])
    assert np.abs(estimated - ranks[0]).mean() < 0.12 * 200  # a guess is off by a quarter
