"""Real parties, each started by ``mpc-spearman join`` on its own, over TLS, and how each ended."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.harness import ROOT
from support.plans import mapping, with_keys
from support.processes import EVER, TAG, eventually, free_port, kill, new_tag, processes
from support.server import Command, hooked

#: ``network.timeout`` where a party falls silent, ``network.join_timeout`` where one will not come; seconds.
TIMEOUT, JOIN_TIMEOUT = 4.0, 6.0


@dataclass(frozen=True)
class Ending:
    """How one party's command ended."""

    code: int
    error: str  # its class in ``status.json``; ``done`` if there is none
    status: dict[str, Any]
    printed: str  # standard error
    shown: str  # standard output
    at: float  # by the clock that all processes share
    files: list[str]  # in its run directory, ``status.json`` aside


class Party:
    """One running ``mpc-spearman join``."""

    def __init__(
        self, arguments: Sequence[str], out: Path, environment: Mapping[str, str], name: str
    ) -> None:
        self._out = out
        self._printed = out.parents[2] / f"{out.parent.name}.stderr"
        self.at: float | None = None
        self._shown = self._printed.with_suffix(".stdout")
        with self._printed.open("wb") as printed, self._shown.open("wb") as shown:
            self.process = Command(
                arguments, folder=ROOT, environment=environment, stdout=shown, stderr=printed, name=name
            )

    def ended(self) -> bool:
        """Tell whether it has ended, and note when that was first seen."""
        if self.process.poll() is not None and self.at is None:
            self.at = time.monotonic()
        return self.at is not None

    def ending(self) -> Ending:
        assert self.ended()
        assert self.at is not None
        place = self._out / "status.json"
        status = json.loads(place.read_text()) if place.exists() else {}
        files = [path for path in self._out.parent.rglob("*") if path not in (self._out, place)]
        return Ending(
            self.process.returncode,
            status["error"] or "done" if status else "nothing written",
            status,
            self._printed.read_text(errors="replace"),
            self._shown.read_text(errors="replace"),
            self.at,
            sorted(str(path.relative_to(self._out.parent)) for path in files),
        )


class Members:
    """The parties of one run: C, B and A; a folder gets their keys, plans, run directories and marks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.parties: dict[str, Party] = {}
        self._tag = new_tag()
        self.port = free_port()
        self.plan: dict[str, Any] = {
            **with_keys(mapping(results={"sources": "coefficients"}), folder),
            "network": {"address": "127.0.0.1", "port": self.port, "timeout": EVER, "join_timeout": EVER},
        }

    def start(
        self, name: str, hook: tuple[str, Mapping[str, Any]], *, label: str = "", **other: Any
    ) -> Party:
        """Start a party, with other top-level settings than the plan's if it is to differ.

        `label` tells two processes of one party apart.
        """
        label = label or name
        plan = self.folder / f"{label}.yaml"
        plan.write_text(json.dumps({**self.plan, **other}))  # which is YAML without aliases
        arguments = {"marks": str(self.marks), "label": label, "fault": hook[0], "arguments": dict(hook[1])}
        table = {"B": "clinic.csv", "A": "insurer.csv"}.get(name)
        asked = [
            *("join", str(plan), "--party", name, "--out", str(self.folder / "out" / label)),
            *(("--table", str(ROOT / "data" / table)) if table else ()),
        ]
        environment = {**os.environ, **self._tag, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        environment |= hooked("join_faults:marked", **arguments)
        out = self.folder / "out" / label / name
        self.parties[label] = Party(asked, out, environment, self._tag[TAG])
        return self.parties[label]

    def wait(self, labels: Sequence[str]) -> dict[str, Ending]:
        """Wait until these parties have ended."""
        # All are asked each time, so that each one's end is seen when it comes.
        eventually(lambda: False not in {self.parties[label].ended() for label in labels})
        return {label: self.parties[label].ending() for label in labels}

    def marked(self, name: str) -> float | None:
        """Read when something happened in a role, if it has."""
        place = self.marks / name
        return float(place.read_text()) if place.exists() else None

    def wait_for(self, name: str) -> float:
        """Wait until something has happened in a role."""
        eventually(lambda: self.marked(name) is not None, what=name)
        at = self.marked(name)
        assert at is not None
        return at

    def wait_for_port(self) -> None:
        """Wait until somebody provides the meeting point."""
        eventually(self._provided)

    def _provided(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def processes(self) -> list[int]:
        return processes(self._tag[TAG])

    def end(self) -> None:
        kill(self._tag[TAG])
        for party in self.parties.values():
            party.process.wait()


@contextmanager
def members(folder: Path) -> Iterator[Members]:
    """Set up a run, and leave none of its processes."""
    made = Members(folder)
    try:
        yield made
    finally:
        made.end()
