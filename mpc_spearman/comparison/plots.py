"""Figures of a comparison, for a paper's column: vector graphics, units, colour-blind-safe colours.

Every function returns a `matplotlib.figure.Figure`; none touches matplotlib's global state. `svg` and `pdf`
turn one into a file's content, the same for the same figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from rich.filesize import decimal

from mpc_spearman.comparison.network_model import Link, on_network
from mpc_spearman.comparison.table import RUN, after_handshake, per_run
from mpc_spearman.config import LEVELS

#: Width of a page's text in inches; a journal's column is half of it, and figures scale to that.
WIDTH = 7.0
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
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
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "mpc_spearman",
    "pdf.fonttype": 42,
    "figure.facecolor": "white",
}
#: Okabe and Ito's colours (https://jfly.uni-koeln.de/color/), and a marker for who sees none.
_SCHEMES = {
    "MPC": ("#0072B2", "o"),
    "HE BFV": ("#D55E00", "s"),
    "HE Paillier short": ("#009E73", "^"),
    "HE Paillier packed": ("#CC79A7", "v"),
    "HE Paillier literal": ("#000000", "D"),
}
_OTHERS = (("#E69F00", "P"), ("#56B4E9", "X"), ("#8c8c8c", "*"))
#: Phases that are shown as one, in the order of a run, with their colour.
_PHASES = {
    "prepare": (("load", "intersect", "agree", "rank", "align", "describe"), "#bbbbbb"),
    "keys": (("keys",), "#F0E442"),
    "encrypt / share": (("encrypt", "share"), "#56B4E9"),
    "evaluate / multiply": (("evaluate", "multiply"), "#0072B2"),
    "decrypt / reveal": (("decrypt", "reveal"), "#D55E00"),
    "publish": (("publish",), "#009E73"),
}
#: Nothing that differs from one time to the next, nor says what a figure's place does.
_NO_METADATA: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
#: A figure of the per-run table: what an axis is called, and how its ticks are written.
_QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "n": ("rows n", lambda x: f"{x / 1000:g}k" if x >= 1000 else f"{x:g}"),
    "columns": ("columns $m_A + m_B$", lambda x: f"{x:g}"),
    "seconds": ("time", lambda y: f"{y:,.9g} s"),
    "modelled": ("time", lambda y: f"{y:,.9g} s"),
    "bytes": ("data sent by all", lambda y: decimal(round(y)).replace(".0", "")),
}


def svg(figure: Figure) -> str:
    """Return a figure as SVG text."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return buffer.getvalue()


