"""What a person sees while a run goes on: a live display on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from mpc_spearman.launch import Watch


@contextmanager
def shown(console: Console, parties: Sequence[str]) -> Iterator[Watch]:
    """Show the progress of each party; gives the function to tell of it.

    Parameters
    ----------
    console : Console
        On a terminal one live line per party; otherwise one line whenever a party enters a phase.
    parties : sequence of str
    """
    if not console.is_terminal:
        yield _plain(console)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[party]}"),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks = {party: bars.add_task("start", total=None, party=party) for party in parties}

        def watch(party: str, phase: str, done: int, of: int) -> None:
            bars.update(tasks[party], description=phase, completed=done, total=of or None)

        yield watch


def _plain(console: Console) -> Watch:
    seen: set[tuple[str, str]] = set()

    def watch(party: str, phase: str, done: int, of: int) -> None:
        if (party, phase) not in seen:
            seen.add((party, phase))
            console.print(f"{party}: {phase}", highlight=False, markup=False)

    return watch
