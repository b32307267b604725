"""The report's heat map: the values, in colours, marked where they stand."""

from __future__ import annotations

import math
from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from mpc_spearman.findings.sections import Matrix, number
from mpc_spearman.results import report
from mpc_spearman.results.charts import COOL, LONGEST_SIDE, WARM, HeatMap, heat_map, picture, shortened
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.columns import Ties
from support.made_results import (
    computed,
    make_result,
    matrix_of,
    page,
    parts,
    shared_plan,
    small,
    synthetic,
    tables,
)


def drawn(result: Result) -> HeatMap:
    (matrix,) = (section.matrix for section in result.findings.sections() if section.matrix)
    return heat_map(matrix)


def of(values: Any) -> Result:
    """A result with these coefficients, whose features rank in their order."""
    names = [f"t{j}" for j in range(len(values[0]))]
    plan = shared_plan()
    matrix = matrix_of(values, names, [("A", f"s{i}") for i in range(len(values))])
    held = parts(matrix, plan)
    held["ranking"] = held["ranking"].assign(feature=names)
    return small(plan=plan, **held)


@pytest.mark.parametrize(("source", "target"), [(1, 1), (4, 6), (200, 200)])
def test_the_map_has_the_strongest_rows_and_columns_in_their_order(source: int, target: int) -> None:
    result = synthetic(max(30, 2 * source), source, target)
    assert len(report.render(result).encode()) < 1_000_000
    frame = result.coefficients[list(result.ranking["feature"])]
    rows = frame.abs().max(axis=1).nlargest(LONGEST_SIDE).index
    columns = frame.abs().max().nlargest(LONGEST_SIDE).index
    expected = frame.loc[frame.index.isin(rows), frame.columns.isin(columns)]
    shown_map = drawn(result)
    assert [[cell.title.split(" (")[0] for cell in cells] for *_, cells in shown_map.rows] == [
        [f"{name} × {feature}: {number(rho)}" for feature, rho in row.items()]
        for (_, name), row in expected.iterrows()
    ]
    assert shown_map.whole == (max(source, target) <= LONGEST_SIDE)
    marked = result.qvalues <= 0.05
    shown = page(result)
    assert len(shown.of_class("found")) == marked.loc[expected.index, expected.columns].sum().sum()
    differing = int(marked.sum().sum())
    count = f"{differing:,} of {frame.size:,} pairs differ{'s' * (differing == 1)} from chance"
    if frame.size == 1:
        count = "The only pair with a p-value differs from chance"
    assert count in shown.text or not marked.to_numpy().any()


def test_an_undefined_row_gives_way_to_one_with_coefficients() -> None:
    values = np.full((LONGEST_SIDE + 5, 2), 0.01)
    values[3] = math.nan
    values[-1, 1] = -0.9
    shown = [name for name, *_ in drawn(of(values)).rows]
    assert len(shown) == LONGEST_SIDE
    assert "s3" not in shown
    assert shown[-1] == f"s{LONGEST_SIDE + 4}"


def test_colours_are_centred_on_zero_and_end_at_round_numbers() -> None:
    shown_map = drawn(of([[0.0, 0.13], [math.nan, -0.2]]))
    assert shown_map.bound == 0.2
    cells = [(cell.text, cell.colour, cell.percent) for *_, cells in shown_map.rows for cell in cells]
    assert cells == [(".00", "warm", 0), (".13", "warm", 65), ("", "", 0), ("−.20", "cool", 100)]


def test_features_of_one_name_in_two_sources_stay_apart() -> None:
    a, b = tables(60, 2, 3)
    result = computed({"A1": a, "A2": a[::-1].reset_index(drop=True)}, b)
    shown = page(result)
    for party in ("A1", "A2"):
        first = number(result.coefficients.loc[(party, "source_0"), "target_0"])
        assert any(title.startswith(f"{party} · source_0 × target_0: {first}") for title in shown.titles)
    assert len(shown.of_class("apart")) == 1


def test_titles_of_differing_pairs_have_an_interval() -> None:
    result = synthetic()
    ends, differing = result.intervals, result.qvalues <= 0.05
    assert differing.to_numpy().any()
    assert not differing.to_numpy().all()
    assert (ends.xs("low", level="bound").notna() == differing).all(axis=None)
    titles = page(result).titles
    for (_, source), row in differing.iterrows():
        for target, differs in row.items():
            (title,) = [text for text in titles if text.startswith(f"{source} × {target}: ")]
            assert (" to " in title) == differs
    arguments = {name: getattr(result, name) for name in ("plan", "party", "role", "n", "cost")}
    untested = page(make_result(**arguments, **parts(result.coefficients, result.plan, Ties.MANY, 1.5)))
    assert any("(none: many ties; q " in title for title in untested.titles)
    assert not untested.of_class("whisker")  # and a point alone where there is none
    assert [tag for tag, _ in untested.elements].count("circle") == 24


def test_the_whole_matrix_is_a_picture_where_the_map_is_not() -> None:
    matrix = drawn_matrix(np.array([[0.4, -0.4, 0.0, math.nan], [0.2, 0.8, -0.1, 0.0]]))
    pixels = decoded(picture(matrix, 0.4))
    assert pixels[:, :, 3].tolist() == [[254, 254, 0, 0], [128, 254, 64, 0]]
    colours = [[WARM, COOL], [WARM, WARM]]
    assert [[f"#{bytes(pixel[:3]).hex()}" for pixel in row[:2]] for row in pixels.tolist()] == colours
    large = np.zeros((2, 5000))
    large[1, 4321] = -0.4
    pixels = decoded(picture(drawn_matrix(large), 0.4))
    assert pixels.shape == (2, 600, 4)
    assert np.argwhere(pixels[:, :, 3]).tolist() == [[1, 4321 * 600 // 5000]]
    shown = page(synthetic(100, LONGEST_SIDE + 1, 3))
    assert shown.of_class("picture")
    assert not page(synthetic()).of_class("picture")


def drawn_matrix(values: np.ndarray) -> Matrix:
    names = [f"t{j}" for j in range(values.shape[1])]
    rows = [(f"s{i}", "A") for i in range(len(values))]
    return Matrix(values, values > 1, rows, names, lambda row, column: "", "ρ")


def decoded(address: str) -> np.ndarray:
    """Return the pixels of a picture, red, green, blue and opacity from 0 to 255."""
    data = b64decode(address.removeprefix("data:image/png;base64,"))
    return np.rint(255 * imread(BytesIO(data))).astype(int)


def test_long_names_are_cut_in_the_middle_unless_that_makes_them_equal() -> None:
    names = ["short", "systolic_blood_pressure_at_first_visit", "systolic_blood_pressure_at_last_visit"]
    assert shortened(names, 21) == ["short", "systolic_b…rst_visit", "systolic_b…ast_visit"]
    alike = [f"blood_pressure_{day}_of_the_week" for day in ("first", "second")]
    assert shortened(alike, 11) == alike
