"""Every attack on published numbers, and which of an owner's rules refuses its tables: each rule alone.

What precision alone does to them is in the other files here. Tables that no rule refuses are listed too:
what they are attacked with is a limit of the rules, and `docs/privacy.md` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from mpc_spearman.attacks import rows
from mpc_spearman.attacks.simulated import flag
from mpc_spearman.data.ranks import Ranks, check_width, rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy.budget import Published, groups_of, over_budget
from mpc_spearman.privacy.combinations import sparse_combinations
from mpc_spearman.privacy.groups import standing_apart
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid

MIN_GROUP, BUDGET, ROWS_PER_FEATURE = 10, 0.5, 3


class Tables(NamedTuple):
    """What is attacked, whose rows it is about, and the attacker's own table."""

    source: Ranks
    target: Ranks
    strengths: bool = False

    @property
    def published(self) -> Published:
        """What the target will have about each of the source's columns."""
        n, k = self.source.n, self.source.m
        if self.strengths:
            return Published("B", "strengths", self.target.m, strength_grid(n, k), mean_of=k)
        return Published("B", "coefficients", self.target.m, coefficient_grid(n))


def _names(ranks: Ranks) -> list[str]:
    return [f"c{column}" for column in range(ranks.m)]


def group_of_one_column(tables: Tables) -> bool:
    return any(0 < outside < MIN_GROUP for outside in tables.target.outside + tables.source.outside)


def two_columns(tables: Tables) -> bool:
    found = standing_apart(tables.target, _names(tables.target), MIN_GROUP).findings
    return any(len(one.columns) == 2 for one in found)


def combination(tables: Tables) -> bool:
    return any(one.rows.size for one in sparse_combinations(list(tables.target.matrix), MIN_GROUP))


def width(tables: Tables) -> bool:
    try:
        check_width(tables.source.n, tables.source.m, tables.target.m, ROWS_PER_FEATURE)
    except DisclosureError:
        return True
    return False


def budget(tables: Tables) -> bool:
    columns, published = groups_of(tables.source), [tables.published]
    return any(over_budget(columns, _names(tables.source), BUDGET, published))


RULES: dict[str, Callable[[Tables], bool]] = {
    "one column": group_of_one_column,
    "two columns": two_columns,
    "combination": combination,
    "width": width,
    "budget": budget,
}


# ---- tables ----

RNG = np.random.default_rng(1)


def untied(n: int, columns: int) -> Ranks:
    return rank_columns(list(RNG.random((columns, n))))


def flags(n: int, *ones: int, among: int | None = None) -> Ranks:
    return rank_columns([flag(n, some, RNG, np.arange(among or n)) for some in ones])


def marked(n: int, *sets: range) -> Ranks:
    return rank_columns([np.isin(np.arange(n), those) for those in sets])


def beside(n: int, values: list[list[float]]) -> Ranks:
    """Columns of zeros but for their first rows."""
    return rank_columns([np.array(column + [0] * (n - len(column))) for column in values])


def a_count_and_its_flags() -> Ranks:
    count = RNG.integers(0, 4, 1000)
    count[0] = 0
    of_value = [count == value for value in (1, 2, 3)]
    of_value[0][0] = True
    return rank_columns([count, *of_value])


