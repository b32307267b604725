"""Show the progress of a run: a live display on a terminal, lines in a log or a notebook."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from mpc_spearman.launch import log
from mpc_spearman.units import human_seconds, printable

# Seconds between two lines about the same phase of the same party.
_REPORT_INTERVAL = 10.0

#: Shows a text, with the party and the phase that it is about.
Say = Callable[[str, str, str], None]


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, where runs show progress by default."""
    return "ipykernel" in sys.modules


@contextmanager
def shown(
    parties: Sequence[str],
    heading: Iterable[str] = (),
    *,
    quiet: bool = False,
    console: Console | None = None,
) -> Iterator[Display]:
    """Show and log the progress of each party while the block runs.

    A terminal shows one live line per party, with the time left. The log, and a notebook, get the parties'
    notes, and a line every ten seconds in a long phase. `heading` are the first lines. With `quiet` only the
    log is written. `console` replaces standard error.
    """
    if console is None and in_notebook() and not quiet:
        page = Console(force_jupyter=False, width=110)

        def say(text: str, party: str, phase: str) -> None:
            page.print(printable(f"{party} {phase}: {text}"), highlight=False, markup=False, soft_wrap=True)

        yield Display(say, ())
        return
    console = console or Console(stderr=True)
    for line in heading:
        log.write(line)
        if console.is_terminal and not quiet:
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    if quiet or not console.is_terminal:
        yield Display(log.write, parties)
        return
    with Progress(console=console, transient=True) as bars:
        yield _Live(log.write, bars, parties)


class Display:
    """Writes lines about what the supervisor of a run reports; the first line names the parties."""

    def __init__(self, say: Say, parties: Sequence[str]) -> None:
        self._say, self._parties = say, parties
        # The phase that each party is in, its beginning, and the time of the last line about it.
        self._work: dict[str, tuple[str, float, float]] = {}
        self._last: dict[str, str] = {}

    def watch(self, party: str, phase: str, done: int, of: int) -> None:
        """Show how much of a phase is done; `of` is 0 where the whole is unknown."""
        now = time.monotonic()
        if self._parties and not self._work:
            self._say(f"running: {', '.join(self._parties)}", "", "")
        last_phase, began, reported = self._work.get(party, ("", now, now))
        if last_phase != phase:
            began = reported = now
            log.write("begins", party, phase, logging.DEBUG)
        if of and now - reported > _REPORT_INTERVAL:
            reported = now
            left = f", about {human_seconds((of - done) * (now - began) / done)} left" if done else ""
            self._say(f"{done:,} of {of:,}{left}", party, phase)
        self._work[party] = phase, began, reported

    def note(self, party: str, text: str) -> None:
        """Show a note of a party, unless it repeats the last one."""
        if self._last.get(party) != text:  # a party that waits repeats its note
            self._say(text, party, self._work.get(party, ("start", 0, 0))[0])
        self._last[party] = text


class _Live(Display):
    """Shows progress on a terminal as well."""

    def __init__(self, say: Say, bars: Progress, parties: Sequence[str]) -> None:
        super().__init__(say, parties)
        self._bars = bars
        self._tasks = {party: bars.add_task(f"{party}: start", total=None) for party in parties}

    def watch(self, party: str, phase: str, done: int, of: int) -> None:
        if self._work.get(party, ("",))[0] != phase:
            self._bars.reset(self._tasks[party], description=f"{party}: {phase}")
        self._bars.update(self._tasks[party], completed=done, total=of or None)
        super().watch(party, phase, done, of)

    def note(self, party: str, text: str) -> None:
        self._bars.console.print(f"{party}: {printable(text)}", highlight=False, markup=False)
        super().note(party, text)
