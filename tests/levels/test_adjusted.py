"""Adjusted runs: coefficients of pooled least squares, what is told of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import correlate, learnt, merge
from mpc_spearman.cli.owner_page import parts
from mpc_spearman.config import Plan, load_plan
from mpc_spearman.errors import MergeError, PlanError, TableError
from mpc_spearman.findings import adjustment
from mpc_spearman.protocols.dry_run import DryRun, dry_run
from mpc_spearman.results.result import Result
from support.in_memory import Ended, run_in_memory
from support.plans import PROTOCOLS, mapping
from support.references import table

RNG, N = np.random.default_rng(31), 260
AGE, SEX = RNG.integers(20, 90, N), (RNG.random(N) < 0.4).astype(int)
COVARIATES = {"age": AGE, "sex": SEX}
TABLES = {
    "A": table(
        visits=RNG.poisson(AGE / 30),
        rare=RNG.random(N) < 0.03,
        cost=0.05 * AGE + RNG.normal(size=N),
        **COVARIATES,
    ),
    "B": table(
        health=-0.04 * AGE + SEX + RNG.normal(size=N),
        flat=np.ones(N),
        limited=RNG.random(N) < AGE / 150,
        **COVARIATES,
    ),
}
BOTH = ("age", "sex")
COEFFICIENTS = {"target": "coefficients", "sources": "coefficients"}


def plan_of(at_a: tuple[str, ...] = BOTH, at_b: tuple[str, ...] = BOTH, **settings: Any) -> Plan:
    content = mapping(**settings)
    content["parties"]["sources"][0]["adjust"] = list(at_a)
    content["parties"]["target"]["adjust"] = list(at_b)
    return load_plan(content)


def run(plan: Plan, tables: dict[str, pd.DataFrame] | None = None) -> Ended:
    return run_in_memory(plan, TABLES if tables is None else tables)


def residuals(frame: pd.DataFrame, covariates: tuple[str, ...]) -> np.ndarray:
    """Ranks of the other columns less their least-squares fit on covariates' ranks, squares and cubes."""
    ranks, n = frame.drop(columns="id").rank(), len(frame)
    powers = [np.ones(n)]
    for name in covariates:
        z = (ranks[name] / n).to_numpy()
        powers += [z, z**2, z**3]
    features = ranks.drop(columns=list(covariates)).to_numpy()
    fit, *_ = np.linalg.lstsq(np.column_stack(powers), features, rcond=None)
    return (features - np.column_stack(powers) @ fit).T


def least_squares(at_a: tuple[str, ...], at_b: tuple[str, ...]) -> np.ndarray:
    x, y = residuals(TABLES["A"], at_a), residuals(TABLES["B"], at_b)
    sizes = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
    return np.where(sizes > 1e-6, x @ y.T / np.maximum(sizes, 1e-6), np.nan)


# ---- coefficients


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_coefficients_are_those_of_pooled_least_squares(protocol: str) -> None:
    """With ties, flags and a constant column."""
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    outcome = run(plan_of(results=COEFFICIENTS, **PROTOCOLS[protocol]))
    for party in "CBA":
        coefficients = outcome.result(party).coefficients
        np.testing.assert_allclose(coefficients, least_squares(BOTH, BOTH), rtol=0, atol=1e-7)
        assert list(coefficients.columns) == ["health", "flat", "limited"]
    raw = run(load_plan(mapping(results=COEFFICIENTS))).result("C").pairs()
    adjusted = outcome.result("C").pairs()
    assert raw["p"].min() < 1e-6 < 0.01 < adjusted["p"].min()


@pytest.mark.parametrize("level", ["coefficients", "strengths", "explained", "canonical"])
def test_sides_adjusted_for_different_columns_are_not_tested(level: str) -> None:
    outcome = run(plan_of(("age",), ("sex",), reveal=level, results={"target": level}))
    for party in "CB":
        result = outcome.result(party)
        assert any("nothing is tested between A and B" in line for line in result.warnings)
        if level == "coefficients":
            assert result.pairs()[["p", "q", "low", "high"]].isna().all(axis=None)
            assert result.pairs()["rho"].notna().any()
        elif level == "strengths":
            assert "ranks" not in result.holds
        else:
            assert result.findings.tables[level]["p"].isna().all()


# ---- levels, noise


