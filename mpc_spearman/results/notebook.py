"""What a result shows in notebooks: a summary in HTML, and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mpc_spearman.errors import NotRevealed, SetupError
from mpc_spearman.findings.sections import Matrix, Table
from mpc_spearman.results.charts import COOL, WARM, shortened
from mpc_spearman.results.outcome import Outcome
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Lines of each table in the HTML; in a figure, lines of a table, and rows and columns whose names are shown.
_SHOWN = 10
_LINES = 40
_NAMED = 60


def html(result: Outcome) -> str:
    """Say in HTML what came out: the headline, the first lines of every table, the warnings."""
    parts = [f"<b>{escape(result.findings.outcome())}.</b> {result.n:,} rows, {result.findings.precision()}."]
    for section in result.findings.sections():
        if section.lead:
            parts.append(f"<div>{escape(section.lead)}.</div>")
        if (table := section.table) is not None:
            parts.append(pd.DataFrame(table.columns).head(_SHOWN).to_html(index=False))
            if (more := len(table.rows) - _SHOWN + table.more) > 0:
                parts.append(f"<div>… and {more:,} more</div>")
    for text in result.warnings:
        parts.append(f"<div>Warning: {escape(printable(text.splitlines()[0]))}</div>")
    return "\n".join(parts)


def figure(result: Outcome) -> Figure:
    """Draw the first lines of a result's last table, and its matrix if there is one; see `Result.plot`.

    The sentences of a result whose tables show nothing take the place of lines.
    """
    if find_spec("matplotlib") is None:
        raise SetupError("matplotlib, which draws the figure, is not installed. Run: pip install matplotlib")
    shown = result.findings.sections()
    tables = [section.table for section in shown if section.table]
    matrix = next((section.matrix for section in shown if section.matrix), None)
    if not result.findings.tables:
        raise NotRevealed(result.withheld_from_this_party() or f"{result.findings.outcome()}.")
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows, whatever its matplotlib is set to."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=110)
            return file.getvalue()

    if not tables:  # as where no canonical correlation can be told from chance
        drawn = Picture(figsize=(7, 2.5))
        sentences = [f"{result.findings.outcome()}.", *(note for section in shown for note in section.notes)]
        text = "\n\n".join(fill(printable(line).replace("$", r"\$"), 80) for line in sentences)
        drawn.text(0.04, 0.9, text, va="top", fontsize=10)
        return drawn
    table = tables[-1]
    rows, columns = matrix.values.shape if matrix else (0, 0)
    height = 1.6 + 0.2 * max(min(len(table.rows), _LINES), min(rows, _NAMED))
    width = 5.0 + (3.4 + 0.2 * min(columns, _NAMED) if matrix else 0)
    drawn = Picture(figsize=(width, max(height, 3.2 if matrix else 0)), layout="constrained")
    if matrix:
        beside_map, map_axes = drawn.subplots(1, 2, width_ratios=(5, width - 5))
        _heat_map(map_axes, matrix)
        _bars(beside_map, table)
    else:
        _bars(drawn.subplots(), table)
    return drawn


def _bars(axes: Axes, table: Table) -> None:
    """Draw the bars of a table, or the places of its lines if it has none, the first on top."""
    shown = min(len(table.rows), _LINES)
    places = np.arange(shown)
    values = np.nan_to_num(table.values[:shown]) if table.axis else -1 - places
    errors = None
    if table.ends:
        errors = np.abs(np.nan_to_num(np.transpose(table.ends[:shown]) - values))
    if table.marks:
        axes.plot(table.marks[:shown], places, "|", color="#000000", markersize=12)
    colours = [COOL if value < 0 and table.axis else WARM for value in values]
    axes.barh(places, values, color=colours, xerr=errors, ecolor="#44617f")
    axes.set_ylim(shown - 0.4, -0.6)
    (names, *_) = (texts for name, texts in table.columns.items() if name in table.names)
    axes.set_yticks(places, _labels(names[:shown]), fontsize=8)
    if (more := len(table.rows) - shown) > 0:
        axes.set_title(f"the first {shown}; {more:,} more", fontsize=9)
    axes.axvline(0, color="#666666", linewidth=0.8)
    axes.set_xlabel(table.axis or "−position")


def _heat_map(axes: Axes, matrix: Matrix) -> None:
    """Draw a matrix in colours."""
    from matplotlib.colors import LinearSegmentedColormap

    bound = float(np.nanmax(np.abs(matrix.values), initial=0)) or 1.0
    colours = LinearSegmentedColormap.from_list("", [COOL, "#ffffff", WARM])
    image = axes.imshow(matrix.values, cmap=colours, vmin=-bound, vmax=bound, aspect="auto")
    axes.figure.colorbar(image, ax=axes, label=matrix.axis)
    for axis, names in ((axes.yaxis, [name for name, _ in matrix.rows]), (axes.xaxis, [*matrix.columns])):
        if len(names) > _NAMED:
            axis.set_ticks([])
            axis.set_label_text(f"{len(names):,} features")
        else:
            axis.set_ticks(range(len(names)), _labels(names), fontsize=8)
    axes.tick_params(axis="x", rotation=90)


def _labels(names: Sequence[str]) -> list[str]:
    """Return names as a figure shows them: short, and with dollar signs that begin no formula."""
    return [name.replace("$", r"\$") for name in shortened(names)]
