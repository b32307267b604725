"""Check the signed record of a run.

Checks, in a party's folder of results, who signed record.json, whether with your plan's keys, whether the
stored messages are those that were sent, and whether the folder's numbers match them. Prints what this
proves, and what it does not.
"""

from __future__ import annotations

import argparse

from mpc_spearman.cli.arguments import path
from mpc_spearman.config import load_plan
from mpc_spearman.errors import RecordError
from mpc_spearman.results.record import PROVES, check
from mpc_spearman.units import printable


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=path, help="a party's folder of results")
    parser.add_argument("--plan", metavar="PLAN", help="where to take the parties' keys from")


def run(parsed: argparse.Namespace) -> int:
    """Print which checks passed; return 0, or the exit code of an invalid record."""
    plan = None if parsed.plan is None else load_plan(parsed.plan)
    code = 0
    for passed, sentence in check(parsed.folder, plan):
        code = code if passed else RecordError.exit_code
        print(printable(f"{'ok ' if passed else 'NO '} {sentence}"))
    print(PROVES)
    return code
