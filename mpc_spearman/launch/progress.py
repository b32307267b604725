"""Show the progress of a run: a live display on a terminal, lines in a log or a notebook."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

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
        yield Display(lambda text, party, phase: _print(page, f"{party} {phase}: {text}"))
        return
    console = console or Console(stderr=True)
    live = console.is_terminal and not quiet
    for line in heading:
        log.write(line)
        if live:
            _print(console, line)
    with Progress(console=console, transient=True) if live else nullcontext() as bars:
        yield Display(log.write, parties, bars)


def _print(console: Console, text: str) -> None:
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


class Display:
    """Shows what the supervisor of a run reports: by `say` in lines, and on a terminal also in `bars`.

    If `parties` are given, the first line names them.
    """

    def __init__(self, say: Say, parties: Sequence[str] = (), bars: Progress | None = None) -> None:
        self._say, self._parties, self._bars = say, parties, bars
        # The phase that each party is in, its beginning, and the time of the last line about it.
        self._work: dict[str, tuple[str, float, float]] = {}
        self._last_notes: dict[str, str] = {}
        self._tasks = (
            {party: bars.add_task(f"{party}: start", total=None) for party in parties} if bars else {}
        )

    def watch(self, party: str, phase: str, done: int, of: int) -> None:
        """Show how much of a phase is done; `of` is 0 where the whole is unknown."""
        now = time.monotonic()
        if self._parties and not self._work:
            self._say(f"running: {', '.join(self._parties)}", "", "")
        last_phase, phase_start, reported = self._work.get(party, ("", now, now))
        begins = phase != last_phase
        if begins:
            phase_start = reported = now
            log.write("begins", party, phase, logging.DEBUG)
        if of and now - reported > _REPORT_INTERVAL:
            reported = now
            to_go = f", about {human_seconds((of - done) * (now - phase_start) / done)} left" if done else ""
            self._say(f"{done:,} of {of:,}{to_go}", party, phase)
        self._work[party] = phase, phase_start, reported
        if self._bars:
            if begins:
                self._bars.reset(self._tasks[party], description=f"{party}: {phase}")
            self._bars.update(self._tasks[party], completed=done, total=of or None)

    def note(self, party: str, text: str) -> None:
        """Show a note of a party; the lines leave out one that repeats the last."""
        if self._bars:
            self._bars.console.print(f"{party}: {printable(text)}", highlight=False, markup=False)
        if self._last_notes.get(party) != text:  # a party that waits repeats its note
            self._say(text, party, self._work.get(party, ("start", 0, 0))[0])
        self._last_notes[party] = text
