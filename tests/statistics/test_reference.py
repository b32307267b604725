from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.reference import reference
from support.references import encoding_for

DATA = Path(__file__).parents[3] / "shared" / "data"
DATASETS = {"breast": ("id", ["y"]), "student": ("id", ["y"]), "motor": ("idx", [])}


def load(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    key, label = DATASETS[name]
    if not DATA.is_dir():
        pytest.skip("the shared data folder is not beside this repository")
    guest, host = (
        pd.read_csv(DATA / f"{name}_hetero_{role}.csv", index_col=key) for role in ("guest", "host")
    )
    rows = guest.index.intersection(host.index)
    return guest.loc[rows].drop(columns=label), host.loc[rows]


def ours(source: pd.DataFrame, target: pd.DataFrame, estimator: str) -> np.ndarray:
    a, b = (rank_columns([table[c].to_numpy() for c in table]) for table in (source, target))
    return estimators.coefficients(
        a.matrix @ b.matrix.T,
        a.tie_terms,
        b.tie_terms,
        a.n,
        estimator,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize(("estimator", "file"), [("tie_corrected", "true"), ("paper", "d2formula")])
def test_shared_tables(name, estimator, file):
    guest, host = load(name)
    # the files hold 12 digits, rows the guest's features and columns the host's
    expected = pd.read_csv(DATA / f"{name}_spearman_{file}.csv", index_col=0).loc[:, list(host.columns)]
    pooled = reference({"guest": guest}, host, estimator=estimator)
    rows = pooled.coefficients.loc["guest"].loc[list(expected.index)]
    np.testing.assert_allclose(rows.to_numpy(), expected.to_numpy(), rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours(guest, host, estimator), pooled.coefficients.to_numpy(), rtol=5e-16)
    np.testing.assert_allclose(ours(host, guest, estimator).T, pooled.coefficients.to_numpy(), rtol=5e-16)


@pytest.mark.parametrize("name", DATASETS)
def test_shared_tables_strengths(name):
    guest, host = load(name)
    pooled = reference({"guest": guest}, host)
    for p, x in enumerate(guest):
        for q, y in enumerate(host):
            scipy = stats.spearmanr(guest[x], host[y])
            np.testing.assert_allclose(pooled.coefficients.iloc[p, q], scipy.statistic, rtol=0, atol=5e-15)
    a, b = (rank_columns([table[c].to_numpy() for c in table]) for table in (guest, host))
    encoding = encoding_for([guest], "tie_corrected")
    opened = encoding.source_vector(a) @ encoding.column_vectors(b).T
    mu, _ = encoding.decode(opened[0].tolist(), b.constant)
    np.testing.assert_allclose(mu, pooled.strengths, rtol=0, atol=encoding.error)
    exact, _ = estimators.strengths(ours(guest, host, "tie_corrected"), "mean")
    order = estimators.in_order(estimators.positions(exact, "descending"))
    assert list(pooled.ranking["feature"]) == list(host.columns[order])


def small() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    source = {
        "A1": pd.DataFrame({"u": [1, 2, 3, 4], "flat": [7, 7, 7, 7]}),
        "A2": pd.DataFrame({"u": [4.0, 3.0, 2.0, 1.0]}),
    }
    target = pd.DataFrame({"two": [0, 0, 1, 1], "flat": [0, 0, 0, 0], "up": [1, 2, 3, 5]})
    return source, target


def test_form_and_undefined_values():
    source, target = small()
    pooled = reference(source, target)
    assert pooled.coefficients.index.tolist() == [("A1", "u"), ("A1", "flat"), ("A2", "u")]
    assert pooled.coefficients.columns.tolist() == ["two", "flat", "up"]
    assert pooled.coefficients.loc[("A1", "u"), "up"] == 1
    assert pooled.coefficients.loc[("A2", "u"), "up"] == -1
    assert pooled.coefficients.loc[("A1", "u"), "two"] == pytest.approx(math.sqrt(0.8))
    assert pooled.coefficients.loc[("A1", "flat")].isna().all()
    assert pooled.counts.tolist() == [2, 0, 2]
    assert pooled.strengths.index.tolist() == ["two", "flat", "up"]
    assert pooled.strengths.name == "strength"
    assert pooled.ranking.columns.tolist() == ["position", "feature", "strength"]
    assert pooled.ranking["feature"].tolist() == [
        "two",
        "up",
        "flat",
    ]  # equals in table order, undefined last
    assert pooled.ranking["position"].tolist() == [1, 2, 3]
    ascending = reference(source, target, order="ascending")
    assert ascending.ranking["feature"].tolist() == ["two", "up", "flat"]
    sizes = reference(source, target, strength="mean_abs")
    assert sizes.strengths["up"] == 1
    assert sizes.ranking["feature"].tolist() == ["up", "two", "flat"]


def test_paper_gives_numbers_everywhere():
    source, target = small()
    pooled = reference(source, target, estimator="paper")
    assert pooled.coefficients.loc[("A1", "flat"), "up"] == 0.5
    assert pooled.coefficients.loc[("A1", "flat"), "flat"] == 1
    assert pooled.counts.tolist() == [3, 3, 3]


def test_ties_by_scipy_and_by_the_papers_formula():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, 60), rng.poisson(2.0, 60)
    frames = {"A": pd.DataFrame({"x": x})}, pd.DataFrame({"y": y})
    squares = ((stats.rankdata(x) - stats.rankdata(y)) ** 2).sum()
    pooled = {
        name: reference(*frames, estimator=name).coefficients.iloc[0, 0]
        for name in ("tie_corrected", "paper")
    }
    assert pooled["tie_corrected"] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-15)
    assert pooled["paper"] == pytest.approx(1 - 6 * squares / (60 * (60**2 - 1)), abs=1e-15)


def test_integers_beyond_float_precision_are_not_ties():
    big = pd.DataFrame({"x": np.array([2**53, 2**53 + 1, 2**53 + 2], dtype=np.int64)})
    pooled = reference({"A": big}, pd.DataFrame({"y": [1, 2, 3]}), estimator="paper")
    assert pooled.coefficients.iloc[0, 0] == 1
