"""The page: what is said, what is drawn, and that names stay text."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from base64 import b64encode
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from mpc_spearman.findings.sections import Table, chance, number
from mpc_spearman.levels import view
from mpc_spearman.results import report, terminal
from mpc_spearman.results.result import Result
from mpc_spearman.statistics import estimators
from support.made_results import computed, costs, make_result, page, shared_plan, synthetic, tables

# --- safe and self-contained ---------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg></style>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;",
    "evil\u202egnp\x1b[2J",
]


def test_hostile_names_stay_text() -> None:
    a, b = tables(80, len(HOSTILE), len(HOSTILE))
    a.columns, b.columns = HOSTILE, HOSTILE
    harmless = computed({"A": pd.DataFrame(a.to_numpy())}, pd.DataFrame(b.to_numpy()), warnings=["w"] * 6)
    hostile = computed({"<i>A": a}, b, warnings=HOSTILE, coordinator="<p>")
    shown = page(hostile)
    # The same elements as with harmless names, so none came from a name.
    assert [tag for tag, _ in shown.elements] == [tag for tag, _ in page(harmless).elements]
    for name in HOSTILE[:5]:
        assert name in shown.inside("bdi")
        assert name in shown.inside("li")
        assert any(name in title for title in shown.titles)
    assert "evil\ufffdgnp\ufffd[2J" in shown.inside("bdi")
    assert "49" not in shown.inside("bdi")


def test_the_page_runs_its_own_script_alone_and_fetches_nothing() -> None:
    shown = page(synthetic())
    assert {tag for tag, _ in shown.elements}.isdisjoint({"link", "img", "iframe", "object", "use"})
    for _, attributes in shown.elements:
        assert not {key for key in attributes if key.startswith("on") or key in ("src", "href", "xlink:href")}
    assert re.findall(r"https?:|//|@import|url\((?!#)", report.render(synthetic())) == []
    policy = next(a for tag, a in shown.elements if "http-equiv" in a)
    (script,) = re.findall("<script>(.*)</script>", report.render(synthetic()), re.S)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["content"] == (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    )


# --- what it says --------------------------------------------------------------------------------------


def test_the_ranking_comes_in_order_with_negative_bars_to_the_left() -> None:
    _, b = tables(200, 1, 5)
    a = pd.DataFrame({"p": b["target_0"], "q": b["target_0"] + b["target_1"]})
    b["target_2"] = -b["target_0"]
    b["target_3"] = 1.0
    result = computed({"A": a}, b)
    shown = page(result)
    order = list(result.ranking["feature"])
    ranked = [tag == "h2" and text == "Ranking" for tag, text in shown.texts].index(True)
    names = [text for tag, text in shown.texts[ranked:] if tag == "bdi"]
    assert names[: len(order)] == order
    assert order[0] == "target_0"
    assert order[-1] == "target_3"
    assert "undefined: a constant column has no rank correlation" in shown.inside("span")
    bars = [a for tag, a in shown.elements if tag == "rect" and a.get("class") in ("warm", "cool")]
    strengths = [s for s in result.ranking["strength"] if not math.isnan(s)]
    assert [bar["class"] for bar in bars] == ["cool" if s < 0 else "warm" for s in strengths]
    zero = share(shown.of_class("zero")[-1]["x1"])
    for bar, strength in zip(bars, strengths, strict=True):
        start, length = share(bar["x"]), share(bar["width"])
        assert start == pytest.approx(zero if strength >= 0 else zero - length, abs=0.02)
    lengths = [share(bar["width"]) for bar in bars]
    assert np.argsort(lengths).tolist() == np.argsort(np.abs(strengths)).tolist()


def share(length: str) -> float:
    """Return a length on an axis, in percent of its width."""
    return float(length.removesuffix("%"))


def test_mean_absolute_correlation_stands_beside_the_strength() -> None:
    result, signed = synthetic(), synthetic(strength="mean_abs")
    for each, means in ((result, result.coefficients.abs().mean()), (signed, result.coefficients.mean())):
        table = ranked(each)
        features, name = table.columns["feature"], [*table.columns][-1]
        assert table.columns[name] == [number(means[feature], 4) for feature in features]
        assert name in [text.replace("\u2060", "") for text in page(each).inside("th")]


def ranked(result: Result) -> Table:
    (table,) = (
        section.table
        for section in result.findings.sections()
        if section.title == "Ranking" and section.table
    )
    return table


def strengths_alone(strengths: list[float], **more: Any) -> Result:
    """The coordinator's copy where strengths were opened."""
    names = [f"f{i}" for i in range(len(strengths))]
    positions = estimators.positions(np.array(strengths), "descending")
    return make_result(
        plan=shared_plan(reveal="strengths"),
        party="C",
        role="coordinator",
        n=30,
        cost=costs("C", "B", "A"),
        strengths=pd.Series(strengths, names),
        counts=pd.Series([0 if math.isnan(s) else 4 for s in strengths], names),
        ranking=pd.DataFrame({"position": positions, "feature": names, "strength": strengths}),
        **more,
    )


