"""``mpc-spearman secret``: what parties know each other by where there is no TLS."""

from __future__ import annotations

import argparse
from typing import Any

from mpc_spearman.cli.arguments import path
from mpc_spearman.errors import OutputError


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "secret",
        help="make the secret that all parties need under network.tls: insecure",
        description="Make a file of 32 random bytes. Under network.tls: insecure the parties know each other "
        "by it, and all their keys are made from it too: every party has the same file (network.secret), and "
        "nobody else. Give it to them on a way that others do not see.",
        epilog="Exit codes: 0 done, 16 the file exists or cannot be written.",
    )
    parser.add_argument("file", metavar="FILE", type=path, help="what to make; no file is replaced")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Make the file."""
    import secrets

    from mpc_spearman.files import KEY_BYTES, create

    try:
        create(parsed.file, secrets.token_bytes(KEY_BYTES), durable=True)
    except FileExistsError:
        raise OutputError(f"{parsed.file} exists and is not replaced") from None
    except OSError as error:
        raise OutputError(f"cannot write {parsed.file}: {error.strerror}") from None
    print(f"{parsed.file}: for every party of the run, and nobody else")
    return 0
