"""Whole runs against the reference, and against pandas, on pooled data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.results.result import Result
from support.harness import ROOT
from support.in_memory import run_in_memory
from support.plans import SMALL, plan
from support.references import SHARED, check_result, normal_tables, table, tolerance

CASES = [
    (level, estimator)
    for level in ("differences", "coefficients", "strengths")
    for estimator in ("tie_corrected", "paper")
]


def cases(*short: tuple[str, str]) -> pytest.MarkDecorator:
    """All levels and estimators, those not named for the long run only."""
    values = [pytest.param(*case, marks=() if case in short else pytest.mark.long) for case in CASES]
    return pytest.mark.parametrize(("level", "estimator"), values)


def run(tables: Mapping[str, Any], level: str, estimator: str, **settings: Any) -> Result:
    """Run A and B on tables whose id column is ``id``; the coordinator's result."""
    return run_in_memory(plan(reveal=level, estimator=estimator, **settings), tables).result()


@pytest.mark.parametrize("alignment", ["same", "intersect"])
def test_a_small_table_is_ranked_once(alignment: str) -> None:
    """When it is loaded, where all its rows are common; otherwise in its own step."""
    ranked: list[str] = []

    def progress(phase: str, done: int, of: int) -> None:
        if phase == "rank" and done:
            ranked.append(f"{done} of {of}")

    run_in_memory(plan(alignment=alignment), normal_tables(), progress=progress).result()
    once = ["1 of 2", "1 of 3", "2 of 2", "2 of 3", "3 of 3"]
    assert sorted(ranked) == (once if alignment == "intersect" else [])


# ---- real tables ----


@cases(*CASES)
def test_demo(level, estimator):
    tables = {
        party: pd.read_csv(ROOT / "data" / f"{name}.csv")
        for party, name in (("A", "insurer"), ("B", "clinic"))
    }
    result = check_tables(tables, level, estimator)
    # Ties are the point of this data: under eq. 2 a flag comes out on top.
    first = result.ranking.iloc[0]
    if estimator == "paper":
        assert (first["feature"], round(first["strength"], 2)) == ("limited", 0.51)
    else:
        assert first["feature"] == "conditions"
        assert round(result.strengths["limited"], 2) == 0.11


@pytest.mark.skipif(not SHARED.is_dir(), reason="the directory shared/data is not beside the repository")
@pytest.mark.parametrize(
    ("data", "ids", "level", "estimator"),
    [
        pytest.param(data, ids, *case, marks=() if case == short else pytest.mark.long)
        for data, ids, short in (
            ("breast", "id", ("coefficients", "tie_corrected")),
            ("student", "id", ("differences", "paper")),
            ("motor", "idx", ("strengths", "tie_corrected")),
        )
        for case in CASES
    ],
)
def test_federated_learning_tables(data, ids, level, estimator):
    host, guest = (SHARED / f"{data}_hetero_{side}.csv" for side in ("host", "guest"))
    label = [] if data == "motor" else ["y"]
    tables = {
        party: pd.read_csv(path).rename(columns={ids: "id"}) for party, path in (("A", host), ("B", guest))
    }
    tables["B"] = tables["B"].drop(columns=label)
    result = run(tables, level, estimator)
    source, target = pd.read_csv(host).drop(columns=ids), pd.read_csv(guest).drop(columns=[ids, *label])
    check_result(result, {"A": source}, target, level, estimator)
    kind = "true" if estimator == "tie_corrected" else "d2formula"
    published = pd.read_csv(SHARED / f"{data}_spearman_{kind}.csv", index_col=0).loc[
        target.columns, source.columns
    ]
    assert published.shape == (target.shape[1], source.shape[1])
    close = 1e-9 + tolerance(level, [source], estimator)
    np.testing.assert_allclose(result.strengths, published.mean(axis=1), rtol=0, atol=close)
    if level != "strengths":
        np.testing.assert_allclose(result.coefficients, published.T, rtol=0, atol=1e-11)


# ---- tables at the edges ----


def check_tables(tables: Mapping[str, pd.DataFrame], level: str, estimator: str, **settings: Any) -> Result:
    result = run(tables, level, estimator, **settings)
    chosen = {key: value for key, value in settings.items() if key in ("strength", "order")}
    source, target = (tables[party].drop(columns="id") for party in "AB")
    check_result(result, {"A": source}, target, level, estimator, **chosen)
    return result