def test_standard_errors_say_which_ranks_are_possible() -> None:
    result = strengths_alone([0.5, 0.2, 0.19], errors=pd.Series(0.05, ["f0", "f1", "f2"]))
    shown = page(result)
    assert shown.inside("h1") == [
        "f0 ranks first of 3 features by mean ρ, descending, with strength 0.500 ± 0.050; 3 of 3 "
        "features differ from chance"
    ]
    assert ranked(result).columns["ranks"] == ["1", "2 to 3", "2 to 3"]
    assert result.ranks[["first", "last"]].to_numpy().tolist() == [[1, 1], [2, 3], [2, 3]]
    assert "Only coefficients show which pairs are strong." in shown.text
    out = io.StringIO()
    terminal.summarize(result, Console(file=out, width=100))
    assert re.search(r"3 +f2 +0\.1900 +0\.0500 +2 to 3", out.getvalue())


def test_a_flag_with_an_untied_column_has_a_largest_coefficient_and_auc() -> None:
    a, b = tables(100, 1, 1)
    result = computed({"A": a > a.quantile(0.8)}, b)
    rho = result.coefficients.iloc[0, 0]
    most = math.sqrt(3 * 0.2 * 0.8)
    expected = f"at most ±{most:.2f} for this flag; AUC {0.5 + rho / most / 2:.2f}"
    assert expected in page(result).inside("span")


@pytest.mark.parametrize(
    ("p", "text"), [(0.012, "0.012"), (2e-16, "2e-16"), (1e-17, "< 1e-16"), (0.0, "< 1e-16")]
)
def test_p_values_below_any_tests_precision_are_not_printed(p: float, text: str) -> None:
    assert chance(p) == text


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [
        ([0.5, 0.25], "f0 ranks first of 2 features by mean ρ, descending, with strength 0.500"),
        (
            [0.5, 0.5, 0.5],
            "f0 ranks first of 3 features by mean ρ, descending, with strength 0.500, level with 2 others",
        ),
        ([math.nan, math.nan], "No feature has a defined strength"),
        ([-0.25], "f0 is the only feature, with strength −0.250"),
        ([math.nan], "No feature has a defined strength"),
    ],
)
def test_the_headline_fits_the_result(strengths: list[float], expected: str) -> None:
    assert page(strengths_alone(strengths)).inside("h1") == [expected]


@pytest.mark.parametrize("grant", ["nothing", "ranking", "strengths", "coefficients"])
def test_withheld_parts_are_absent_with_one_sentence(grant: str) -> None:
    full = synthetic()
    held: dict[str, Any] = {}
    if grant != "nothing":
        held["ranking"] = full.ranking if grant != "ranking" else full.ranking[["position", "feature"]]
    if grant in ("strengths", "coefficients"):
        held |= {"strengths": full.strengths, "counts": full.counts}
    if grant == "coefficients":
        matrices = ("coefficients", "columns", "pvalues", "intervals", "qvalues")
        held |= {part: getattr(full, part) for part in matrices}
    plan = shared_plan(results={"target": grant})
    copy = make_result(plan=plan, party="B", role="target", n=60, cost=costs("C", "B", "A"), **held)
    shown = page(copy)
    assert bool(shown.of_class("map")) == (grant == "coefficients")
    assert bool(shown.of_class("zero")) == (grant in ("strengths", "coefficients"))
    assert ("feature" in shown.inside("th")) == (grant != "nothing")
    assert shown.text.count("(results.target)") == (grant != "coefficients")
    assert ("source_0" in report.render(copy)) == (grant == "coefficients")


