"""The figures, and the page they are on."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.comparison import Link, page, per_run, plots
from support.sweeps import made_runs


def test_figures_are_the_same_again_and_fetch_nothing() -> None:
    first, again = (page.figures(made_runs(), None) for _ in range(2))
    assert list(first) == ["time-by-rows", "bytes-by-rows", "phases", "bandwidth"]
    for name, (title, figure) in first.items():
        drawing = plots.svg(figure)
        assert drawing == plots.svg(again[name][1])
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert not re.search(r"href=\"(?!#)|url\((?!#)|@import|<script", drawing)
        assert plots.pdf(figure).startswith(b"%PDF")
        assert title


def test_a_figure_names_its_axes_levels_and_schemes() -> None:
    text = "".join(
        ElementTree.fromstring(plots.svg(plots.scaling(per_run(made_runs()), "n", "seconds"))).itertext()
    )
    for word in ("rows n", "time", "differences", "coefficients", "MPC", "HE BFV", "10", "1k"):
        assert word in text


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.9), (0.3, 6.2), (0.21, 9.9), (0.4, 60.0), (0.01, 9000.0)])
def test_an_axis_has_a_few_ticks_however_long_it_is(low: float, high: float) -> None:
    runs = per_run(made_runs())
    runs["seconds"] = np.where(runs["n"] == 10, low, high)
    for axes in plots.scaling(runs, "n", "seconds").axes:
        bottom, top = axes.get_ylim()
        assert 3 <= sum(bottom <= tick <= top for tick in axes.get_yticks()) <= 8


def test_what_was_not_measured_is_drawn_as_that() -> None:
    runs = per_run(made_runs())
    guess = runs[runs["n"] == 1000].assign(n=50_000)
    text = "".join(ElementTree.fromstring(plots.svg(plots.scaling(runs, "n", "bytes", guess))).itertext())
    assert "extrapolated" in text
    assert "50k" in text


def test_both_estimators_of_a_scheme_are_two_lines() -> None:
    runs = per_run(pd.concat([made_runs(), made_runs().assign(estimator="paper")]))
    text = "".join(ElementTree.fromstring(plots.svg(plots.scaling(runs, "n", "seconds"))).itertext())
    assert "MPC, paper" in text
    assert "MPC, tie_corrected" in text


def test_the_page_shows_medians_on_every_network() -> None:
    table = made_runs()
    text = page.render(table, Link(1e6, 0.2), {})
    assert text.count("<tr>") == 1 + 8
    for words in ("LAN, modelled", "yours, modelled", "1 Mbit/s, 200 ms", "Up to 2 runs of each"):
        assert words in text
