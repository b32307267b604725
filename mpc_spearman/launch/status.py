"""``status.json`` in a party's folder of results: whether its run goes on, or how it ended.

While it says ``running``, ``updated`` is at most some seconds old. If it is older, the process was killed, or
the machine went down: nobody else writes the file, and an earlier run's ending is replaced at the beginning.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from mpc_spearman.errors import MpcSpearmanError, OutputError
from mpc_spearman.launch.supervisor import Usage
from mpc_spearman.results import run_directory

# Seconds between two versions of the file.
_WRITE_INTERVAL = 5.0
_SIGNALS = 128


class Status:
    """The file of one run, from the beginning to the end of a ``with`` statement.

    `OutputError` if the file cannot be written at the beginning, or at the end of a run without an error.
    """

    def __init__(self, directory: Path, party: str, plan: str) -> None:
        self._directory = directory
        self._content: dict[str, Any] = {
            "schema_version": run_directory.SCHEMA_VERSION,
            "party": party,
            "plan": plan,
            "state": "running",
            "host": socket.gethostname(),
            "process": os.getpid(),
            "phase": "start",
            "memory_bytes": 0,
            "bytes_sent": 0,
            "bytes_received": 0,
            "exit_code": None,
            "error": None,
            "message": None,
            "started": _now(),
            "updated": None,
            "ended": None,
            "result": "none",
        }
        self._earlier_result = self._result_file_id()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_at_intervals, name="status", daemon=True)

    def watch(self, phase: str) -> None:
        """Store the phase that the role is in, for the next version of the file."""
        self._content["phase"] = phase

    def measure(self, usage: Usage) -> None:
        """Store the memory and bytes of the role, for the next version of the file."""
        sizes = {"memory_bytes": usage.memory, "bytes_sent": usage.sent, "bytes_received": usage.received}
        self._content |= sizes

    def __enter__(self) -> Status:
        self._write(first=True)
        with suppress(RuntimeError):  # no thread can be started: then the run ends at once with that error
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        code, name = _ending(error)
        message = None if error is None else str(error)
        self._content |= {
            "state": "ended",
            "exit_code": code,
            "error": name,
            "message": message,
            "ended": _now(),
        }
        try:
            self._write()
        except OutputError:
            if error is None:
                raise

    def _result_file_id(self) -> tuple[int, int] | None:
        """Return the inode and time of the result file, which differ between runs; None if there is none."""
        try:
            file = (self._directory / "result.json").stat()
        except OSError:
            return None
        return file.st_ino, file.st_mtime_ns

    def _write_at_intervals(self) -> None:
        while not self._ended.wait(_WRITE_INTERVAL):
            try:
                self._write()
            except OutputError:  # a disk that is full for a while ends no run
                continue

    def _write(self, *, first: bool = False) -> None:
        result = self._result_file_id()
        origin = "of an earlier run" if result == self._earlier_result else "here"
        self._content |= {"updated": _now(), "result": origin if result else "none"}
        text = json.dumps(self._content, indent=2) + "\n"
        run_directory.write_status(self._directory, text, first=first)


def _ending(error: BaseException | None) -> tuple[int, str | None]:
    """Return the exit code of a command that ends with an error, and the error's class, or the signal."""
    if error is None:
        return 0, None
    code = 1
    if isinstance(error, MpcSpearmanError):
        code = error.exit_code
    elif isinstance(error, KeyboardInterrupt):
        code = _SIGNALS + signal.SIGINT
    elif isinstance(error, SystemExit) and isinstance(error.code, int):
        code = error.code
    return code, signal.Signals(code - _SIGNALS).name if code > _SIGNALS else type(error).__name__


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