def pdf(figure: Figure) -> bytes:
    """Return a figure as a PDF with embedded fonts."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def scaling(runs: pd.DataFrame, x: str, y: str, estimates: pd.DataFrame | None = None) -> Figure:
    """Draw a quantity of each run against its size: a panel per level, a line per scheme, both axes log.

    Parameters
    ----------
    runs : DataFrame
        As `per_run` returns it; repeats are drawn as their median.
    x : {"n", "columns"}
        Only one of the two should vary in `runs`; for ``columns`` m_A + m_B.
    y : {"seconds", "bytes", "modelled"}
    estimates : DataFrame, optional
        Rows like those of `runs` that were not measured: drawn dotted, with hollow markers.
    """
    parts = [runs.assign(measured=True)]
    if estimates is not None:
        parts.append(estimates.assign(measured=False))
    every = pd.concat(parts, ignore_index=True)
    every = _named(every.assign(columns=every["m_A"] + every["m_B"]))
    levels = _levels(every)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        grid = figure.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)
        for axes, level in zip(grid[0], levels, strict=True):
            _lines(axes, every[every["level"] == level], x, y)
        _name_sizes(grid, every[x])
        _around(grid, levels, _QUANTITIES[x][0])
        grid[0, 0].set_ylabel(_QUANTITIES[y][0])
        _legend(figure, every["scheme"], extrapolated=estimates is not None)
    return figure


def networks(table: pd.DataFrame, links: Sequence[tuple[str, Link | None]]) -> Figure:
    """Draw time against rows on several networks: a row of panels each, one per level, a line per scheme.

    Parameters
    ----------
    table : DataFrame
        The tidy table; runs of one number of columns.
    links : sequence of (str, Link or None)
        Name and network; None for this machine alone, as measured.
    """
    table = _named(table)
    levels = _levels(table)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.5 + 1.75 * len(links)), layout="constrained")
        grid = figure.subplots(len(links), len(levels), sharex=True, sharey=True, squeeze=False)
        for row, (name, link) in zip(grid, links, strict=True):
            y = "seconds" if link is None else "modelled"
            runs = per_run(table if link is None else on_network(table, link))
            for axes, level in zip(row, levels, strict=True):
                _lines(axes, runs[runs["level"] == level], "n", y)
                axes.set_xlabel("")
            row[0].set_ylabel(f"time, {name}")
        _name_sizes(grid, table["n"])
        _around(grid, levels, _QUANTITIES["n"][0])
        _legend(figure, table["scheme"])
    return figure


def bandwidths(table: pd.DataFrame, rtts: Sequence[float]) -> Figure:
    """Draw modelled time against bandwidth: a row of panels for each round-trip time, one panel per level.

    Parameters
    ----------
    table : DataFrame
        The tidy table, with one size.
    rtts : sequence of float
        Seconds.
    """
    table = _named(table)
    levels = _levels(table)
    steps = [10 ** (5 + k / 16) for k in range(81)]  # 100 kbit/s to 10 Gbit/s
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.6 + 1.75 * len(rtts)), layout="constrained")
        grid = figure.subplots(len(rtts), len(levels), sharex=True, sharey=True, squeeze=False)
        for row, rtt in zip(grid, rtts, strict=True):
            runs = _median(per_run(on_network(table, Link(1.0, rtt))), ["seconds", "transfer", "latency"])
            for axes, level in zip(row, levels, strict=True):
                for run in runs[runs["level"] == level].to_dict("records"):
                    fixed = run["seconds"] + run["latency"]
                    colour, _ = _look(str(run["scheme"]))
                    axes.plot(steps, [fixed + run["transfer"] / step for step in steps], color=colour)
                _log(axes.xaxis, lambda x: f"{x / 1e9:g} G" if x >= 1e9 else f"{x / 1e6:g} M")
                _log(axes.yaxis, _QUANTITIES["seconds"][1])
            row[0].set_ylabel(f"time, RTT {rtt * 1000:g} ms")
        _around(grid, levels, "bandwidth, bit/s")
        _legend(figure, table["scheme"], markers=False)
    return figure


def phases(table: pd.DataFrame) -> Figure:
    """Draw what each party does in each phase: a row of panels per level, one per scheme, a bar per party.

    Parameters
    ----------
    table : DataFrame
        The tidy table, with one size; each panel has its own time axis.
    """
    table = _named(table)
    levels, schemes = _levels(table), _schemes(table["scheme"])
    with matplotlib.rc_context(STYLE | {"axes.grid.axis": "x"}):
        figure = Figure(figsize=(WIDTH, 0.9 + 0.95 * len(levels)), layout="constrained")
        grid = figure.subplots(len(levels), len(schemes), squeeze=False)
        for row, level in zip(grid, levels, strict=True):
            for axes, scheme in zip(row, schemes, strict=True):
                rows = table[(table["level"] == level) & (table["scheme"] == scheme)]
                if rows.empty:
                    axes.axis("off")
                else:
                    _bars(axes, rows)
            next(axes for axes in row if axes.axison).set_ylabel(level)
        _around(grid, [scheme.replace("HE Paillier", "Paillier") for scheme in schemes], "seconds")
        shown = [name for name, (members, _) in _PHASES.items() if table["phase"].isin(members).any()]
        handles = [Patch(color=_PHASES[name][1], label=name) for name in shown]
        handles.append(Patch(facecolor="white", edgecolor="#777777", hatch="/////", label="waiting"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    rows = after_handshake(rows)
    repeats = rows["repeat"].nunique()
    parties = list(dict.fromkeys(rows["party"]))[::-1]
    start = dict.fromkeys(parties, 0.0)
    pieces = [(members, colour, "seconds") for members, colour in _PHASES.values()]
    pieces.append((tuple(rows["phase"].unique()), "white", "wait"))
    for members, colour, column in pieces:
        spent = rows[rows["phase"].isin(members)].groupby("party")[column].sum() / repeats
        widths = [float(spent.get(party, 0.0)) for party in parties]
        axes.barh(
            parties,
            widths,
            left=[start[party] for party in parties],
            color=colour,
            edgecolor="#777777" if column == "wait" else "none",
            linewidth=0.4 if column == "wait" else 0,
            hatch="/////" if column == "wait" else None,
            height=0.72,
        )
        start = {party: start[party] + width for party, width in zip(parties, widths, strict=True)}
    axes.locator_params(axis="x", nbins=3)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)


# --- parts of figures -----------------------------------------------------------------------------------


def _name_sizes(grid: Any, sizes: pd.Series) -> None:
    """Put ticks at the sizes that were measured; the panels share their x axis."""
    grid[-1, 0].set_xticks(_apart(sorted(set(sizes))))


def _around(grid: Any, titles: Sequence[str], x: str) -> None:
    """Title each column of panels, and name the x axis below its lowest panel; empty panels have neither."""
    for column, title in zip(grid.T, titles, strict=True):
        drawn = [axes for axes in column if axes.axison]
        drawn[0].set_title(title)
        drawn[-1].set_xlabel(x)


def _lines(axes: Axes, runs: pd.DataFrame, x: str, y: str) -> None:
    if "measured" not in runs:
        runs = runs.assign(measured=True)
    for scheme in _schemes(runs["scheme"]):
        points = _median(runs[runs["scheme"] == scheme], [y]).sort_values(x)
        colour, marker = _look(scheme)
        known, guessed = points[points["measured"]], points[~points["measured"]]
        axes.plot(known[x], known[y], color=colour, marker=marker)
        if len(guessed):
            tail = pd.concat([known.tail(1), guessed])
            axes.plot(tail[x], tail[y], color=colour, linestyle=":")
            axes.plot(
                guessed[x], guessed[y], color=colour, marker=marker, linestyle="", markerfacecolor="white"
            )
    _log(axes.xaxis, _QUANTITIES[x][1])
    _log(axes.yaxis, _QUANTITIES[y][1])


def _apart(sizes: Sequence[float]) -> list[float]:
    """Choose, of the sizes that were measured, those that a log axis has room to name."""
    kept = list(sizes[:1])
    for size in sizes[1:]:
        if math.log(size / kept[-1]) > math.log(sizes[-1] / sizes[0]) / 7:
            kept.append(size)
    return kept


def _log(axis: Any, write: Callable[[float], str]) -> None:
    """Make an axis logarithmic, with a tick at every power of ten, or at 1, 2, 5 where there are few."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    few = math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 2  # fewer than three powers in view
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_locator(NullLocator())


