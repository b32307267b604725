"""The encoding of ``strengths``: against exact fractions, at its bounds, and what it does not show."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data.ranks import MAX_ROWS, Ranks, rank_columns, total
from mpc_spearman.engines.ring import matmul
from mpc_spearman.errors import BoundError
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.privacy.groups import distinct_defined
from mpc_spearman.privacy.precision import strength_grid

ESTIMATORS = ("tie_corrected", "paper")
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
BITS = 160


def of(sources: list[Ranks], estimator: str) -> Encoding:
    """The encoding that these sources' owners would agree on."""
    return Encoding.strengths(
        sources[0].n,
        columns=sum(ranks.m for ranks in sources),
        sources=len(sources),
        estimator=estimator,  # type: ignore[arg-type]
        defined=sum(ranks.defined for ranks in sources),
        distinct=sum(map(distinct_defined, sources)),
    )


def inverse_root(value: int) -> Fraction:
    """1/√value, to 160 bits."""
    return Fraction(math.isqrt((1 << (2 * BITS)) // value), 1 << BITS)


def units(ranks: Ranks, estimator: str) -> list[list[Fraction]]:
    """Each column's vector of length 1, or under eq. 2 of length up to √2, as the text says it."""
    full, found = total(ranks.n), []
    for x, term, constant in zip(ranks.matrix.tolist(), ranks.tie_terms, ranks.constant, strict=True):
        if estimator == "paper":
            scale = inverse_root(full)
            found.append([v * scale for v in x] + [Fraction(term, 2 * full), Fraction(1)])
        elif not constant:
            scale = inverse_root(full - term)
            found.append([v * scale for v in x])
    return found


def exact_strength(sources: list[Ranks], y: list[int], y_term: int, estimator: str) -> Fraction | None:
    """The mean of the coefficients with a target column, from their definitions."""
    full, rho = total(len(y)), []
    for ranks in sources:
        for x, term, constant in zip(ranks.matrix.tolist(), ranks.tie_terms, ranks.constant, strict=True):
            s = sum(v * w for v, w in zip(x, y, strict=True))
            if estimator == "paper":
                rho.append((s + Fraction(term + y_term, 2)) / full)
            elif not constant and y_term < full:
                rho.append(s * inverse_root((full - term) * (full - y_term)))
    return sum(rho, Fraction()) / len(rho) if rho else None


def opened(encoding: Encoding, sources: list[Ranks], target: Ranks) -> list[int]:
    """What the coordinator opens, in Python integers."""
    vectors = [
        encoding.source_vector(ranks, f"A{i}")[0].astype(object) for i, ranks in enumerate(sources, start=1)
    ]
    y = encoding.column_vectors(target, "B").astype(object)
    return [int(value) for value in y @ sum(vectors)]


def tables(n: int) -> dict[str, list[np.ndarray]]:
    rng = np.random.default_rng(n)
    return {
        "untied": [rng.permutation(n) for _ in range(3)],
        "sorted, all alike": [np.arange(n)] * 40,
        "one apart": [np.arange(n) == 0] * 7,
        "mixed": [rng.integers(0, 3, n), np.zeros(n), rng.normal(size=n), np.arange(n) < n // 2],
        "cancelling": [np.arange(n), -np.arange(n)],
        "constant": [np.zeros(n), np.ones(n)],
        "flags": [np.arange(n) % step == 0 for step in (2, 3, 7)],
    }


every_table = pytest.mark.parametrize("name", tables(3))
every_size = pytest.mark.parametrize("n", [3, 50, 1000])


# --- the scales and their bounds


@given(st.integers(3, 10**9), st.integers(1, 10**5))
def test_the_grid_is_the_coarsest_that_keeps_below_its_limits(n, k):
    ladder = sorted(Fraction(step, 10**j) for step in (1, 2, 5) for j in range(1, 14))
    # δ ≤ 1/(8·√(n·k)) is δ²·64·n·k ≤ 1
    allowed = [delta for delta in ladder if delta <= Fraction(1, 100) and delta**2 * 64 * n * k <= 1]
    assert Fraction(1, strength_grid(n, k).steps) == max(allowed)


@given(st.integers(3, 10**7), st.integers(1, 300), st.integers(1, 20))
def test_scales_follow_from_the_grid_and_no_more(n, k, sources):
    encoding = Encoding.strengths(
        n, columns=k + 2, sources=sources, estimator="tie_corrected", defined=k + 1, distinct=k
    )
    steps, scale = strength_grid(n, k).steps, encoding.source_scale
    assert (scale * k) ** 2 >= 64**2 * sources * steps**2 > ((scale - 1) * k) ** 2
    assert encoding.target_scale == 128 * steps
    assert encoding.averaged == k + 1


@settings(max_examples=300)
@given(
    st.integers(3, 10**9),
    st.integers(1, 10**4),
    st.integers(1, 50),
    st.floats(0, 1),
    st.sampled_from(ESTIMATORS),
)
def test_what_is_opened_fits_or_is_refused(n, columns, sources, share, estimator):
    k = max(1, round(share * columns))
    try:
        encoding = Encoding.strengths(
            n, columns=columns, sources=sources, estimator=estimator, defined=k, distinct=k
        )
    except BoundError:
        assert n * columns * math.sqrt(sources) > 1e12
        return
    assert n * columns * math.sqrt(sources) < 5e13
    weight = 2 if estimator == "paper" else 1
    r = math.isqrt(weight * encoding.rows) + 1
    assert r * r > weight * encoding.rows
    slack = 1 + Fraction(1, 2**20)
    largest = (encoding.source_scale * columns * slack + sources * r) * (encoding.target_scale + r)
    assert largest <= encoding.result_bound <= 2**62 - 2
    assert encoding.result_bound < largest * (1 + Fraction(1, 10**3))
    # the error in steps of the grid, as the text says it
    assert encoding.error * strength_grid(n, k).steps < (0.13 if estimator == "paper" else 0.09)


def test_sizes_beyond_the_ring_are_refused_with_what_to_do():
    fits = {"columns": 1000, "sources": 1, "estimator": "tie_corrected", "defined": 1000, "distinct": 1000}
    Encoding.strengths(10**9, **fits)
    with pytest.raises(BoundError, match=r"1000 source columns of 10000000000 rows .* fewer"):
        Encoding.strengths(10**10, **fits)


# --- the vectors


@every_estimator
@every_size
@every_table
def test_every_element_is_next_to_its_exact_value_and_within_the_bounds(name, n, estimator):
    ranks = rank_columns(tables(n)[name])
    encoding = of([ranks], estimator)
    vector = encoding.source_vector(ranks, "A")
    assert (vector.dtype, vector.shape) == (np.int64, (1, encoding.rows))
    exact = [sum(cells, Fraction()) for cells in zip(*units(ranks, estimator), strict=True)]
    for value, unit in zip(vector[0].tolist(), exact or [Fraction()] * encoding.rows, strict=True):
        assert abs(value - unit * encoding.source_scale) < 1 + Fraction(1, 2**20)
        assert abs(value) <= encoding.value_bound
    vectors = encoding.column_vectors(ranks, "B")
    assert (vectors.dtype, vectors.shape) == (np.int32, (ranks.m, encoding.rows))
    for column, constant in zip(vectors.tolist(), ranks.constant, strict=True):
        if constant and estimator == "tie_corrected":
            assert column == [0] * encoding.rows
        assert max(map(abs, column)) <= encoding.target_bound
        assert sum(map(abs, column)) <= encoding.target_sum


@every_estimator
def test_column_vectors_are_next_to_their_exact_values(estimator):
    ranks = rank_columns(tables(50)["mixed"])
    encoding = of([ranks], estimator)
    vectors = encoding.column_vectors(ranks, "B").tolist()
    exact = [
        # the target's tie term stands where the source has 1, and the other way round
        [*unit[:50], *unit[:49:-1]]
        for unit in units(ranks, estimator)
    ]
    shown = [
        v for v, constant in zip(vectors, ranks.constant, strict=True) if estimator == "paper" or not constant
    ]
    for vector, unit in zip(shown, exact, strict=True):
        assert all(
            abs(value - cell * encoding.target_scale) < 1 + Fraction(1, 2**20)
            for value, cell in zip(vector, unit, strict=True)
        )


def test_rounding_is_up_with_the_probability_of_the_fraction():
    ranks = rank_columns([np.arange(60), np.arange(60) % 7])
    encoding = of([ranks], "tie_corrected")
    exact = encoding.source_scale * np.array(
        [float(sum(cells)) for cells in zip(*units(ranks, "tie_corrected"), strict=True)]
    )
    drawn = np.array([encoding.source_vector(ranks, f"party {i}")[0] for i in range(4000)])
    assert ((drawn == np.floor(exact)) | (drawn == np.floor(exact) + 1)).all()
    np.testing.assert_allclose(drawn.mean(axis=0), exact, atol=6 * 0.5 / math.sqrt(4000))


# --- the same input always gives the same numbers


@every_estimator
def test_repeated_runs_are_identical_so_nothing_can_be_averaged_out_of_them(estimator):
    first, again = (rank_columns(tables(1000)["mixed"]) for _ in range(2))
    encoding = of([first], estimator)
    assert np.array_equal(
        encoding.source_vector(first, "A"), of([again], estimator).source_vector(again, "A")
    )
    assert np.array_equal(encoding.column_vectors(first, "B"), encoding.column_vectors(again, "B"))


@every_estimator
def test_the_order_of_rows_changes_no_rounding(estimator):
    columns, rng = tables(1000)["mixed"], np.random.default_rng(8)
    ids, order = rng.permutation(1000), rng.permutation(1000)
    first, again = rank_columns(columns), rank_columns([column[order] for column in columns])
    encoding, by_id, as_again = of([first], estimator), np.argsort(ids), np.argsort(ids[order])
    rows = np.concatenate([order, np.arange(1000, encoding.rows)])
    for one, other in (
        (encoding.source_vector(first, "A", by_id), encoding.source_vector(again, "A", as_again)),
        (encoding.column_vectors(first, "B", by_id), encoding.column_vectors(again, "B", as_again)),
    ):
        assert np.array_equal(one[:, rows], other)
    assert not np.array_equal(encoding.source_vector(first, "A")[:, rows], encoding.source_vector(again, "A"))


def roundings(encoding: Encoding, ranks: Ranks, party: str) -> np.ndarray:
    exact = encoding.source_scale * sum(
        x / math.sqrt(total(ranks.n) - term) for x, term in zip(ranks.matrix, ranks.tie_terms, strict=True)
    )
    return encoding.source_vector(ranks, party)[0] - exact


def test_two_owners_of_one_column_round_it_independently():
    ranks = rank_columns([np.random.default_rng(2).permutation(5000)])
    encoding = of([ranks, ranks], "tie_corrected")
    one, two = (roundings(encoding, ranks, party) for party in ("A1", "A2"))
    # both are -fraction or 1 - fraction: they agree where both went up or both down
    expected = np.mean((1 - one % 1) ** 2 + (one % 1) ** 2)
    assert np.mean(np.isclose(one, two)) == pytest.approx(expected, abs=6 * 0.5 / math.sqrt(5000))


def test_another_row_or_scale_gives_other_roundings_everywhere():
    column = np.random.default_rng(3).permutation(5000)
    ranks, changed = rank_columns([column]), rank_columns([np.where(column < 2, 1 - column, column)])
    encoding = of([ranks], "tie_corrected")
    assert np.count_nonzero(ranks.matrix != changed.matrix) == 2
    differing = np.count_nonzero(encoding.source_vector(ranks, "A") != encoding.source_vector(changed, "A"))
    assert differing > 1000


def test_equal_columns_of_the_target_stay_equal():
    column = np.random.default_rng(4).integers(0, 9, 500)
    target = rank_columns([column, -column, column * 2.5])
    vectors = of([target], "tie_corrected").column_vectors(target, "B")
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])


# --- the strengths


@every_estimator
@every_size
@pytest.mark.parametrize("other", ["mixed", "flags", "cancelling"])
@every_table
def test_strengths_are_within_the_proven_error(name, other, n, estimator):
    sources, target = [rank_columns(tables(n)[name])], rank_columns(tables(n)[other])
    encoding = of(sources, estimator)
    values = opened(encoding, sources, target)
    assert max(map(abs, values)) <= encoding.result_bound
    mu, counts = encoding.decode(values, target.constant)
    for q, found in enumerate(mu.tolist()):
        exact = exact_strength(sources, target.matrix[q].tolist(), target.tie_terms[q], estimator)
        if exact is None:
            assert math.isnan(found)
            assert counts[q] == 0
        else:
            assert abs(Fraction(found) - exact) <= encoding.error
            assert (
                counts[q]
                == encoding.averaged
                == (sources[0].m if estimator == "paper" else sources[0].defined)
            )


@every_estimator
def test_strengths_over_several_sources_are_within_the_proven_error(estimator):
    rng, n = np.random.default_rng(9), 400
    for trial in range(20):
        sources = [
            rank_columns([rng.integers(0, rng.integers(1, 30), n) for _ in range(rng.integers(1, 4))])
            for _ in range(rng.integers(1, 6))
        ]
        target = rank_columns([rng.normal(size=n), rng.integers(0, 2, n), sources[0].matrix[0]])
        encoding = of(sources, estimator)
        mu, _ = encoding.decode(opened(encoding, sources, target), target.constant)
        for found, y, term in zip(mu.tolist(), target.matrix.tolist(), target.tie_terms, strict=True):
            exact = exact_strength(sources, y, term, estimator)
            assert math.isnan(found) if exact is None else abs(Fraction(found) - exact) <= encoding.error, (
                trial
            )


@pytest.mark.parametrize("sources", [1, 10])
def test_the_worst_target_column_finds_no_error_to_add_up(sources):
    """Along the errors of rounding everything down the strength would be off by far; at random it is not."""
    n = 20_000
    ranks = rank_columns([np.random.default_rng(5).permutation(n)])
    encoding = of([ranks] * sources, "tie_corrected")
    exact = encoding.source_scale * ranks.matrix[0] / math.sqrt(total(n))
    target = rank_columns([np.floor(exact) - exact])
    y, norm = target.matrix[0].astype(float), math.sqrt(total(n) - target.tie_terms[0])
    drawn = sum(roundings(encoding, ranks, f"A{i}") for i in range(sources)) @ y
    down = sources * (np.floor(exact) - exact) @ y
    scaled = encoding.source_scale * encoding.averaged * norm
    assert abs(drawn) / scaled < encoding.error < abs(down) / scaled


def test_the_largest_sum_there_is_fits():
    """Forty equal columns against themselves: the range is used, and never left."""
    ranks = rank_columns([np.arange(2000)] * 40)
    encoding = of([ranks], "tie_corrected")
    (value,) = opened(encoding, [ranks], rank_columns([np.arange(2000)]))
    assert 0.99 * encoding.result_bound < value <= encoding.result_bound
    mu, _ = encoding.decode([value], [False])
    assert mu[0] == pytest.approx(1, abs=encoding.error)
    assert mu[0] <= 1


def test_more_rows_than_products_of_ranks_allow():
    n, rng = MAX_ROWS + 10, np.random.default_rng(8)
    source, target = rank_columns([rng.permutation(n)]), rank_columns([np.arange(n) // 3])
    encoding = of([source], "tie_corrected")
    vectors = encoding.source_vector(source, "A"), encoding.column_vectors(target, "B")
    value = matmul(*vectors, encoding.value_bound).item()
    mu, _ = encoding.decode([value], [False])
    products = source.matrix[0].astype(np.int64) * target.matrix[0]
    s = sum(int(products[start : start + 10**5].sum()) for start in range(0, n, 10**5))
    exact = s * inverse_root(total(n) * (total(n) - target.tie_terms[0]))
    assert abs(Fraction(mu[0]) - exact) <= encoding.error < 1e-5


def test_equal_and_reversed_columns_count_once_in_the_scale_but_twice_in_the_mean():
    column, other = np.arange(100), np.random.default_rng(6).permutation(100)
    once, twice = rank_columns([column, other]), rank_columns([column, -column, column, other, np.zeros(100)])
    assert (distinct_defined(once), distinct_defined(twice)) == (2, 2)
    a, b = of([once], "tie_corrected"), of([twice], "tie_corrected")
    assert (a.source_scale, a.averaged) == (b.source_scale, 2)
    assert b.averaged == 4
    mu, counts = b.decode(opened(b, [twice], rank_columns([column])), [False])
    assert mu[0] == pytest.approx((1 - 1 + 1 + float(np.corrcoef(column, other)[0, 1])) / 4, abs=b.error)
    assert counts.tolist() == [4]


def test_under_paper_a_constant_column_keeps_its_number():
    flat, column = rank_columns([np.zeros(90)]), rank_columns([np.arange(90)])
    for sources, target, expected in (([column], flat, 0.5), ([flat], column, 0.5), ([flat], flat, 1.0)):
        encoding = of(sources, "paper")
        mu, counts = encoding.decode(opened(encoding, sources, target), target.constant)
        assert mu[0] == pytest.approx(expected, abs=encoding.error)
        assert counts.tolist() == [1]


@every_estimator
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("value", [2**63, 2**62, 2**64 - 1, 2**200, "beyond"])
def test_what_cannot_be_a_strength_is_undefined_and_stops_nothing(value, sign, estimator):
    ranks = rank_columns([np.arange(50), np.arange(50) % 3])
    encoding = of([ranks], estimator)
    unit = encoding.source_scale * encoding.target_scale * encoding.averaged
    if value == "beyond":
        value = int(unit * Fraction(1 + encoding.error)) + 2
    mu, counts = encoding.decode([sign * value, sign * unit, 0], [False] * 3)
    assert math.isnan(mu[0])
    assert mu[1:].tolist() == [sign, 0]
    assert counts.tolist() == [0, encoding.averaged, encoding.averaged]


# --- what the opened integers do not show


def class_sizes_that_fit(value: int, n: int, scale: int, most: int) -> set[int]:
    """Class sizes of which the value would be a sum, if the target rounded to nearest.

    With y' = a in one group and b in the other, V = (a - b)·Σ_1 v + b·Σ v, where |Σ v| <= most is small.
    """
    found = set()
    for ones in range(1, n):
        norm = math.sqrt(ones * (n - ones) * n)
        a, b = round(scale * (n - ones) / norm), round(-scale * ones / norm)
        if any((value - b * s) % (a - b) == 0 for s in range(-most, most + 1)):
            found.add(ones)
    return found


@pytest.mark.parametrize("rounding", ["nearest", "at random"])
def test_the_class_sizes_of_a_binary_target_column_are_not_in_what_is_opened(rounding):
    """They are if the target rounds to nearest: and no tie term is to reach the coordinator."""
    rng, n, trials = np.random.default_rng(7), 200, 40
    source, flag = rank_columns([rng.normal(size=n) for _ in range(4)]), rank_columns([np.arange(n) < 61])
    encoding = of([source], "tie_corrected")
    vectors = [encoding.source_vector(source, f"A{i}")[0].astype(object) for i in range(trials)]
    most = max(abs(int(vector.sum())) for vector in vectors)
    target = dataclasses.replace(encoding, nearest=rounding == "nearest")
    shown = [
        class_sizes_that_fit(
            int(target.column_vectors(flag, f"B{i}")[0].astype(object) @ vector),
            n,
            encoding.target_scale,
            most,
        )
        for i, vector in enumerate(vectors)
    ]
    hits = sum(61 in sizes for sizes in shown)
    by_chance = sum(map(len, shown)) / n
    assert by_chance < trials / 4
    assert hits == trials if rounding == "nearest" else hits < trials / 2
