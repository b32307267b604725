"""Show a data owner's ledger: its runs, and how much they revealed to each partner.

With --begin, make a ledger without entries. Runs only continue one: a ledger that is lost should be restored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import wrap

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mpc_spearman.cli.arguments import path
from mpc_spearman.privacy.charges import Entry, Forgotten, balances
from mpc_spearman.privacy.ledger import Ledger

_MEANING = """\
told: the sum of the privacy losses (privacy.loss) of the counted runs; policy.lifetime is its limit. At 2,
an attacker who knows everything except which of two rows is whose guesses right 84 times in 100 at most;
at 4, 92 times. of values: the same for runs with privacy.unit: value. without bound: exact runs, which no sum
covers. A run counts once it is allowed, even if it fails later. At coefficients and differences the
coordinator's exact numbers are listed but not counted: it is trusted not to pass them on."""


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
    plan = Column("plan", width=19)  # four groups of its digest in a line
    table = Table("time", plan, "rows", "columns", "who was told what", box=None, pad_edge=False)
    for entry in entries:
        if isinstance(entry, Forgotten):
            table.add_row(entry.time, "", "", "", Text(f"{entry.partner}: forgotten, {entry.reason}"))
            continue
        run = entry.run
        without = "of 0.2" if run.version == "0.2" else "exact"
        told = "; ".join(
            f"{name}: {one.what}, {without if one.loss is None else f'loss {one.loss:g}'}"
            f"{'; not counted' if one.loss is None and not one.counted else ''}"
            for name, one in run.told.items()
        )
        cells = " ".join(wrap(run.plan, 4)), str(run.rows), str(run.columns), told or "nobody: nothing"
        table.add_row(entry.time, *map(Text, cells))
    return table


def _totals(entries: Sequence[Entry]) -> Table:
    heads = ("partner", "runs that count", "told", "of values", "without bound", "since")
    table = Table(*heads, box=None, pad_edge=False)
    for one in balances(entries):
        names, sums = ", ".join(sorted(one.names)), (f"{one.row:g}", f"{one.value:g}", str(one.exact))
        table.add_row(*map(Text, (names, str(one.runs), *sums, one.since)))
    return table