def _legend(figure: Figure, names: pd.Series, *, markers: bool = True, extrapolated: bool = False) -> None:
    handles = []
    for scheme in _schemes(names):
        colour, marker = _look(scheme)
        handles.append(Line2D([], [], color=colour, marker=marker if markers else "", label=scheme))
    if extrapolated:
        handles.append(
            Line2D(
                [],
                [],
                color="#666666",
                linestyle=":",
                marker="o",
                markerfacecolor="white",
                label="extrapolated",
            )
        )
    ncols = len(handles) if len(handles) < 6 else 3
    figure.legend(handles=handles, loc="outside lower center", ncols=ncols, frameon=False)


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Put the estimator into the scheme's name where a scheme has both at one level: one line each."""
    both = table.groupby(["scheme", "level"])["estimator"].transform("nunique") > 1
    return table.assign(scheme=table["scheme"].where(~both, table["scheme"] + ", " + table["estimator"]))


def _median(runs: pd.DataFrame, figures: list[str]) -> pd.DataFrame:
    """Take repeats together."""
    keys = [key for key in [*RUN, "columns", "measured"] if key in runs and key != "repeat"]
    return runs.groupby(keys, sort=False)[figures].median().reset_index()


def _levels(table: pd.DataFrame) -> list[str]:
    return [level for level in LEVELS if (table["level"] == level).any()]


def _schemes(names: pd.Series) -> list[str]:
    known = [name for name in _SCHEMES if (names == name).any()]
    return [*known, *sorted(set(names) - set(known))]


def _look(scheme: str) -> tuple[str, str]:
    """Choose colour and marker; variants of a scheme get those left, by their name alone."""
    return _SCHEMES.get(scheme) or _OTHERS[sum(scheme.encode()) % len(_OTHERS)]
