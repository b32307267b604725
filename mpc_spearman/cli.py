"""The command ``mpc-spearman``."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from mpc_spearman.errors import MpcSpearmanError
from mpc_spearman.version import __version__

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (see :mod:`mpc_spearman.errors`)."""
    parser = _parser()
    parsed, rest = parser.parse_known_args(arguments)
    if any(word.startswith("-") for word in rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    parsed.settings += rest  # argparse gives up on those that come after an option
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it is not
            signal.signal(number, _end)
    try:
        return int(parsed.run(parsed))
    except MpcSpearmanError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: all roles were stopped, nothing was written", file=sys.stderr)
        return _INTERRUPTED


def _end(number: int, frame: object) -> None:
    """End on a signal as on an error: stop the roles and take their files away."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpc-spearman",
        description="Private Spearman rank correlation between parties that hold different columns of the "
        "same rows.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    local = commands.add_parser(
        "local",
        help="run all roles of a plan on this machine",
        description="Run every role of a plan as a process of its own on this machine.",
        epilog="Exit codes: 0 done, 2 plan or usage, 4 table, 5 disclosure, 6 policy, 10 unaligned rows, "
        "12 party lost, 13 party silent, 130 interrupted; the README has them all.",
    )
    local.add_argument("plan", metavar="PLAN", help="YAML file, such as configs/mpc.yaml")
    local.add_argument(
        "settings",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="replace a setting, such as reveal=strengths",
    )
    local.add_argument(
        "--table",
        action="append",
        default=[],
        type=_table,
        metavar="PARTY=FILE",
        help="a party's table, in place of the plan's (repeatable)",
    )
    local.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="keep each party's results in DIR/<party> (default: runs/<plan>-<time>)",
    )
    local.set_defaults(run=_local)
    return parser


def _table(text: str) -> tuple[str, Path]:
    party, separator, file = text.partition("=")
    if not (party and separator and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not PARTY=FILE")
    return party, Path(file)


def _local(parsed: argparse.Namespace) -> int:
    from rich.console import Console

    from mpc_spearman import progress, report
    from mpc_spearman.config import load_plan
    from mpc_spearman.local import run_local

    plan = load_plan(parsed.plan, parsed.settings, dict(parsed.table))
    started = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    out = parsed.out or Path("runs", f"{Path(parsed.plan).stem}-{started}")
    console = Console()
    with progress.shown(console, plan.names) as display:
        result = run_local(plan, out=out, watch=display.watch, note=display.note)
    report.summarize(result, console)
    console.print(
        f"Report: {out / plan.names[0] / 'report.html'}", highlight=False, soft_wrap=True, markup=False
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
