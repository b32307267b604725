"""The report's heat map and its colours: every value there, in any size and order, told apart by everyone."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.results import charts, heat_map, report
from mpc_spearman.results.evidence import Pair, pairs
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.columns import Ties
from support.made_results import Page, computed, parts, synthetic, tables


def of(matrix: pd.DataFrame) -> heat_map.HeatMap:
    """The heat map of coefficients of which nothing else is known."""
    rows = [
        [Pair(party, feature, name, value, *[math.nan] * 4) for name, value in row.items()]
        for (party, feature), row in matrix.iterrows()
    ]
    return heat_map.heat_map(rows, 0.95)


@pytest.mark.parametrize(
    ("source", "target", "printed", "labels"),
    [(1, 1, 1, 1), (4, 6, 24, 6), (30, 30, 900, 30), (200, 200, 0, 40)],
)
def test_the_heat_map_scales(source: int, target: int, printed: int, labels: int) -> None:
    result = synthetic(max(30, 2 * source), source, target)
    text = report.render(result)
    assert len(text.encode()) < 4_000_000
    found = Page(text)
    assert len(found.of_class("c")) == source * target
    assert (
        len([a for tag, a in found.elements if tag == "text" and re.match(r"t\d", a.get("class", ""))])
        == printed
    )
    drawn = heat_map.heat_map(pairs(result), 0.95)
    assert sum(line.shown for line in drawn.columns) == labels
    assert drawn.left + drawn.cell_width * target <= 1024, "wider than the page"
    # Every value can be had by hovering, at three digits, under the names of its row and column.
    first, last = result.ranking["feature"].iloc[[0, -1]]
    for feature in (first, last):
        value = result.coefficients.iloc[-1][feature]
        wanted = f"source_{source - 1} × {feature}: {charts.number(value)}"
        assert any(title.startswith(wanted) for title in found.inside("title"))
    assert ("The same as a table" in text) == (source * target <= 1000)


def test_long_names_do_not_blow_the_page_up() -> None:
    a, b = tables(400, 200, 200)
    a.columns = [f"{i}<{'x' * 300}" for i in range(200)]
    b.columns = [f"{'y' * 300}{i}" for i in range(200)]
    found = computed({"A": a}, b)
    assert len(report.render(found).encode()) < 4_000_000
    drawn = heat_map.heat_map(pairs(found), 0.95)
    assert drawn.left < 300
    assert drawn.top < 300


def test_a_side_that_is_too_long_is_drawn_in_blocks_that_hide_nothing() -> None:
    values = np.full((450, 2), 0.01)
    values[100, 0], values[101, 1] = -0.9, math.nan
    values[447:, 1] = math.nan
    index = pd.MultiIndex.from_tuples([("A", f"s{i}") for i in range(450)])
    drawn = of(pd.DataFrame(values, index=index, columns=["t", "u"]))
    assert len(drawn.rows) == 150
    shades = np.array([[cell.shade for cell in cells] for cells in drawn.cells])
    assert np.argwhere(shades[:, 0] != shades[0, 0]).ravel().tolist() == [100 // 3]
    assert int(shades[33, 0]) < charts.STEPS // 2
    assert np.argwhere(shades[:, 1] == "n").ravel().tolist() == [149]
    assert drawn.cells[33][0].title == "s99 … s101 × t: −0.900"
    assert "3 × 1" in drawn.notes[0]


def test_colours_are_centred_on_zero_and_the_scale_ends_at_a_round_number() -> None:
    index = pd.MultiIndex.from_tuples([("A", "p"), ("A", "q")])
    drawn = of(pd.DataFrame([[0.0, 0.13], [math.nan, -0.2]], index=index, columns=["x", "y"]))
    shades = [[cell.shade for cell in cells] for cells in drawn.cells]
    assert drawn.bound == 0.2
    assert shades == [[str(charts.STEPS // 2), "33"], ["n", "0"]]
    assert [cell.text for cells in drawn.cells for cell in cells] == ["0.00", "0.13", "", "−0.20"]


def test_features_of_one_name_in_two_sources_stay_apart(tmp_path: Path) -> None:
    a, b = tables(60, 2, 3)
    whole = computed({"A1": a, "A2": a[::-1].reset_index(drop=True)}, b)
    back = Result.load(whole.save(tmp_path / "C"))
    pd.testing.assert_frame_equal(back.coefficients, whole.coefficients)
    assert not np.allclose(back.coefficients.loc["A1"], back.coefficients.loc["A2"])
    page = (tmp_path / "C" / "report.html").read_text()
    for party in ("A1", "A2"):
        first = charts.number(whole.coefficients.loc[(party, "source_0"), "target_0"])
        assert f"{party} · source_0 × target_0: {first}" in page
        assert f'<tr><th scope="row"><bdi>{party} · source_0</bdi></th>' in page


def test_sources_are_set_apart() -> None:
    a, b = tables(60, 2, 3)
    drawn = heat_map.heat_map(pairs(computed({"A1": a, "A2": a}, b)), 0.95)
    tops = [line.at for line in drawn.rows]
    assert np.diff(tops).tolist() == [drawn.cell_height, drawn.cell_height + 8, drawn.cell_height]
    assert drawn.rows[2].full == "A2 · source_0"


# --- in another order, and marks -----------------------------------------------------------------------


def test_like_rows_and_columns_are_neighbours_when_ordered_by_likeness() -> None:
    generator = np.random.default_rng(2)
    rows, columns = generator.permutation(12) % 3, generator.permutation(9) % 3
    values = np.where(rows[:, None] == columns[None, :], 0.8, -0.2) + generator.normal(0, 0.05, (12, 9))
    values[3, 4] = math.nan
    index = pd.MultiIndex.from_tuples([("A", f"s{i}") for i in range(12)])
    drawn = of(pd.DataFrame(values, index=index, columns=[f"t{j}" for j in range(9)]))
    assert drawn.clustered
    for lines, kinds, pitch in (
        (drawn.rows, rows, drawn.cell_height),
        (drawn.columns, columns, drawn.cell_width),
    ):
        places = [line.clustered // pitch for line in lines]
        assert sorted(places) == list(range(len(lines)))
        in_order = kinds[np.argsort(places)]
        assert np.count_nonzero(np.diff(in_order)) == 2, "each kind in one piece"


@pytest.mark.parametrize(
    ("source", "target", "offered"),
    [(4, 6, False), (10, 10, True), (2, 60, False), (200, 200, True), (201, 5, False)],
)
def test_large_matrices_can_be_ordered_by_likeness(source: int, target: int, offered: bool) -> None:
    found = Page(report.render(synthetic(max(30, 2 * source), source, target)))
    choices = [a for tag, a in found.elements if tag == "input"]
    assert [a["type"] for a in choices] == ["radio"] * (2 if offered else 0)
    assert [a["id"] for a in choices if "checked" in a] == ["ranked"] * offered
    if offered:  # whatever the order, labels in reach of each cell
        drawn = heat_map.heat_map(pairs(synthetic(max(30, 2 * source), source, target)), 0.95)
        for lines in (drawn.rows, drawn.columns):
            shown = sum(line.shown for line in lines)
            assert shown == sum(line.shown_clustered for line in lines)


@pytest.mark.parametrize(("source", "target"), [(4, 6), (100, 100)])
def test_pairs_that_stand_are_marked_and_counted(source: int, target: int) -> None:
    result = synthetic(60, source, target)
    found = result.qvalues.to_numpy() <= 0.05
    marked = int((found & (result.coefficients.abs().to_numpy() >= 0.1)).sum())
    text = report.render(result)
    assert f"{found.sum():,} of {found.size:,} pairs have q ≤ 5 %" in text
    assert f"; {marked:,} of these have |ρ| ≥ 0.1" in text
    drawn = heat_map.heat_map(pairs(result), 0.95)
    order = list(result.ranking["feature"])
    in_order = (result.qvalues[order] <= 0.05) & (result.coefficients[order].abs() >= 0.1)
    marks = np.array([[cell.mark for cell in cells] for cells in drawn.cells])
    if drawn.gap:
        assert np.array_equal(marks == "s", in_order)
    else:
        assert np.array_equal(marks == "o", ~in_order)
    assert ("A tick in the upper left corner" in text) == bool(drawn.gap)


def test_an_interval_is_told_on_hover_and_where_there_is_none() -> None:
    result = synthetic()
    low, high = (result.intervals.xs(end, level="bound").iloc[0, 0] for end in ("low", "high"))
    titles = Page(report.render(result)).inside("title")
    (title,) = [title for title in titles if title.startswith("source_0 × target_0: ")]
    assert f"(95 % interval {charts.number(low)} to {charts.number(high)}; p = " in title
    a, b = tables(60, 4, 6)
    without = computed({"A": a}, b, **parts(result.coefficients, result.plan, Ties.MANY, 0.5))
    titles = Page(report.render(without)).inside("title")
    (title,) = [title for title in titles if title.startswith("source_0 × target_0: ")]
    assert "(95 % interval none: many ties; p = " in title
