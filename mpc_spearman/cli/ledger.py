"""Show a data owner's ledger: its runs, and how much they revealed to each partner.

With --begin, make a ledger without entries. Runs only continue one: a ledger that is lost should be restored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import shorten, wrap

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mpc_spearman.cli.arguments import path
from mpc_spearman.privacy.charges import (
    COMMON_ROWS,
    Charge,
    ChargedRun,
    Ended,
    Entry,
    Forgotten,
    Started,
    balances,
)
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.units import printable

_MEANING = """\
used: the sum of the privacy losses (privacy.loss) of the counted runs, and the limit (policy.lifetime) at the
last run. At 2, an attacker who knows everything except which of two rows is whose guesses right 84 times in
100 at most; at 4, 92 times. of values: the same for runs with privacy.unit: value. without bound: exact runs,
which no sum covers. A run counts once it is charged, unless it failed before any of our results had left. At
coefficients and differences the coordinator's exact numbers are listed but not counted: it is trusted not to
pass them on."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="the ledger: policy.ledger in the local file")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--begin", action="store_true", help="make the file, which must not exist")
    change.add_argument(
        "--forget",
        nargs=2,
        metavar=("PARTNER", "REASON"),
        help="set PARTNER's sum to zero; its runs stay listed, and REASON is recorded",
    )


def run(parsed: argparse.Namespace) -> int:
    if parsed.begin:
        ledger = Ledger.begin(parsed.file)
        print(f"{ledger.path}: begun; name it in the local file as `ledger`, below `policy`, and back it up")
        return 0
    ledger = Ledger(parsed.file)
    if parsed.forget:
        ledger.forget(*parsed.forget)
    entries = ledger.entries()
    console = Console()
    for shown in (_history(entries), _totals(entries)):
        console.print(shown)
        console.print()
    console.print(_MEANING, soft_wrap=True, highlight=False)
    return 0


def _history(entries: Sequence[Entry]) -> Table:
    """Return a table with a row for each run and each partner that was forgotten, oldest first."""
    table = Table(
        Column("time", no_wrap=True), "plan", "rows", "columns", "who learnt what", box=None, pad_edge=False
    )
    charges = {entry.run.id: entry.run for entry in entries if isinstance(entry, Charge) and entry.run.id}
    starts = {entry.started.id: entry for entry in entries if isinstance(entry, Started)}
    ends = {entry.ended: entry for entry in entries if isinstance(entry, Ended)}
    for entry in entries:
        if isinstance(entry, Forgotten):
            table.add_row(entry.time, "", "", "", Text(f"{entry.partner}: forgotten, {entry.reason}"))
        elif isinstance(entry, Started):
            run = charges.get(entry.started.id)
            rows = f"{entry.started.rows:,}"
            if run is not None and run.rows != entry.started.rows:
                rows = f"{run.rows:,} of {rows}"
            end = ends.get(entry.started.id)
            parts = [_membership(entry, run, end)]
            if run is None and end is None:
                parts.append("no results yet: it is not charged, and still runs or was killed")
            elif run is None:
                parts.append("no results: it ended before it was charged")
            elif end is not None and end.taken_back:
                parts.append("no results: taken back, because it ended before any of our results left")
            else:
                parts.append(_results(run))
            if end is not None:
                parts.append(f"ended by {end.error} of {end.party} in {end.phase}")
            summary = "; ".join(filter(None, parts))
            table.add_row(entry.time, _plan(entry.started), rows, str(entry.started.columns), Text(summary))
        elif isinstance(entry, Charge) and entry.run.id not in starts:  # written by an earlier version
            run = entry.run
            table.add_row(entry.time, _plan(run), f"{run.rows:,}", str(run.columns), Text(_results(run)))
    return table


def _plan(run: ChargedRun) -> Text:
    """Return the file name and purpose of a run's plan, and the beginning of its digest."""
    purpose = shorten(printable(run.purpose), 60, placeholder=" ...") if run.purpose else ""
    title, digest = ": ".join(filter(None, (run.name, purpose))), " ".join(wrap(run.plan[:16], 4))
    return Text(f"{title} ({digest})" if title else digest)


def _membership(start: Started, run: ChargedRun | None, end: Ended | None) -> str:
    """Return a sentence on who learnt which of the owner's rows it also has, and how many; or ''."""
    receivers = [name for name, loss in start.started.told.items() if loss.what == COMMON_ROWS]
    if not receivers:
        return ""
    rows = run.rows if run else end.rows if end else None
    which = f"which {rows:,} of our rows" if rows is not None else "perhaps which of our rows"
    also = "it also has" if len(receivers) == 1 else "they also have"
    return f"{', '.join(receivers)} learnt {which} {also}"


def _results(run: ChargedRun) -> str:
    without_loss = "of 0.2" if run.version == "0.2" else "exact"
    return "; ".join(
        f"{name}: no results"
        if loss.what == "nothing"
        else f"{name}: {loss.what}, {without_loss if loss.loss is None else f'loss {loss.loss:g}'}"
        f"{'; not counted' if loss.loss is None and not loss.counted else ''}"
        for name, loss in run.told.items()
    )


def _totals(entries: Sequence[Entry]) -> Table:
    heads = ("partner", "runs that count", "used", "of values", "without bound", "since")
    table = Table(*heads, box=None, pad_edge=False)
    limits = [entry.run.limit for entry in entries if isinstance(entry, Charge)]
    limit = f" of {limits[-1]:g}" if limits and limits[-1] is not None else ""
    for balance in balances(entries):
        names, sums = (
            ", ".join(sorted(balance.names)),
            (f"{balance.row:g}{limit}", f"{balance.value:g}{limit}"),
        )
        table.add_row(*map(Text, (names, str(balance.runs), *sums, str(balance.exact), balance.since)))
    return table
