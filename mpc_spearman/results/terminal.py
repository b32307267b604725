"""The summary of a result on a terminal, which gets no control characters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.filesize import decimal

from mpc_spearman.results.charts import number
from mpc_spearman.results.costs import totals
from mpc_spearman.results.summary import STRENGTHS, eq2, headline, ranking_lines, rows
from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    from rich.console import Console

    from mpc_spearman.results.parts import Parts

#: Rows and warnings shown; the rest is in ``ranking.csv`` and in the report.
_SHOWN = 20
_SHOWN_WARNINGS = 3


def summarize(result: Parts, console: Console) -> None:
    """Print the ranking, the warnings and what the run cost.

    Parameters
    ----------
    result : Result
        Any party's copy.
    console : rich.console.Console
        Where to print.
    """
    from rich.table import Table
    from rich.text import Text

    def plain(text: str, style: str = "") -> Text:
        return Text(printable(text), style)

    lines = ranking_lines(result)
    console.print(plain(_ascii(headline(result)) + ".", "bold"))
    if lines and "strength" in result.ranking:
        plan = result.plan
        table = Table("position", "feature", _ascii(STRENGTHS[plan["strength"]]), box=None, pad_edge=False)
        compared = any(not math.isnan(line.other) for line in lines)
        if compared:
            table.add_column("mean rho" if plan["strength"] == "mean_abs" else "mean |rho|")
        for column in (table.columns[0], *table.columns[2:]):
            column.justify = "right"
        for line in lines[:_SHOWN]:
            cells = [str(line.position), line.feature, _ascii(number(line.strength, 4))]
            cells += [_ascii(number(line.other, 4))] if compared else []
            table.add_row(*map(plain, cells))
        console.print(table)
    else:
        for line in lines[:_SHOWN]:
            console.print(plain(f"{line.position:>4}  {line.feature}"))
        console.print(plain(result.withheld("strengths" if lines else "ranking") or "", "dim"))
    if len(lines) > _SHOWN:
        console.print(plain(f"... and {len(lines) - _SHOWN} more, in ranking.csv", "dim"))
    if result.offered:
        console.print(plain(f"Rows: {rows(result)}."))
    trap = eq2(result)
    if trap is not None and result.plan["estimator"] != "paper":
        console.print(plain(_ascii(f"Note: {trap}.")))
    for text in result.warnings[:_SHOWN_WARNINGS]:
        sentence, *which = text.split("\n")
        where = " (which: in the report)" if which else ""
        console.print(plain("Warning: ", "bold yellow") + plain(_ascii(sentence) + where, "yellow"))
    if len(result.warnings) > _SHOWN_WARNINGS:
        console.print(
            plain(
                f"... and {len(result.warnings) - _SHOWN_WARNINGS} more warnings, in the report",
                "yellow",
            )
        )

    cost = totals(result)
    whose = "" if cost.complete else f", {result.party} alone"
    peaks = ", ".join(f"{party} {decimal(size)}" for party, size in cost.memory) or "not measured"
    times = f"{human_seconds(cost.seconds)} after start-up, {human_seconds(cost.busiest)} computing"
    traffic = f"{decimal(cost.wire)} in {cost.messages:,} messages, {cost.rounds:,} rounds"
    for text in (f"time    {times}{whose}", f"wire    {traffic}{whose}", f"memory  {peaks} at the peak"):
        console.print(plain(text))
    for pair, size in cost.forwarded:
        console.print(plain(f"        {decimal(size)} between {pair}, forwarded by the coordinator's host"))


def _ascii(text: str) -> str:
    return text.replace("ρ", "rho").replace("−", "-")
