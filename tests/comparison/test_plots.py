"""The figures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
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
    one_size = table[table["n"] == 1000]
    runs = per_run(table)
    guess = runs[runs["n"] == 1000].assign(n=50_000)
    return {
        "scaling": plots.scaling(runs, "n", "bytes", guess),
        "bandwidths": plots.bandwidths(one_size, [LAN.rtt, WAN.rtt]),
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
        "bandwidths": ("bandwidth, bit/s", "time, RTT 40 ms", "coefficients", "MPC"),
    }
    again = drawn()
    for name, figure in drawn().items():
        text = plots.svg(figure)
        assert text == plots.svg(again[name])
        assert not re.search(r"href=\"(?!#)|url\((?!#)|@import|<script", text)
        shown = "".join(ElementTree.fromstring(text).itertext())
        for word in words[name]:
            assert word in shown
