"""Make the key of somebody who approves runs, such as a data protection officer.

It prints the line that a data owner puts below `policy`. A party's own key cannot approve.
"""

from __future__ import annotations

import argparse

from mpc_spearman.cli.arguments import path
from mpc_spearman.identity import Identity


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="the file to write; it must not exist")


def run(parsed: argparse.Namespace) -> int:
    officer = Identity.new()
    officer.write(parsed.file)
    print(f"approved_by: {officer}")
    return 0
