"""The command ``mpc-spearman``.

A run is more important than its output. A pipe without a reader, a full disk behind a redirection or a locale
without some character must neither end the run nor leave the other parties waiting. Output that cannot be
written is dropped.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from typing import TYPE_CHECKING

from mpc_spearman.errors import MpcSpearmanError, OutputError, SetupError
from mpc_spearman.launch import log
from mpc_spearman.units import printable
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: The commands, in the order of the help. Each is a module of this package, imported when it is used: `add`
#: adds its arguments to a parser; `run` gets the parsed arguments and returns the exit code.
_COMMANDS = {
    "local": "Run all roles of a plan on this machine.",
    "join": "Run one role of a plan here, the others on their hosts.",
    "check": "Check an owner's table against a plan, before anyone else is involved.",
    "explain": "Print who will learn what in a run, and whether an owner's policy allows it.",
    "merge": "Add a later source's rows to an earlier result.",
    "csv": "Write the pairs of a large result as CSV files too.",
    "compare": "Measure what plans cost at several sizes.",
    "estimate": "Estimate the time, bytes and memory of a run.",
    "init": "Make a party's key and its local file, or a plan for two tables.",
    "key": "Make a key for approving runs.",
    "approve": "Approve a data owner's runs of a plan.",
    "verify": "Check the signed record of a run.",
    "ledger": "Show how much a data owner's runs have revealed to each partner.",
}
# Commands that write their results to files, so that lost output is no error.
_WRITING_FILES = ("local", "join", "merge", "csv", "compare")
# The number that shells add to a signal's to make an exit code.
_SIGNALS = 128
_NEWLINE = "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (see :mod:`mpc_spearman.errors`)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup, SIGHUP stays ignored
            signal.signal(number, _end)
    parsed = argparse.Namespace(json_alone=False)
    with ExitStack() as stack:  # the log is closed last, so that it gets the error
        try:
            if not _parse(arguments, parsed):
                return 0
            stack.enter_context(_logged(parsed))
            code = int(parsed.run(parsed))
        except MpcSpearmanError as error:
            # The text may quote what another party sent.
            return _report(parsed, f"error: {printable(str(error), keep=_NEWLINE)}", error.exit_code)
        except OSError as error:  # such as a missing folder, or too many open files
            return _report(parsed, f"error: {error}", SetupError.exit_code)
        except KeyboardInterrupt as end:
            consequence = str(end) or "all roles were stopped, no result was written"
            return _report(parsed, f"interrupted: {consequence}", _SIGNALS + signal.SIGINT)
        except SystemExit as end:
            if not isinstance(end.code, int) or end.code <= _SIGNALS:
                raise
            return _report(parsed, f"stopped by {signal.Signals(end.code - _SIGNALS).name}", end.code)
    write_error = _write_error()
    if write_error is None:
        return code
    print(f"note: some output could not be printed: {write_error}", file=sys.stderr)
    return code or (OutputError.exit_code if parsed.prints else 0)


def _parse(arguments: Sequence[str], parsed: argparse.Namespace) -> bool:
    """Parse the arguments into `parsed`; without arguments, print the help and return False."""
    parser = _parser(arguments[0] if arguments else "")
    _make_output_lossy()
    if not arguments:
        parser.print_help()
        return False
    _, unparsed = parser.parse_known_args(arguments, parsed)
    has_settings = hasattr(parsed, "settings")
    if unparsed and (any(word.startswith("-") for word in unparsed) or not has_settings):
        advice = "; a plan's setting is KEY=VALUE, without --" if has_settings else ""
        parser.error(f"unrecognized arguments: {' '.join(unparsed)}{advice}")
    if unparsed:
        parsed.settings += unparsed  # argparse does not assign arguments after an option
    return True


def _report(parsed: argparse.Namespace, text: str, code: int) -> int:
    """Log and print why a command ends; return its exit code."""
    log.write(text, level=logging.ERROR)
    if not parsed.json_alone:
        print(text, file=sys.stderr)
    return code


def _logged(parsed: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context that logs to the file or standard error that the command's options select."""
    file, as_json = getattr(parsed, "log", None), getattr(parsed, "log_json", False)
    parsed.json_alone = as_json and file is None
    quiet, terminal = getattr(parsed, "quiet", True), sys.stderr is not None and sys.stderr.isatty()
    parsed.quiet = quiet or parsed.json_alone
    return log.attached(file, as_json=as_json, stderr=parsed.json_alone or not (quiet or terminal))


def _end(number: int, frame: object) -> None:
    """Exit on a signal as on an error: stop the roles and remove their files."""
    raise SystemExit(_SIGNALS + number)


class _LossyFile(io.FileIO):
    """A file descriptor that accepts everything, and drops all output after the first failed write."""

    error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        while self.error is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.error = error
                break
            if written is not None:
                return written
            select.select([], [self], [])  # the other end has made the pipe non-blocking
        return memoryview(data).nbytes


def _make_output_lossy() -> None:
    """Replace standard output and error by streams that never fail, and escape what they cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue  # the stream is missing, or another program has replaced it
        buffer = io.BufferedWriter(_LossyFile(stream.fileno(), "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=True))


def _write_error() -> str | None:
    """Return why some output could not be written; None if all was, or if its reader closed the pipe."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _LossyFile):
        return None
    sys.stdout.flush()
    return None if raw.error is None or raw.error.errno == errno.EPIPE else raw.error.strerror


def _parser(command_name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpc-spearman",
        description="Private Spearman rank correlation between parties that hold different columns about "
        "the same people.",
        epilog="Exit codes: 0 done, 2 wrong plan or usage, 130 interrupted. docs/errors.md lists them all.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name == command_name:
            module = import_module(f"mpc_spearman.cli.{name}")
            command.description = module.__doc__
            module.add(command)
            command.set_defaults(run=module.run, prints=name not in _WRITING_FILES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
