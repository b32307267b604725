"""The command ``mpc-spearman``."""

from __future__ import annotations

# PYTHON_ARGCOMPLETE_OK: what the shell's completion looks for in a command's first lines.
import argparse
import difflib
import errno
import os
import signal
import sys
from collections.abc import Sequence

from mpc_spearman.cli import (
    approve,
    check,
    compare,
    estimate,
    explain,
    init,
    join,
    key,
    ledger,
    local,
    merge,
    output,
    verify,
)
from mpc_spearman.cli.arguments import INTERRUPTED
from mpc_spearman.errors import MpcSpearmanError, OutputError, SetupError
from mpc_spearman.units import printable
from mpc_spearman.version import __version__

_COMMANDS = (
    local,
    join,
    check,
    explain,
    merge,
    compare,
    estimate,
    init,
    key,
    approve,
    verify,
    ledger,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (see :mod:`mpc_spearman.errors`)."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    output.never_fail()
    first = (sys.argv[1:] if arguments is None else arguments)[:1]
    if not first:
        parser.print_help()
        return 0
    names = [command.__name__.rpartition(".")[2] for command in _COMMANDS]
    if not first[0].startswith("-") and first[0] not in names:
        meant = "".join(f"; did you mean {name}?" for name in difflib.get_close_matches(first[0], names, 1))
        parser.error(f"there is no command {printable(first[0])}{meant}")
    parsed, rest = parser.parse_known_args(arguments)
    if rest and (any(word.startswith("-") for word in rest) or not hasattr(parsed, "settings")):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        parsed.settings += rest  # argparse gives up on those that come after an option
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it is not
            signal.signal(number, _end)
    try:
        code = int(parsed.run(parsed))
    except MpcSpearmanError as error:
        # The text may quote what another party sent.
        text = printable(str(error), keep="\n")
        print(f"error: {text}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno == errno.EMFILE:
            why = "too few files may be open at once: raise the limit, as with ulimit -n 1024"
        elif isinstance(error, FileNotFoundError) and not _has_folder():
            why = "the current folder has been deleted: cd to one that exists"
        else:
            raise
        print(f"error: {why}", file=sys.stderr)
        return SetupError.exit_code
    except KeyboardInterrupt:
        print("interrupted: all roles were stopped, nothing was written", file=sys.stderr)
        return INTERRUPTED
    lost = output.lost()
    if lost is None:
        return code
    print(f"note: some output could not be printed: {lost}", file=sys.stderr)
    # Results are in their files; some commands have no other output.
    return code or (OutputError.exit_code if getattr(parsed, "prints", False) else 0)


def _has_folder() -> bool:
    """Tell whether the current folder is still there."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _end(number: int, frame: object) -> None:
    """End on a signal as on an error: stop the roles and take their files away."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpc-spearman",
        description="Private Spearman rank correlation between parties that hold different columns about "
        "the same people.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