@cases(
    ("differences", "tie_corrected"),
    ("coefficients", "paper"),
    ("strengths", "tie_corrected"),
    ("strengths", "paper"),
)
def test_three_rows(level, estimator):
    tables = {
        "A": table(up=[1, 2, 3], down=[9, 5, 1], pair=[4, 4, 6], same=[0, 0, 0]),
        "B": table(bent=[2, 3, 1], up=[0.5, 0.7, 0.9], flag=[True, False, False], same=[7, 7, 7]),
    }
    result = check_tables(tables, level, estimator)
    if level != "strengths" and estimator == "tie_corrected":
        assert result.coefficients.loc[("A", "up"), "up"] == 1
        assert result.coefficients.loc[("A", "down"), "up"] == -1


@cases(*CASES)
def test_ties_constants_flags_and_permuted_columns(level, estimator):
    rng = np.random.default_rng(3)
    n = 97
    values = rng.normal(size=n)
    big = 2**53 + rng.permutation(n)  # float64 would take neighbours for equal
    source = table(
        values=values,
        flag=(values > 0.3).astype(int),
        same=np.full(n, 3.5),
        groups=rng.integers(0, 4, n),
        big=big,
        negative_zero=np.where(rng.random(n) < 0.5, -0.0, 0.0) + (values > 1),
    )
    target = table(
        monotone=np.exp(values),
        reversed=-values,
        permuted=rng.permutation(values),
        same=np.full(n, 0),
        flag=values < 0,
        also_big=big[::-1].copy(),
        few=np.round(values),
    )
    result = check_tables({"A": source, "B": target}, level, estimator)
    if level != "strengths":
        assert result.coefficients.loc[("A", "values"), "monotone"] == 1
        assert result.coefficients.loc[("A", "values"), "reversed"] == -1


@cases(("strengths", "tie_corrected"), ("coefficients", "tie_corrected"))
def test_nothing_but_constant_columns(level, estimator):
    n = 20
    tables = {"A": table(one=[1] * n, two=[2.5] * n), "B": table(one=[True] * n, two=[0] * n, three=range(n))}
    result = check_tables(tables, level, estimator)
    if estimator == "tie_corrected":
        assert result.strengths.isna().all()
        assert result.counts.tolist() == [0, 0, 0]
        assert result.ranking["feature"].tolist() == ["one", "two", "three"]


def _random_tables(seed: int, n: int, m_source: int, m_target: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)

    def columns(side: str, m: int) -> dict[str, np.ndarray]:
        mixed = [common * rng.normal() + rng.normal(size=n) for _ in range(m)]
        return {f"{side}{i}": values if i % 2 else np.round(values, 1) for i, values in enumerate(mixed)}

    return {"A": table(**columns("a", m_source)), "B": table(**columns("b", m_target))}


@pytest.mark.parametrize(
    ("protocol", "level", "estimator"),
    [
        *(
            ("mpc", level, "tie_corrected")
            for level in ("differences", "coefficients", "strengths", "ranking")
        ),
        *(("mpc", level, "paper") for level in ("coefficients", "strengths")),
        *(("he", level, "tie_corrected") for level in ("differences", "coefficients", "strengths")),
    ],
)
def test_rows_in_another_order_give_everyone_the_same_numbers(protocol, level, estimator):
    chosen = plan(protocol=protocol, reveal=level, estimator=estimator, he=SMALL)
    first = _random_tables(31, 80, 3, 3)
    order = np.random.default_rng(32).permutation(80)
    again = {party: first_run.iloc[order].reset_index(drop=True) for party, first_run in first.items()}
    first_run, second_run = (run_in_memory(chosen, tables) for tables in (first, again))
    for party in "CBA":
        result, again_result = first_run.result(party), second_run.result(party)
        assert result.holds == again_result.holds
        for part in result.holds:
            assert getattr(result, part).equals(getattr(again_result, part)), (party, part)


@pytest.mark.parametrize(
    ("level", "estimator"),
    [
        ("coefficients", "tie_corrected"),
        ("differences", "paper"),
        pytest.param("strengths", "tie_corrected", marks=pytest.mark.long),
    ],
)
def test_tables_of_more_than_one_block(level, estimator):
    """1 MB blocks: three of them at 8 columns as at 9, the last one short."""
    check_tables(_random_tables(5, 35_001, 2, 8), level, estimator)


def test_first_rows_ascending_absolute_values():
    tables = _random_tables(6, 90, 3, 4)
    settings = {"strength": "mean_abs", "order": "ascending"}
    result = run(tables, "differences", "tie_corrected", rows=50, **settings)
    source, target = (tables[party].drop(columns="id").head(50) for party in "AB")
    check_result(result, {"A": source}, target, "differences", "tie_corrected", **settings)
