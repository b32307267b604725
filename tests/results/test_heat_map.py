"""The report's heat map: the values, in colours, marked where they stand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpc_spearman.results import charts, report
from mpc_spearman.results.evidence import Pair, pairs
from mpc_spearman.results.heat_map import LONGEST_SIDE, heat_map
from mpc_spearman.statistics.columns import Ties
from support.made_results import computed, page, parts, synthetic, tables


def of(values: list[list[float]]) -> list[list[Pair]]:
    """Pairs of which nothing but the coefficient is known."""
    return [
        [Pair("A", f"s{i}", f"t{j}", value, *[math.nan] * 4) for j, value in enumerate(row)]
        for i, row in enumerate(values)
    ]


@pytest.mark.parametrize(("source", "target"), [(1, 1), (4, 6), (30, 30), (200, 200)])
def test_the_map_has_the_strongest_rows_and_columns_in_their_order(source: int, target: int) -> None:
    result = synthetic(max(30, 2 * source), source, target)
    assert len(report.render(result).encode()) < 1_000_000
    drawn = heat_map(pairs(result))
    frame = result.coefficients[list(result.ranking["feature"])]
    rows = frame.abs().max(axis=1).nlargest(LONGEST_SIDE).index
    columns = frame.abs().max().nlargest(LONGEST_SIDE).index
    expected = frame.loc[frame.index.isin(rows), frame.columns.isin(columns)]
    assert [[pair.rho for pair, _ in row] for row in drawn.rows] == expected.to_numpy().tolist()
    assert drawn.whole == (max(source, target) <= LONGEST_SIDE)
    found = page(result)
    cells = [a for tag, a in found.elements if tag == "td" and a.get("title")]
    assert len(cells) == expected.size
    marked = (result.qvalues <= 0.05) & (result.coefficients.abs() >= 0.1)
    assert (
        sum("found" in a["class"] for a in cells) == marked.loc[expected.index, expected.columns].sum().sum()
    )
    assert f"{(result.qvalues <= 0.05).sum().sum():,} of {frame.size:,} pairs have q ≤ 5 %" in found.text
    assert f"; {marked.sum().sum():,} of these have |ρ| ≥ 0.1" in found.text


def test_an_undefined_row_gives_way_to_one_with_coefficients() -> None:
    values = np.full((LONGEST_SIDE + 5, 2), 0.01)
    values[3] = math.nan
    values[-1, 1] = -0.9
    drawn = heat_map(of(values.tolist()))
    shown = [row[0][0].source for row in drawn.rows]
    assert len(shown) == LONGEST_SIDE
    assert "s3" not in shown
    assert shown[-1] == f"s{LONGEST_SIDE + 4}"
    assert not drawn.undefined


def test_colours_are_centred_on_zero_and_the_scale_ends_at_a_round_number() -> None:
    drawn = heat_map(of([[0.0, 0.13], [math.nan, -0.2]]))
    assert (drawn.bound, drawn.undefined) == (0.2, True)
    assert [[shade for _, shade in row] for row in drawn.rows] == [[str(charts.STEPS // 2), "33"], ["n", "0"]]


def test_features_of_one_name_in_two_sources_stay_apart() -> None:
    a, b = tables(60, 2, 3)
    result = computed({"A1": a, "A2": a[::-1].reset_index(drop=True)}, b)
    found = page(result)
    for party in ("A1", "A2"):
        first = charts.number(result.coefficients.loc[(party, "source_0"), "target_0"])
        assert any(title.startswith(f"{party} · source_0 × target_0: {first}") for title in found.titles)
    assert len(found.of_class("apart")) == 1


def test_an_interval_is_told_on_hover_and_where_there_is_none() -> None:
    result = synthetic()
    low, high = (result.intervals.xs(end, level="bound").iloc[0, 0] for end in ("low", "high"))
    (title,) = [title for title in page(result).titles if title.startswith("source_0 × target_0: ")]
    assert f"(95 % interval {charts.number(low)} to {charts.number(high)}; p = " in title
    a, b = tables(60, 4, 6)
    without = computed({"A": a}, b, **parts(result.coefficients, result.plan, Ties.MANY, 0.5))
    (title,) = [title for title in page(without).titles if title.startswith("source_0 × target_0: ")]
    assert "(95 % interval none: many ties; p = " in title
    assert len(page(without).of_class("whisker")) < 20  # and a point alone where there is none
    assert [tag for tag, _ in page(without).elements].count("circle") == 20
