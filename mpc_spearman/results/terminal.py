"""The summary of a result on a terminal, without control characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal

from mpc_spearman.findings import sections
from mpc_spearman.results.costs import totals
from mpc_spearman.results.outcome import Outcome
from mpc_spearman.units import human_seconds, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

#: Warnings shown; the rest is in the report.
_SHOWN_WARNINGS = 3


def show(result: Outcome, folder: Path) -> None:
    """Print what a command's run has found, and where its report is."""
    from rich.console import Console

    console = Console()
    try:
        summarize(result, console)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the results are in {folder}") from None
    console.print(f"Report: {folder / 'report.html'}", highlight=False, soft_wrap=True, markup=False)


def summarize(result: Outcome, console: Console) -> None:
    """Print a party's result: pairs, ranking, warnings and what the run cost."""
    from rich.table import Table
    from rich.text import Text

    def say(sentence: str | None, style: str = "") -> None:
        if sentence:
            console.print(Text(printable(_ascii(sentence)), style))

    def tabulate(table: sections.Table, count: int) -> None:
        shown = Table(box=None, pad_edge=False)
        for name in table.columns:
            shown.add_column(_ascii(name), justify="left" if name in table.names else "right")
        for row in table.rows[:count]:
            shown.add_row(*(Text(_ascii(text)) for text in row))
        console.print(shown)
        if (more := len(table.rows) + table.more - count) > 0:
            say(f"... and {more:,} more, in {table.file}", "dim")

    say(f"{result.findings.outcome()}.", "bold")
    say(f"{result.n:,} rows, {result.findings.precision()}.")
    for section in result.findings.sections():
        if section.lead and section.lead != result.findings.headline():
            say(f"{section.lead}.", "bold")
        if section.table is not None:
            tabulate(section.table, section.short)
        for sentence in section.notes:
            say(sentence)
    say(result.withheld_from_this_party(), "dim")
    if result.offered:
        say(f"Rows: {result.rows_used()}.")
    for text in result.warnings[:_SHOWN_WARNINGS]:
        sentence, *which = text.split("\n")
        say(f"Warning: {sentence}{' (listed in the report)' if which else ''}", "yellow")
    if len(result.warnings) > _SHOWN_WARNINGS:
        say(f"The report has {len(result.warnings) - _SHOWN_WARNINGS} more.", "yellow")
    cost = totals(result)
    owner = "" if cost.complete else f", {result.party} alone"
    peaks = ", ".join(f"{party} {decimal(size)}" for party, size in cost.memory) or "not measured"
    times = f"{human_seconds(cost.seconds)} after start-up, {human_seconds(cost.busiest)} computing"
    say(f"time    {times}{owner}")
    say(f"wire    {decimal(cost.wire)} in {cost.messages:,} messages, {cost.rounds:,} rounds{owner}")
    say(f"memory  {peaks} at the peak")
    for ends, size in cost.forwarded:
        say(f"        {decimal(size)} between {ends}, forwarded by the coordinator's host")


def _ascii(text: str) -> str:
    return text.replace("ρ", "rho").replace("−", "-").replace("×", "x").replace("±", "+-").replace("²", "2")
