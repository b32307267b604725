"""``mpc-spearman compare``: what several plans cost at several sizes."""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

from mpc_spearman.cli import arguments
from mpc_spearman.cli.arguments import add_quiet, features, path

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

#: What a command that is ended by Ctrl-C returns.
INTERRUPTED = 130


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "compare",
        help="measure what plans cost at several sizes",
        description="Run every plan at every size on this machine, on made-up tables, and put their costs "
        "side by side: a table, plots and a page. Runs that are already in DIR are not repeated.",
        epilog="Exit codes: 0 done, 2 plan or usage, 3 something is not installed, 16 DIR cannot be used, "
        "130 interrupted; a run that fails ends the command with its own. docs/errors.md has them all.",
    )
    parser.add_argument("plans", nargs="+", metavar="PLAN", help="YAML files, such as configs/mpc.yaml")
    parser.add_argument(
        "--rows", nargs="+", type=int, required=True, metavar="N", help="rows, such as 1000 10000"
    )
    parser.add_argument(
        "--features",
        nargs="+",
        type=features,
        required=True,
        metavar="AxB",
        help="columns of each source and of the target, such as 10x10 30x30",
    )
    parser.add_argument("--repeats", type=int, default=1, metavar="K", help="runs of each (default: 1)")
    parser.add_argument(
        "--out", type=path, required=True, metavar="DIR", help="keep runs, table, plots and page here"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="stop a run after this time, and start no larger one (default: 600)",
    )
    arguments.add_network(parser)
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Measure, and show one line per run."""
    from rich.console import Console

    from mpc_spearman.comparison import compare
    from mpc_spearman.comparison.page import summary
    from mpc_spearman.config import load_plan
    from mpc_spearman.launch import progress

    network = arguments.network(parsed)
    plans = [load_plan(plan) for plan in parsed.plans]
    sizes = [(n, *columns) for n, columns in product(parsed.rows, parsed.features)]
    console = Console()
    parties = dict.fromkeys(name for plan in plans for name in plan.names)
    try:
        with progress.shown(list(parties), quiet=parsed.quiet) as display:
            table = compare(
                plans,
                sizes,
                parsed.repeats,
                network,
                parsed.out,
                limit=parsed.limit,
                watch=display.watch,
                note=display.note,
            )
    except KeyboardInterrupt:
        print(
            f"interrupted: finished runs are in {parsed.out}; the same command continues",
            file=sys.stderr,
        )
        return INTERRUPTED
    if len(table):
        show(summary(table, network), console)
    for text in table.attrs["left_out"]:
        console.print(f"Not measured: {text}", highlight=False, soft_wrap=True, markup=False)
    console.print(f"Page: {parsed.out / 'comparison.html'}", highlight=False, soft_wrap=True, markup=False)
    return 0


def show(runs: pd.DataFrame, console: Console) -> None:
    """Print one line per run."""
    from rich.filesize import decimal
    from rich.table import Table

    from mpc_spearman.units import human_seconds

    names = [name for name in ("LAN", "WAN", "yours") if name in runs]
    both = runs["estimator"].nunique() > 1
    table = Table("scheme", "level", *["estimator"] * both, box=None, pad_edge=False, padding=(0, 1))
    for title in ("rows", "columns", "time", *names, "sent"):
        table.add_column(title, justify="right")
    for row in runs.to_dict("records"):
        table.add_row(
            row["scheme"],
            row["level"],
            *[row["estimator"]] * both,
            f"{row['n']:,}",
            f"{row['m_A']}x{row['m_B']}",
            *(human_seconds(row[name]) for name in ("seconds", *names)),
            decimal(round(row["bytes"])),
        )
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a pipe has no edge to wrap at
    console.print(table)
