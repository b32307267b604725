"""The costs, and the summary on a terminal: its content, and that no name controls the terminal."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from mpc_spearman import units
from mpc_spearman.errors import NotRevealed
from mpc_spearman.results import terminal
from mpc_spearman.results.result import Result
from support.made_results import computed, cost_table, make_result, page, shared_plan, synthetic, tables

# --- costs ---------------------------------------------------------------------------------------------


COSTS = cost_table(
    ("C", "rank", 1.0, 2.0, 100, 0, 1, 1, 10_000_000),
    ("C", "reveal", 0.5, 0.0, 0, 900, 0, 2, 20_000_000),
    ("C", "keep-alive", 0.0, 0.0, 700, 7, 1, 0, 0),
    ("C", "forwarded B and A", 0.0, 0.0, 880, 880, 0, 0, 0),
    ("B", "rank", 3.0, 1.0, 400, 60, 2, 1, 30_000_000),
    ("A", "rank", 0.25, 0.0, 500, 40, 3, 1, 5_000_000),
)


def test_costs_are_shown_in_human_units() -> None:
    shown = page(synthetic(cost=COSTS))
    assert {"4.0 s", "1.0 kB", "20.0 MB"} <= {*shown.inside("dd")}  # keep-alives in no sum
    assert "direct, but for these, which the coordinator's host forwards: B and A (880 bytes)" in shown.text
    assert "alone; the coordinator" not in shown.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (99.96, "1 min 40 s"),
        (3599.6, "1 h 00 min"),
        (7260, "2 h 01 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert units.human_seconds(seconds) == text


# --- the terminal --------------------------------------------------------------------------------------


def printed(result: Result, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    terminal.summarize(result, Console(file=stream, width=120))
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_the_summary_shows_ranking_warnings_and_lines_of_cost() -> None:
    result = synthetic(cost=COSTS, warnings=["mind the ties"])
    lines = printed(result).splitlines()
    pairs = result.pairs()
    assert lines[0] == terminal._ascii(result.findings.headline()) + "."
    assert lines[1] == "60 rows, exact."
    assert lines[2].split() == ["pair", "rho", "interval", "q"]
    assert [line.split()[:3] for line in lines[3:8]] == [
        [pair.source, "x", pair.target] for pair in pairs.head(5).itertuples()
    ]
    start = next(place for place, line in enumerate(lines) if line.startswith("position"))
    (ranked,) = (section for section in result.findings.sections() if section.title == "Ranking")
    assert lines[start - 1] == terminal._ascii(ranked.lead) + "."
    assert any("assumes one row per person" in line for line in lines[7:start])
    rows = [line.split() for line in lines[start + 1 : start + 7]]
    assert [row[1] for row in rows] == list(result.ranking["feature"])
    assert [float(row[2]) for row in rows] == pytest.approx(list(result.ranking["strength"]), abs=5e-5)
    assert lines[start + 7 :] == [
        "Warning: mind the ties",
        "time    4.0 s after start-up, 3.0 s computing",
        "wire    1.0 kB in 6 messages, 3 rounds",
        "memory  C 20.0 MB, B 30.0 MB, A 5.0 MB at the peak",
        "        880 bytes between B and A, forwarded by the coordinator's host",
    ]


def test_where_nothing_is_defined_one_sentence_says_so() -> None:
    a, b = tables(60, 2, 3)
    result = computed({"A": a * 0}, b)
    lines = printed(result).splitlines()
    assert lines.count("No feature has a defined strength.") == 1
    assert lines[2].split() == ["position", "feature", "mean", "rho", "mean", "|rho|"]
    assert "told apart" not in "".join(lines)
    assert page(result).inside("h2").count("Coefficients") == 0


def test_a_warning_about_many_columns_is_one_line() -> None:
    lines = printed(synthetic(warnings=["2 features cancel\nx\ny"])).splitlines()
    assert "Warning: 2 features cancel (listed in the report)" in lines
    assert not {"x", "y"} & set(lines)


def test_a_long_ranking_is_cut_on_the_terminal() -> None:
    text = printed(synthetic(400, 3, 50, warnings=[f"w{i}" for i in range(12)]))
    assert "... and 30 more, in ranking.csv" in text
    assert "The report has 9 more." in text
    assert len(text.splitlines()) <= 45


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_name_controls_the_terminal(encoding: str) -> None:
    a, b = tables(60, 2, 3)
    b.columns = ["\x1b[31mred\x07", "[bold]markup[/bold]", "größe ρ"]
    text = printed(computed({"A": a}, b, warnings=["[red]\x1b]0;title\x07[/red]"]), encoding)
    assert not {c for c in text if ord(c) < 32} - {"\n"}
    assert "[bold]markup[/bold]" in text
    assert ("größe" if encoding == "utf-8" else "gr\\xf6\\xdfe") in text


def test_a_copy_without_a_ranking_says_why() -> None:
    plan = shared_plan()
    text = printed(make_result(plan=plan, party="A", role="source", n=60, cost=COSTS[COSTS["party"] == "A"]))
    assert "holds no result" in text
    assert "60 rows, no results." in text
    assert "(results.sources)" in text
    assert "wire    540 bytes in 3 messages, 1 rounds, A alone" in text


def test_a_copy_without_canonical_correlations_says_why() -> None:
    plan = shared_plan(reveal="canonical", results={"target": "canonical", "precision": "statistical"})
    result = make_result(plan=plan, party="A", role="source", n=60, cost=COSTS[COSTS["party"] == "A"])
    assert "The canonical correlations are not in this result" in printed(result)
    assert "ranking" not in printed(result)
    assert "The canonical correlations are not in this result" in page(result).text
    with pytest.raises(NotRevealed):
        result.plot()


def test_pairs_with_a_constant_come_last_though_equation_2_gives_them_1() -> None:
    x = np.random.default_rng(2).normal(size=50)
    source, target = pd.DataFrame({"c": 1.0, "x": x}), pd.DataFrame({"c": 1.0, "y": -x})
    result = computed({"A": source}, target, estimator="paper")
    pairs = result.pairs()
    assert pairs["rho"].tolist() == [-1, 1, 0.5, 0.5]
    assert (pairs.loc[0, "source"], pairs.loc[0, "target"]) == ("x", "y")
    assert result.findings.headline().startswith(
        "The only pair with a p-value differs from chance: x × y with"
    )
