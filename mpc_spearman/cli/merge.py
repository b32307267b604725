"""Merge the target's results of several runs over the same rows, with different sources, into one result.

It equals the result of one run with all of them. Nothing is recomputed.
"""

from __future__ import annotations

import argparse

from mpc_spearman.cli.arguments import path
from mpc_spearman.results import terminal
from mpc_spearman.results.merge import merge


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUN_DIR",
        nargs="+",
        type=path,
        help="the target's run directories, such as runs/one/B",
    )
    parser.add_argument("--out", required=True, type=path, metavar="DIR", help="where the merged result goes")


def run(parsed: argparse.Namespace) -> int:
    result = merge(parsed.runs, parsed.out)
    terminal.show(result, parsed.out)
    return 0