ATTACKS = {
    "mean of two flags, taken apart": (Tables(flags(500, 28, 173), untied(500, 6), True), set()),
    "four rows by meeting in the middle": (
        Tables(flags(300, 4), untied(300, 8)),
        {"one column", "budget"},
    ),
    "twelve rows of which eight are known": (Tables(flags(1000, 12), untied(1000, 7)), set()),
    "twenty rows by linear programme": (Tables(flags(1000, 20), untied(1000, 100)), {"budget"}),
    "48 of 99 rows by lattice reduction": (Tables(flags(99, 48), untied(99, 30)), {"budget"}),
    "14 of 30 rows by lattice reduction": (Tables(flags(30, 14), untied(30, 9)), {"budget"}),
    "nested flags": (
        Tables(untied(1000, 5), marked(1000, range(4), range(3))),
        {"one column", "combination"},
    ),
    "nested flags of many rows": (
        Tables(untied(1000, 5), marked(1000, range(100), range(99))),
        {"two columns", "combination"},
    ),
    "one-hot columns but for the rare one": (
        Tables(untied(178, 5), marked(178, range(59), range(59, 118), range(118, 177))),
        {"combination"},
    ),
    "a total that misses a row of its parts": (
        Tables(untied(1000, 5), marked(1000, range(20), range(20, 40), range(39))),
        {"combination"},
    ),
    "three columns on the same three rows": (
        Tables(untied(1000, 5), beside(1000, [[1, 1, 1], [1, -1, 1], [1, 1, -1]])),
        {"one column", "combination"},
    ),
    "a count and its flags that differ in a cell": (
        Tables(untied(1000, 5), a_count_and_its_flags()),
        {"combination"},
    ),
    "as many columns as rows but one": (
        Tables(untied(40, 1), untied(40, 39)),
        {"combination", "width", "budget"},
    ),
    # the rules say how many rows a combination isolates, not how little it takes to tell what they hold
    "questions asked of 120, a flag": (Tables(flags(1000, 100), flags(1000, *[60] * 38, among=120)), set()),
    "questions asked of 60, the mean of two flags": (
        Tables(flags(5000, 500, 750), flags(5000, *[30] * 45, among=60), True),
        set(),
    ),
    "questions asked of 40, no ties": (Tables(untied(1000, 5), flags(1000, *[20] * 30, among=40)), set()),
}


@pytest.mark.parametrize(("tables", "expected"), ATTACKS.values(), ids=ATTACKS)
def test_these_rules_refuse_it_each_alone(tables, expected):
    assert {name for name, refuses in RULES.items() if refuses(tables)} == expected


# ---- what would refuse the last three ----
#
# The target knows the leverage of every row from its own columns. With h the highest, two bounds would do:
#
# - h at most a fifth: nobody's rank in any column is known to more than a fifth of its variance. Combinations
#   that isolate fewer than five rows exceed it, nearly or exactly, if the grid lets them tell anything;
# - h·b at most H/n: about no row do the b bits of the coefficients tell more than the column holds per row.
#   Leverages add up to the number of columns, so E·b <= H/2 says the same of rows that are all alike.

FIFTH = 0.2


def leverage(tables: Tables) -> float:
    grid = tables.published.grid
    assert grid is not None
    return float(rows.leverage(tables.target.matrix, grid.step).max())


def rows_share(tables: Tables) -> float:
    """h·b over H/n, the largest of all columns."""
    columns = groups_of(tables.source)
    return max(leverage(tables) * tables.published.bits_each(one) * one.n / one.held for one in columns)


ISOLATING = [name for name, (_, rules) in ATTACKS.items() if "combination" in rules]
ASKED = [name for name in ATTACKS if name.startswith("questions")]


@pytest.mark.parametrize("name", ISOLATING + ASKED)
def test_whatever_isolates_rows_shows_in_the_leverage(name):
    assert leverage(ATTACKS[name][0]) > FIFTH


@pytest.mark.parametrize("name", ASKED[:2])
def test_pools_tell_more_about_a_row_than_it_holds(name):
    assert rows_share(ATTACKS[name][0]) > 4


@pytest.mark.parametrize(("n", "columns"), [(178, 8), (178, 5), (20_190, 6), (1000, 150)])
def test_untied_tables_keep_the_leverage_low(n, columns):
    assert leverage(Tables(untied(n, 1), untied(n, columns))) < FIFTH


@pytest.mark.parametrize(("n", "columns", "ones"), [(178, 8, 60), (1000, 8, 30), (20_190, 6, 100)])
def test_and_pass_beside_a_flag_that_the_budget_lets_pass(n, columns, ones):
    tables = Tables(flags(n, ones), untied(n, columns))
    assert not budget(tables)
    assert rows_share(tables) < 1
