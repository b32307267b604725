"""Every attack on published numbers, and which of an owner's rules refuses its tables: each rule alone.

What precision alone does to them is in the other files here. Tables that no rule refuses are listed too:
what they are attacked with is a limit of the rules, and `docs/privacy.md` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from mpc_spearman.attacks.simulated import flag
from mpc_spearman.data.ranks import Ranks, check_width, rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy.budget import Published, over_budget
from mpc_spearman.privacy.combinations import sparse_combinations
from mpc_spearman.privacy.groups import standing_apart
from mpc_spearman.privacy.leverage import highest_leverage
from mpc_spearman.privacy.precision import coefficient_grid, strength_grid
from support.harness import ROOT

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

    @property
    def leveraged(self) -> Published:
        """Only how far the target's columns single out rows, not how many they are."""
        high = highest_leverage(self.target, coefficient_grid(self.source.n))
        return replace(self.published, equations=0, leverage=high)


def _names(ranks: Ranks) -> list[str]:
    return [f"c{column}" for column in range(ranks.m)]


def group_of_one_column(tables: Tables) -> bool:
    return any(0 < groups.outside < MIN_GROUP for groups in tables.target.groups + tables.source.groups)


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
    columns, published = tables.source.groups, [tables.published]
    return any(over_budget(columns, _names(tables.source), BUDGET, published))


def leverage(tables: Tables) -> bool:
    columns, published = tables.source.groups, [tables.leveraged]
    return any(over_budget(columns, _names(tables.source), BUDGET, published))


RULES: dict[str, Callable[[Tables], bool]] = {
    "one column": group_of_one_column,
    "two columns": two_columns,
    "combination": combination,
    "width": width,
    "budget": budget,
    "leverage": leverage,
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
        {"one column", "budget", "leverage"},
    ),
    "twelve rows of which eight are known": (Tables(flags(1000, 12), untied(1000, 7)), {"leverage"}),
    "twenty rows by linear programme": (Tables(flags(1000, 20), untied(1000, 100)), {"budget", "leverage"}),
    "48 of 99 rows by lattice reduction": (Tables(flags(99, 48), untied(99, 30)), {"budget", "leverage"}),
    "14 of 30 rows by lattice reduction": (Tables(flags(30, 14), untied(30, 9)), {"budget", "leverage"}),
    "nested flags": (
        Tables(untied(1000, 5), marked(1000, range(4), range(3))),
        {"one column", "combination", "leverage"},
    ),
    "nested flags of many rows": (
        Tables(untied(1000, 5), marked(1000, range(100), range(99))),
        {"two columns", "combination", "leverage"},
    ),
    "one-hot columns but for the rare one": (
        Tables(untied(178, 5), marked(178, range(59), range(59, 118), range(118, 177))),
        {"combination", "leverage"},
    ),
    "a total that misses a row of its parts": (
        Tables(untied(1000, 5), marked(1000, range(20), range(20, 40), range(39))),
        {"combination", "leverage"},
    ),
    "three columns on the same three rows": (
        Tables(untied(1000, 5), beside(1000, [[1, 1, 1], [1, -1, 1], [1, 1, -1]])),
        {"one column", "combination", "leverage"},
    ),
    "a count and its flags that differ in a cell": (
        Tables(untied(1000, 5), a_count_and_its_flags()),
        {"combination"},
    ),
    "as many columns as rows but one": (
        Tables(untied(40, 1), untied(40, 39)),
        {"combination", "width", "budget", "leverage"},
    ),
    # the rules say how many rows a combination isolates, not how little it takes to tell what they hold
    "questions asked of 120, a flag": (
        Tables(flags(1000, 100), flags(1000, *[60] * 38, among=120)),
        {"leverage"},
    ),
    "questions asked of 60, the mean of two flags": (
        Tables(flags(5000, 500, 750), flags(5000, *[30] * 45, among=60), True),
        {"leverage"},
    ),
    "questions asked of 40, no ties": (
        Tables(untied(1000, 5), flags(1000, *[20] * 30, among=40)),
        {"leverage"},
    ),
}


@pytest.mark.parametrize(("tables", "expected"), ATTACKS.values(), ids=ATTACKS)
def test_these_rules_refuse_it_each_alone(tables, expected):
    assert {name for name, refuses in RULES.items() if refuses(tables)} == expected


def test_the_page_on_privacy_says_which_rules_refuse_it() -> None:
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    said = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] in ATTACKS:
            said[cells[0]] = set(cells[3].split(", ")) - {"(rounding)"}
    assert said == {name: rules for name, (_, rules) in ATTACKS.items()}
