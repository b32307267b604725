from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import MAX_ROWS, Ranks, total
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.statistics.estimators import coefficients, products_from_differences, strengths

ESTIMATORS = ("tie_corrected", "paper")


def ranked(table: np.ndarray) -> Ranks:
    return rank_columns(list(table))


def matrix(a: Ranks, b: Ranks, estimator: str) -> np.ndarray:
    return coefficients(a.matrix @ b.matrix.T, a.tie_terms, b.tie_terms, a.n, estimator)  # type: ignore[arg-type]


def squared(rho: float, s: int, norms: int) -> Fraction:
    """Relative error of rho^2 against S^2/norms."""
    return abs(Fraction(rho) ** 2 * norms / (s * s) - 1)


tables = st.integers(3, 25).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, st.tuples(st.integers(1, 4), st.just(n)), elements=st.integers(0, 6)),
        hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.just(n)), elements=st.integers(0, 1000)),
    )
)


@given(tables)
def test_tie_corrected_is_right_to_two_units_and_one_only_on_integers(pair):
    a, b = (ranked(table) for table in pair)
    s = a.matrix @ b.matrix.T
    rho = matrix(a, b, "tie_corrected")
    full = total(a.n)
    for p in range(a.m):
        for q in range(b.m):
            norms = (full - a.tie_terms[p]) * (full - b.tie_terms[q])
            product = int(s[p, q])
            if norms == 0:
                assert math.isnan(rho[p, q])
            elif product == 0:
                assert rho[p, q] == 0
            else:
                assert squared(rho[p, q], product, norms) <= 2 * Fraction(2, 2**52)
                assert (abs(rho[p, q]) == 1) == (product**2 == norms)
                assert math.copysign(1, rho[p, q]) == math.copysign(1, product)


@given(tables)
def test_paper_is_eq_2_correctly_rounded(pair):
    a, b = (ranked(table) for table in pair)
    rho = matrix(a, b, "paper")
    n = a.n
    for p, x in enumerate(pair[0]):
        for q, y in enumerate(pair[1]):
            d = [Fraction(r) - Fraction(s) for r, s in zip(stats.rankdata(x), stats.rankdata(y), strict=True)]
            assert rho[p, q] == float(1 - 6 * sum(v * v for v in d) / (n * (n * n - 1)))


@given(tables)
def test_products_from_differences_gives_the_products(pair):
    a, b = (ranked(table) for table in pair)
    squares = ((a.matrix[:, None, :] - b.matrix[None]) ** 2).sum(axis=-1)
    products = products_from_differences(squares, a.tie_terms, b.tie_terms, a.n)
    assert products.tolist() == (a.matrix @ b.matrix.T).tolist()
    assert products.dtype == object


@pytest.mark.parametrize("dtype", [np.int64, object])
def test_integers_at_the_edge_of_64_bits(dtype):
    n = MAX_ROWS
    full = total(n)
    s = np.array([[full, full - 2], [-full, 0]], dtype=dtype)
    corrected = coefficients(s, (0, 0), (0, 0), n, "tie_corrected")
    assert corrected.tolist() == [[1.0, math.nextafter(1, 0)], [-1.0, 0.0]]  # not rounded up to one
    half = full // 4 * 2
    assert coefficients(np.array([[0]], dtype=dtype), (half,), (half,), n, "paper")[0, 0] == half / full
    # numpy integers must not wrap inside
    wrapping = (np.int64(half),)
    assert coefficients(np.array([[2]]), wrapping, wrapping, n, "paper")[0, 0] == pytest.approx(0.5)


def test_sums_of_squares_beyond_64_bits():
    n = MAX_ROWS
    full = total(n)
    squares = np.array([[4 * full, 2 * full, 0]], dtype=object)
    s = products_from_differences(squares, (0,), (0, 0, 0), n)
    assert s.tolist() == [[-full, 0, full]]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("value", [9, -9, 2**63 - 1, -(2**63), 2**200])
def test_impossible_products_are_undefined_and_stop_nothing(estimator, value):
    products = np.array([[value, 4], [0, -8]], dtype=object)  # N = 8
    rho = coefficients(products, (0, 0), (0, 0), 3, estimator)
    np.testing.assert_array_equal(rho, [[math.nan, 0.5], [0, -1]])
    mu, counts = strengths(rho, "mean")
    np.testing.assert_array_equal(mu, [0, -0.25])
    assert counts.tolist() == [1, 2]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_constant_columns_product_is_zero_or_undefined(estimator):
    rho = coefficients(np.array([[1], [0]]), (8, 8), (0,), 3, estimator)
    np.testing.assert_array_equal(rho, [[math.nan], [0.5 if estimator == "paper" else math.nan]])


