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


class Members:
    """The parties of one run: C, B and A; a folder gets their keys, plans, run directories and marks.

    All is kept by a label: a party's name, and something more for a further process of one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.parties: dict[str, Command] = {}
        self._ended: dict[str, float] = {}
        self._tag = new_tag()
        self.port = free_port()
        self.plan: dict[str, Any] = {
            **with_keys(mapping(results={"sources": "coefficients"}), folder),
            "network": {"address": "127.0.0.1", "port": self.port, "timeout": EVER, "join_timeout": EVER},
        }

    def start(
        self,
        name: str,
        hook: tuple[str | None, Mapping[str, Any]] = (None, {}),
        *,
        label: str = "",
        shard: int = 0,
        **other: Any,
    ) -> None:
        """Start a party, or a further worker, with other top-level settings than the plan's if it is to."""
        label = label or (f"{name}-{shard}" if shard else name)
        plan = self.folder / f"{label}.yaml"
        plan.write_text(json.dumps({**self.plan, **other}))  # which is YAML without aliases
        arguments = {"marks": str(self.marks), "label": label, "fault": hook[0], "arguments": dict(hook[1])}
        table = {"B": "clinic.csv", "A": "insurer.csv"}.get(name)
        asked = [
            *("join", str(plan), "--party", name, "--out", str(self.folder / "out" / label)),
            *(("--table", str(ROOT / "data" / table)) if table and not shard else ()),
            *(("--shard", str(shard)) if shard else ()),
        ]
        environment = {**os.environ, **self._tag, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        environment |= hooked("join_faults:marked", **arguments)
        with self._file(label, "stderr").open("wb") as err, self._file(label, "stdout").open("wb") as out:
            self.parties[label] = Command(
                asked, folder=ROOT, environment=environment, stdout=out, stderr=err, name=self._tag[TAG]
            )

    def wait(self, labels: Sequence[str]) -> dict[str, Ending]:
        """Wait until these parties have ended."""
        eventually(lambda: set(labels) <= self._seen().keys())
        return {label: self._ending(label) for label in labels}

    def _seen(self) -> dict[str, float]:
        """Note which have ended: all are asked each time, so that each one's end is seen when it comes."""
        for label, process in self.parties.items():
            if process.poll() is not None:
                self._ended.setdefault(label, time.monotonic())
        return self._ended

    def _file(self, label: str, stream: str) -> Path:
        return self.folder / f"{label}.{stream}"

    def _ending(self, label: str) -> Ending:
        out = self.folder / "out" / label
        place = next(out.glob("*/status.json"), out / label[0] / "status.json")
        status = json.loads(place.read_text()) if place.exists() else {}
        files = [path for path in out.rglob("*") if path not in (place, place.parent)]
        said = [self._file(label, stream).read_text(errors="replace") for stream in ("stderr", "stdout")]
        return Ending(
            self.parties[label].returncode or 0,
            status["error"] or "done" if status else "nothing written",
            status,
            *said,
            self._ended[label],
            sorted(str(path.relative_to(out)) for path in files),
        )

    def marked(self, name: str) -> float | None:
        """Read when something happened in a role, if it has."""
        place = self.marks / name
        return float(place.read_text()) if place.exists() else None

    def wait_for(self, name: str) -> float:
        """Wait until something has happened in a role."""
        eventually(lambda: self.marked(name) is not None, what=name)
        return self.marked(name) or 0.0

    def wait_for_port(self) -> None:
        """Wait until somebody provides the meeting point."""

        def provided() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return True
            return False

        eventually(provided)

    def processes(self) -> list[int]:
        return processes(self._tag[TAG])

    def end(self) -> None:
        kill(self._tag[TAG])
        for process in self.parties.values():
            process.wait()


@contextmanager
def members(folder: Path) -> Iterator[Members]:
    """Set up a run, and leave none of its processes."""
    made = Members(folder)
    try:
        yield made
    finally:
        made.end()
