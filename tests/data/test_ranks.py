from __future__ import annotations

import math
import threading
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from mpc_spearman.data import ranks as module
from mpc_spearman.data.ranks import (
    MAX_ERROR,
    MAX_ROWS,
    Ranks,
    check_bounds,
    check_groups,
    check_width,
    rank_columns,
    scale,
    strength_vector,
    total,
)
from mpc_spearman.errors import BoundError, DisclosureError

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


def never(n: int) -> np.ndarray:
    raise AssertionError("randomness was drawn where nearest rounding is enough")


def uniform(seed: int = 0):
    return np.random.default_rng(seed).random


columns = st.one_of(
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-3, 3)),
    hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-(2**63), 2**63 - 1)),
    hnp.arrays(np.uint64, st.integers(1, 30), elements=st.integers(2**64 - 4, 2**64 - 1)),
    hnp.arrays(np.int8, st.integers(1, 30)),
    hnp.arrays(np.bool_, st.integers(1, 30)),
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(allow_nan=False)),
    hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(allow_nan=False, width=32)),
)


@given(columns)
def test_ranks_and_tie_terms_follow_their_definition(column):
    values = column.tolist()
    ranks = rank_columns([column])
    assert ranks.matrix.dtype == np.int64
    assert ranks.matrix[0].tolist() == by_definition(values)
    assert ranks.tie_terms == (tie_term(values),)
    assert type(ranks.tie_terms[0]) is int
    assert ranks.tie_terms[0] % 2 == 0
    assert ranks.outside == (len(values) - max(values.count(v) for v in values),)
    assert ranks.constant == (len(set(values)) == 1,)


@given(columns)
def test_ranks_equal_scipy(column):
    expected = 2 * rankdata(column) - (column.size + 1)
    np.testing.assert_array_equal(rank_columns([column]).matrix[0], expected)


@given(columns, st.randoms())
def test_permuting_rows_permutes_ranks(column, random):
    permutation = list(range(column.size))
    random.shuffle(permutation)
    plain, permuted = rank_columns([column]), rank_columns([column[permutation]])
    np.testing.assert_array_equal(permuted.matrix[0], plain.matrix[0][permutation])
    assert permuted.tie_terms == plain.tie_terms


def test_numeric_traps():
    assert x_of(1000.000059, 1000.000041, 999.0) == [2, 0, -2]
    assert x_of(-0.0, 0.0, 1.0) == [-1, -1, 2]
    assert x_of(2**53 + 1, 2**53, 2**53 + 2, dtype=np.int64) == [0, -2, 2]
    assert x_of(-(2**63), 2**63 - 1, 2**63 - 2, dtype=np.int64) == [-2, 2, 0]
    assert x_of(2**63 + 1, 2**63, 2**64 - 1, dtype=np.uint64) == [0, -2, 2]
    assert x_of(math.inf, -math.inf, 0.0) == [2, -2, 0]
    assert x_of(5e-324, 0.0, -5e-324) == [2, 0, -2]
    assert x_of(7, 7, 7) == [0, 0, 0]
    assert x_of(True, False, True) == [1, -2, 1]


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
def test_what_tick_raises_ends_the_ranking(workers, monkeypatch):
    calls: list[int] = []
    ranked: list[int] = []

    def slow(out: np.ndarray, column: np.ndarray) -> tuple[int, int]:
        ranked.append(1)
        time.sleep(0.01)
        return 0, 9

    monkeypatch.setattr(module, "_rank_into", slow)

    def tick() -> None:
        calls.append(1)
        raise InterruptedError("a peer is gone")

    with pytest.raises(InterruptedError):
        rank_columns([np.arange(10)] * 50, workers=workers, tick=tick)
    assert len(calls) == 1
    assert len(ranked) < 25  # those under way, not all the others


