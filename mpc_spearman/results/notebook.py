"""What a result shows in notebooks: a summary in HTML, and a figure."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpc_spearman.errors import NotRevealed, SetupError
from mpc_spearman.findings.sections import Matrix, Table
from mpc_spearman.results.outcome import Outcome
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Lines of each table in the HTML, and columns of a figure whose names are shown.
_SHOWN = 10
_NAMED = 50


def html(result: Outcome) -> str:
    """Say in HTML what came out: the headline, the first lines of every table, the warnings."""
    parts = [
        f"<b>{escape(result.findings.headline())}.</b> {result.n:,} rows, {result.findings.precision()}."
    ]
    for section in result.findings.sections():
        if section.lead:
            parts.append(f"<div>{escape(section.lead)}.</div>")
        if (table := section.table) is not None:
            shown = pd.DataFrame([line.cells for line in table.lines[:_SHOWN]], columns=table.head)
            parts.append(shown.to_html(index=False))
            if (more := len(table.lines) - len(shown) + table.more) > 0:
                parts.append(f"<div>… and {more:,} more</div>")
    for text in result.warnings:
        parts.append(f"<div>Warning: {escape(printable(text.splitlines()[0]))}</div>")
    return "\n".join(parts)


def figure(result: Outcome) -> Figure:
    """Draw what a result's last table says, and its matrix if it has one; see `Result.plot`."""
    if find_spec("matplotlib") is None:
        raise SetupError("matplotlib, which draws the figure, is not installed. Run: pip install matplotlib")
    shown = result.findings.sections()
    tables, matrices = [one.table for one in shown if one.table], [one.matrix for one in shown if one.matrix]
    if not tables:
        raise NotRevealed(result.lacks() or f"{result.findings.headline()}.")
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows, whatever its matplotlib is set to."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=110)
            return file.getvalue()

    table, matrix = tables[-1], matrices[0] if matrices else None
    rows, columns = matrix.values.shape if matrix else (0, 0)
    height = 1.6 + 0.24 * min(max(len(table.lines), rows), _NAMED)
    width = 4.0 + (2.4 + 0.45 * min(columns, 2 * _NAMED // 3) if matrix else 0)
    drawn = Picture(figsize=(width, height), layout="constrained")
    if matrix:
        left, right = drawn.subplots(1, 2, width_ratios=(3.2, width - 3.2))
        _heat_map(right, matrix)
    else:
        left = drawn.subplots()
    _bars(left, table)
    return drawn


def _bars(axes: Axes, table: Table) -> None:
    """Draw the bars of a table, or the places of its lines if it has none, the first on top."""
    places = range(len(table.lines))
    values = [line.value for line in table.lines] if table.axis else [-1 - place for place in places]
    if table.marked:
        axes.plot([line.mark for line in table.lines], places, "|", color="#000000", markersize=12)
    axes.barh(places, np.nan_to_num(values), color="#0072B2")
    axes.invert_yaxis()
    named = next((name for name in table.head if name in table.texts), table.head[0])
    _names(axes.yaxis, table.column(named))
    axes.axvline(0, color="#666666", linewidth=0.8)
    axes.set_xlabel(table.axis or "−position")


def _heat_map(axes: Axes, matrix: Matrix) -> None:
    """Draw a matrix in colours."""
    bound = float(np.nanmax(np.abs(matrix.values), initial=0)) or 1.0
    image = axes.imshow(matrix.values, cmap="PuOr_r", vmin=-bound, vmax=bound, aspect="auto")
    axes.figure.colorbar(image, ax=axes, label=matrix.axis)
    _names(axes.yaxis, [name for name, _ in matrix.rows])
    _names(axes.xaxis, list(matrix.columns))
    axes.tick_params(axis="x", rotation=90)


def _names(axis: Any, names: list[str]) -> None:
    """Name the places on an axis, or say how many there are."""
    if len(names) > _NAMED:
        axis.set_ticks([])
        axis.set_label_text(f"{len(names):,} features")
    else:
        # A dollar sign is text here, not the beginning of a formula.
        axis.set_ticks(range(len(names)), [name.replace("$", r"\$")[:40] for name in names])
