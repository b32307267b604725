"""What is shown while a run goes on."""

from __future__ import annotations

import io
import re

from rich.console import Console

from mpc_spearman.launch import progress


def test_on_a_terminal_every_party_has_a_live_line_through_all_its_phases() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with progress.shown(["C", "B"], console=console) as display:
        display.watch("B", "connect", 0, 0)
        display.watch("B", "rank", 0, 0)
        display.watch("B", "rank", 3, 7)
        display.note("B", "this will take [about] an hour")
        display.watch("B", "align", 0, 0)
        display._bars.refresh()  # type: ignore[attr-defined]
    assert "B: this will take [about] an hour" in shown.getvalue()
    assert "align" in shown.getvalue()


def test_in_a_pipe_it_is_one_line_and_for_a_long_phase_some_more() -> None:
    shown = io.StringIO()
    with progress.shown(["C", "B"], console=Console(file=shown, width=20)) as display:
        display.watch("B", "rank", 0, 0)
        for done in (40, 80):
            phase, began, told = display._work["B"]  # type: ignore[attr-defined]
            display._work["B"] = phase, began - 30, told - 30  # as if so many seconds were over
            for _ in range(3):
                display.watch("B", "rank", done, 1000)
        display.watch("B", "share", 0, 0)
        display.watch("B", "rank", 0, 0)
        for _ in range(2):
            display.note("B", "a long sentence stays on one line whatever the width is")
    first, *more, note = shown.getvalue().splitlines()
    assert first == "running: C, B"
    assert len(more) == 2
    assert all(re.match(r"B: rank [48]0 of 1,000, about 1\d min", line) for line in more), more
    assert note == "B: a long sentence stays on one line whatever the width is"