@pytest.mark.parametrize("reveal", ["coefficients", "differences"])
def test_who_learnt_what_is_the_view_table(reveal: str) -> None:
    a, b = tables(60, 2, 3)
    result = computed({"A1": a, "A2": a}, b, reveal=reveal)
    shown = page(result)
    facts = [row["what"].replace("`", "") for row in view.learnt(result.plan)]
    start = shown.texts.index(("th", "learnt"))
    cells = [text for where, text in shown.texts[start:] if where == "td"]
    assert sorted(cells[: 3 * len(facts) : 3]) == sorted(facts)
    assert "A1, A2" in cells
    assert shown.of_class("key")  # what carries results comes first
    assert {"C", "B", "A1", "A2"} <= {*shown.inside("bdi")}


def test_every_shared_setting_is_listed() -> None:
    result = synthetic()
    (settings,) = page(result).inside("pre")
    assert json.loads(settings) == result.plan.shared()


def test_a_sources_own_rows_are_not_compared_with_strengths_over_all() -> None:
    a, b = tables(60, 2, 3)
    whole = computed({"A1": a, "A2": -a}, b)
    of_source = computed(
        {"A1": a, "A2": -a},
        b,
        party="A2",
        role="source",
        results={"target": "coefficients", "sources": "coefficients", "precision": "exact"},
        coefficients=whole.coefficients.loc[["A2"]],
        columns=whole.columns.loc[["A2", "B"]],
    )
    source_page, whole_page = report.render(of_source), report.render(whole)
    assert "Rank correlation ρ of every feature of A2 (rows)" in source_page
    assert "Rank correlation ρ of every source feature (rows)" in whole_page
    assert "mean |\u2060ρ|" in whole_page
    assert "mean |\u2060ρ|" not in source_page
    out = io.StringIO()
    terminal.summarize(of_source, Console(file=out, width=100))
    assert "mean |rho|" not in out.getvalue()


# --- warnings ------------------------------------------------------------------------------------------


def test_a_warning_about_many_columns_is_one_sentence_and_a_folded_list() -> None:
    columns = [f"<b>{i}</b>" for i in range(48)]
    shown = page(synthetic(warnings=["\n".join(["48 features cancel", *columns]), "mind the ties"]))
    assert "⚠ Before you use these numbers: 2 warnings" in shown.inside("h2")
    assert [text for text in shown.inside("li") if text in ("48 features cancel", "mind the ties")] == [
        "48 features cancel",
        "mind the ties",
    ]
    assert [text for text in shown.inside("li") if text in columns] == columns
    assert shown.inside("summary").count("which") == 1


# --- the strongest pairs -------------------------------------------------------------------------------


def test_the_strongest_pairs_are_plotted_with_their_intervals() -> None:
    result = synthetic(60, 8, 6)
    shown = page(result)
    strongest = result.coefficients.stack().sort_values(key=abs, ascending=False)
    start = shown.texts.index(("th", "pair"))
    cells = [text for where, text in shown.texts[start:] if where in ("bdi", "td")]
    rho = strongest.iloc[0]
    (_, feature, target) = strongest.index[0]
    low, high = (result.intervals.loc[("A", feature, end), target] for end in ("low", "high"))
    interval = f"{number(low)} to {number(high)}"
    assert cells[:3] == [f"{feature} × {target}", number(rho), interval]
    points = [a for tag, a in shown.elements if tag == "circle"]
    assert len(points) == 48
    assert [a["class"].split()[0] for a in points] == ["cool" if value < 0 else "warm" for value in strongest]
    marked = (result.qvalues.stack()[strongest.index] <= 0.05) & (strongest.abs() >= 0.1)
    assert ["hollow" not in a["class"] for a in points] == marked.tolist()
    assert len(shown.of_class("whisker")) == marked.sum()
    zero = share(shown.of_class("zero")[0]["x1"])
    assert [share(a["cx"]) < zero for a in points] == [value < 0 for value in strongest]
