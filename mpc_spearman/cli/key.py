"""``mpc-spearman key``: a key to approve runs with."""

from __future__ import annotations

import argparse
from typing import Any

from mpc_spearman.cli.arguments import path


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "key",
        help="make a key for approving runs",
        description="Make the key of somebody who approves runs, such as a data protection officer, and "
        "print the line that a data owner puts below `policy`. A party's own key cannot approve.",
    )
    parser.add_argument("file", metavar="FILE", type=path, help="the file to write; it must not exist")
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Make the key and print its line."""
    from mpc_spearman.identity import Identity

    officer = Identity.new()
    officer.write(parsed.file)
    print(f"approved_by: {officer}")
    return 0
