"""What the coordinator learns from differences, and a source from whether a run stops."""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.attacks import differences, stopping
from mpc_spearman.attacks.simulated import untied
from mpc_spearman.data.ranks import total


@pytest.mark.parametrize(
    ("n", "columns"), [(40, 9), (178, 13), (200, 20), pytest.param(1000, 30, marks=pytest.mark.long)]
)
def test_differences_of_untied_columns_give_every_rank(n, columns):
    ranks = (untied(columns, n, np.random.default_rng(1)) + n + 1) // 2
    found = differences.ranks_of_first(ranks[1:] - ranks[0])
    assert np.array_equal(np.rint(found), ranks[0])


def test_differences_of_few_columns_give_ranks_within_a_tenth_of_the_rows():
    ranks = (untied(5, 200, np.random.default_rng(1)) + 201) // 2
    found = differences.ranks_of_first(ranks[1:] - ranks[0])
    assert np.abs(found - ranks[0]).mean() < 0.12 * 200  # a guess is off by a quarter


def test_whether_a_run_stops_reveals_a_bit_of_every_rank():
    x, y = untied(2, 41, np.random.default_rng(1))
    bound = total(41)
    assert np.array_equal(stopping.parities(x, y, lambda opened: abs(opened) > bound), y // 2 % 2)


def test_a_run_that_does_not_stop_reveals_no_bit():
    x, y = untied(2, 41, np.random.default_rng(1))
    assert not stopping.parities(x, y, lambda opened: False).any()
