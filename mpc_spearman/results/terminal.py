"""The summary of a result on a terminal, which gets no control characters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.filesize import decimal

from mpc_spearman.results import evidence
from mpc_spearman.results.charts import number
from mpc_spearman.results.costs import totals
from mpc_spearman.results.summary import (
    STRENGTHS,
    by_size,
    detectable,
    first,
    headline,
    ranking_lines,
    resolution,
    rows,
    shares,
    unseen,
)
from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from mpc_spearman.results.result import Result

#: Pairs, rows and warnings shown; the rest is in the files and in the report.
_STRONGEST = 5
_SHOWN = 20
_SHOWN_WARNINGS = 3


def show(result: Result, folder: Path) -> None:
    """Print what a command's run has found, and where its report is."""
    from rich.console import Console

    console = Console()
    summarize(result, console)
    console.print(f"Report: {folder / 'report.html'}", highlight=False, soft_wrap=True, markup=False)


def summarize(result: Result, console: Console) -> None:
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

    def say(sentence: str | None, style: str = "") -> None:
        if sentence:
            console.print(plain(_ascii(sentence), style))

    def tabulate(columns: Mapping[str, Sequence[str]]) -> None:
        table = Table(box=None, pad_edge=False)
        for name in columns:
            table.add_column(
                _ascii(name), justify="left" if name in ("pair", "feature", "source") else "right"
            )
        for cells in zip(*(column[:_SHOWN] for column in columns.values()), strict=True):
            table.add_row(*(plain(_ascii(text)) for text in cells))
        console.print(table)

    lines, pairs = ranking_lines(result), evidence.pairs(result)
    console.print(plain(_ascii(headline(result, pairs)) + ".", "bold"))
    if pairs:
        strong = evidence.strongest(pairs, _STRONGEST)
        tabulate(
            {
                "pair": [f"{pair.source} × {pair.target}" for pair in strong],
                "ρ": [number(pair.rho) for pair in strong],
                f"{100 * result.plan['confidence']:g} % interval": [pair.interval for pair in strong],
                "q": [evidence.chance(pair.q) for pair in strong],
            }
        )
        if least := detectable(result, pairs):
            say(f"{least} Every q supposes one row for each independent person.")
        console.print(plain(_ascii(first(result)) + ".", "bold"))
    if found := shares(result):
        several = len({share.source for share in found}) > 1
        tabulate(
            {
                "position": [str(share.position) for share in found],
                "feature": [share.feature for share in found],
                **({"source": [share.source for share in found]} if several else {}),
                "R²": [number(share.r2) for share in found],
                "predictive": [number(share.predictive) for share in found],
                "by chance": [number(share.chance) for share in found],
                "q": [evidence.chance(share.q) for share in found],
            }
        )
    elif lines and "strength" in result.ranking:
        plan = result.plan
        shown = {"position": [str(line.position) for line in lines]}
        shown["feature"] = [line.feature for line in lines]
        shown[STRENGTHS[plan["strength"]]] = [number(line.strength, 4) for line in lines]
        if not math.isnan(lines[0].error):
            shown["±"] = [f"{number(line.error, 4)} {'~' if line.close else ' '}" for line in lines]
        if any(not math.isnan(line.other) for line in lines):
            other = "mean" if plan["strength"] == "mean_abs" else "mean_abs"
            shown[STRENGTHS[other]] = [number(line.other, 4) for line in lines]
        tabulate(shown)
        for sentence in (resolution(lines), by_size(result)):
            say(sentence)
    else:
        for line in lines[:_SHOWN]:
            console.print(plain(f"{line.position:>4}  {line.feature}"))
        if result.plan["reveal"] != "canonical":
            say(result.withheld("strengths" if lines else "ranking"), "dim")
    say(unseen(result))
    if len(lines) > _SHOWN:
        console.print(plain(f"... and {len(lines) - _SHOWN} more, in ranking.csv", "dim"))
    if result.offered:
        console.print(plain(f"Rows: {rows(result)}."))
    for text in result.warnings[:_SHOWN_WARNINGS]:
        sentence, *which = text.split("\n")
        where = " (listed in the report)" if which else ""
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
    for ends, size in cost.forwarded:
        console.print(plain(f"        {decimal(size)} between {ends}, forwarded by the coordinator's host"))


def _ascii(text: str) -> str:
    return text.replace("ρ", "rho").replace("−", "-").replace("×", "x").replace("±", "+-").replace("²", "2")
