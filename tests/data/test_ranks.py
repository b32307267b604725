from __future__ import annotations

import math
import threading
import weakref
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import MAX_ROWS, total

RING = 2**63 - 1


def x_of(*values: object, dtype: object = None) -> list[int]:
    result: list[int] = rank_columns([np.array(values, dtype=dtype)]).matrix[0].tolist()
    return result


def by_definition(values: list[object]) -> list[int]:
    """2r - (n + 1): values below, minus values above."""
    return [sum(w < v for w in values) - sum(w > v for w in values) for v in values]  # type: ignore[operator]


def tie_term(values: list[object]) -> int:
    n = len(values)
    return n * (n * n - 1) // 3 - sum(x * x for x in by_definition(values))


FAR = (-(2**63), -8, 0, 2**40, 2**63 - 8)
FARS, LAST = st.sampled_from(FAR), st.integers(0, 7)
FLOATS = st.sampled_from([-1e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 2.2250738585072014e-308, 1.0, 1e300])
columns = st.one_of(
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-3, 3)),
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-(2**63), 2**63 - 1)),
    hnp.arrays(np.uint64, st.integers(1, 30), elements=st.integers(2**64 - 4, 2**64 - 1)),
    hnp.arrays(np.int8, st.integers(1, 30)),
    hnp.arrays(np.bool_, st.integers(1, 30)),
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(allow_nan=False)),
    hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(allow_nan=False, width=32)),
    # far apart, or in the last bits alone: the sort's keys drop those
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.builds(int.__add__, FARS, LAST)),
    hnp.arrays(np.uint64, st.integers(1, 30), elements=st.builds(lambda i, j: 2**63 + i + j, FARS, LAST)),
    hnp.arrays(
        np.float64, st.integers(1, 30), elements=st.builds(lambda x, j: x + j * math.ulp(x), FLOATS, LAST)
    ),
)


@given(columns)
def test_ranks_and_tie_terms_follow_their_definition(column):
    values = column.tolist()
    ranks = rank_columns([column])
    assert ranks.matrix.dtype == np.int32
    assert ranks.matrix[0].tolist() == by_definition(values)
    assert ranks.tie_terms == (tie_term(values),)
    assert type(ranks.tie_terms[0]) is int
    assert ranks.tie_terms[0] % 2 == 0
    (groups,) = ranks.groups
    sizes = list(Counter(values).values())
    assert groups.how_many == tuple(sorted(Counter(sizes).items()))
    assert (groups.n, groups.count, groups.outside) == (len(values), len(sizes), len(values) - max(sizes))
    assert ranks.constant == (len(set(values)) == 1,)


@pytest.mark.parametrize("workers", [1, 2])
def test_long_columns_of_every_kind_are_ranked_as_by_scipy(workers):
    rng, n = np.random.default_rng(4), 30_000
    coarse, fine = rng.integers(0, 40, n), rng.integers(0, 300, n)
    table = [
        rng.standard_normal(n),
        np.sort(rng.random(n))[::-1],
        coarse,
        coarse * 0.1 - 2,
        coarse.astype(float) - 20,
        (coarse == 0).astype(np.int8),
        rng.integers(-(2**63), 2**63 - 1, n),
        rng.integers(0, n, n),
        rng.integers(0, 2 * n, n) - 2**62,
        (2.0**fine) * (1 + coarse * 2.0**-52),  # collisions in nearly every key
        np.where(fine, 2.0**coarse, 1 + fine * 2.0**-52),
        np.where(fine > 1, rng.standard_normal(n), 1e300 * (1 + fine * 2.0**-52)),
    ]
    ranks = rank_columns(table, workers=workers)
    for x, groups, column in zip(ranks.matrix, ranks.groups, table, strict=True):
        np.testing.assert_array_equal(x, 2 * rankdata(column) - (n + 1))
        sizes = np.unique(column, return_counts=True)[1]
        assert groups.how_many == tuple(sorted(Counter(sizes.tolist()).items()))


def test_no_more_columns_are_held_than_workers_need():
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0

    def columns() -> Iterator[np.ndarray]:
        nonlocal most
        for _ in range(12):
            column = np.random.default_rng(len(alive)).random(1000)
            alive.append(weakref.ref(column))
            most = max(most, sum(ref() is not None for ref in alive))
            yield column
            del column

    rank_columns(columns(), np.empty((12, 1000), np.int32), workers=2)
    assert most <= 4


def test_strided_and_big_endian_columns():
    table = np.array([[3, 1], [1, 1], [2, 0]])
    assert rank_columns([table[:, 0], table[::-1, 1]]).matrix.tolist() == [[2, -2, 0], [-2, 1, 1]]
    assert x_of(256, 1, 2, dtype=">i8") == [2, -2, 0]


def test_matrix_is_one_contiguous_row_per_feature_and_repr_hides_it():
    ranks = rank_columns([np.array([5, 6, 9, 6]), np.array([8, 8, 8, 8])])
    assert ranks.matrix.flags["C_CONTIGUOUS"]
    assert (ranks.m, ranks.n, ranks.defined) == (2, 4, 1)
    assert repr(ranks) == str(ranks) == "Ranks(m=2, n=4)"


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [np.array([])],
        [np.array([1, 2]), np.array([1, 2, 3])],
        [np.ones((2, 2))],
        [np.array(["a", "b"])],
        [np.array([1, 2], dtype=object)],
        [np.array([1.0, math.nan, 0.0])],
    ],
)
def test_what_cannot_be_ranked(bad):
    with pytest.raises(ValueError, match=r"rank"):
        rank_columns(bad)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_same_and_tick_from_the_calling_thread(workers):
    generator = np.random.default_rng(1)
    table = [generator.integers(0, 50, 500) for _ in range(20)]
    seen: list[threading.Thread] = []
    ranks = rank_columns(table, workers=workers, tick=lambda: seen.append(threading.current_thread()))
    assert seen == [threading.current_thread()] * 20
    for x, column in zip(ranks.matrix, table, strict=True):
        np.testing.assert_array_equal(x, 2 * rankdata(column) - 501)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_tick_raises_ends_the_ranking(workers):
    taken: list[int] = []

    def columns() -> Iterator[np.ndarray]:
        for index in range(50):
            taken.append(index)
            yield np.arange(10)

    def tick() -> None:
        raise InterruptedError("a peer is gone")

    with pytest.raises(InterruptedError):
        rank_columns(columns(), np.empty((50, 10), np.int32), workers=workers, tick=tick)
    assert len(taken) <= workers + 1  # those under way, not all the others


def test_tie_terms_beyond_64_bits():
    n = MAX_ROWS
    ranks = rank_columns([np.zeros(n, dtype=np.int8), (np.arange(n) >= n - 3).astype(np.int8)])
    assert n**3 > 2**64 > total(n) * 2 > 2**63
    big = n - 3
    assert ranks.tie_terms == (total(n), (big**3 - big) // 3 + (27 - 3) // 3)
    assert [groups.outside for groups in ranks.groups] == [0, 3]


def test_max_rows_is_the_last_that_fits():
    assert total(MAX_ROWS) <= RING < total(MAX_ROWS + 1)
    assert type(total(np.int64(MAX_ROWS))) is int
    assert total(np.int64(MAX_ROWS)) == MAX_ROWS * (MAX_ROWS**2 - 1) // 3
