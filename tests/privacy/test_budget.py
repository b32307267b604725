from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import ndtr

from mpc_spearman.data.ranks import Groups, rank_columns
from mpc_spearman.errors import DisclosureError
from mpc_spearman.privacy.budget import (
    Published,
    check_budget,
    exact_bits,
    held,
    order_bits,
    over_budget,
    told,
)
from mpc_spearman.privacy.precision import Grid, coefficient_grid, strength_grid

columns = hnp.arrays(np.int64, st.integers(2, 40), elements=st.integers(-4, 4))


def groups(*values: float) -> Groups:
    return rank_columns([np.array(values)]).groups[0]


def of_sizes(*sizes: int) -> Groups:
    return Groups.of(np.array(sizes, dtype=np.int64))


def coefficients(n: int, columns: int, receiver: str = "B") -> Published:
    return Published(receiver, "coefficients", columns, coefficient_grid(n))


# ---- H ----


@given(columns)
def test_a_column_holds_the_bits_of_its_arrangements(column):
    sizes = Counter(column.tolist()).values()
    arrangements = math.factorial(column.size) // math.prod(map(math.factorial, sizes))
    assert held(groups(*column)) == pytest.approx(math.log2(arrangements), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("ones", [1, 10, 500])
def test_the_bits_of_a_rare_flag_among_many_rows_are_accurate(ones):
    exact = math.log2(math.comb(1_000_000, ones))
    assert held(of_sizes(1_000_000 - ones, ones)) == pytest.approx(exact, rel=1e-8)


# ---- b, exact ----


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.int64, st.integers(2, 6), elements=st.integers(0, 3)))
def test_an_exact_coefficient_has_the_lattice_the_variance_and_the_bits_that_are_counted(column):
    ranks = rank_columns([column])
    x, n = ranks.matrix[0].tolist(), column.size
    untied = range(1 - n, n, 2)
    sums = [sum(a * b for a, b in zip(x, order, strict=True)) for order in permutations(untied)]
    frequency, all_of_them = Counter(sums), math.factorial(n)
    entropy = -math.fsum(c / all_of_them * math.log2(c / all_of_them) for c in frequency.values())
    if ranks.constant[0]:
        assert exact_bits(groups(*column)) == entropy == 0
        return
    step = math.gcd(*(s - sums[0] for s in sums))
    assert step == 2 * math.gcd(*(a - x[0] for a in x))
    assert sum(sums) == 0
    variance = Fraction(sum(s * s for s in sums), all_of_them * step**2)
    bits = math.log2(2 * math.pi * math.e * (variance + Fraction(1, 12))) / 2
    assert exact_bits(groups(*column)) == pytest.approx(bits, rel=1e-14)
    assert entropy <= bits


def test_exact_bits_of_known_columns():
    def normal_bits(variance: float) -> float:
        return math.log2(2 * math.pi * math.e * (variance + 1 / 12)) / 2

    # a flag: the sum of 48 of the ranks 1 … 99
    assert exact_bits(of_sizes(51, 48)) == pytest.approx(normal_bits(48 * 51 * 100 / 12))
    # no ties: Σd²/2 has variance n²(n + 1)²(n - 1)/144
    assert exact_bits(of_sizes(*[1] * 30)) == pytest.approx(normal_bits(30**2 * 31**2 * 29 / 144))


# ---- b, on a grid ----


def rounded_normal_bits(spread: float) -> float:
    """Entropy of a normal of this standard deviation, rounded to integers."""
    middle = np.arange(-int(9 * spread) - 9, int(9 * spread) + 10)
    p = ndtr((middle + 0.5) / spread) - ndtr((middle - 0.5) / spread)
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


@pytest.mark.parametrize(("n", "k"), [(99, 1), (500, 2), (20_190, 4), (1_000_000, 50), (1_000_000, 400)])
def test_bits_on_a_grid_are_at_least_those_of_the_rounded_number(n, k):
    published = Published("B", "strengths", 3, strength_grid(n, k), mean_of=k)
    entropy = rounded_normal_bits(1 / (k * math.sqrt(n - 1) * published.grid.step))
    bits = published.bits_each(of_sizes(*[1] * n))
    assert entropy <= bits + 1e-3
    assert bits <= entropy + 0.5