@pytest.mark.parametrize("square", [3, -1, -(2**70), 2**70 + 1])
def test_sums_of_squares_that_are_none_give_no_coefficient(square):
    products = products_from_differences(np.array([[square, 16]], dtype=object), (0,), (0, 0), 3)
    np.testing.assert_array_equal(coefficients(products, (0,), (0, 0), 3, "paper"), [[math.nan, 0]])
    # ties make room for a sum that is small enough
    assert products_from_differences(np.array([[-2]]), (8,), (0,), 3).tolist() == [[9]]


# --- strengths


def test_means_over_defined_coefficients():
    nan = math.nan
    rho = np.array([[0.5, nan, nan, -0.25], [-0.1, nan, 0.3, -0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mu, count = strengths(rho, "mean")
        size, _ = strengths(rho, "mean_abs")
    np.testing.assert_array_equal(mu, [0.2, nan, 0.3, -0.375])
    np.testing.assert_array_equal(size, [0.3, nan, 0.3, 0.375])
    assert count.tolist() == [2, 0, 1, 2]
    assert count.dtype == np.int64


# --- order


def test_undefined_last_and_equals_in_table_order():
    mu = np.array([0.1, math.nan, 0.5, 0.1, -0.2, math.nan, -0.0, 0.0])
    for order, expected in (
        ("descending", [2, 0, 3, 6, 7, 4, 1, 5]),
        ("ascending", [4, 6, 7, 0, 3, 2, 1, 5]),
    ):
        assert estimators.in_order(estimators.positions(mu, order)).tolist() == expected


# --- cautions

CANCELLING = (
    list("abcde"),
    np.array([0.01, 0.2, -0.01, math.nan, 0.001]),
    np.array([0.3, 0.3, 0.4, math.nan, 0.04]),
)


@pytest.mark.parametrize(
    ("warnings", "begins", "lines"),
    [
        (
            result_warnings.ties("clinic", ["limited", "age"], [6, 0], 6),
            "ties in 1 column of clinic, which eq. 2",
            ["limited: ties add 0.0429 to every coefficient of this column"],
        ),
        (
            result_warnings.constants("A", ["u", "v", "w"], [True, False, True], "tie_corrected"),
            "2 constant columns of A: a constant has no rank correlation, its coefficients are NaN",
            ["u", "w"],
        ),
        (
            result_warnings.cancellations(*CANCELLING),
            "in 2 of 5 features coefficients of opposite signs",
            ["a: strength 0.010, mean |rho| 0.300", "c: strength −0.010, mean |rho| 0.400"],
        ),
        (result_warnings.k_note(1, 1), "strengths average over 1 of 1 source columns: each is this", []),
        (result_warnings.k_note(2, 3), "strengths average over 2 of 3 source columns: constant ones", []),
        (
            result_warnings.impossible(np.array([3, 2, 0, 3]), 3, 1),
            "for 1 of the target's 4 columns a value was opened that ranks cannot give",
            [],
        ),
    ],
)
def test_a_warning_is_one_sentence_and_lists_the_columns_below_it(
    warnings: list[str], begins: str, lines: list[str]
) -> None:
    (warning,) = warnings
    sentence, *listed = warning.splitlines()
    assert sentence.startswith(begins)
    assert listed == lines


def test_nothing_is_said_if_there_is_nothing_to_warn_of() -> None:
    assert result_warnings.ties("clinic", ["age"], [0], 6) == []
    assert result_warnings.constants("A", ["v"], [False], "paper") == []
    assert result_warnings.k_note(3, 3) == []
    assert result_warnings.impossible(np.array([3, 2, 0, 3]), 3, 2) == []
    assert result_warnings.impossible(np.array([0, 0]), 0, 0) == []


def test_the_warning_of_eq2_uses_one_minus_sign() -> None:
    corrected, paper = np.array([-0.0235, 0.01]), np.array([0.5623, 0.2])
    (misled,) = result_warnings.eq2(["x", "y"], corrected, paper, "descending")
    (shifted,) = result_warnings.eq2(["x", "y"], -corrected, -np.array([0.1, 0.3]), "descending")
    assert "ranks x first with a strength of 0.562, which is −0.0235 (position 2 of 2)" in misled
    assert "it gives y a strength of −0.3, which is −0.01 when" in shifted
