"""The page of a comparison: figures, one table, and how both were made. One file, nothing to fetch."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.filesize import decimal

from mpc_spearman.comparison import plots
from mpc_spearman.comparison.network_model import LAN, WAN, Link, on_network
from mpc_spearman.comparison.table import RUN, machine, per_run
from mpc_spearman.results.pages import template
from mpc_spearman.units import human_seconds
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    import jinja2
    from matplotlib.figure import Figure


def links(network: Link | None) -> list[tuple[str, Link]]:
    """Return the networks that a comparison is put on: the two presets, and the caller's."""
    chosen = [("LAN", LAN), ("WAN", WAN)]
    return chosen if network in (None, LAN, WAN) else [*chosen, ("yours", network)]


def summary(table: pd.DataFrame, network: Link | None) -> pd.DataFrame:
    """Return `per_run` with repeats as their median, and the modelled seconds on each network by its name."""
    runs = per_run(table)
    for name, link in links(network):
        runs[name] = per_run(on_network(table, link))["modelled"]
    keys = [key for key in RUN if key != "repeat"]
    figures = ["seconds", *(name for name, _ in links(network)), "bytes", "rounds", "memory"]
    return runs.groupby(keys, sort=False)[figures].median().reset_index()


def figures(table: pd.DataFrame, network: Link | None) -> dict[str, tuple[str, Figure]]:
    """Draw what the table can show: by file name, what it is and the figure."""
    drawn: dict[str, tuple[str, Figure]] = {}
    a, b = max(_distinct(table, ["m_A", "m_B"]), key=lambda columns: columns[0] * columns[1])
    by_rows = table[(table["m_A"] == a) & (table["m_B"] == b)]
    width = f"{a} × {b} columns"
    if by_rows["n"].nunique() > 1:
        every: list[tuple[str, Link | None]] = [("this machine", None), *links(network)]
        drawn["time-by-rows"] = (
            f"Time against rows, {width}: measured, and modelled",
            plots.networks(by_rows, every),
        )
        drawn["bytes-by-rows"] = (
            f"Bytes against rows, {width}",
            plots.scaling(per_run(by_rows), "n", "bytes"),
        )
    several = [
        n for (n,) in _distinct(table, ["n"]) if len(_distinct(table[table["n"] == n], ["m_A", "m_B"])) > 1
    ]
    if several:
        n = max(several, key=lambda n: (_ways(table[table["n"] == n]), n))
        by_columns = per_run(table[table["n"] == n])
        for y, what in (("seconds", "Time"), ("bytes", "Bytes")):
            title = f"{what} against columns, {n:,} rows"
            drawn[f"{y}-by-columns"] = (title, plots.scaling(by_columns, "columns", y))
    one = _common_size(table)
    size = f"{int(one['n'].iloc[0]):,} rows, {one['m_A'].iloc[0]} × {one['m_B'].iloc[0]} columns"
    drawn["phases"] = (f"What each party does: seconds by phase, {size}", plots.phases(one))
    drawn["bandwidth"] = (
        f"Modelled time against bandwidth, {size}",
        plots.bandwidths(one, (LAN.rtt, WAN.rtt)),
    )
    return drawn


def _common_size(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows of the size that most plans have, the largest of these."""

    def at(size: Sequence[int]) -> pd.DataFrame:
        return table[(table["n"] == size[0]) & (table["m_A"] == size[1]) & (table["m_B"] == size[2])]

    def worth(size: Sequence[int]) -> tuple[int, int]:
        return _ways(at(size)), math.prod(size)

    return at(max(_distinct(table, ["n", "m_A", "m_B"]), key=worth))


def _ways(table: pd.DataFrame) -> int:
    return len(_distinct(table, ["scheme", "level", "estimator"]))


def _distinct(table: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return list(table[columns].drop_duplicates().itertuples(index=False, name=None))


@cache
def _template() -> jinja2.Template:
    return template("comparison.html", seconds=human_seconds, bytes=lambda size: decimal(round(size)))


def render(table: pd.DataFrame, network: Link | None, drawn: dict[str, tuple[str, Figure]]) -> str:
    """Make the page.

    Parameters
    ----------
    table : DataFrame
        The tidy table, as measured.
    network : Link or None
        The caller's.
    drawn : dict
        As `figures` returns it.
    """
    pictures = [
        {"title": title, "data": base64.b64encode(plots.svg(figure).encode()).decode("ascii")}
        for title, figure in drawn.values()
    ]
    rows = summary(table, network).to_dict("records") if len(table) else []
    runs: list[dict[str, Any]] = [{str(key): value for key, value in row.items()} for row in rows]
    return _template().render(
        runs=runs,
        repeats=int(table["repeat"].max()) if len(table) else 0,
        links=links(network),
        pictures=pictures,
        left_out=table.attrs.get("left_out", []),
        machine=machine(),
        version=__version__,
    )


def files(table: pd.DataFrame, network: Link | None) -> dict[str, str | bytes]:
    """Return the page and the plots (SVG for screens, PDF for papers) by path."""
    drawn = figures(table, network) if len(table) else {}
    made: dict[str, str | bytes] = {}
    for name, (_, figure) in drawn.items():
        made[str(Path("plots", f"{name}.svg"))] = plots.svg(figure)
        made[str(Path("plots", f"{name}.pdf"))] = plots.pdf(figure)
    made["comparison.html"] = render(table, network, drawn)
    return made
