"""Run one role of a plan here, the others on their hosts.

Run one party's role of a plan on this host. Every party runs this command on its own host, with the same
shared plan. They meet at network.address and network.port (or MASTER_ADDR and MASTER_PORT), which the
coordinator provides.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpc_spearman.cli.arguments import add_party, add_plan, default_out, party_plan, path


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_plan(parser, "configs/cluster.yaml", "network.address=10.0.0.7")
    add_party(parser, "whose role to run")
    parser.add_argument("--table", type=path, metavar="FILE", help="its table, in place of the plan's")


def run(parsed: argparse.Namespace) -> int:
    """Run the role and show what it was given."""
    from mpc_spearman.cli.owner_page import beginning
    from mpc_spearman.launch import progress
    from mpc_spearman.launch.join import run_party
    from mpc_spearman.results import terminal
    from mpc_spearman.units import printable

    plan, party = party_plan(parsed, parsed.table)
    out = parsed.out or default_out(parsed.plan)
    if not parsed.quiet:
        print(printable("\n".join(beginning(plan, party)), keep="\n"), file=sys.stderr)
    with progress.shown([party], quiet=parsed.quiet) as display:
        folder = Path(parsed.plan).parent
        result = run_party(
            plan,
            party,
            out,
            folder=folder,
            keep_ranks=parsed.keep_ranks,
            watch=display.watch,
            note=display.note,
        )
    terminal.show(result, out / party)
    return 0
