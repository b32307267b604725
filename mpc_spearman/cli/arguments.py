"""What several commands take, and where they write by default."""

from __future__ import annotations

import argparse
import os
import secrets
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from mpc_spearman.errors import PlanError

if TYPE_CHECKING:
    from mpc_spearman.comparison.network_model import Link


def add_plan(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add a plan, settings that replace some of its, and where results go; with an example of each."""
    add_settings(parser, plan, setting)
    parser.add_argument(
        "--out",
        type=path,
        metavar="DIR",
        help="keep each party's results in DIR/<party> (default: runs/<plan>-<time>)",
    )
    add_quiet(parser)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option to show no progress."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show no progress, only errors and results"
    )


def add_settings(parser: argparse.ArgumentParser, plan: str, setting: str) -> None:
    """Add a plan, and settings that replace some of its; with an example of each."""
    parser.add_argument("plan", metavar="PLAN", help=f"YAML file, such as {plan}")
    parser.add_argument(
        "settings",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help=f"replace a setting, such as {setting}",
    )


def add_party(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add whose role or page it is, and that party's local file."""
    parser.add_argument("--party", metavar="NAME", help=f"{whose} (default: whom --local names)")
    parser.add_argument(
        "--local", type=path, metavar="FILE", help="the party's local file: its key, table and policy"
    )


def own_party(parsed: argparse.Namespace) -> str | None:
    """Return the party that was named, or else the one that its local file names."""
    from mpc_spearman.config import local_party

    named: str | None = parsed.party
    return named if named or parsed.local is None else local_party(parsed.local)


def path(text: str) -> Path:
    """Read a path; a shell leaves ``~`` as it is behind a ``=``."""
    return Path(os.path.expanduser(text))


def features(text: str) -> tuple[int, int]:
    """Read ``10x30``."""
    source, separator, target = text.partition("x")
    if not (separator and source.isascii() and source.isdigit() and target.isascii() and target.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not AxB, such as 10x30")
    return int(source), int(target)


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a network to put costs on."""
    parser.add_argument(
        "--bandwidth", type=float, metavar="MBIT/S", help="add the time of such a network (with --rtt)"
    )
    parser.add_argument("--rtt", type=float, metavar="MS", help="its round-trip time")


def network(parsed: argparse.Namespace) -> Link | None:
    """Return the network that was named."""
    from mpc_spearman.comparison.network_model import Link

    if (parsed.bandwidth is None) != (parsed.rtt is None):
        raise PlanError("--bandwidth and --rtt: give both, or neither")
    return None if parsed.rtt is None else Link(parsed.bandwidth * 1e6, parsed.rtt / 1000)


def default_out(plan: str) -> Path:
    """Make up a new folder under ``runs/`` for a run of a plan."""
    started = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return Path("runs", f"{Path(plan).stem}-{started}")
