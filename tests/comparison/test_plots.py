"""The figures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mpc_spearman.comparison import LAN, WAN, per_run, plots
from support.sweeps import made_table


def made_runs() -> pd.DataFrame:
    """A table of two schemes, two levels, two sizes and repeats."""
    parts = []
    for factor, (scheme, level) in enumerate(
        [(s, lv) for s in ("MPC", "HE BFV") for lv in ("differences", "coefficients")], start=1
    ):
        for n in (10, 1000):
            for repeat in (1, 2):
                part = made_table().assign(scheme=scheme, level=level, n=n, repeat=repeat)
                parts.append(part.assign(seconds=part["seconds"] * factor * n, bytes=part["bytes"] * n))
    return pd.concat(parts, ignore_index=True)


def drawn() -> dict[str, Figure]:
    table = made_runs()
    one = table[table["n"] == 1000]
    runs = per_run(table)
    guess = runs[runs["n"] == 1000].assign(n=50_000)
    return {
        "scaling": plots.scaling(runs, "n", "bytes", guess),
        "networks": plots.networks(table, [("LAN", LAN), ("WAN", WAN)]),
        "bandwidths": plots.bandwidths(one, [LAN.rtt, WAN.rtt]),
        "phases": plots.phases(one),
    }


def test_figures_are_the_same_again_fetch_nothing_and_name_what_they_show() -> None:
    words = {
        "scaling": (
            "rows n",
            "data sent by all",
            "differences",
            "coefficients",
            "MPC",
            "HE BFV",
            "1k",
            "10k",
        ),
        "networks": ("rows n", "time, LAN", "time, WAN", "differences", "HE BFV"),
        "bandwidths": ("bandwidth, bit/s", "time, RTT 40 ms", "coefficients", "MPC"),
        "phases": ("seconds", "waiting", "differences", "HE BFV"),
    }
    again = drawn()
    for name, figure in drawn().items():
        text = plots.svg(figure)
        assert text == plots.svg(again[name])
        assert not re.search(r"href=\"(?!#)|url\((?!#)|@import|<script", text)
        shown = "".join(ElementTree.fromstring(text).itertext())
        for word in words[name]:
            assert word in shown


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.9), (0.3, 6.2), (0.21, 9.9), (0.4, 60.0), (0.01, 9000.0)])
def test_an_axis_has_a_few_ticks_however_long_it_is(low: float, high: float) -> None:
    runs = per_run(made_runs())
    runs["seconds"] = np.where(runs["n"] == 10, low, high)
    for axes in plots.scaling(runs, "n", "seconds").axes:
        bottom, top = axes.get_ylim()
        assert 2 <= sum(bottom <= tick <= top for tick in axes.get_yticks()) <= 8
