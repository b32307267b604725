"""Warnings about tables that seem to repeat people, and none about others."""

from __future__ import annotations

import numpy as np
import pytest

from mpc_spearman.data.independence import row_cautions
from mpc_spearman.data.ranking import rank_columns

N = 2000
RNG = np.random.default_rng(7)
NORMAL = RNG.normal(size=(6, N))
FLAGS = (NORMAL[:3] > 1).astype(int)
LEVELS = np.digitize(NORMAL + NORMAL[0], [-2, -1, 0, 1, 2])  # of six questions with answers of one mind
PERSONS = np.repeat(NORMAL[:, : N // 4], 4, axis=1)
SHUFFLED = PERSONS[:, RNG.permutation(N)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (NORMAL, []),
        (FLAGS, []),
        (LEVELS, []),
        (np.sort(NORMAL[:1]), []),
        (np.vstack([NORMAL[:1], NORMAL[:1], FLAGS]), []),
        (np.ones((2, N)), []),
        (LEVELS[:, np.lexsort(LEVELS)], ["runs"]),  # sorted by several columns: worth a look, too
        (SHUFFLED, ["repeat"]),
        (np.round(SHUFFLED, 1), ["repeat"]),
        (PERSONS, ["repeat", "runs"]),
        (np.vstack([PERSONS[:2], NORMAL]), ["runs"]),
    ],
)
def test_rows_of_the_same_persons_are_noticed(columns: np.ndarray, expected: list[str]) -> None:
    ranks = rank_columns(columns)
    cautions = row_cautions(ranks, tuple(f"c{i}" for i in range(len(columns))))
    assert [word for word in ("repeat", "runs") if any(word in text for text in cautions)] == expected
