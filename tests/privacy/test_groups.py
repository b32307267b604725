from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data.ranks import Ranks, rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy import groups as module
from mpc_spearman.privacy.groups import (
    Apart,
    check_groups,
    distinct_defined,
    lasting_in_a_mean,
    standing_apart,
)

WHY = "privacy.min_group asks for 10 or more (or none), or results could give single rows away"


def ranked(table: dict[str, np.ndarray]) -> Ranks:
    return rank_columns(list(table.values()))


def found(table: dict[str, np.ndarray], min_group: int = 10) -> Apart:
    return standing_apart(ranked(table), list(table), min_group)


def sentences(table: dict[str, np.ndarray], min_group: int = 10) -> list[str]:
    return [finding.sentence for finding in found(table, min_group).findings]


def flag(n: int, *rows: object) -> np.ndarray:
    marks = np.zeros(n, dtype=bool)
    for some in rows:
        marks[some] = True
    return marks


def normals(m: int, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, m, n])
    return {f"x{i}": rng.standard_normal(n) for i in range(m)}


# ---- one column ----


@pytest.mark.parametrize(("rows", "accepted"), [(0, True), (1, False), (9, False), (10, True)])
def test_a_column_with_few_rows_outside_its_largest_group_is_refused(rows, accepted):
    table = {"age": np.arange(50), "flag": flag(50, slice(rows))}
    if accepted:
        check_groups(ranked(table), list(table), "clinic", 10)
    else:
        with pytest.raises(DisclosureError) as caught:
            check_groups(ranked(table), list(table), "clinic", 10)
        count = "1 row" if rows == 1 else f"{rows} rows"
        assert str(caught.value) == (
            f"clinic: too few rows stand apart, {count} outside the largest group of equal values of 'flag'; "
            f"{WHY}. Leave it out"
        )
    check_groups(ranked(table), list(table), "clinic", 1)


def test_every_finding_is_on_a_line_of_its_own_with_the_party():
    table = {"a": flag(50, 0), "b": np.arange(50), "c": flag(50, 1, 2)}
    with pytest.raises(DisclosureError) as caught:
        check_groups(ranked(table), list(table), "A", 10)
    one, two = str(caught.value).splitlines()
    assert one.startswith("A: ")
    assert "'a'" in one
    assert two.startswith("A: ")
    assert "'c'" in two


# ---- two columns ----


def test_nested_flags_are_refused():
    table = {"visited": flag(500, slice(14)), "x": normals(1, 500)["x0"], "often": flag(500, slice(11))}
    assert sentences(table) == [f"'visited' and 'often' differ in 3 rows; {WHY}. Leave one of the two out"]
    assert found(table).exclude == ("often",)
    # as in the attack on two flags of 4 and 3 rows, which a min_group of 3 let pass one by one
    small = {"four": flag(500, slice(4)), "three": flag(500, slice(3))}
    (sentence,) = sentences(small, 3)
    assert sentence.startswith("'four' and 'three' differ in 1 row; privacy.min_group asks for 3 or more")


@pytest.mark.parametrize("rows", [0, 1, 9, 10])
def test_a_flag_and_its_complement_are_the_same_but_an_almost_complement_is_refused(rows):
    table = {"yes": flag(200, slice(100)), "no": ~flag(200, slice(100 + rows))}
    expected = [f"'yes' and 'no' (one of them reversed) differ in {rows} row{'s' * (rows > 1)}; {WHY}. "
                "Leave one of the two out"]  # fmt: skip
    assert sentences(table) == (expected if 0 < rows < 10 else [])


@pytest.mark.parametrize("n", [200, 20_000])
@pytest.mark.parametrize("upright", [1, -1])
@pytest.mark.parametrize("values", [3, 7, None])
def test_two_versions_of_a_column_with_few_cells_changed_are_refused(n, upright, values):
    """Each changed cell shifts the ranks of the others, so that the rank vectors differ in many rows."""
    rng = np.random.default_rng([n, values or 0])
    old = rng.standard_normal(n) if values is None else rng.integers(0, values, n).astype(float)
    new = old.copy()
    changed = rng.choice(n, 12, replace=False)
    for count in (3, 9):
        new[changed[:count]] = old.max() - old[changed[:count]] + (1e-3 if values is None else 1 - values % 2)
        differing = int((new != old).sum())
        table = {"old": old, "other": rng.standard_normal(n), "new": upright * new}
        findings = found(table).findings
        assert [finding.columns for finding in findings] == [("old", "new")]
        assert findings[0].rows <= differing
        assert ("reversed" in findings[0].sentence) == (upright < 0)


