"""``mpc-spearman verify``: check the record that a run's parties have signed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "verify",
        help="check the signed record of a run",
        description="Check record.json in a party's folder of results: who signed it, whether the keys are "
        "those of your plan, whether the stored messages are those that were sent, and whether the numbers "
        "in the folder are theirs. Prints what this proves, and what it does not.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a party's folder of results")
    parser.add_argument("--plan", metavar="PLAN", help="where to take the parties' keys from")
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Print what holds; return 0, or the exit code of a record that does not."""
    from mpc_spearman.config import load_plan
    from mpc_spearman.errors import RecordError
    from mpc_spearman.results.record import PROVES, check
    from mpc_spearman.units import printable

    plan = None if parsed.plan is None else load_plan(parsed.plan)
    code = 0
    for right, sentence in check(parsed.folder, plan):
        code = code if right else RecordError.exit_code
        print(printable(f"{'ok ' if right else 'NO '} {sentence}"))
    print(PROVES)
    return code
