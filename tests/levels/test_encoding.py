"""The encoding of ``strengths``: compared with exact fractions, at its bounds, and what it hides."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import MAX_ROWS, Ranks, total
from mpc_spearman.engines.ring import matmul
from mpc_spearman.errors import BoundError
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.privacy.scales import most_noise
from support.references import inverse_root

ESTIMATORS = ("tie_corrected", "paper")
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def of(sources: list[Ranks], estimator: str) -> Encoding:
    """The encoding that these sources' owners would agree on."""
    return Encoding.strengths(
        sources[0].n,
        columns=sum(ranks.m for ranks in sources),
        sources=len(sources),
        estimator=estimator,  # type: ignore[arg-type]
        defined=sum(ranks.defined for ranks in sources),
    )


def units(ranks: Ranks, estimator: str) -> list[list[Fraction]]:
    """Each column's vector of length 1, or under eq. 2 of length up to √2, as the text says it."""
    full, vectors = total(ranks.n), []
    for x, term, constant in zip(ranks.matrix.tolist(), ranks.tie_terms, ranks.constant, strict=True):
        if estimator == "paper":
            scale = inverse_root(full)
            vectors.append([v * scale for v in x] + [Fraction(term, 2 * full), Fraction(1)])
        elif not constant:
            scale = inverse_root(full - term)
            vectors.append([v * scale for v in x])
    return vectors


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
    vectors = [encoding.source_vector(ranks)[0].astype(object) for i, ranks in enumerate(sources, start=1)]
    y = encoding.column_vectors(target).astype(object)
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


@settings(max_examples=150)
@given(
    st.integers(3, 10**9),
    st.integers(1, 10**4),
    st.integers(1, 50),
    st.sampled_from(ESTIMATORS),
    st.sampled_from([0.0, most_noise(1, 2, 2.0), most_noise(2000, 51, 0.01)]),
)
def test_opened_values_fit_or_the_run_is_refused(n, columns, sources, estimator, result_noise):
    try:
        encoding = Encoding.strengths(
            n,
            columns=columns,
            sources=sources,
            estimator=estimator,
            defined=columns,
            result_noise=result_noise,
        )
    except BoundError:
        assert n * columns * math.sqrt(sources) * (1 + result_noise) > 1e12
        return
    weight = 2 if estimator == "paper" else 1
    r = math.isqrt(weight * encoding.rows) + 1
    assert r * r > weight * encoding.rows
    slack = 1 + Fraction(1, 2**20)
    largest = (encoding.source_scale * columns * slack + sources * r) * (encoding.target_scale + r)
    noise = encoding.source_scale * encoding.target_scale * columns * Fraction(result_noise)
    assert noise <= encoding.noise_bound
    assert largest + noise <= encoding.result_bound <= 2**62 - 2


@pytest.mark.parametrize("n", [30, 10**4, 10**6])
def test_strengths_without_noise_are_exact_to_a_thousandth_of_their_error(n):
    encoding = Encoding.strengths(n, columns=50, sources=1, estimator="tie_corrected", defined=50)
    assert encoding.error < 1e-3 / math.sqrt(n - 1)


def test_sizes_beyond_the_ring_are_refused_with_what_to_do():
    fits = {"columns": 1000, "sources": 1, "estimator": "tie_corrected", "defined": 1000}
    Encoding.strengths(2**31, **fits, result_noise=most_noise(2000, 2, 0.001))
    with pytest.raises(BoundError, match=r"1,000 source columns of 2,147,483,648 rows .* fewer"):
        Encoding.strengths(2**31, **fits, result_noise=1e16)


# --- the vectors


@every_estimator
@every_size
@every_table
def test_every_element_is_next_to_its_exact_value_and_within_the_bounds(name, n, estimator):
    ranks = rank_columns(tables(n)[name])
    encoding = of([ranks], estimator)
    vector = encoding.source_vector(ranks)
    assert (vector.dtype, vector.shape) == (np.int64, (1, encoding.rows))
    exact = units(ranks, estimator)
    summed = [sum(cells, Fraction()) for cells in zip(*exact, strict=True)]
    for value, unit in zip(vector[0].tolist(), summed or [Fraction()] * encoding.rows, strict=True):
        assert abs(value - unit * encoding.source_scale) < 1 + Fraction(1, 2**20)
        assert abs(value) <= encoding.bounds.value
    vectors = encoding.column_vectors(ranks)
    assert (vectors.dtype, vectors.shape) == (np.int32, (ranks.m, encoding.rows))
    for column, constant in zip(vectors.tolist(), ranks.constant, strict=True):
        # the target's tie term stands where the source has 1, and the other way round
        flat = constant and estimator == "tie_corrected"
        unit = [Fraction()] * encoding.rows if flat else exact.pop(0)
        for value, cell in zip(column, [*unit[:n], *unit[: n - 1 : -1]], strict=True):
            assert abs(value - cell * encoding.target_scale) < (0 if flat else 1) + Fraction(1, 2**20)
        assert max(map(abs, column)) <= encoding.bounds.target
        assert sum(map(abs, column)) <= encoding.bounds.target_sum


# --- the strengths


@every_estimator
@every_size
@pytest.mark.parametrize("target_name", ["mixed", "flags", "cancelling"])
@every_table
def test_strengths_are_within_the_proven_error(name, target_name, n, estimator):
    sources, target = [rank_columns(tables(n)[name])], rank_columns(tables(n)[target_name])
    encoding = of(sources, estimator)
    values = opened(encoding, sources, target)
    assert max(map(abs, values)) <= encoding.result_bound
    mu, counts = encoding.decode(values, target.constant)
    for q, strength in enumerate(mu.tolist()):
        exact = exact_strength(sources, target.matrix[q].tolist(), target.tie_terms[q], estimator)
        if exact is None:
            assert math.isnan(strength)
            assert counts[q] == 0
        else:
            assert abs(Fraction(strength) - exact) <= encoding.error
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
        for strength, y, term in zip(mu.tolist(), target.matrix.tolist(), target.tie_terms, strict=True):
            exact = exact_strength(sources, y, term, estimator)
            assert (
                math.isnan(strength) if exact is None else abs(Fraction(strength) - exact) <= encoding.error
            ), trial


def test_more_rows_than_products_of_ranks_allow():
    n, rng = MAX_ROWS + 10, np.random.default_rng(8)
    source, target = rank_columns([rng.permutation(n)]), rank_columns([np.arange(n) // 3])
    encoding = of([source], "tie_corrected")
    vectors = encoding.source_vector(source), encoding.column_vectors(target)
    value = matmul(*vectors, encoding.bounds.value).item()
    mu, _ = encoding.decode([value], [False])
    products = source.matrix[0].astype(np.int64) * target.matrix[0]
    s = sum(int(products[start : start + 10**5].sum()) for start in range(0, n, 10**5))
    exact = s * inverse_root(total(n) * (total(n) - target.tie_terms[0]))
    assert abs(Fraction(mu[0]) - exact) <= encoding.error < 1e-5


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
def test_impossible_strengths_become_undefined_and_stop_nothing(value, sign, estimator):
    ranks = rank_columns([np.arange(50), np.arange(50) % 3])
    encoding = of([ranks], estimator)
    unit = encoding.source_scale * encoding.target_scale * encoding.averaged
    if value == "beyond":
        value = unit + int(unit * Fraction(2 * encoding.error)) + 2
    mu, counts = encoding.decode([sign * value, sign * unit, 0], [False] * 3)
    assert math.isnan(mu[0])
    assert mu[1:].tolist() == [sign, 0]
    assert counts.tolist() == [0, encoding.averaged, encoding.averaged]
