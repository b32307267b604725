"""``mpc-spearman ledger``: what an owner's runs have given away."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mpc_spearman.cli.arguments import path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from mpc_spearman.privacy.charges import Charge, Forgotten


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "ledger",
        help="show what a data owner's runs have given away",
        description="Show the ledger that a data owner's policy.ledger names: its runs, and how much of its "
        "columns each partner has. Ids and values are not in it; a changed cell is not seen.",
        epilog="Exit codes: 0 done, 2 usage, no such file or partner, or a file that others may read, 6 the "
        "ledger is damaged.",
    )
    parser.add_argument("file", metavar="FILE", type=path, help="the ledger")
    parser.add_argument(
        "--forget",
        nargs=2,
        metavar=("PARTNER", "REASON"),
        help="from now on do not count what PARTNER got; the lines stay, and the reason is added",
    )
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Forget a partner if asked to; show the ledger."""
    from rich.console import Console

    from mpc_spearman.privacy.ledger import Ledger

    ledger = Ledger(parsed.file)
    if parsed.forget:
        ledger.forget(*parsed.forget)
    entries = ledger.entries()
    console = Console()
    console.print(_history(entries))
    console.print()
    console.print(_totals(entries))
    return 0


def _history(entries: Sequence[Charge | Forgotten]) -> Table:
    """Lay out one row a line of the ledger."""
    from rich.table import Table
    from rich.text import Text

    from mpc_spearman.privacy.charges import Charge

    table = Table("time", "plan", "rows", "columns", "who gets what", box=None, pad_edge=False)
    for entry in entries:
        if isinstance(entry, Charge):
            run = entry.run
            granted = ", ".join(f"{name}: {peer.grant}" for name, peer in run.peers.items())
            row = [run.plan[:8], str(run.own.n), str(len(run.columns)), granted]
        else:
            row = ["", "", "", f"{entry.partner}: forgotten, {entry.reason}"]
        table.add_row(entry.time, *map(Text, row))
    return table


def _totals(entries: Sequence[Charge | Forgotten]) -> Table:
    """Lay out, for each partner, how much of the column it has most of it got in all."""
    from rich.table import Table
    from rich.text import Text

    from mpc_spearman.data.refusals import show
    from mpc_spearman.privacy.charges import spent, standing

    table = Table("partner", "runs that count", "most of a column", "column", box=None, pad_edge=False)
    counting = standing(entries)
    for partner in sorted({name for _, holders in counting for name in holders}):
        runs = [charge.run for charge, holders in counting if partner in holders]
        columns = {
            (column.name, ranks)
            for run in runs
            for column, ranks in zip(run.columns, run.own.ranks, strict=True)
        }
        part, name = max(
            (sum(spent(name, ranks, partner, run) for run in runs), name) for name, ranks in columns
        )
        table.add_row(*map(Text, (partner, str(len(runs)), f"{part:.2%}", show(name))))
    return table
