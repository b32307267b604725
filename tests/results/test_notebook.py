"""What a result shows in a notebook: one long table of pairs, a summary, a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import NotRevealed, correlate
from mpc_spearman.errors import PlanError, TableError
from support.made_results import computed, granted, small, tables
from support.references import normal_tables


def test_pairs_are_the_matrices_in_one_table_strongest_first() -> None:
    a, b = tables(60, 3, 4)
    b["constant"] = 1.0
    result = computed({"A": a, "D": a.iloc[:, :1]}, b)
    pairs = result.pairs()
    assert list(pairs.columns) == ["party", "source", "target", "rho", "p", "q", "low", "high"]
    assert len(pairs) == 4 * 5
    sizes = pairs["rho"].abs().to_numpy()
    assert np.isnan(sizes[-4:]).all()
    assert (np.diff(sizes[:-4]) <= 0).all()
    for pair in pairs.itertuples():
        at = (pair.party, pair.source)
        expected = [
            frame.loc[at, pair.target] for frame in (result.coefficients, result.pvalues, result.qvalues)
        ]
        expected += [result.intervals.loc[(*at, bound), pair.target] for bound in ("low", "high")]
        np.testing.assert_array_equal([pair.rho, pair.p, pair.q, pair.low, pair.high], expected)


def test_a_summary_is_html_in_which_names_are_text() -> None:
    a, b = tables(60, 2, 12)
    b = b.rename(columns={"target_0": "<b>&\x1b"})
    shown = computed({"<i>A": a}, b, warnings=["<u>w\nlines"])._repr_html_()
    assert "&lt;b&gt;&amp;\ufffd" in shown
    assert "&lt;u&gt;w" in shown
    assert not [tag for tag in ("<b>&", "<i>", "<u>") if tag in shown]
    assert "… and 14 more" in shown  # of 24 pairs


@pytest.mark.parametrize("m", [1, 6, 60])
def test_a_figure_has_the_ranking_and_the_coefficients(m: int) -> None:
    pytest.importorskip("matplotlib")
    a, b = tables(60, m, m)
    b = b.rename(columns={"target_0": "$x_1 $"})
    result = computed({"A": a}, b)
    figure = result.plot()
    bars, heat_map, _ = figure.axes
    assert [bar.get_width() for bar in bars.patches] == result.ranking["strength"].tolist()[:40]
    assert [label.get_text() for label in bars.get_yticklabels()][:1] == [
        result.ranking["feature"][0].replace("$", r"\$")
    ]
    drawn = heat_map.images[0].get_array()
    np.testing.assert_array_equal(drawn, result.coefficients[list(result.ranking["feature"])])
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("warm")
def test_two_tables_are_correlated_over_the_people_that_both_have() -> None:
    tables = normal_tables()
    a, b = tables["A"].iloc[5:].sample(frac=1, random_state=1), tables["B"].iloc[:-3]
    a.iloc[0, 1] = np.nan
    result = correlate(a.rename(columns={"id": "who"}), b.rename(columns={"id": "who"}), "who")
    both = a.dropna().merge(b, on="id")
    assert result.n == len(both)
    expected = both[[*"abxyz"]].corr("spearman").loc[[*"ab"], [*"xyz"]]
    np.testing.assert_allclose(result.coefficients, expected, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("warm")
def test_two_tables_are_correlated_with_keys_of_each_or_of_both(tmp_path: Path) -> None:
    tables = normal_tables()
    a = tables["A"].rename(columns={"id": "patient"}).assign(name="somebody", grade=["low", "high"] * 20)
    b = tables["B"].rename(columns={"id": "insured"})
    keys: dict[str, Any] = {"exclude": {"A": ["name"]}, "encode": {"A": {"grade": ["low", "high"]}}}
    result = correlate(a, b, on=("patient", "insured"), missing="error", out=tmp_path / "run", **keys)
    grades = pd.Series([0, 1] * 20)
    expected = [grades.corr(b[name], method="spearman") for name in "xyz"]
    np.testing.assert_allclose(result.coefficients.loc[("A", "grade")], expected, rtol=0, atol=1e-12)
    pairs = pd.read_csv(tmp_path / "run" / "C" / "pairs.csv")
    pd.testing.assert_frame_equal(pairs, result.pairs(), check_exact=True)
    assert not (tmp_path / "run" / "B" / "pairs.csv").exists()  # it was granted strengths alone


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": "series"}, "A: a Series is a single column"),
        ({"on": "patient"}, 'B: the table: id: there is no column ... name it with on="...", or on=('),
        ({"on": ("patient", "insured", "id")}, "on: a tuple of 3"),
        ({"exclud": ["name"]}, "no keyword 'exclud'; did you mean 'exclude'"),
        ({"parties": {}}, "no keyword 'parties'"),
        ({"exclude": ["name"]}, 'B: the table: exclude: there is no column ... write exclude={"A":'),
        ({}, """column 'name': ... leave it out with exclude={"A": ["""),
        pytest.param(
            {"B": "text"},
            """leave it out with exclude={"A": [...leave it out with exclude={"B": [""",
            marks=pytest.mark.long,
        ),
        ({"missing": {"A": "dropp"}}, "A: missing: 'dropp' is not allowed"),
    ],
)
def test_a_wrong_table_or_keyword_is_refused_in_terms_of_python(change: dict[str, Any], message: str) -> None:
    tables = normal_tables()
    a = tables["A"].rename(columns={"id": "patient"}).assign(name="somebody")
    b, on = tables["B"].rename(columns={"id": "insured"}), change.pop("on", ("patient", "insured"))
    first: Any = a["name"] if change.pop("A", "") else a
    b = b.assign(ward="north") if change.pop("B", "") else b
    with pytest.raises((PlanError, TableError)) as refusal:
        correlate(first, b, on, **change)
    assert all(part in str(refusal.value) for part in message.split("..."))


def test_what_was_not_revealed_is_not_shown() -> None:
    strengths = granted("strengths")
    with pytest.raises(NotRevealed):
        strengths.pairs()
    assert ">ρ<" in small()._repr_html_()
    assert ">ρ<" not in strengths._repr_html_()
    pytest.importorskip("matplotlib")
    assert len(strengths.plot().axes) == 1
