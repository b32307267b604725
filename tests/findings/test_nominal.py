"""Columns without an order in whole runs: one line for each column, in every copy of coefficients."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from mpc_spearman import Plan, Result, correlate, load_plan
from mpc_spearman.errors import NotRevealed, ProtocolViolation
from mpc_spearman.identity import Identity
from mpc_spearman.results.merge import merge
from mpc_spearman.results.record import check
from mpc_spearman.results.terminal import summarize
from support.in_memory import Ended, run_in_memory
from support.made_results import page
from support.plans import PROTOCOLS, everyone, mapping
from support.references import table

N = 400
RNG = np.random.default_rng(21)
REGION = RNG.choice(["north", "south", "east", "isle", "islet"], N, p=[0.4, 0.33, 0.22, 0.025, 0.025])
TABLES = {
    "A1": table(region=REGION, sex=RNG.choice(["F", "M"], N), age=RNG.normal(size=N)),
    "A2": table(plan=RNG.choice(["basic", "plus", "full"], N)),
    "B": table(
        cost=RNG.normal(size=N) + (REGION == "north"),
        visits=RNG.poisson(1.0, N),
        ward=np.where(RNG.random(N) < 0.4, REGION, RNG.choice(["a", "b"], N)),
    ),
}
#: The columns without an order, and the policy that says how many rows a category has.
ENCODE = {"A1": ("region", "sex"), "A2": ("plan",), "B": ("ward",)}


def plan_of(*sources: str, noisy: bool = False, **settings: Any) -> Plan:
    results = {"precision": "statistical" if noisy else "exact", **settings.pop("results", {})}
    content = mapping(*sources, results=results, **settings)
    for party in everyone(content)[1:]:
        party["encode"] = dict.fromkeys(ENCODE[party["name"]], "flags")
        party["policy"]["min_rows"] = 10
    return load_plan(content)


def run(*sources: str, tables: dict[str, pd.DataFrame] = TABLES, **settings: Any) -> Ended:
    plan = plan_of(*sources, **settings)
    return run_in_memory(plan, {name: tables[name] for name in (*sources, "B")})


@pytest.fixture(scope="module")
def exact() -> Ended:
    """A run without noise that grants everybody coefficients, of two sources."""
    grants = {"target": "coefficients", "sources": "coefficients"}
    return run("A1", "A2", results=grants)


@pytest.fixture(scope="module")
def noisy() -> Ended:
    grants = {"target": "coefficients", "sources": "coefficients"}
    return run("A1", "A2", noisy=True, results=grants, privacy={"loss": 100.0})


def line(result: Result, source: str, target: str) -> Any:
    lines = result.nominal
    (row,) = lines[(lines["source"] == source) & (lines["target"] == target)].itertuples()
    return row


def as_encoded(result: Result, party: str, column: str) -> pd.Series[Any]:
    """A column of a table, its rare categories together."""
    categories = result.categories.loc[party]
    names = categories.loc[categories["column"] == column, "category"]
    values = TABLES[party][column]
    return values.where(values.isin(names), "other")


def grouped(values: pd.Series[Any], by: pd.Series[Any]) -> list[Any]:
    return [values[by == kind] for kind in by.unique()]


def test_each_line_is_scipys_of_the_pooled_tables(exact: Ended) -> None:
    result = exact.result("B")
    region, ward = as_encoded(result, "A1", "region"), as_encoded(result, "B", "ward")
    assert region.value_counts().index.tolist() == ["north", "south", "east", "other"]
    kruskal = stats.kruskal(*grouped(TABLES["B"]["cost"], region))
    related = line(result, "region", "cost")
    assert (related.party, related.measure, related.df) == ("A1", "η²", 3)
    assert (N - 1) * related.value == pytest.approx(kruskal.statistic, rel=1e-10)
    assert related.p == pytest.approx(kruskal.pvalue, rel=1e-8)
    chi2 = stats.chi2_contingency(pd.crosstab(region, ward), correction=False)
    related = line(result, "region", "ward")
    assert (related.measure, related.df) == ("V", chi2.dof)
    assert related.value**2 * N * (min(region.nunique(), ward.nunique()) - 1) == pytest.approx(chi2.statistic)
    assert related.value == pytest.approx(
        stats.contingency.association(pd.crosstab(region, ward).to_numpy(), method="cramer")
    )
    related = line(result, "age", "ward")
    assert related.p == pytest.approx(stats.kruskal(*grouped(TABLES["A1"]["age"], ward)).pvalue, rel=1e-8)
    tested = result.nominal["p"].dropna()
    assert result.nominal["q"].dropna().to_numpy() == pytest.approx(stats.false_discovery_control(tested))


def test_a_column_of_two_values_has_its_coefficients_p_value(exact: Ended) -> None:
    result = exact.result("B")
    for target in ("cost", "visits"):
        related, pair = line(result, "sex", target), ("A1", "sex=M")
        assert related.value == pytest.approx(result.coefficients.loc[pair, target] ** 2, rel=1e-12)
        assert related.p == result.pvalues.loc[pair, target]


def test_every_copy_of_coefficients_has_the_lines_that_it_can_know(exact: Ended) -> None:
    whole = exact.result("C").nominal
    sources = {"region": "A1", "sex": "A1", "age": "A1", "plan": "A2"}
    assert [*zip(whole["party"], whole["source"], strict=True)] == [
        (sources[name], name)
        for name, targets in (("region", 3), ("sex", 3), ("age", 1), ("plan", 3))
        for _ in range(targets)
    ]
    pd.testing.assert_frame_equal(exact.result("B").nominal, whole, rtol=1e-9)
    expected = whole[whole["party"] == "A1"].reset_index(drop=True)
    held = exact.result("A1").nominal
    pd.testing.assert_frame_equal(held.drop(columns="q"), expected.drop(columns="q"), rtol=1e-9)
    categories = exact.result("A1").categories
    assert set(categories.index.get_level_values("party")) == {"A1", "B"}
    assert categories.loc[("A1", "region=north")].tolist() == ["region", "north"]
    assert categories.loc[("A1", "sex=M")].tolist() == ["sex", "M"]


@pytest.mark.parametrize("protocol", ["paillier", "bfv"])
def test_encrypted_runs_give_the_same_lines(protocol: str, exact: Ended) -> None:
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    nominal = run("A2", **PROTOCOLS[protocol]).result("C").nominal
    expected = exact.result("C").nominal.query("party == 'A2'").reset_index(drop=True)
    pd.testing.assert_frame_equal(nominal.drop(columns="q"), expected.drop(columns="q"), rtol=1e-9)


def test_noisy_copies_hold_what_follows_from_their_own_numbers(noisy: Ended) -> None:
    exact_copy, copy = noisy.result("C").nominal, noisy.result("B").nominal
    assert copy[["source", "target", "measure", "df"]].equals(
        exact_copy[["source", "target", "measure", "df"]]
    )
    off = (copy["value"] - exact_copy["value"])[copy["measure"] == "η²"]
    assert off.abs().max() < 0.2
    assert (off != 0).all()
    assert line(noisy.result("B"), "region", "ward").q < 0.05
    # They are computed from what a receiver has anyway, so nobody learns more from them.
    for party in ("B", "A1"):
        findings = noisy.result(party).findings
        tables = {name: findings.tables[name] for name in ("coefficients", "noise", "columns", "categories")}
        again = type(findings)(findings.copy, tables).derived_tables()["nominal"]
        pd.testing.assert_frame_equal(again, findings.tables["nominal"])


def test_copies_are_kept_and_hold_against_the_record(tmp_path: Path) -> None:
    grants = {"target": "coefficients", "sources": "coefficients"}
    keys = {name: Identity.new() for name in ("C", "B", "A1", "A2")}
    for reveal in ("coefficients", "explained"):
        granted = dict.fromkeys(grants, reveal)
        plan = plan_of("A1", "A2", noisy=True, reveal=reveal, results=granted)
        content = plan.model_dump(mode="json")
        for party in everyone(content):
            party["identity"] = str(keys[party["name"]])
        plan = load_plan(content)
        finished = run_in_memory(plan, TABLES, keys=keys)
        for name, result in ((name, finished.result(name)) for name in ("B", "A1")):
            loaded = Result.load(result.save(tmp_path / reveal / name))
            for name_of_table in loaded.holds:
                assert getattr(loaded, name_of_table).equals(getattr(result, name_of_table)), name_of_table
            checks = [*check(tmp_path / reveal / name, plan)]
            assert all(right for right, _ in checks), checks


def test_the_report_the_terminal_and_a_notebook_show_whole_columns(exact: Ended) -> None:
    result, text = exact.result("C"), io.StringIO()
    summarize(result, Console(file=text, width=150))
    assert "pairs with a column without an order differ from chance" in text.getvalue()
    assert "A1 · region x ward" in text.getvalue()
    shown = page(result)
    assert "A1 · region × ward" in shown.text
    assert "Columns without an order" in shown.text
    assert "A1 · region × ward" in result._repr_html_()


def test_no_lines_without_nominal_columns_or_all_coefficients() -> None:
    for settings in ({"estimator": "paper"}, {"results": {"strongest": 3, "target": "coefficients"}}):
        copy = run("A2", noisy="results" in settings, **settings).result("B")
        assert "nominal" not in copy.holds
        with pytest.raises(NotRevealed, match="nominal associations are not in this copy"):
            _ = copy.nominal


def test_merged_copies_have_the_lines_of_all_sources(exact: Ended, tmp_path: Path, no_pages: None) -> None:
    folders = list[Path]()
    for source in ("A1", "A2"):
        result = run(source, results={"target": "coefficients"}).result("B")
        vars(result)["alignment"] = "0" * 64
        folders.append(result.save(tmp_path / source))
    merged, whole = merge(folders, tmp_path / "merged"), exact.result("B")
    pd.testing.assert_frame_equal(merged.nominal, whole.nominal, rtol=1e-12)
    assert merged.categories.sort_index().equals(whole.categories.sort_index())


def test_at_explained_the_categories_of_one_column_count_once() -> None:
    finished = run("A1", reveal="explained", results={"target": "explained", "sources": "explained"})
    for party in ("C", "B", "A1"):
        result = finished.result(party)
        assert "of 3 columns differ" in result.findings.headline()
        assert len(result.explained) > 3
        assert set(result.categories["column"]) == {"ward"}


def test_a_category_that_the_rows_of_a_run_lack_is_left_out() -> None:
    """Which flags there are follows from the whole table; of the rows used, from those that vary."""
    rows = REGION != "south"
    some = TABLES["B"][rows]
    result = run("A1", tables={**TABLES, "B": some}, alignment="intersect").result("C")
    assert result.coefficients.loc[("A1", "region=south")].isna().all()
    region = as_encoded(result, "A1", "region")[rows]
    expected = stats.kruskal(*grouped(TABLES["B"]["cost"][rows], region))
    related = line(result, "region", "cost")
    assert related.df == region.nunique() - 1
    assert related.p == pytest.approx(expected.pvalue, rel=1e-8)


def test_the_column_of_a_flag_must_be_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpc_spearman.protocols import describe

    real = describe._description
    monkeypatch.setattr(
        describe, "_description", lambda table, *more: {**real(table, *more), "nominal": ("x",) * table.m}
    )
    finished = run("A2")
    assert isinstance(finished.errors["C"], ProtocolViolation)
    assert "sent a field 'nominal' that no columns" in str(finished.errors["C"])


@pytest.mark.usefixtures("warm")
def test_correlate_makes_flags_without_a_plan() -> None:
    result = correlate(
        TABLES["A1"], TABLES["B"], encode={"A": {"region": "flags", "sex": "flags"}, "B": {"ward": "flags"}},
        policy={"min_rows": 10},
    )  # fmt: skip
    assert line(result, "region", "ward").p < 1e-6
