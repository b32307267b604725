"""Coefficients with too many rows for exact products: scaled ranks, with a limit that tests lower."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.config import load_plan
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import LARGEST, MAX_DOUBLED, MAX_ROWS, Ranks, total
from mpc_spearman.engines.differences import Squares
from mpc_spearman.engines.ring import matmul
from mpc_spearman.errors import BoundError
from mpc_spearman.levels import coefficients, encoding, level_of
from mpc_spearman.levels.coefficients import Coefficients
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.protocols.dry_run import dry_run
from mpc_spearman.statistics.reference import reference
from support.in_memory import run_in_memory
from support.plans import PROTOCOLS, plan
from support.recording import TABLES
from support.references import inverse_root

MANY = [MAX_DOUBLED + 1, 10**7, 10**8, 10**9, LARGEST]
STATISTICAL = {"results": {"precision": "statistical"}}
CAUTION = "a value was opened that ranks cannot give"


def vectors(ranks: Ranks) -> np.ndarray:
    return encoding.Encoding.coefficients(ranks.n).column_vectors(ranks)


LEVEL = Coefficients(plan(reveal="coefficients", **STATISTICAL))


def decoded(opened: np.ndarray, ties: list[int], n: int, target: list[int] | None = None) -> np.ndarray:
    source, of_target = (
        Description(ties=tuple(terms)) for terms in (ties, ties if target is None else target)
    )
    return LEVEL.matrices(opened, Shapes(n, {}, 1, descriptions=Descriptions((source,), of_target)))[
        "tie_corrected"
    ]


def exact(x: np.ndarray, y: np.ndarray) -> int:
    return sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


# ---- bounds ----


@given(st.integers(1, LARGEST) | st.sampled_from([MAX_DOUBLED, *MANY]))
def test_opened_integers_fit_64_bits_at_any_number_of_rows(n):
    bounds = LEVEL.computation(Shapes(n, {}, 1)).bounds
    assert bounds.value <= 2**31 - 1
    assert bounds.result <= 2**63 - 1
    assert (LEVEL.error(n) > 0) == (n > MAX_DOUBLED)
    assert LEVEL.error(n) < max(1e-12, 1.01 * math.sqrt(n) / 2**31)
    if n > MAX_DOUBLED:  # ‖x'‖ ≤ F + √n, so |V| ≤ (F + √n)²
        assert (bounds.value + math.isqrt(n) + 1) ** 2 <= bounds.result
        assert bounds.target_sum**2 >= n * bounds.value**2


@pytest.mark.parametrize("level", ["differences", "coefficients", "strengths"])
def test_more_rows_than_32_bits_rank_are_refused(level):
    noisy_level = level_of(plan(reveal=level, **STATISTICAL))
    noisy_level.check_rows(LARGEST)
    with pytest.raises(BoundError, match=r"2,147,483,649 rows are more than the 2,147,483,648"):
        noisy_level.check_rows(LARGEST + 1)


def test_exact_results_end_where_exact_products_do():
    level_of(plan(reveal="coefficients")).check_rows(MAX_ROWS)
    level_of(plan(reveal="differences")).check_rows(LARGEST)
    with pytest.raises(BoundError, match=r"results\.precision: exact takes at most 3,024,616 rows.*statist"):
        level_of(plan(reveal="coefficients")).check_rows(MAX_ROWS + 1)


def test_exact_is_refused_to_all_or_to_one_owner(few, tmp_path):
    outcome = run_in_memory(plan(reveal="coefficients"), TABLES)
    classes = outcome.classes()  # whoever is told before it has looked itself names the other's error
    assert "BoundError" in classes.values()
    assert all(
        classes[party] == "BoundError" or "BoundError" in str(outcome.errors[party]) for party in "CBA"
    )
    TABLES["A"].to_csv(tmp_path / "a.csv", index=False)
    of_file = {"A": tmp_path / "a.csv"}
    (refusal,) = dry_run(load_plan(plan(reveal="coefficients"), tables=of_file), "A", 4).refusals
    assert isinstance(refusal, BoundError)
    noisy = load_plan(plan(reveal="coefficients", **STATISTICAL), tables=of_file)
    assert not dry_run(noisy, "A", 4).refusals


# ---- coefficients ----


def columns(n: int) -> st.SearchStrategy[np.ndarray]:
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    return st.one_of(
        seeds.map(lambda rng: rng.permutation(n)),
        seeds.map(lambda rng: rng.integers(0, 5, n)),
        seeds.map(lambda rng: (rng.permutation(n) < rng.integers(1, 4)).astype(int)),
        st.sampled_from([np.arange(n), -np.arange(n), np.zeros(n)]),
    )


@given(st.integers(3, 400).flatmap(lambda n: st.tuples(columns(n), columns(n))))
def test_opened_values_give_every_coefficient_to_the_stated_precision(pair):
    source, target = (rank_columns([column]) for column in pair)
    n = source.n
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coefficients, "MAX_DOUBLED", 0)
        opened = matmul(vectors(source), vectors(target), LEVEL.computation(Shapes(n, {}, 1)).bounds.value)
        ((rho,),) = decoded(opened, source.tie_terms, n, target.tie_terms)
        error = LEVEL.error(n)
    s = exact(source.matrix[0], target.matrix[0])
    norms = (total(n) - source.tie_terms[0]) * (total(n) - target.tie_terms[0])
    if norms == 0:
        assert math.isnan(rho)
        assert s == 0
    else:
        assert abs(rho) <= 1
        assert abs(Fraction(rho) - s * inverse_root(norms)) <= Fraction(error)


@pytest.mark.parametrize("n", MANY)
def test_synthetic_sums_of_many_rows(n):
    scaled = LEVEL.encoding(Shapes(n, {}, 1))
    assert scaled is not None
    unit, flag, constant = scaled.target_scale**2, 10, total(n)
    rare = total(n) - n * flag * (n - flag)
    ties = [0, rare, constant]
    for rho in (Fraction(0), Fraction(1, 3), Fraction(-9, 10), Fraction(1), Fraction(-1)):
        opened = np.full((3, 3), int(rho * unit), dtype=np.int64)
        opened[2], opened[:, 2] = 0, 0
        shown = decoded(opened, ties, n)
        np.testing.assert_allclose(shown[:2, :2], float(rho), atol=1e-15)
        assert np.isnan([*shown[2], *shown[:, 2]]).all()


def test_a_value_that_no_columns_give_has_no_coefficient():
    n, scaled = 10**7, LEVEL.encoding(Shapes(10**7, {}, 1))
    assert scaled is not None
    beyond = int(scaled.target_scale**2 * (1 + 2 * scaled.error))
    opened = np.array([[beyond, -beyond, 1], [2**62, -(2**63), 0]])
    rho = decoded(opened, [0, 2], n, [0, 4, total(n)])
    assert np.isnan(rho).all()


# ---- whole runs ----


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
def test_a_run_with_scaled_ranks(few, protocol, estimator):
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    run_plan = plan(reveal="coefficients", estimator=estimator, **STATISTICAL, **PROTOCOLS[protocol])
    result = run_in_memory(run_plan, TABLES).result()
    truth = reference(
        {"A": TABLES["A"].drop(columns="id")}, TABLES["B"].drop(columns="id"), estimator=estimator
    )
    error = LEVEL.error(len(TABLES["A"]))
    np.testing.assert_allclose(result.coefficients, truth.coefficients, rtol=0, atol=2 * error)
    assert any(f"each is within {error:.1g} of the exact one" in line for line in result.warnings)


@pytest.mark.long
def test_a_run_just_above_the_limit():
    n, rng = MAX_ROWS + 1, np.random.default_rng(12)
    common, ids = rng.standard_normal(n), np.arange(n)
    tables = {
        "A": pd.DataFrame({"id": ids, "a": common + rng.standard_normal(n), "flag": common > 2}),
        "B": pd.DataFrame({"id": ids, "b": np.round(common - rng.standard_normal(n), 1)}),
    }
    result = run_in_memory(plan(reveal="coefficients", **STATISTICAL), tables).result()
    truth = reference({"A": tables["A"].drop(columns="id")}, tables["B"].drop(columns="id"))
    np.testing.assert_allclose(result.coefficients, truth.coefficients, rtol=0, atol=LEVEL.error(n))


# ---- differences ----


@given(st.integers(0, 2**32 - 1), st.sampled_from([10, MAX_ROWS, *MANY]))
@settings(max_examples=40)
def test_squared_differences_are_exact_at_any_number_of_rows(seed, n):
    rng = np.random.default_rng(seed)
    blocks = [rng.integers(1 - n, n, (5, 70)) for _ in range(3)]
    blocks.append(np.array([[n - 1, 1 - n] * 35] * 2 + [[1 - n, n - 1] * 35] * 3))
    basis, pairs = Squares(2, 3, n), Squares(2, 3, n)
    sums = np.zeros((2, 3), dtype=object)
    for values in blocks:
        x, y = values[:2], values[2:]
        basis.add_basis(np.vstack([x - y[0], y[1:] - y[0]]))
        differences = (x[:, None] - y[None]).reshape(6, -1)
        pairs.add_pairs(differences)
        sums += (differences.astype(object) ** 2).sum(axis=1).reshape(2, 3)
    assert basis.total.tolist() == pairs.total.tolist() == sums.tolist()


def test_pairs_with_an_impossible_difference_have_no_sum():
    n = 10
    pairs = Squares(1, 2, n)
    pairs.add_pairs(np.array([[2 * (n - 1), 2 * (n - 1) + 1], [4, 4]]))
    assert pairs.total.tolist() == [[-1 - 2 * (2 * (n - 1)) ** 2, 32]]
    basis = Squares(2, 2, n)
    basis.add_basis(np.array([[1], [1], [-2 * n]]))
    assert basis.total.tolist() == [[1, -1 - (1 + 2 * (n - 1)) ** 2]] * 2