def test_tie_terms_beyond_64_bits():
    n = MAX_ROWS
    ranks = rank_columns([np.zeros(n, dtype=np.int8), (np.arange(n) >= n - 3).astype(np.int8)])
    assert n**3 > 2**64 > total(n) * 2 > 2**63
    big = n - 3
    assert ranks.tie_terms == (total(n), (big**3 - big) // 3 + (27 - 3) // 3)
    assert ranks.outside == (0, 3)


def test_max_rows_is_the_last_that_fits():
    assert total(MAX_ROWS) <= RING < total(MAX_ROWS + 1)
    assert type(total(np.int64(MAX_ROWS))) is int
    assert total(np.int64(MAX_ROWS)) == MAX_ROWS * (MAX_ROWS**2 - 1) // 3


# --- disclosure rules


@pytest.mark.parametrize(("rows", "accepted"), [(0, True), (1, False), (2, False), (3, True)])
def test_small_groups(rows, accepted):
    flag = np.zeros(20)
    flag[:rows] = 1
    ranks = rank_columns([np.arange(20), flag])
    if accepted:
        check_groups(ranks, ["age", "flag"], "clinic", 3)
    else:
        with pytest.raises(
            DisclosureError, match=rf"clinic.*'flag' \({rows} rows?\).*min_group.* 3"
        ) as caught:
            check_groups(ranks, ["age", "flag"], "clinic", 3)
        assert "age" not in str(caught.value)
    check_groups(ranks, ["age", "flag"], "clinic", 1)


def test_every_small_group_is_named():
    ranks = rank_columns([np.array([0, 0, 0, 1]), np.array([0, 2, 2, 3])])
    with pytest.raises(DisclosureError, match=r"'a' \(1 row\), 'b' \(2 rows\)"):
        check_groups(ranks, ["a", "b"], "A", 3)


def test_width():
    check_width(30, 4, 6, 3)
    with pytest.raises(
        DisclosureError, match=r"4 source and 6 target .* 29 rows.*min_rows_per_feature.* 3 .* 30"
    ):
        check_width(29, 4, 6, 3)


# --- bounds


def test_bounds_on_rows_hold_at_every_level():
    for reveal in ("differences", "coefficients"):
        check_bounds(MAX_ROWS, 10_000, reveal=reveal, estimator="tie_corrected")
        with pytest.raises(BoundError, match=r"^insurer: 3024617 rows .*3024616"):
            check_bounds(MAX_ROWS + 1, 1, reveal=reveal, estimator="paper", party="insurer")
    for estimator in ("paper", "tie_corrected"):
        with pytest.raises(BoundError):
            check_bounds(MAX_ROWS + 1, 1, reveal="strengths", estimator=estimator)


@pytest.mark.parametrize("n", [3, 20_190, 1_000_000, MAX_ROWS])
def test_paper_strengths_fit_the_ring_or_are_refused(n):
    most = RING // total(n)
    check_bounds(n, most, reveal="strengths", estimator="paper")
    with pytest.raises(BoundError, match=f"at most {most} columns"):
        check_bounds(n, most + 1, reveal="strengths", estimator="paper")


def test_tie_corrected_strengths_hold_to_about_2_6_million_rows():
    def fits(n: int, columns: int = 10) -> bool:
        try:
            check_bounds(n, columns, reveal="strengths", estimator="tie_corrected")
        except BoundError:
            return False
        return True

    assert fits(3)
    assert fits(2_600_000)
    assert not fits(2_630_000)
    assert not fits(MAX_ROWS)
    assert not fits(2_600_000, 800_000)  # so many columns use up the room
    # the randomised error grows with the root of the number of sources
    check_bounds(2_000_000, 10, reveal="strengths", estimator="tie_corrected", sources=2)
    with pytest.raises(BoundError):
        check_bounds(2_600_000, 10, reveal="strengths", estimator="tie_corrected", sources=2)
    with pytest.raises(BoundError, match=r"^A: strengths over 2 source .*1e-09.*tie_corrected"):
        check_bounds(MAX_ROWS, 2, reveal="strengths", estimator="tie_corrected", party="A")


@settings(max_examples=300)
@given(st.integers(3, MAX_ROWS), st.integers(1, 10_000))
def test_scale_fits_and_is_nearly_the_largest(n, k):
    slack = 1 + Fraction(1, 2**20)
    try:
        factor = scale(n, k)
    except BoundError:
        factor = 0
    # |V|^2 <= (F k (1 + 2^-20) + k sqrt(n))^2 N, with sqrt(n) rounded up
    norm = factor * k * slack + k * (math.isqrt(n) + 1)
    assert factor == 0 or norm * norm * total(n) <= RING * RING
    one_more = ((factor + 1) * slack + math.isqrt(n) + 2) * k
    assert one_more > RING // (math.isqrt(total(n)) + 1)
    assert module._least_units(n, k) <= factor * k


def test_least_units_is_below_the_scale_of_every_smaller_k():
    for n in (3, 1000, 2_600_000):
        least = module._least_units(n, 300)
        assert 0 < least <= min(scale(n, k) * k for k in range(1, 301))


def test_scale_refuses_what_does_not_fit():
    with pytest.raises(BoundError, match="64 bits"):
        scale(MAX_ROWS, 10**7)


# --- strength vectors


def exact_units(ranks: Ranks, bits: int = 200) -> list[int]:
    """Sum_p x_p/||x_p|| times 2^bits, to within m units."""
    result = [0] * ranks.n
    for x, constant in zip(ranks.matrix.tolist(), ranks.constant, strict=True):
        if not constant:
            norm = sum(v * v for v in x)
            inverse = math.isqrt((1 << (2 * bits + 128)) // norm)  # 2^(bits+64)/||x||
            result = [r + ((v * inverse) >> 64) for r, v in zip(result, x, strict=True)]
    return result


def error_norm(ranks: Ranks, vector: np.ndarray) -> float:
    """||v - F w|| / (F k): how far any strength can be off, by Cauchy-Schwarz."""
    factor, bits = scale(ranks.n, ranks.defined), 200
    squares = sum(
        ((v << bits) - factor * w) ** 2 for v, w in zip(vector.tolist(), exact_units(ranks), strict=True)
    )
    return float(Fraction(math.isqrt(squares), (factor * ranks.defined) << bits))


def tables(n: int) -> dict[str, list[np.ndarray]]:
    generator = np.random.default_rng(n)
    return {
        "untied": [generator.permutation(n) for _ in range(3)],
        "sorted, all alike": [np.arange(n)] * 40,
        "one apart": [np.arange(n) == 0] * 7,
        "mixed": [generator.integers(0, 3, n), np.zeros(n), generator.normal(size=n), np.arange(n) < n // 2],
        "cancelling": [np.arange(n), -np.arange(n)],
    }


@pytest.mark.parametrize("name", tables(3))
@pytest.mark.parametrize("n", [3, 50, 2000])
def test_nearest_rounding_error(name, n):
    ranks = rank_columns(tables(n)[name])
    vector = strength_vector(ranks, "tie_corrected", defined=ranks.defined, random=never)
    assert vector.dtype == np.int64
    k = ranks.defined
    bound = math.sqrt(n) / 2 / (scale(n, k) * k) + (k + 4) * 2.0**-53
    assert error_norm(ranks, vector) <= bound < 1e-12


@pytest.mark.parametrize("name", tables(3))
@pytest.mark.parametrize("n", [3, 2000])
def test_the_opened_sum_fits_even_against_the_longest_column(name, n):
    ranks = rank_columns(tables(n)[name])
    vector = strength_vector(ranks, "tie_corrected", defined=ranks.defined, random=never)
    along = sorted(range(n), key=vector.tolist().__getitem__)
    y = [0] * n
    for position, row in enumerate(along):  # the target column that makes V largest
        y[row] = 2 * position + 1 - n
    largest = sum(v * w for v, w in zip(vector.tolist(), y, strict=True))
    assert 0 <= largest <= RING
    if name == "sorted, all alike" and n == 2000:
        assert largest > RING * 0.999  # the worst case is reached, and used


def test_paper_vector_is_the_plain_sum():
    ranks = rank_columns([np.array([3, 1, 2, 2]), np.array([1, 1, 1, 1]), np.array([1, 2, 3, 4])])
    vector = strength_vector(ranks, "paper", defined=3, random=never)
    assert vector.tolist() == [0, -4, 1, 3]
    assert vector.dtype == np.int64


def test_constants_are_left_out_and_others_columns_counted():
    column, constant = np.array([3, 1, 2]), np.array([5, 5, 5])
    alone = strength_vector(rank_columns([column]), "tie_corrected", defined=1, random=never)
    both = strength_vector(rank_columns([column, constant]), "tie_corrected", defined=1, random=never)
    assert both.tolist() == alone.tolist()
    shared = strength_vector(rank_columns([column]), "tie_corrected", defined=2, random=never)
    assert 2 * shared[0] == pytest.approx(alone[0])
    none = strength_vector(rank_columns([constant]), "tie_corrected", defined=0, random=never)
    assert none.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="all sources"):
        strength_vector(rank_columns([column, column]), "tie_corrected", defined=1, random=never)


def test_randomised_rounding_goes_to_a_neighbour_with_the_right_mean(monkeypatch):
    monkeypatch.setattr(module, "MAX_ERROR", 0.0)
    monkeypatch.setattr(module, "scale", lambda n, columns: 5)  # so that fractions matter
    ranks = rank_columns([np.arange(50), np.arange(50) % 7])
    exact = 5 * sum(x / math.sqrt(sum(v * v for v in x.tolist())) for x in ranks.matrix)
    draw = uniform()
    drawn = [strength_vector(ranks, "tie_corrected", defined=2, random=draw) for _ in range(4000)]
    assert all(np.all((v == np.floor(exact)) | (v == np.floor(exact) + 1)) for v in drawn)
    np.testing.assert_allclose(np.mean(drawn, axis=0), exact, atol=6 * 0.5 / math.sqrt(4000))
    # the extremes of u: only exactly 0 rounds everything that has a fraction up
    up = strength_vector(ranks, "tie_corrected", defined=2, random=np.zeros)
    down = strength_vector(ranks, "tie_corrected", defined=2, random=lambda n: np.full(n, 1 - 2.0**-53))
    assert up.tolist() == np.ceil(exact).tolist()
    assert down.tolist() == np.floor(exact).tolist()


def test_randomised_rounding_keeps_its_bound_on_the_worst_column(monkeypatch):
    """At the size where it is used: within Hoeffding's bound, while all roundings one way would exceed it."""
    n = 400_000
    ranks = rank_columns([np.random.default_rng(3).permutation(n)])
    factor = scale(n, 1)
    calls: list[int] = []

    def random(size: int) -> np.ndarray:
        calls.append(size)
        return np.random.default_rng(4).random(size)

    vector = strength_vector(ranks, "tie_corrected", defined=1, random=random)
    assert calls == [n]
    down = strength_vector(ranks, "tie_corrected", defined=1, random=np.ones)
    inverse = math.isqrt((1 << 256) // total(n))  # 2^128/||x||
    errors = {
        name: np.array(
            [
                float(v - ((x * inverse * factor) >> 108) / 2**20)
                for v, x in zip(vec, ranks.matrix[0].tolist(), strict=True)
            ]
        )
        for name, vec in (("randomised", vector.tolist()), ("down", down.tolist()))
    }
    # y chosen against the deterministic rounding: its order is that of the errors of rounding down
    y = rank_columns([errors["down"]]).matrix[0].astype(float)
    off = {name: abs(float(e @ y)) / (factor * math.sqrt(total(n))) for name, e in errors.items()}
    assert off["randomised"] <= module._RANDOMISED_UNITS / factor + 5 * 2.0**-53 < MAX_ERROR
    assert off["down"] > 10 * off["randomised"]


def test_errors_of_several_sources_rounded_at_random_stay_within_their_bound():
    """Ten sources of one and the same column: nothing but chance keeps their errors from adding up."""
    n, sources = 100_000, 10
    ranks = rank_columns([np.random.default_rng(5).permutation(n)])
    factor, random = scale(n, sources), np.random.default_rng(6).random
    drawn = [
        strength_vector(ranks, "tie_corrected", defined=sources, random=random, sources=sources)
        for _ in range(sources)
    ]
    down = strength_vector(ranks, "tie_corrected", defined=sources, random=np.ones, sources=sources)
    exact = ranks.matrix[0] * np.longdouble(factor) / np.sqrt(np.longdouble(total(n)))
    off = {
        "drawn": sum((vector - exact).astype(float) for vector in drawn),
        "down": sources * (down - exact).astype(float),
    }
    y = rank_columns([off["down"]]).matrix[0].astype(float)
    of_strength = {
        name: abs(float(e @ y)) / (factor * sources * math.sqrt(total(n))) for name, e in off.items()
    }
    bound = math.sqrt(sources) * module._RANDOMISED_UNITS / (factor * sources) + (sources + 8) * 2.0**-53
    assert of_strength["drawn"] <= bound < MAX_ERROR
    assert of_strength["down"] > bound


def test_where_rounding_switches():
    def drawn(n: int, sources: int = 1) -> bool:
        calls: list[int] = []

        def random(size: int) -> np.ndarray:
            calls.append(size)
            return np.zeros(size)

        ranks = rank_columns([np.arange(n)])
        strength_vector(ranks, "tie_corrected", defined=sources, random=random, sources=sources)
        return bool(calls)

    assert [drawn(n, sources=4) for n in (88_000, 91_000)] == [False, True]
    assert [drawn(n) for n in (3, 178_000, 180_000)] == [False, False, True]
    assert all(a < b for a, b in pairwise(math.sqrt(n) / scale(n, 1) for n in range(10_000, 200_000, 10_000)))
