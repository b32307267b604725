"""Copies without any relation, or with one that noise hides: no result of chance is called a finding."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from mpc_spearman.findings.findings import Findings
from mpc_spearman.findings.sections import chance, with_error
from mpc_spearman.results import saved, terminal
from mpc_spearman.results.result import Result
from support.made_results import costs, page
from support.pages import script

KINDS = [
    ("coefficients", {}),
    ("coefficients", {"strength": "mean_abs"}),
    ("strengths", {}),
    ("explained", {}),
    ("canonical", {}),
]


@pytest.fixture(scope="module")
def claims() -> ModuleType:
    return script("benchmarks/headlines.py")


def printed(findings: Findings) -> str:
    out = io.StringIO()
    terminal.summarize(Result(findings, cost=costs("C", "B", "A")), Console(file=out, width=300))
    return out.getvalue()


@pytest.mark.parametrize(("grant", "settings"), KINDS)
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_unrelated_tables_have_no_headline(
    claims: ModuleType, grant: str, settings: dict[str, Any], noise: float
) -> None:
    rng = np.random.default_rng([len(grant), int(noise)])
    copies = [claims.copy(grant, settings, 150, 6, noise, rng) for _ in range(25)]
    claimed = [copy for copy in copies if claims.NOTHING.search(copy.headline()) is None]
    assert len(claimed) <= 8  # at 5 % each, one more in 10 million
    assert sum(map(claims.claimed_order, copies)) <= 8
    for copy in copies[:8]:
        text = printed(copy)
        numbers = [
            float(value)
            for value in re.findall(r"(?<![\w.])-?\d\.\d{2,4}\b", text.split("Pillai")[0].split("time ")[0])
        ]
        if grant in ("explained", "canonical"):  # a share or a correlation, whatever noise makes of it
            assert all(0 <= value <= 1 for value in numbers), text
        assert "± 0.000" not in text
        assert "strongest in size" not in text
        assert "detects a coefficient of 1.000" not in text
        assert f"with noise of {noise:.2g} standard error" in text or not noise
        if copy not in claimed:
            assert " to 0." not in re.sub(r"at most .*", "", text)  # no interval


def test_the_interval_of_a_differing_pair_never_reaches_beyond_0(claims: ModuleType) -> None:
    rng = np.random.default_rng(5)
    units = claims.units
    x = rng.standard_normal((5, 400))
    claims.units = lambda columns: units(0.6 * x[: len(columns)] + columns)  # related tables
    try:
        copy = claims.copy("coefficients", {}, 400, 5, 2.0, rng)
    finally:
        claims.units = units
    table = copy.pairs()
    with_interval = table.dropna(subset="low")
    assert 1 <= len(with_interval) == (table["q"] <= 0.05).sum() < len(table)
    assert (np.sign(with_interval["low"]) * np.sign(with_interval["high"]) >= 0).all()
    assert (table["guess"].abs() <= table["rho"].abs()).all()
    assert " (best guess " in copy.headline()
    assert "At most 5 % of the intervals miss (false coverage rate)." in printed(copy)


def test_every_view_says_how_exact_a_copy_is(claims: ModuleType) -> None:
    rng = np.random.default_rng(6)
    for noise, words in ((0.0, "exact"), (0.9, "with noise of 0.9 standard errors")):
        result = Result(claims.copy("strengths", {}, 150, 6, noise, rng), cost=costs("C", "B", "A"))
        assert words in repr(result)
        assert f"150 rows, {words}." in result._repr_html_()
        assert f"150 rows, {words}." in printed(result.findings).splitlines()[1]
        assert words in page(result).inside("dd")


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_equal_related_features_may_have_any_rank_by_size(claims: ModuleType, noise: float) -> None:
    """Means of |ρ| vary more where features are related than where they are not."""
    rng, apart, units = np.random.default_rng(9), 0, claims.units
    for _ in range(20):
        trait = rng.standard_normal(400)
        claims.units = lambda columns, trait=trait: units(0.6 * trait + columns)
        try:
            copy = claims.copy("coefficients", {"strength": "mean_abs"}, 400, 6, noise, rng)
        finally:
            claims.units = units
        apart += not (copy.tables["ranks"]["first"].eq(1) & copy.tables["ranks"]["last"].eq(6)).all()
    assert apart <= 8  # at 5 %, one more in ten million


def test_a_copy_of_the_strongest_pairs_says_nothing_of_the_others(claims: ModuleType) -> None:
    copy = claims.copy("coefficients", {"strongest": 3}, 200, 5, 1.0, np.random.default_rng(1))
    text = " ".join(printed(copy).split())
    assert "No pair differs from chance" in text
    assert "confidence the |rho| of the 3 pairs that are here are below" in text
    assert "Strengths have no test and no ranges of ranks here" in text
    assert "undefined" not in text
    assert "with noise of 1 standard error." in text


def test_the_strongest_pairs_alone_are_listed_saved_and_mapped(claims: ModuleType, tmp_path: Path) -> None:
    copy = claims.copy("coefficients", {"strongest": 3}, 200, 5, 1.0, np.random.default_rng(1))
    folder = Result(copy, cost=costs("C", "B", "A")).save(tmp_path / "run")
    loaded = Result.load(folder)
    for name, table in copy.tables.items():
        assert table.equals(getattr(loaded, name)), name
    assert len(loaded.pairs()) == len(pd.read_parquet(folder / "pairs.parquet")) == 3
    assert not saved.unlike_csv_files(loaded.findings, folder)
    assert loaded.noise.notna().equals(loaded.coefficients.notna())
    (shown,) = [section.matrix for section in copy.sections() if section.matrix]
    defined = loaded.coefficients.notna()
    assert shown.values.shape == (defined.any(axis=1).sum(), defined.any().sum())
    for row, column in np.argwhere(~np.isnan(shown.values)):
        source, target = shown.rows[row][0], shown.columns[column]
        q = loaded.qvalues.loc[("A", source), target]
        assert shown.title(row, column).endswith(f"(q {chance(q)})")


def test_a_figure_of_canonical_correlations_by_chance_says_so(claims: ModuleType) -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    several = (claims.copy("canonical", {}, 150, 6, 0.0, rng) for _ in range(25))
    copy = next(copy for copy in several if not copy.sections()[0].table)
    figure = Result(copy, cost=costs("C", "B", "A")).plot()
    (text,) = figure.texts
    assert "None of the 6 canonical correlations of A and B can be told from" in text.get_text()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_errors_are_never_printed_as_0() -> None:
    assert with_error(0.25, 0.00012) == "0.25000 ± 0.00012"
    assert with_error(-0.25, 0.031) == "−0.250 ± 0.031"
    assert with_error(0.25, math.nan) == "0.250 ± undefined"


def test_no_detectable_size_is_given_where_noise_hides_everything(claims: ModuleType) -> None:
    copy = claims.copy("coefficients", {}, 100, 4, 20.0, np.random.default_rng(7))
    assert "not even a coefficient near 1 would be found in four of five samples" in printed(copy)


def test_a_strong_negative_feature_has_a_line_of_its_own(claims: ModuleType) -> None:
    rng = np.random.default_rng(8)
    strengths = claims._strengths

    def with_negative(*arguments: Any) -> dict[str, Any]:
        numbers = strengths(*arguments)
        mu = np.array([0.3, 0.1, 0.0, 0.01, -0.01, -0.25])
        return {**numbers, "strengths": mu, "positions": np.arange(1, 7)}

    claims._strengths = with_negative
    try:
        copy = claims.copy("strengths", {}, 2000, 6, 0.5, rng)
    finally:
        claims._strengths = strengths
    assert (
        "f5 is number 2 by size (strength −0.250), but ranks 6 of 6: with strength: mean features rank"
        in (" ".join(copy.sections()[0].notes))
    )
    assert copy.headline().startswith(
        "f0 ranks first of 6 features by mean ρ, descending, with strength 0.300 ± "
    )
