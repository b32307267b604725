"""Figures of a comparison, for a paper's column: vector graphics, units, colour-blind-safe colours.

Every function returns a `matplotlib.figure.Figure`; none touches matplotlib's global state. `svg` turns one
into a file's content, the same for the same figure.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from rich.filesize import decimal

from mpc_spearman.comparison.table import Link, on_network, per_run
from mpc_spearman.config import LEVELS

#: Width of a page's text in inches; a journal's column is half of it, and figures scale to that.
WIDTH = 7.0
STYLE: Any = {
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "mpc_spearman",
}
#: Okabe and Ito's colours (https://jfly.uni-koeln.de/color/), and a marker for who sees none.
_SCHEMES = {
    "MPC": ("#0072B2", "o"),
    "HE BFV": ("#D55E00", "s"),
    "HE Paillier short": ("#009E73", "^"),
    "HE Paillier packed": ("#CC79A7", "v"),
    "HE Paillier literal": ("#000000", "D"),
}
_OTHER = ("#E69F00", "P")
#: A column of the per-run table: what its axis is called, and how its ticks are written.
_QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "n": ("rows n", lambda x: f"{x / 1000:g}k" if x >= 1000 else f"{x:g}"),
    "columns": ("columns $m_A + m_B$", lambda x: f"{x:g}"),
    "seconds": ("time", lambda y: f"{y:,.9g} s"),
    "bytes": ("data sent by all", lambda y: decimal(round(y)).replace(".0", "")),
    "bandwidth": ("bandwidth, bit/s", lambda x: f"{x / 1e9:g} G" if x >= 1e9 else f"{x / 1e6:g} M"),
}


@matplotlib.rc_context(STYLE)
def svg(figure: Figure) -> str:
    """Return a figure as SVG text."""
    buffer = io.StringIO()
    # Nothing that differs from one time to the next.
    nothing: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue()


@matplotlib.rc_context(STYLE)
def scaling(runs: pd.DataFrame, x: str, y: str, estimates: pd.DataFrame | None = None) -> Figure:
    """Draw a quantity of runs against their size: a panel per level, a line per scheme, both axes log.

    `runs` are as `per_run` returns them, and repeats are drawn as their median; of `x`, ``n`` or ``columns``
    (m_A + m_B), only one should vary in them. `y` is ``seconds`` or ``bytes``. `estimates` are
    rows that were not measured: drawn dotted, with hollow markers.
    """
    guessed = runs.iloc[:0] if estimates is None else estimates
    every = pd.concat([runs.assign(measured=True), guessed.assign(measured=False)], ignore_index=True)
    every = every.assign(columns=every["m_A"] + every["m_B"])
    figure, grid = _panels([_QUANTITIES[y][0]], _levels(every), _QUANTITIES[x][0], every["scheme"])
    for axes, level in zip(grid[0], _levels(every), strict=True):
        _lines(axes, every[every["level"] == level], x, y)
    return figure


@matplotlib.rc_context(STYLE)
def bandwidths(table: pd.DataFrame, rtts: Sequence[float]) -> Figure:
    """Draw modelled time against bandwidth: panels for each round-trip time (s) and level.

    `table` is the tidy table, with one size.
    """
    names = [f"time, RTT {rtt * 1000:g} ms" for rtt in rtts]
    figure, grid = _panels(names, _levels(table), _QUANTITIES["bandwidth"][0], table["scheme"])
    steps = [10 ** (5 + k / 16) for k in range(81)]  # 100 kbit/s to 10 Gbit/s
    for row, rtt in zip(grid, rtts, strict=True):
        runs = per_run(on_network(table, Link(1.0, rtt)))
        for axes, level in zip(row, _levels(table), strict=True):
            for run in runs[runs["level"] == level].to_dict("records"):
                fixed = run["seconds"] + run["latency"]
                times = [fixed + run["transfer"] / step for step in steps]
                axes.plot(steps, times, color=_look(str(run["scheme"]))[0])
            _log(axes, "bandwidth", "seconds")
    return figure


def _panels(rows: Sequence[str], columns: Sequence[str], x: str, schemes: pd.Series) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, 0.9 + 1.75 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title)
    for axes, name in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(name)
    for axes in grid[-1]:
        axes.set_xlabel(x)
    looks = [(scheme, *_look(scheme)) for scheme in _schemes(schemes)]
    handles = [Line2D([], [], color=colour, marker=marker, label=name) for name, colour, marker in looks]
    ncols = len(handles) if len(handles) < 6 else 4
    figure.legend(handles=handles, loc="outside lower center", ncols=ncols, frameon=False)
    return figure, grid


def _lines(axes: Axes, runs: pd.DataFrame, x: str, y: str) -> None:
    """Draw a line per scheme; what was not measured dotted, from the last point that was."""
    for scheme in _schemes(runs["scheme"]):
        colour, marker = _look(scheme)
        of_scheme = runs[runs["scheme"] == scheme]
        measured, guessed = (
            of_scheme[of_scheme["measured"] == is_measured].groupby(x)[y].median()
            for is_measured in (True, False)
        )
        axes.plot(measured.index, measured, color=colour, marker=marker)
        tail = pd.concat([measured.tail(1), guessed])
        axes.plot(tail.index, tail, color=colour, linestyle=":")
        axes.plot(guessed.index, guessed, color=colour, marker=marker, linestyle="", markerfacecolor="white")
    _log(axes, x, y)


def _log(axes: Axes, x: str, y: str) -> None:
    """Make both axes logarithmic, with ticks at 1, 2 and 5 where these are few, in the quantities' units."""
    axes.set(xscale="log", yscale="log")
    for axis, quantity in ((axes.xaxis, x), (axes.yaxis, y)):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        write = _QUANTITIES[quantity][1]
        axis.set_major_formatter(FuncFormatter(lambda value, _, write=write: write(value)))
        axis.set_minor_locator(NullLocator())


def _levels(table: pd.DataFrame) -> list[str]:
    return [level for level in LEVELS if (table["level"] == level).any()]


def _schemes(names: pd.Series) -> list[str]:
    return sorted(set(names), key=lambda name: (*_SCHEMES, name).index(name))


def _look(scheme: str) -> tuple[str, str]:
    return _SCHEMES.get(scheme, _OTHER)
