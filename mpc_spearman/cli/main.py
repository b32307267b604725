"""The command ``mpc-spearman``.

A run matters more than its output: a pipe without a reader, a full disk behind a redirection or a locale
without some character must neither end the run nor leave the other parties waiting. What cannot be printed is
lost.
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

#: In the order of the help. Each is a module here, which is imported when it is asked for: `add` adds its
#: arguments to a parser, `run` takes what was parsed and returns the exit code.
_COMMANDS = {
    "local": "Run all roles of a plan on this machine.",
    "join": "Run one role of a plan here, the others on their hosts.",
    "check": "Check an owner's table against a plan, before anyone else is involved.",
    "explain": "Print who will learn what in a run, and whether an owner's policy allows it.",
    "merge": "Add a later source's rows to an earlier result.",
    "compare": "Measure what plans cost at several sizes.",
    "estimate": "Estimate the time, bytes and memory of a run.",
    "init": "Make a party's key and its local file, or a plan for two tables.",
    "key": "Make a key for approving runs.",
    "approve": "Approve a data owner's runs of a plan.",
    "verify": "Check the signed record of a run.",
    "ledger": "Show how much a data owner's runs have revealed to each partner.",
}
# Those whose results are in files, whatever can be printed.
_KEEPING = ("local", "join", "merge", "compare")
# What shells add to a signal's number.
_SIGNALS = 128
_NEWLINE = "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (see :mod:`mpc_spearman.errors`)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it is not
            signal.signal(number, _end)
    parsed = argparse.Namespace(json_alone=False)
    with ExitStack() as stack:  # the log gets the error, too
        try:
            if not _parse(arguments, parsed):
                return 0
            stack.enter_context(_logged(parsed))
            code = int(parsed.run(parsed))
        except MpcSpearmanError as error:
            # The text may quote what another party sent.
            return _report(parsed, f"error: {printable(str(error), keep=_NEWLINE)}", error.exit_code)
        except OSError as error:  # what this machine lacks: its folder, or files that may be open at once
            return _report(parsed, f"error: {error}", SetupError.exit_code)
        except KeyboardInterrupt as end:
            what = str(end) or "all roles were stopped, no result was written"
            return _report(parsed, f"interrupted: {what}", _SIGNALS + signal.SIGINT)
        except SystemExit as end:
            if not isinstance(end.code, int) or end.code <= _SIGNALS:
                raise
            return _report(parsed, f"stopped by {signal.Signals(end.code - _SIGNALS).name}", end.code)
    lost = _lost()
    if lost is None:
        return code
    print(f"note: some output could not be printed: {lost}", file=sys.stderr)
    return code or (OutputError.exit_code if parsed.prints else 0)


def _parse(arguments: Sequence[str], parsed: argparse.Namespace) -> bool:
    """Read the arguments into `parsed`; return False, after printing the help, if there are none."""
    parser = _parser(arguments[0] if arguments else "")
    _never_fail()
    if not arguments:
        parser.print_help()
        return False
    _, rest = parser.parse_known_args(arguments, parsed)
    takes = hasattr(parsed, "settings")
    if rest and (any(word.startswith("-") for word in rest) or not takes):
        how = "; a plan's setting is KEY=VALUE, without --" if takes else ""
        parser.error(f"unrecognized arguments: {' '.join(rest)}{how}")
    if rest:
        parsed.settings += rest  # argparse gives up on those that come after an option
    return True


def _report(parsed: argparse.Namespace, text: str, code: int) -> int:
    """Log and print what ends a command; return its exit code."""
    log.write(text, level=logging.ERROR)
    if not parsed.json_alone:
        print(text, file=sys.stderr)
    return code


def _logged(parsed: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context in which a command's log goes where its options say, and lines to a pipe."""
    file, as_json = getattr(parsed, "log", None), getattr(parsed, "log_json", False)
    parsed.json_alone = as_json and file is None
    quiet, terminal = getattr(parsed, "quiet", True), sys.stderr is not None and sys.stderr.isatty()
    parsed.quiet = quiet or parsed.json_alone
    return log.attached(file, as_json=as_json, stderr=parsed.json_alone or not (quiet or terminal))


def _end(number: int, frame: object) -> None:
    """End on a signal as on an error: stop the roles and take their files away."""
    raise SystemExit(_SIGNALS + number)


class _NeverFails(io.FileIO):
    """A file descriptor that accepts everything, and drops all output after the first failed write."""

    lost: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        while self.lost is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.lost = error
                break
            if written is not None:
                return written
            select.select([], [self], [])  # its other end has made it one that does not wait
        return memoryview(data).nbytes


def _never_fail() -> None:
    """Replace this process's streams by such ones; characters that they cannot encode become escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue  # there is none, or somebody else has put one in its place
        buffer = io.BufferedWriter(_NeverFails(stream.fileno(), "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=True))


def _lost() -> str | None:
    """Return why some output could not be written; None if all was, or if its reader closed the pipe."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _NeverFails):
        return None
    sys.stdout.flush()
    return None if raw.lost is None or raw.lost.errno == errno.EPIPE else raw.lost.strerror


def _parser(asked: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mpc-spearman",
        description="Private Spearman rank correlation between parties that hold different columns about "
        "the same people.",
        epilog="Exit codes: 0 done, 2 wrong plan or usage, 130 interrupted. docs/errors.md lists them all.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, about in _COMMANDS.items():
        command = commands.add_parser(name, help=about)
        if name == asked:
            module = import_module(f"mpc_spearman.cli.{name}")
            command.description = module.__doc__
            module.add(command)
            command.set_defaults(run=module.run, prints=name not in _KEEPING)
    return parser


if __name__ == "__main__":
    sys.exit(main())
