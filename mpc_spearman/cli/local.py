"""Run every role of a plan on this machine, each in its own process."""

from __future__ import annotations

import argparse
from pathlib import Path

from mpc_spearman.cli.arguments import add_plan, default_out, path


def add(parser: argparse.ArgumentParser) -> None:
    add_plan(parser, "configs/mpc.yaml", "reveal=strengths")
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        type=_party_file,
        metavar="PARTY=FILE",
        help="a party's table, in place of the plan's (repeatable)",
    )


def _party_file(text: str) -> tuple[str, Path]:
    party, separator, file = text.partition("=")
    if not (party and separator and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not PARTY=FILE")
    return party, path(file)


def run(parsed: argparse.Namespace) -> int:
    from mpc_spearman.config import load_plan
    from mpc_spearman.launch.forkserver import ForkServer

    plan = load_plan(parsed.plan, parsed.settings, dict(parsed.table))
    out = parsed.out or default_out(parsed.plan)
    with ForkServer() as server:
        server.prepare(plan.protocol)  # what takes longest to import; all below is imported meanwhile
        from mpc_spearman.launch import progress
        from mpc_spearman.launch.local import run_local
        from mpc_spearman.results import terminal

        with progress.shown(plan.names, quiet=parsed.quiet) as display:
            result = run_local(
                plan,
                out=out,
                watch=display.watch,
                note=display.note,
                server=server,
                keep_ranks=parsed.keep_ranks,
            )
    terminal.show(result, out / plan.informed)
    return 0
