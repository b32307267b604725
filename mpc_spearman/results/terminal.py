"""The summary of a result on a terminal, without control characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal

from mpc_spearman.results import summary
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from mpc_spearman.results.result import Result

#: Pairs, lines and warnings shown; the rest is in the files and in the report.
_STRONGEST = 5
_SHOWN = 20
_SHOWN_WARNINGS = 3


def show(result: Result, folder: Path) -> None:
    """Print what a command's run has found, and where its report is."""
    from rich.console import Console

    console = Console()
    try:
        summarize(result, console)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the results are in {folder}") from None
    console.print(f"Report: {folder / 'report.html'}", highlight=False, soft_wrap=True, markup=False)


def summarize(result: Result, console: Console) -> None:
    """Print a party's result: pairs, ranking, warnings and what the run cost."""
    from rich.table import Table
    from rich.text import Text

    def say(sentence: str | None, style: str = "") -> None:
        if sentence:
            console.print(Text(printable(_ascii(sentence)), style))

    def tabulate(table: summary.Table) -> None:
        shown = Table(box=None, pad_edge=False)
        for name in table.head:
            shown.add_column(_ascii(name), justify="left" if name in summary.WORDS else "right")
        for line in table.lines[:_SHOWN]:
            shown.add_row(*(Text(_ascii(text)) for text in line.cells))
        console.print(shown)

    pairs, ranked = summary.pairs(result), summary.ranked(result)
    say(summary.headline(result, pairs) + ".", "bold")
    if pairs is not None:
        tabulate(summary.pair_table(result, pairs, _STRONGEST))
        if least := summary.detectable(result, pairs):
            say(f"{least} q assumes one row per person, and independent people.")
        say(summary.first(result) + ".", "bold")
    if ranked is not None:
        tabulate(ranked)
        if len(ranked.lines) > _SHOWN:
            file = "ranking.csv" if "ranking" in result.holds else "canonical.csv"
            say(f"... and {len(ranked.lines) - _SHOWN} more, in {file}", "dim")
    for sentence in (summary.resolution(result), summary.by_size(result), summary.unseen(result)):
        say(sentence)
    if not {"strengths", "explained"} & set(result.holds) and result.plan["reveal"] != "canonical":
        say(result.withheld("ranking") or result.withheld("strengths"), "dim")
    if result.offered:
        say(f"Rows: {summary.rows(result)}.")
    for text in result.warnings[:_SHOWN_WARNINGS]:
        sentence, *which = text.split("\n")
        say(f"Warning: {sentence}{' (listed in the report)' if which else ''}", "yellow")
    if len(result.warnings) > _SHOWN_WARNINGS:
        say(f"The report has {len(result.warnings) - _SHOWN_WARNINGS} more.", "yellow")
    cost = totals(result)
    whose = "" if cost.complete else f", {result.party} alone"
    peaks = ", ".join(f"{party} {decimal(size)}" for party, size in cost.memory) or "not measured"
    times = f"{human_seconds(cost.seconds)} after start-up, {human_seconds(cost.busiest)} computing"
    say(f"time    {times}{whose}")
    say(f"wire    {decimal(cost.wire)} in {cost.messages:,} messages, {cost.rounds:,} rounds{whose}")
    say(f"memory  {peaks} at the peak")
    for ends, size in cost.forwarded:
        say(f"        {decimal(size)} between {ends}, forwarded by the coordinator's host")


def _ascii(text: str) -> str:
    return text.replace("ρ", "rho").replace("−", "-").replace("×", "x").replace("±", "+-").replace("²", "2")
