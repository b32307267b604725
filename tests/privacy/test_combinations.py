"""Against every choice of rows, by ranks of matrices of fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.privacy import combinations as module
from mpc_spearman.privacy.combinations import Combination, sparse_combinations

PRIME = module._PRIME


def rank(rows: list[list[int]]) -> int:
    left, found = [[*map(Fraction, row)] for row in rows], 0
    while left:
        row = left.pop()
        at = next((i for i, value in enumerate(row) if value), None)
        if at is not None:
            found += 1
            left = [[a - other[at] / row[at] * b for a, b in zip(other, row, strict=True)] for other in left]
    return found


def isolates(columns: list[list[int]], apart: tuple[int, ...]) -> bool:
    """Whether a combination of columns and the constant is zero outside these rows, but not everywhere."""
    table = [[1] * len(columns[0]), *columns]
    rest = [[value for i, value in enumerate(row) if i not in apart] for row in table]
    return rank(rest) < rank(table)


def with_rows(found: list[Combination]) -> list[Combination]:
    return [one for one in found if one.rows.size]


def apply(one: Combination, columns: list[list[int]]) -> list[int]:
    weights = [int(weight) for weight in one.weights]
    table = [[1] * len(columns[0]), *columns]
    return [sum(w * v for w, v in zip(weights, row, strict=True)) % PRIME for row in zip(*table, strict=True)]


@st.composite
def tables(draw):
    n = draw(st.integers(4, 9))
    columns = draw(st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=3))
    return [x.tolist() for x in rank_columns([np.array(column) for column in columns]).matrix]


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(2, 4))
def test_a_combination_is_found_exactly_where_there_is_one(columns, fewest):
    n = len(columns[0])
    few = [rows for count in range(1, fewest) for rows in combinations(range(n), count)]
    found = sparse_combinations([np.array(x) for x in columns], fewest)
    assert bool(with_rows(found)) == any(isolates(columns, rows) for rows in few)
    for one in found:
        assert one.rows.size < fewest
        assert np.flatnonzero(apply(one, columns)).tolist() == sorted(one.rows)
        assert any(one.weights)


def normals(m: int, n: int, seed: int = 0) -> list[np.ndarray]:
    return list(rank_columns(list(np.random.default_rng([seed, m, n]).standard_normal((m, n)))).matrix)


@pytest.mark.parametrize(("m", "n"), [(5, 178), (13, 178), (40, 178), (6, 20_190), (20, 569), (60, 400)])
def test_columns_without_pattern_have_none(m, n):
    assert sparse_combinations(normals(m, n), 10) == []


@pytest.mark.parametrize(("m", "n"), [(10, 178), (40, 178), (10, 3000), (30, 50_000)])
@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("seed", range(3))
def test_few_rows_hidden_among_other_columns_are_found(m, n, rows, seed):
    rng = np.random.default_rng([seed, m, n, rows])
    kind = rng.integers(0, 4, n)
    apart = rng.choice(n, rows, replace=False)
    kind[apart] = 4
    flags = [kind == value for value in range(4)]  # the fifth is left out
    columns = [*normals(m, n, seed), *rank_columns(flags).matrix]
    found = with_rows(sparse_combinations([columns[i] for i in rng.permutation(m + 4)], 10))
    assert len(found) == 1
    assert sorted(found[0].rows) == sorted(apart)
    assert len(found[0].columns) == 4


def test_rows_beside_each_other_do_not_hide():
    """As in a table that is sorted by the flags."""
    kind = np.repeat(np.arange(5), [9, 60, 60, 60, 60])
    found = sparse_combinations([*rank_columns([kind == value for value in range(1, 5)]).matrix], 10)
    assert sorted(with_rows(found)[0].rows) == list(range(9))


@pytest.mark.parametrize(
    ("columns", "rows", "found"), [(3, 12, False), (4, 12, True), (12, 12, True), (13, 22, False)]
)
def test_columns_that_differ_from_a_constant_in_the_same_rows_are_solved_for_some(columns, rows, found):
    """m columns without pattern on r rows can be made zero on m - 1 of them: r - m + 1 are left."""
    rng = np.random.default_rng(0)
    table = np.zeros((columns, 5000))
    table[:, rng.choice(5000, rows, replace=False)] = rng.standard_normal((columns, rows))
    ranks = [*rank_columns(list(table)).matrix, *normals(5, 5000)]
    seen = with_rows(sparse_combinations(ranks, 10))
    assert bool(seen) == found == (rows - columns + 1 < 10)
    assert all(one.rows.size <= rows - columns + 1 for one in seen)


def test_dependencies_are_told_without_rows():
    kind = np.arange(90) % 3
    (found,) = sparse_combinations([*normals(3, 90), *rank_columns([kind == v for v in range(3)]).matrix], 10)
    assert found.columns == (3, 4, 5)
    assert found.rows.size == 0


def test_residues_stay_exact_with_more_columns_than_one_product_can_sum():
    rng = np.random.default_rng(0)
    half = PRIME // 2
    left, right = rng.integers(-half, half + 1, (2, 3, 1100))
    left[0], right[0] = half, half  # the largest sum there can be
    product = module._times(left.astype(float), right.T.astype(float))
    assert (abs(product) <= half).all()
    exact = [
        [sum(a * b for a, b in zip(x, y, strict=True)) % PRIME for y in right.tolist()] for x in left.tolist()
    ]
    assert (product % PRIME).astype(int).tolist() == exact


def test_the_prime_is_one_and_above_every_rank():
    assert all(PRIME % divisor for divisor in range(2, int(PRIME**0.5) + 1))
    assert module._TERMS * (PRIME // 2) ** 2 + PRIME < 2**53
    from mpc_spearman.data.ranks import MAX_ROWS

    assert MAX_ROWS - 1 <= PRIME // 2


def test_the_same_table_has_the_same_answer():
    kind = np.arange(300) % 5
    kind[:4] = 9
    columns = [*rank_columns([kind == value for value in range(5)]).matrix]
    one, two = (sparse_combinations(columns, 10) for _ in range(2))
    assert [list(c.rows) for c in one] == [list(c.rows) for c in two]
    assert [list(c.weights) for c in one] == [list(c.weights) for c in two]


def test_no_columns_have_no_combination():
    assert sparse_combinations([], 10) == []
