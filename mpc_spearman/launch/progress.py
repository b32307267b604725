"""What a person sees on standard error while a run goes on: a live display on a terminal, else a line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from mpc_spearman.units import human_seconds, printable

# Seconds between two lines about the same phase of the same party, in a pipe.
_EVERY = 10.0


def in_notebook() -> bool:
    """Tell whether this is a notebook's kernel, where a run shows its progress unasked."""
    return "ipykernel" in sys.modules


@contextmanager
def shown(
    parties: Sequence[str], *, quiet: bool = False, console: Console | None = None
) -> Iterator[_Live | _Lines]:
    """Show the progress of each party while the block runs; what is returned has `watch` and `note`.

    On a terminal that is one live line per party, with the time left. Elsewhere it is who takes part (not in
    a notebook), what the parties have to say, and a line every ten seconds in a long phase. `console` is in
    place of standard error.
    """
    if console is None and in_notebook() and not quiet:
        yield _Lines(Console(force_jupyter=False, width=110), ())
        return
    console = console or Console(stderr=True, quiet=quiet)
    if quiet or not console.is_terminal:
        yield _Lines(console, parties)
        return
    with Progress(console=console, transient=True) as bars:
        yield _Live(bars, parties)


class _Live:
    """Progress on a terminal."""

    def __init__(self, bars: Progress, parties: Sequence[str]) -> None:
        self._bars = bars
        self._tasks = {party: bars.add_task(f"{party}: start", total=None) for party in parties}
        self._phases: dict[str, str] = {}

    def watch(self, party: str, phase: str, done: int, of: int) -> None:
        if self._phases.get(party) != phase:
            self._phases[party] = phase
            self._bars.reset(self._tasks[party], description=f"{party}: {phase}")
        self._bars.update(self._tasks[party], completed=done, total=of or None)

    def note(self, party: str, text: str) -> None:
        self._bars.console.print(f"{party}: {printable(text)}", highlight=False, markup=False)


class _Lines:
    """Progress in a pipe or a notebook."""

    def __init__(self, console: Console, parties: Sequence[str]) -> None:
        self._console = console
        self._parties = parties
        # The phase that each party is in, since when, and when that was last told.
        self._work: dict[str, tuple[str, float, float]] = {}
        self._last: dict[str, str] = {}

    def watch(self, party: str, phase: str, done: int, of: int) -> None:
        now = time.monotonic()
        if self._parties and not self._work:
            self._say(f"running: {', '.join(self._parties)}")
        known, began, told = self._work.get(party, ("", now, now))
        if known != phase:
            began = told = now
        if of and now - told > _EVERY:
            told = now
            left = f", about {human_seconds((of - done) * (now - began) / done)} left" if done else ""
            self._say(f"{party}: {phase} {done:,} of {of:,}{left}")
        self._work[party] = phase, began, told

    def note(self, party: str, text: str) -> None:
        if self._last.get(party) != text:  # who waits says so again and again
            self._say(f"{party}: {text}")
        self._last[party] = text

    def _say(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)
