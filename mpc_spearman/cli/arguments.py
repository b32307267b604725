"""Arguments that several commands share, and their default folder of results."""

from __future__ import annotations

import argparse
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from mpc_spearman.errors import PlanError

if TYPE_CHECKING:
    from mpc_spearman.config import Plan


def add_plan(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add the arguments of a command that runs a plan: plan, settings, output folder, log; with examples."""
    add_settings(parser, plan, setting)
    parser.add_argument(
        "--out",
        type=path,
        metavar="DIR",
        help="keep each party's results in DIR/<party> (default: runs/<plan>-<time>)",
    )
    parser.add_argument(
        "--keep-ranks",
        type=path,
        metavar="FOLDER",
        help="keep the ranks of tables in FOLDER, and use those that an earlier run has kept there",
    )
    parser.add_argument(
        "--log", type=path, metavar="FILE", help="add lines with time, party and phase to FILE"
    )
    parser.add_argument(
        "--log-json", action="store_true", help="log JSON, one object a line; without --log to standard error"
    )
    add_quiet(parser)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option to show no progress."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show only errors and results")


def add_settings(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add a plan, and settings that replace values of it; with an example of each."""
    parser.add_argument("plan", metavar="PLAN", help=f"YAML file, such as {plan}")
    parser.add_argument(
        "settings", nargs="*", default=[], metavar="KEY=VALUE", help=f"replace a setting, such as {setting}"
    )


def add_party(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the party's name and its local file."""
    parser.add_argument("--party", metavar="NAME", help=f"{meaning} (default: the party of --local)")
    parser.add_argument("--local", type=path, metavar="FILE", help="its local file: key, table and policy")


def party_plan(
    parsed: argparse.Namespace, table: Path | None = None, *, joins: bool = False
) -> tuple[Plan, str]:
    """Return the plan with one party's local file, and the party's name; `table` replaces its table.

    With `joins`, `PlanError` if the shared plan has local keys, or a data party gives no local file.
    """
    from mpc_spearman.config import DataParty, load_plan, local_party

    party: str | None = parsed.party or (local_party(parsed.local) if parsed.local else None)
    if party is None:
        raise PlanError("which party is this? Give its local file (--local) or its name (--party)")
    tables = {} if table is None else {party: table}
    plan = load_plan(
        parsed.plan, parsed.settings, tables, local=parsed.local, party=party, shared_alone=joins
    )
    if joins and parsed.local is None and isinstance(plan.party(party), DataParty):
        advice = f"`mpc-spearman init TABLE --party {party}` makes one"
        raise PlanError(
            f"party {party} needs its local file (--local), with its table and its policy: {advice}"
        )
    return plan, plan.party(party).name


def path(text: str) -> Path:
    """Return a path; expand ``~``, which shells do not after ``=``."""
    return Path(os.path.expanduser(text))


def whole(low: int, high: int = 10**9) -> Callable[[str], int]:
    """Return a function that reads a whole number in a range; by default as high as plans allow."""

    def read(text: str) -> int:
        if not (re.fullmatch("[0-9]{1,10}", text) and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def day(text: str) -> date:
    """Return the day that is written as ``2030-12-31``."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day, such as 2030-12-31") from None


def features(text: str) -> tuple[int, int]:
    """Return the numbers of source and target features in a text such as ``10x30``."""
    if not re.fullmatch("0*[1-9][0-9]{0,8}x0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not AxB with at least 1 on each side, such as 10x30")
    source, target = map(int, text.split("x"))
    return source, target


def default_out(plan: str) -> Path:
    """Return the path of a new folder under ``runs/`` for a run of a plan."""
    started = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Path("runs", f"{Path(plan).stem}-{started}")


def print_table(
    text_titles: Sequence[str], number_titles: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table: columns of text, then columns of numbers, aligned right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*text_titles, box=None, pad_edge=False, padding=(0, 1))
    for title in number_titles:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 120)  # a pipe has no width: do not wrap narrowly
    console.print(table, markup=False)