def test_a_count_that_is_rarely_above_one_beside_its_flag_is_refused():
    count = np.repeat([0, 1, 2], [300, 190, 4])
    assert sentences({"visits": count, "visited": count > 0}) == [
        f"'visits' and 'visited' differ in 4 rows; {WHY}. Leave one of the two out"
    ]
    count = np.repeat([0, 1, 2], [300, 190, 20])
    assert sentences({"visits": count, "visited": count > 0}) == []


def test_units_and_directions_of_the_same_thing_tell_nothing_more():
    x = normals(1, 300)["x0"]
    table = {"a": x, "b": 2.54 * x, "c": -x, "d": np.exp(x), "e": x > 1, "f": x <= 1}
    assert found(table) == Apart((), (), ())
    assert distinct_defined(ranked(table)) == 2


def test_one_of_many_versions_stays():
    x = normals(1, 300)["x0"]
    table = {"first": x}
    for version in range(4):
        table[f"v{version}"] = x.copy()
        table[f"v{version}"][version] = 9
    assert found(table).exclude == ("v0", "v1", "v2", "v3")


def order(x: np.ndarray) -> np.ndarray:
    return np.sign(x[:, None] - x[None, :])


def by_trying(x: np.ndarray, y: np.ndarray, most: int) -> int:
    """The fewest rows without which two columns order the rest alike, by leaving out all choices of rows."""
    unlike = order(x) != order(y)
    for count in range(most + 1):
        for rows in combinations(range(x.size), count):
            left = np.delete(np.arange(x.size), rows)
            if not unlike[np.ix_(left, left)].any():
                return count
    return most + 1


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_rows_that_tell_two_columns_apart_are_counted_as_by_trying_all(data):
    n = data.draw(st.integers(4, 9))
    cells = st.lists(st.integers(0, 7), min_size=n, max_size=n)
    x = np.array(data.draw(cells))
    y = np.where(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), x, data.draw(cells))
    most = data.draw(st.integers(1, 4))
    ranks = rank_columns([x, y])
    rows = module._rows_apart(*ranks.matrix, most)
    assert min(rows, most + 1) == by_trying(x, y, most)
    pairs = list(module._pairs(ranks, [0, 1], most))
    if 0 < rows <= most:
        assert pairs == [(0, 1, False, rows)]
    else:
        assert all(reversed_ for _, _, reversed_, _ in pairs)


# ---- any number of columns ----


def one_hot(n: int, shares: list[int], seed: int = 0) -> dict[str, np.ndarray]:
    """Flags for each class but the last, whose rows are scattered."""
    kind = np.repeat(np.arange(len(shares)), shares)
    kind = np.random.default_rng(seed).permutation(np.concatenate([kind, np.zeros(n - kind.size, dtype=int)]))
    return {f"is{value}": kind == value for value in range(len(shares) - 1)}


@pytest.mark.parametrize("n", [178, 20_000])
def test_one_hot_columns_whose_rare_one_was_left_out_are_refused(n):
    table = one_hot(n, [60, 50, 40, 3]) | normals(5, n)
    assert sentences(table) == [
        f"all rows but 3 have exactly one of 'is0', 'is1', 'is2'; {WHY}. Leave one of them out"
    ]
    assert found(table).families == (("'is0'", "'is1'", "'is2'"),)
    assert len(found(table).exclude) == 1
    # the same where the first is told by its opposite
    table["is0"] = ~table["is0"]
    assert found(table).families == (("not 'is0'", "'is1'", "'is2'"),)
    assert found(one_hot(n, [60, 50, 40, 10]) | normals(5, n)) == Apart((), (), ())


def test_a_whole_family_passes_and_is_listed():
    table = one_hot(300, [60, 50, 40, 30, 0]) | normals(3, 300)
    assert found(table) == Apart((), (), (("'is0'", "'is1'", "'is2'", "'is3'"),))


def test_a_union_of_flags_with_few_other_rows_is_refused():
    table = {"a": flag(400, slice(50)), "b": flag(400, slice(50, 90)), "either": flag(400, slice(95))}
    (sentence,) = sentences(table)
    assert sentence.startswith("all rows but 5 have exactly one of ")
    assert "not 'either'" in sentence or "not 'a', not 'b', 'either'" in sentence