def test_a_grid_costs_the_less_of_both_forms_and_exactness_the_exact_one():
    flag = of_sizes(90, 10)
    coarse, fine = (
        Published("B", "coefficients", 1, Grid(100)),
        Published("B", "coefficients", 1, Grid(10**6)),
    )
    exact = Published("B", "coefficients", 1)
    assert coarse.bits_each(flag) < exact.bits_each(flag) == exact_bits(flag)
    assert fine.bits_each(flag) == exact_bits(flag)
    spread = 100 / math.sqrt(99)
    assert coarse.bits_each(flag) == pytest.approx(math.log2(2 * math.pi * math.e * (spread**2 + 1 / 12)) / 2)


def test_a_constant_column_tells_nothing_and_passes():
    constant = of_sizes(50)
    for published in (
        coefficients(50, 8),
        Published("B", "coefficients", 8),
        Published("B", "ranking", 1, order_bits=order_bits(8)),
    ):
        assert told(constant, [published])[0].bits == held(constant) == 0
        check_budget(rank_columns([np.zeros(50)]), ["a"], "A", 0.5, [published])


def test_orders_are_counted_once_and_in_all():
    assert order_bits(10) == pytest.approx(math.log2(math.factorial(10)))
    assert order_bits(10, top=3) == pytest.approx(math.log2(120))
    assert order_bits(1) == order_bits(10, top=10) == 0
    order = Published("B", "ranking", 1, order_bits=order_bits(10))
    assert told(of_sizes(90, 10), [order])[0].bits == order_bits(10)


# ---- the rule ----


def test_a_rare_flag_is_refused_with_its_figures_and_the_three_ways_out():
    n = 99
    ranks = rank_columns([np.arange(n), np.repeat([0, 1], [51, 48])])
    held = math.log2(math.comb(n, 48))
    each = coefficients(n, 25).bits_each(of_sizes(51, 48))
    with pytest.raises(DisclosureError) as caught:
        check_budget(ranks, ["age", "flag"], "clinic", 0.5, [coefficients(n, 25)])
    assert str(caught.value) == (
        f"clinic: the ranks of 'flag' hold {held:.1f} bits; the 25 coefficients that B will have tell up to "
        f"{each:.1f} each, {25 * each:.1f} in all, more than the {held / 2:.1f} that privacy.budget 0.5 "
        f"allows. Leave the column out, use fewer columns on the other side ({int(held / 2 / each)} at "
        "most), or publish less (results: strengths or ranking)"
    )
    check_budget(ranks, ["age", "flag"], "clinic", 0.5, [coefficients(n, int(held / 2 / each))])
    check_budget(ranks, ["age", "flag"], "clinic", 2.0, [coefficients(n, 25)])


@pytest.mark.parametrize(
    ("published", "says"),
    [
        (Published("A", "coefficients", 30), r"\(results.precision: statistical, or results: strengths or"),
        (Published("A", "strengths", 30, Grid(100)), r"30 strengths that A .*\(results: ranking\)"),
        (Published("A", "strengths", 1, Grid(10**9)), r"1 strength that A .*\(not even one fits\)"),
        (Published("A", "ranking", 1, order_bits=200.0), r"order that A will have tells 200\.0, .*: nothing"),
    ],
)
def test_each_kind_of_result_is_refused_in_its_words(published, says):
    ones = 1 if "1 strength" in says else 10
    with pytest.raises(DisclosureError, match=says):
        check_budget(rank_columns([np.arange(90) < ones]), ["flag"], "B", 0.5, [published])


def test_every_receiver_and_column_is_judged_by_itself():
    ranks = rank_columns([np.repeat([0, 1], [51, 48]), np.repeat([0, 1], [9, 90])])
    published = [
        coefficients(99, columns, receiver) for receiver, columns in (("A1", 9), ("A2", 5), ("A3", 1))
    ]
    found = list(over_budget(ranks.groups, ["half", "rare"], 0.5, published))
    assert [(finding.columns, finding.sentence.split("coefficients that ")[1][:2]) for finding in found] == [
        (("half",), "A1"),
        (("rare",), "A1"),
        (("rare",), "A2"),
    ]
    assert {(finding.rule, finding.rows) for finding in found} == {("privacy.budget", 99)}
