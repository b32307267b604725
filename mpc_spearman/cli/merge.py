"""``mpc-spearman merge``: a later source's rows added to an earlier result."""

from __future__ import annotations

import argparse
from typing import Any

from mpc_spearman.cli.arguments import path


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "merge",
        help="add a later source's rows to an earlier result",
        description="Merge the target's results of several runs over the same rows, with different sources, "
        "into the result of one run with all of them. Nothing is recomputed.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN_DIR",
        nargs="+",
        type=path,
        help="the target's run directories, such as runs/one/B",
    )
    parser.add_argument("--out", required=True, type=path, metavar="DIR", help="where the merged result goes")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Merge, and show the result."""
    from mpc_spearman.results import terminal
    from mpc_spearman.results.merge import merge

    result = merge(parsed.runs, parsed.out)
    terminal.show(result, parsed.out)
    return 0
