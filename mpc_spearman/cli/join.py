"""Run one party's role of a plan on this host.

Every party runs this command on its own host, with the same shared plan. They meet at network.address and
network.port (or MASTER_ADDR and MASTER_PORT), which the coordinator provides. A party's own settings are in
its local file or on its command line, never in the shared plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mpc_spearman.cli.arguments import add_party, add_plan, default_out, party_plan, path


def add(parser: argparse.ArgumentParser) -> None:
    add_plan(parser, "cluster.yaml", "network.address=10.0.0.7")
    add_party(parser, "whose role to run")
    parser.add_argument("--table", type=path, metavar="FILE", help="its table, in place of the plan's")


def run(parsed: argparse.Namespace) -> int:
    plan, party = party_plan(parsed, parsed.table, joins=True)

    # After the plan, since these take longer to import than a wrong plan takes to be refused.
    from mpc_spearman.cli.owner_page import beginning
    from mpc_spearman.launch import progress
    from mpc_spearman.launch.join import run_party
    from mpc_spearman.results import terminal

    out = parsed.out or default_out(parsed.plan)
    try:
        with progress.shown([party], beginning(plan, party), quiet=parsed.quiet) as display:
            result = run_party(
                plan,
                party,
                out,
                earlier_ledger=Path(parsed.plan).with_name(f"{party}.ledger"),
                keep_ranks=parsed.keep_ranks,
                plan_name=Path(parsed.plan).stem,
                watch=display.watch,
                note=display.note,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{party} was stopped, no result was written; the others stop too") from None
    terminal.show(result, out / party)
    return 0
