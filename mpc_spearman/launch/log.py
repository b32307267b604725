"""Log the events of a run with Python's `logging`: the logger ``mpc_spearman``, its handlers and formats.

Records have a `party` and a `phase`, where they are about one. A phase that begins is of level DEBUG, what a
party reports and how far a long phase is are INFO, what ends a run is ERROR. Only the commands attach
handlers; a script attaches its own.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from mpc_spearman.errors import OutputError
from mpc_spearman.units import printable

LOGGER = logging.getLogger("mpc_spearman")
LOGGER.addHandler(logging.NullHandler())


def write(text: str, party: str = "", phase: str = "", level: int = logging.INFO) -> None:
    """Log a text, which may quote another party."""
    LOGGER.log(level, "%s", text, extra={"party": party, "phase": phase})


@contextmanager
def attached(file: Path | None, *, as_json: bool, stderr: bool) -> Iterator[None]:
    """Log while the block runs: to a file, which is continued, and to standard error.

    Standard error gets no phases that merely begin, and, unless it is JSON, no errors: the command prints
    those itself. `OutputError` if the file cannot be written.
    """
    style = _Json() if as_json else _Lines()
    handlers: list[logging.Handler] = []
    if stderr:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[0].setLevel(logging.INFO)
        if not as_json:
            handlers[0].addFilter(lambda record: record.levelno < logging.ERROR)
    if file is not None:
        try:
            handlers.append(logging.FileHandler(file, encoding="utf-8", errors="backslashreplace"))
        except OSError as error:
            raise OutputError(f"cannot write the log {file}: {error.strerror}") from None
    subject = _Subject()
    level, propagates = LOGGER.level, LOGGER.propagate
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.addFilter(subject)
    LOGGER.propagate = False
    for handler in handlers:
        handler.setFormatter(style)
        handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk ends no run
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeFilter(subject)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagates
        for handler in handlers:
            LOGGER.removeHandler(handler)
            handler.close()


class _Subject(logging.Filter):
    """Adds the last party and phase to a record without them, if only one party has logged."""

    def __init__(self) -> None:
        super().__init__()
        self._parties: set[str] = set()
        self._phase = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.party:  # type: ignore[attr-defined]
            self._parties.add(record.party)  # type: ignore[attr-defined]
            self._phase = record.phase or self._phase  # type: ignore[attr-defined]
        elif len(self._parties) == 1:
            (record.party,) = self._parties
            record.phase = self._phase
        return True


def _time(record: logging.LogRecord) -> str:
    created = datetime.fromtimestamp(record.created, timezone.utc)
    return created.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Lines(logging.Formatter):
    """``2030-01-31T12:00:00.000Z A load: text``; a text of several lines stays one."""

    def format(self, record: logging.LogRecord) -> str:
        subject = " ".join(filter(None, (record.party, record.phase)))  # type: ignore[attr-defined]
        return f"{_time(record)} {subject + ': ' if subject else ''}{printable(record.getMessage())}"


class _Json(logging.Formatter):
    """One JSON object on a line: time, level, party, phase, text."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "party": record.party or None,  # type: ignore[attr-defined]
            "phase": record.phase or None,  # type: ignore[attr-defined]
            "text": printable(record.getMessage(), keep="\n"),
        }
        return json.dumps(content)
