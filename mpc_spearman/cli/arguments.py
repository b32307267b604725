"""What several commands take, and where they write by default."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from mpc_spearman.errors import PlanError

if TYPE_CHECKING:
    from mpc_spearman.config import Plan

#: What a command that is ended by Ctrl-C returns.
INTERRUPTED = 130


def add_plan(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add a plan, settings that replace some of its, and where results go; with an example of each."""
    add_settings(parser, plan, setting)
    parser.add_argument(
        "--out",
        type=path,
        metavar="DIR",
        help="keep each party's results in DIR/<party> (default: runs/<plan>-<time>)",
    )
    add_quiet(parser)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option to show no progress."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show no progress, only errors and results"
    )


def add_settings(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add a plan, and settings that replace some of its; with an example of each."""
    parser.add_argument("plan", metavar="PLAN", help=f"YAML file, such as {plan}")
    parser.add_argument(
        "settings",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help=f"replace a setting, such as {setting}",
    )


def add_party(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add whose role or page it is, and that party's local file."""
    parser.add_argument("--party", metavar="NAME", help=f"{whose} (default: whom --local names)")
    parser.add_argument(
        "--local", type=path, metavar="FILE", help="the party's local file: its key, table and policy"
    )


def own_party(parsed: argparse.Namespace) -> str | None:
    """Return the party that was named, or else the one that its local file names."""
    from mpc_spearman.config import local_party

    named: str | None = parsed.party
    return named if named or parsed.local is None else local_party(parsed.local)


def owners_plan(parsed: argparse.Namespace, table: Path | None = None) -> tuple[Plan, str]:
    """Load the plan as one data party has it, perhaps with another table; return it and the party."""
    from mpc_spearman.config import load_plan

    party = own_party(parsed)
    if party is None:
        raise PlanError("name the party with --party or --local")
    tables = {} if table is None else {party: table}
    plan = load_plan(parsed.plan, parsed.settings, tables, local=parsed.local, party=party)
    return plan, plan.owner(party).name


def path(text: str) -> Path:
    """Read a path; a shell leaves ``~`` as it is behind a ``=``."""
    return Path(os.path.expanduser(text))


def features(text: str) -> tuple[int, int]:
    """Read ``10x30``."""
    source, separator, target = text.partition("x")
    if not (separator and source.isascii() and source.isdigit() and target.isascii() and target.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not AxB, such as 10x30")
    return int(source), int(target)


def default_out(plan: str) -> Path:
    """Make up a new folder under ``runs/`` for a run of a plan."""
    started = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Path("runs", f"{Path(plan).stem}-{started}")


def print_table(left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose last columns, of numbers, are aligned at their right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*left, box=None, pad_edge=False, padding=(0, 1))
    for title in right:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a pipe has no edge to wrap at
    console.print(table, markup=False)