@pytest.mark.parametrize("level", ["coefficients", "strengths", "ranking", "explained", "canonical"])
def test_every_level_has_noisy_results_that_name_the_covariates(level: str, tmp_path: Path) -> None:
    results = {"target": level, "sources": level, "precision": "statistical"}
    tables = {**TABLES, "A": TABLES["A"].sample(frac=0.8, random_state=3)}
    outcome = run(plan_of(reveal=level, alignment="intersect", results=results), tables)
    for party in "CBA":
        result = outcome.result(party)
        assert result.findings.outcome().endswith(", adjusted for age, sex at A and B")
        assert any("whole table" in line for line in result.warnings)
        result.save(tmp_path / party)
        assert Result.load(tmp_path / party).findings.outcome() == result.findings.outcome()


@pytest.mark.parametrize("level", ["coefficients", "strengths"])
def test_noise_on_inputs_is_of_residuals_too(level: str) -> None:
    content = mapping(reveal=level, results={"target": level, "precision": "statistical"})
    content["parties"]["sources"][0] |= {"adjust": list(BOTH), "noise": "inputs"}
    content["parties"]["target"]["adjust"] = list(BOTH)
    result = run(load_plan(content)).result("B")
    assert result.findings.noise_ratio() > 2
    assert not any("whole table" in line for line in result.warnings)  # which this run uses


def test_strengths_are_means_of_adjusted_coefficients_with_larger_errors() -> None:
    outcome = run(plan_of(reveal="strengths", results={"target": "strengths"}))
    exact = least_squares(BOTH, BOTH)[:, [0, 2]].mean(axis=0)
    result = outcome.result("B")
    np.testing.assert_allclose(result.strengths[["health", "limited"]], exact, atol=1e-7)
    assert set(result.counts) == {0, 3}
    of_raw = run(load_plan(mapping(reveal="strengths"))).result("B")
    assert result.errors["limited"] > of_raw.errors["limited"] * 0.5


@pytest.mark.parametrize("precision", ["exact", "statistical"])
def test_adjusting_for_a_site_takes_off_what_sites_differ_by(precision: str) -> None:
    """`adjust` names the column, which flags of its categories stand for."""
    site = RNG.choice(["north", "south", "west"], N)
    shift = pd.Series(site).map({"north": 0.0, "south": 2.0, "west": -1.0}).to_numpy()
    tables = {
        "A": table(cost=shift + RNG.normal(size=N), site=site),
        "B": table(health=shift + RNG.normal(size=N), site=site),
    }
    content = mapping(results={**COEFFICIENTS, "precision": precision})
    for party in (content["parties"]["target"], *content["parties"]["sources"]):
        party["encode"] = {"site": "flags"}
    raw = run(load_plan(content), tables).result("C")
    for party in (content["parties"]["target"], *content["parties"]["sources"]):
        party["adjust"] = ["site"]
    result = run(load_plan(content), tables).result("C")
    assert raw.coefficients.loc[("A", "cost"), "health"] > 0.4
    assert list(result.coefficients.columns) == ["health"]
    ranks = [(frame.iloc[:, 1].rank(), frame["site"]) for frame in tables.values()]
    x, y = ((rank - rank.groupby(sites).transform("mean")).to_numpy() for rank, sites in ranks)
    expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert result.coefficients.iloc[0, 0] == pytest.approx(expected, abs=1e-7)
    assert (result.adjustment["fitted"] == 2).all()
    assert "nominal" not in result.holds


# ---- refusals


def checked(party: str, columns: int, frame: pd.DataFrame, folder: Path) -> DryRun:
    """What `check` finds out about a party's table, if the other side has so many columns."""
    frame.to_csv(folder / "table.csv", index=False)
    tables = {party: folder / "table.csv"}
    return dry_run(load_plan(plan_of(results=COEFFICIENTS), tables=tables), party, columns)


def test_a_function_of_its_covariates_is_refused_and_named_to_its_owner_alone(tmp_path: Path) -> None:
    tables = {**TABLES, "A": TABLES["A"].assign(secret_birth=2026 - AGE)}
    outcome = run(plan_of(results=COEFFICIENTS), tables)
    assert isinstance(outcome.errors["A"], TableError)
    assert "'secret_birth' is a function of its covariates" in str(outcome.errors["A"])
    for party in "CB":
        assert "secret_birth" not in str(outcome.errors[party])
    with pytest.raises(TableError, match="secret_birth"):
        checked("A", 2, tables["A"], tmp_path)