def test_two_flags_and_their_sum_give_away_the_rows_that_have_both():
    a, b = flag(400, slice(60)), flag(400, slice(56, 120))
    table = {"a": a, "b": b, "sum": a * 1 + b}
    assert sentences(table) == [
        f"a combination of 'a', 'b', 'sum' sets 4 rows apart from all others; {WHY}. Leave one of them out"
    ]
    b = flag(400, slice(46, 120))
    assert sentences({"a": a, "b": b, "sum": a * 1 + b}) == []


def test_columns_that_differ_from_a_constant_in_the_same_few_rows_are_refused():
    def costs(columns: int, rows: int) -> dict[str, np.ndarray]:
        table = {f"cost{i}": np.zeros(2000) for i in range(columns)}
        for i, column in enumerate(table.values()):
            column[100 : 100 + rows] = np.random.default_rng(i).random(rows)
        return table | normals(3, 2000)

    # three columns on three rows, which a min_group of 3 let pass one by one
    assert found(costs(3, 3), 3).findings
    assert found(costs(2, 3), 3).findings
    assert found(costs(1, 3), 3) == Apart((), (), ())
    # seventeen columns on twenty-five rows leave nine; sixteen leave ten
    assert found(costs(17, 25)).findings[0].rows == 9
    assert len(found(costs(17, 25)).exclude) == 1
    assert found(costs(16, 25)) == Apart((), (), ())
    assert len(found(costs(20, 25)).exclude) == 4


def test_nested_flags_that_are_far_enough_apart_pass():
    table = {f"over{age}": flag(1000, slice(age)) for age in range(10, 500, 10)}
    assert found(table) == Apart((), (), ())


def test_more_columns_than_rows_are_refused_at_once():
    table = normals(300, 178)
    result = found(table)
    assert [finding.sentence for finding in result.findings] == [
        "300 different columns of 178 rows have combinations that set few rows apart; "
        f"{WHY}. Leave all but 168 out"
    ]
    assert result.exclude == tuple(table)[168:]


@st.composite
def small_tables(draw):
    n = draw(st.integers(8, 30))
    cells = st.lists(st.integers(0, draw(st.integers(1, 4))), min_size=n, max_size=n)
    return {
        f"c{i}": np.array(column) for i, column in enumerate(draw(st.lists(cells, min_size=1, max_size=6)))
    }


@settings(max_examples=100, deadline=None)
@given(small_tables(), st.integers(2, 5))
def test_without_the_columns_to_exclude_nothing_is_found(table, min_group):
    first = found(table, min_group)
    assert bool(first.findings) == bool(first.exclude)
    left = {name: column for name, column in table.items() if name not in first.exclude}
    if left:
        assert found(left, min_group).findings == ()
    for finding in first.findings:
        assert 0 < finding.rows < min_group
        assert set(finding.columns) <= set(table)
        assert set(finding.columns) & set(first.exclude)


@pytest.mark.parametrize(("n", "m"), [(178, 5), (178, 8), (20_190, 4), (20_190, 6), (40, 6)])
def test_columns_without_pattern_pass(n, m):
    assert found(normals(m, n)) == Apart((), (), ())


def test_correlated_columns_pass():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(178)
    table = {f"x{i}": common + 0.05 * rng.standard_normal(178) for i in range(8)}
    assert found(table) == Apart((), (), ())


def test_constant_columns_are_neither_found_nor_excluded():
    assert found({"a": np.zeros(30), "b": np.ones(30)}) == Apart((), (), ())
    assert found({"a": np.zeros(30), "rare": flag(30, 0)}).exclude == ("rare",)


# ---- k ----


@given(small_tables())
def test_columns_that_are_defined_and_differ_are_counted_up_to_their_sign(table):
    matrix = ranked(table).matrix.tolist()
    different = {max(tuple(x), tuple(-v for v in x)) for x in matrix if any(x)}
    assert distinct_defined(ranked(table)) == len(different)


def test_columns_that_differ_late_are_different():
    x = np.arange(3000.0)
    y = x.copy()
    y[[2990, 2991]] = y[[2991, 2990]]
    assert distinct_defined(rank_columns([x, y, -y])) == 2


def test_a_column_and_its_reverse_cancel_out_in_a_mean() -> None:
    male = np.arange(20) % 2
    age = np.arange(20)
    assert lasting_in_a_mean(rank_columns([male, 1 - male, age])) == 1
    assert distinct_defined(rank_columns([male, 1 - male, age])) == 2
    assert lasting_in_a_mean(rank_columns([male, 1 - male, male, age, age, np.zeros(20)])) == 2
