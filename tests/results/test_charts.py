"""The heat map: what is drawn, and in which colours."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.results import charts, report
from support.made_results import (
    Page,
    computed,
    synthetic,
    tables,
)

# --- the heat map --------------------------------------------------------------------------------------


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
    drawn = charts.heat_map(result.coefficients)
    assert len(drawn.column_labels) == labels
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
    drawn = charts.heat_map(found.coefficients)
    assert drawn.left < 300
    assert drawn.top < 300


def test_a_side_that_is_too_long_is_drawn_in_blocks_that_hide_nothing() -> None:
    values = np.full((450, 2), 0.01)
    values[100, 0], values[101, 1] = -0.9, math.nan
    values[447:, 1] = math.nan
    index = pd.MultiIndex.from_tuples([("A", f"s{i}") for i in range(450)])
    drawn = charts.heat_map(pd.DataFrame(values, index=index, columns=["t", "u"]))
    assert len(drawn.rows) == 150
    shades = np.array([[cell.shade for cell in cells] for _, cells in drawn.rows])
    assert np.argwhere(shades[:, 0] != shades[0, 0]).ravel().tolist() == [100 // 3]
    assert int(shades[33, 0]) < charts.STEPS // 2
    assert np.argwhere(shades[:, 1] == "n").ravel().tolist() == [149]
    assert drawn.rows[33][1][0].title == "s99 … s101 × t: −0.900"
    assert "3 × 1" in drawn.notes[0]


def test_colours_are_centred_on_zero_and_the_scale_ends_at_a_round_number() -> None:
    index = pd.MultiIndex.from_tuples([("A", "p"), ("A", "q")])
    drawn = charts.heat_map(pd.DataFrame([[0.0, 0.13], [math.nan, -0.2]], index=index, columns=["x", "y"]))
    shades = [[cell.shade for cell in cells] for _, cells in drawn.rows]
    assert drawn.bound == 0.2
    assert shades == [[str(charts.STEPS // 2), "33"], ["n", "0"]]
    assert [cell.text for _, cells in drawn.rows for cell in cells] == ["0.00", "0.13", "", "−0.20"]


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_both_signs_can_be_told_apart_by_everyone(ramp: charts.Ramp, deficiency: str) -> None:
    def seen(colour: str) -> Any:
        srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        shifted = np.clip(DEFICIENCIES[deficiency] @ linear, 0, 1)
        return 255 * np.where(shifted <= 0.0031308, 12.92 * shifted, 1.055 * shifted ** (1 / 2.4) - 0.055)

    middle = charts.STEPS // 2
    for k in range(middle - 5):  # from a quarter of the scale on
        assert np.linalg.norm(seen(ramp.fills[k]) - seen(ramp.fills[-1 - k])) > 45


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
def test_stronger_means_farther_from_the_page_and_numbers_stay_legible(ramp: charts.Ramp) -> None:
    light = [charts.luminance(fill) for fill in ramp.fills]
    middle = charts.STEPS // 2
    direction = np.sign(light[0] - light[middle])
    assert (np.diff(light[middle:]) * direction > 0).all()
    assert (np.diff(light[: middle + 1]) * direction < 0).all()
    for fill, text in zip(ramp.fills, ramp.texts, strict=True):
        assert charts.contrast(fill, text) >= 4.5
