"""References for results: pandas on pooled tables, and tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.errors import NotRevealed
from mpc_spearman.levels.encoding import Encoding
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.columns import Columns
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues
from mpc_spearman.statistics.reference import reference
from support.harness import ROOT

DATA = ROOT / "data"
#: The tables that the project was given, where they are beside the repository.
SHARED = ROOT.parent / "shared" / "data"


def table(**columns: Any) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"id": [f"{row:04d}" for row in range(n)]} | columns)


def normal_tables(n: int = 40) -> dict[str, pd.DataFrame]:
    """Return small tables of A and B: two and three columns of normals."""
    rng = np.random.default_rng(1)
    columns = {"A": "ab", "B": "xyz"}
    return {party: table(**{name: rng.normal(size=n) for name in names}) for party, names in columns.items()}


def ring_bytes(tables: Mapping[str, pd.DataFrame], reveal: str, estimator: str = "tie_corrected") -> int:
    """Return in how many bytes ring elements travel: as few as what is opened fits in, with its sign."""
    n = len(tables["B"])
    if reveal == "strengths":
        sources = [table for name, table in tables.items() if name != "B"]
        bound = encoding_for(sources, estimator).result_bound
    else:
        bound = 2 * (n - 1) if reveal == "differences" else n * (n * n - 1) // 3
    return next(width for width in range(1, 9) if bound < 2 ** (8 * width - 1))


def ulps(values: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest distance in units of the last place; NaN must meet NaN."""
    assert np.array_equal(np.isnan(values), np.isnan(exact))
    defined = ~np.isnan(exact)
    return float(np.max(np.abs(values - exact)[defined] / np.spacing(np.abs(exact[defined])), initial=0.0))


def pooled(source: pd.DataFrame, target: pd.DataFrame) -> np.ndarray:
    """Return coefficients as NumPy computes them of pandas' average ranks; NaN for constant columns."""
    x, y = (np.stack([side[name].rank() for name in side]) for side in (source, target))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.corrcoef(x, y)[: len(x), len(x) :]


def pvalues_of(rho: np.ndarray, *sides: Iterable[pd.DataFrame], estimator: str) -> np.ndarray:
    """Return p-values of coefficients, given the tables of the sources, and those of the target."""
    ranks = [rank_columns([table[name].to_numpy() for table in side for name in table]) for side in sides]
    source, target = map(Columns.of, ranks)
    return pvalues(rho, Pairs(ranks[0].n, source.rows, target, estimator))


def encoding_for(sources: Iterable[pd.DataFrame], estimator: str) -> Encoding:
    """Return the encoding of a run at ``strengths`` over these sources' tables, with or without ids."""
    ranks = [rank_columns([table[name].to_numpy() for name in table if name != "id"]) for table in sources]
    columns, defined = sum(source.m for source in ranks), sum(source.defined for source in ranks)
    sizes = {"columns": columns, "sources": len(ranks), "defined": defined}
    return Encoding.strengths(ranks[0].n, estimator=estimator, **sizes)


def tolerance(level: str, sources: Iterable[pd.DataFrame], estimator: str) -> float:
    """Return how far from exact the strengths that C opens may be."""
    return encoding_for(sources, estimator).error if level == "strengths" else 1e-12


def ranked_alike(features: Iterable[str], exact: pd.Series, step: float, order: str = "descending") -> bool:
    """Return whether strengths within `step` of these exact ones can have this order of features."""
    strengths = exact.loc[list(features)].to_numpy()
    defined = strengths[: np.count_nonzero(~np.isnan(strengths))]  # what is undefined comes last
    falls = np.diff(defined if order == "descending" else defined[::-1])
    return len(strengths) == len(exact) and bool((falls <= 2 * step).all())


def check_result(
    result: Result,
    sources: Mapping[str, pd.DataFrame],
    target: pd.DataFrame,
    level: str,
    estimator: str,
    **settings: Any,
) -> None:
    """Compare the coordinator's result with the exact reference and pandas, on tables without ids."""
    truth, frames = reference(sources, target, estimator=estimator, **settings), list(sources.values())
    assert (result.n, result.role) == (len(target), "coordinator")
    close = tolerance(level, frames, estimator)
    np.testing.assert_allclose(result.strengths, truth.strengths, rtol=0, atol=close)
    assert result.counts.tolist() == truth.counts.tolist()
    order = result.ranking["feature"].tolist()
    assert sorted(order) == sorted(target.columns)
    assert ranked_alike(order, truth.strengths, close, result.plan.order)
    np.testing.assert_array_equal(result.ranking["strength"], result.strengths.loc[order])
    if level == "strengths":
        for name in ("coefficients", "pvalues"):
            with pytest.raises(NotRevealed):
                getattr(result, name)
        return
    assert result.coefficients.index.equals(truth.coefficients.index)
    assert list(result.coefficients.columns) == list(target.columns)
    rho = result.coefficients.to_numpy()
    assert ulps(rho, truth.coefficients.to_numpy()) <= 2
    if estimator == "tie_corrected":
        expected = pooled(pd.concat(frames, axis=1, keys=sources), target)
        np.testing.assert_allclose(rho, expected, rtol=0, atol=1e-12)
        assert np.array_equal(np.abs(rho) == 1, np.isclose(np.abs(expected), 1, atol=1e-15))
    p = pvalues_of(truth.coefficients.to_numpy(), frames, [target], estimator=estimator)
    np.testing.assert_allclose(result.pvalues, p, rtol=1e-6, atol=1e-300)


def inverse_root(value: int) -> Fraction:
    return Fraction(math.isqrt((1 << (2 * 160)) // value), 1 << 160)


def row_coefficients(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's coefficient of each row of x with the same row of y, without ties."""
    n = x.shape[1]
    ranks = [values.argsort(axis=1).argsort(axis=1) - (n - 1) / 2 for values in (x, y)]
    return np.asarray((ranks[0] * ranks[1]).sum(axis=1) / (n * (n * n - 1) / 12))


def sampled_coefficients(rho: float, n: int, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Coefficients of samples of bivariate normal columns, whose Spearman correlation is rho."""
    latent = 2 * math.sin(math.pi / 6 * rho)
    x, independent = rng.standard_normal((2, samples, n))
    return row_coefficients(x, latent * x + math.sqrt(1 - latent**2) * independent)
