"""What a result shows in notebooks: pairs as one long table, a summary in HTML, a figure."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpc_spearman.errors import SetupError
from mpc_spearman.results import summary
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mpc_spearman.results.result import Result

#: Lines of each table in the HTML, and columns of a figure whose names are shown.
_SHOWN = 10
_NAMED = 50


def pairs(result: Result) -> pd.DataFrame:
    """Lay out the coefficients as one long table, farthest from 0 first; see `Result.pairs`."""
    rho, ends = result.coefficients, result.intervals
    table = pd.DataFrame(
        {
            "party": np.repeat(rho.index.get_level_values(0), rho.shape[1]),
            "source": np.repeat(rho.index.get_level_values(1), rho.shape[1]),
            "target": np.tile(rho.columns, rho.shape[0]),
            "rho": rho.to_numpy().ravel(),
            "p": result.pvalues.to_numpy().ravel(),
            "q": result.qvalues.to_numpy().ravel(),
            "low": ends.xs("low", level="bound").to_numpy().ravel(),
            "high": ends.xs("high", level="bound").to_numpy().ravel(),
        }
    )
    order = np.argsort(-table["rho"].abs().to_numpy(), kind="stable")  # NaN comes last
    return table.iloc[order].reset_index(drop=True)


def html(result: Result) -> str:
    """Say in HTML what came out: the strongest pairs, the ranking, the warnings."""
    known, ranked = summary.pairs(result), summary.ranked(result)
    parts = [f"<b>{escape(summary.headline(result, known))}.</b> {result.n:,} rows."]
    for table in (None if known is None else summary.pair_table(result, known, _SHOWN), ranked):
        if table is not None:
            shown = pd.DataFrame([line.cells for line in table.lines[:_SHOWN]], columns=table.head)
            parts.append(shown.to_html(index=False))
            if (more := len(table.lines) - len(shown) + table.more) > 0:
                parts.append(f"<div>… and {more:,} more</div>")
    for text in result.warnings:
        parts.append(f"<div>Warning: {escape(printable(text.splitlines()[0]))}</div>")
    return "\n".join(parts)


def figure(result: Result) -> Figure:
    """Draw the ranking and, where this copy has them, the coefficients; see `Result.plot`."""
    if find_spec("matplotlib") is None:
        raise SetupError("matplotlib, which draws the figure, is not installed. Run: pip install matplotlib")
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows, whatever its matplotlib is set to."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=110)
            return file.getvalue()

    whole = "coefficients" in result.holds
    m_target = len(result.ranking)
    m_sources = len(result.coefficients) if whole else 0
    height = 1.6 + 0.24 * min(max(m_target, m_sources), _NAMED)
    width = 4.0 + (2.4 + 0.45 * min(m_target, 2 * _NAMED // 3) if whole else 0)
    drawn = Picture(figsize=(width, height), layout="constrained")
    if whole:
        left, right = drawn.subplots(1, 2, width_ratios=(3.2, width - 3.2))
        _heat_map(right, result)
    else:
        left = drawn.subplots()
    _bars(left, result)
    return drawn


def _bars(axes: Axes, result: Result) -> None:
    """Draw each feature's strength, the strongest on top; without strengths say where each stands."""
    table = summary.ranked(result)
    assert table is not None  # reading `Result.ranking` has raised
    values = [line.value for line in table.lines]
    name = f"strength, {summary.STRENGTHS[result.plan['strength']]}"
    if "explained" in result.holds:
        name = "R²; the mark: once in 20 by chance"
        marks = [line.mark for line in table.lines]
        axes.plot(marks, range(len(values)), "|", color="#000000", markersize=12)
    elif "strengths" not in result.holds:
        values, name = (-result.ranking["position"]).tolist(), "−position"
    axes.barh(range(len(values)), np.nan_to_num(values), color="#0072B2")
    axes.invert_yaxis()
    _names(axes.yaxis, table.column("feature"))
    axes.axvline(0, color="#666666", linewidth=0.8)
    axes.set_xlabel(name)


def _heat_map(axes: Axes, result: Result) -> None:
    """Draw the coefficients, the target's features in the order of the ranking."""
    matrix = result.coefficients[list(result.ranking["feature"])]
    bound = float(np.nanmax(matrix.abs().to_numpy(), initial=0)) or 1.0
    image = axes.imshow(matrix.to_numpy(), cmap="PuOr_r", vmin=-bound, vmax=bound, aspect="auto")
    axes.figure.colorbar(image, ax=axes, label="rank correlation ρ")
    several = matrix.index.get_level_values(0).nunique() > 1
    rows = [f"{owner} · {name}" if several else str(name) for owner, name in matrix.index]
    _names(axes.yaxis, [printable(row) for row in rows])
    _names(axes.xaxis, [printable(str(name)) for name in matrix.columns])
    axes.tick_params(axis="x", rotation=90)


def _names(axis: Any, names: list[str]) -> None:
    """Name the places on an axis, or say how many there are."""
    if len(names) > _NAMED:
        axis.set_ticks([])
        axis.set_label_text(f"{len(names):,} features")
    else:
        # A dollar sign is text here, not the beginning of a formula.
        axis.set_ticks(range(len(names)), [name.replace("$", r"\$")[:40] for name in names])
