"""Real parties, each started by ``mpc-spearman join`` on its own, over TLS, and how each ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.harness import ROOT
from support.plans import mapping, split, with_keys
from support.processes import EVER, TAG, eventually, free_port, kill, new_tag, processes
from support.server import Command, hooked

#: ``network.timeout`` where a party falls silent, ``network.join_timeout`` where one will not come; seconds.
TIMEOUT, JOIN_TIMEOUT = 4.0, 6.0


@dataclass(frozen=True)
class Ending:
    code: int
    error: str  # its class in ``status.json``; ``done`` if there is none
    status: dict[str, Any]
    printed: str  # standard error
    shown: str  # standard output
    at: float  # by the clock that all processes share
    files: list[str]  # in its run directory, ``status.json`` aside


class Members:
    """The parties of one run, C, B and A by default; keys, plans, run directories and marks are in a folder.

    Each process has a label: its party's name, and something more for a further process of a party. When the
    ``with`` block ends, none of them is left.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.parties: dict[str, subprocess.Popen[bytes] | Command] = {}
        self._ended: dict[str, float] = {}
        self._tag = new_tag()
        self.port = free_port()
        self.plan: dict[str, Any] = {
            **with_keys(settings or mapping(results={"sources": "coefficients"}), folder),
            "network": {"address": "127.0.0.1", "port": self.port, "timeout": EVER, "join_timeout": EVER},
        }
        self.tables = {"B": ROOT / "data" / "clinic.csv", "A": ROOT / "data" / "insurer.csv"}
        self.environment = {**os.environ, **self._tag, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        kill(self._tag[TAG])
        for process in self.parties.values():
            process.wait()

    def start(
        self,
        name: str,
        hook: tuple[str | None, Mapping[str, Any]] = (None, {}),
        own: Sequence[str] = (),
        *,
        label: str = "",
        **changes: Any,
    ) -> None:
        """Start a party with a hook and settings of its own, and with `changes` to the shared plan."""
        label = label or name
        arguments = {"marks": str(self.marks), "label": label, "fault": hook[0], "arguments": dict(hook[1])}
        options = [*self.options(name, label, **changes), *own]
        environment = self.environment | hooked("faults:marked", **arguments)
        with self._file(label, "stderr").open("wb") as err, self._file(label, "stdout").open("wb") as out:
            self.parties[label] = Command(
                ["join", *options],
                folder=ROOT,
                environment=environment,
                stdout=out,
                stderr=err,
                name=self._tag[TAG],
                namespace=self.namespace(name),
            )

    def namespace(self, name: str) -> str:
        return ""

    def options(self, name: str, label: str, **changes: Any) -> list[str]:
        """Write a party's plan and local file; return the options of its command."""
        plan, local = self.folder / f"{label}.yaml", self.folder / f"{label}-{name}.local"
        shared = split({**self.plan, **changes}, self.folder, f"{label}-")
        plan.write_text(json.dumps(shared))  # which is YAML without aliases
        return [
            *(str(plan), "--local", str(local), "--out", str(self.folder / "out" / label)),
            *(("--table", str(self.tables[name])) if name in self.tables else ()),
        ]

    def wait(self, labels: Sequence[str]) -> dict[str, Ending]:
        """Wait for processes to end; return how each ended."""
        eventually(lambda: set(labels) <= self._ends().keys())
        return {label: self._ending(label) for label in labels}

    def _ends(self) -> dict[str, float]:
        """Return when processes ended. All are polled each time, so that no end is noticed late."""
        for label, process in self.parties.items():
            if process.poll() is not None:
                self._ended.setdefault(label, time.monotonic())
        return self._ended

    def shown(self, label: str, stream: str = "stderr") -> str:
        return self._file(label, stream).read_text(errors="replace")

    def _file(self, label: str, stream: str) -> Path:
        return self.folder / f"{label}.{stream}"

    def _ending(self, label: str) -> Ending:
        out = self.folder / "out" / label
        place = next(out.glob("*/status.json"), out / label[0] / "status.json")
        status = json.loads(place.read_text()) if place.exists() else {}
        files = [path for path in out.rglob("*") if path not in (place, place.parent)]
        return Ending(
            self.parties[label].returncode or 0,
            status["error"] or "done" if status else "nothing written",
            status,
            self.shown(label),
            self.shown(label, "stdout"),
            self._ended[label],
            sorted(str(path.relative_to(out)) for path in files),
        )

    def marked(self, name: str) -> float | None:
        """Return the time at which something happened in a role, or None."""
        place = self.marks / name
        return float(place.read_text()) if place.exists() else None

    def wait_for(self, name: str) -> float:
        eventually(lambda: self.marked(name) is not None, what=name)
        return self.marked(name) or 0.0

    def wait_for_port(self) -> None:
        def answers() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return True
            return False

        eventually(answers)

    def processes(self) -> list[int]:
        return processes(self._tag[TAG])