def test_a_covariate_that_the_table_lacks_is_refused() -> None:
    outcome = run(plan_of(("agee",), BOTH, results=COEFFICIENTS))
    assert "adjust: there is no column 'agee'" in str(outcome.errors["A"])
    assert "did you mean 'age'" in str(outcome.errors["A"])


# ---- what is said


def test_the_owner_sees_how_much_the_covariates_take(tmp_path: Path) -> None:
    trial = checked("B", 3, TABLES["B"], tmp_path)
    assert trial.table.features == ("health", "flat", "limited")
    assert trial.unexplained is not None
    assert trial.unexplained[1] == 1
    assert 0.2 < trial.unexplained[0] < 0.8
    residual, ranks = residuals(TABLES["B"], BOTH)[0], TABLES["B"]["health"].rank()
    assert trial.unexplained[0] == pytest.approx((residual**2).sum() / ((ranks - ranks.mean()) ** 2).sum())


def test_covariates_are_named_to_all_and_on_the_owners_page() -> None:
    plan = plan_of((), BOTH)
    informed = {row["party"] for row in learnt(plan) if "adjusted for: age, sex" in row["what"]}
    assert informed == {"C", "A"}
    page = str(parts(plan, "B"))
    assert "adjusted for age, sex, which the plan names" in page
    assert "tie term" not in page.replace("of an owner without covariates also the tie term", "")
    assert adjustment.in_words(plan) == "adjusted for age, sex at B"
    assert plan.digest() != load_plan(mapping()).digest()


@pytest.mark.usefixtures("warm")
def test_correlate_adjusts_one_table_or_both() -> None:
    result = correlate(TABLES["A"], TABLES["B"], adjust={"B": ["age", "sex"]})
    np.testing.assert_allclose(result.coefficients, least_squares((), BOTH), rtol=0, atol=1e-7)
    assert result.pairs()["p"].notna().any()  # one side alone is adjusted if only it has the covariates
    with pytest.raises(PlanError, match=r"'age' is not a list of column names"):
        correlate(TABLES["A"], TABLES["B"], adjust="age")


def test_kept_ranks_serve_runs_with_other_covariates(tmp_path: Path) -> None:
    """They are ranks before adjustment."""
    files = {}
    for party, frame in TABLES.items():
        files[party] = tmp_path / f"{party}.csv"
        frame.to_csv(files[party], index=False)
    content = plan_of(results=COEFFICIENTS).model_dump(mode="json")
    content["parties"]["target"]["table"] = str(files["B"])
    content["parties"]["sources"][0]["table"] = str(files["A"])
    first, again = (
        run_in_memory(load_plan(content), {}, keep_ranks=tmp_path / "kept").result("C") for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.coefficients, again.coefficients)
    np.testing.assert_allclose(again.coefficients, least_squares(BOTH, BOTH), rtol=0, atol=1e-7)
    assert len([*(tmp_path / "kept").glob("*.ranks")]) == 2


def test_adjusted_results_are_merged_if_the_target_is_adjusted_alike(tmp_path: Path) -> None:
    def of_target(source: str, at_source: tuple[str, ...], at_b: tuple[str, ...]) -> Path:
        content = mapping(source, results=COEFFICIENTS)
        content["parties"]["sources"][0]["adjust"] = list(at_source)
        content["parties"]["target"] |= {"adjust": list(at_b), "alignment_key": str(tmp_path / "key")}
        folder = tmp_path / f"{source}{len(at_b)}"
        outcome = run_in_memory(load_plan(content), {source: TABLES["A"], "B": TABLES["B"]})
        outcome.result("B").save(folder)
        return folder

    runs = [of_target("A", BOTH, ()), of_target("D", (), ())]
    merged = merge(runs, tmp_path / "merged")
    assert merged.findings.outcome().endswith(", adjusted for age, sex at A")
    fitted = merged.adjustment["fitted"].groupby(level="party").max()
    assert fitted.to_dict() == {"A": 4, "B": 0, "D": 0}
    parts = [Result.load(folder).pvalues for folder in runs]
    pd.testing.assert_frame_equal(merged.pvalues, pd.concat(parts))
    with pytest.raises(MergeError, match="columns that the target adjusts for differs"):
        merge([runs[0], of_target("D", BOTH, BOTH)], tmp_path / "other")
