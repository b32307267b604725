"""``mpc-spearman init``: what a party needs before its first run."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "init",
        help="make a party's key, and the line that the shared plan needs",
        description="Make NAME.key, by which the other parties know this one, and print the line that goes "
        "below the party's name in the shared plan. The file stays with its party, and no run works without "
        "it. The line is no secret.",
        epilog="Exit codes: 0 done, 2 usage or a name that no party can have, 16 the file exists or cannot "
        "be written.",
    )
    parser.add_argument("--party", required=True, metavar="NAME", help="the party's name, as in the plan")
    parser.set_defaults(run=run, prints=True)


def run(parsed: argparse.Namespace) -> int:
    """Make the key and print its line."""
    from mpc_spearman.config.fields import party_name
    from mpc_spearman.errors import OutputError, PlanError
    from mpc_spearman.identity import Identity

    try:
        name = party_name(parsed.party)
    except ValueError as error:
        raise PlanError(f"--party: {parsed.party!r} {error}") from None
    identity, path = Identity.new(), Path(f"{name}.key")
    try:
        identity.write(path)
    except OutputError as error:
        with suppress(PlanError):
            error = OutputError(f"{error}; its line is\nidentity: {Identity.read(path, 'key')}")
        raise error from None
    print(f"identity: {identity}")
    return 0
