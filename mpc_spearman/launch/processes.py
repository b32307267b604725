"""A role's process as the supervisor sees it, and how it comes to be by executing a command.

On one machine roles are forked, which is faster: :mod:`mpc_spearman.launch.forkserver`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import IO, Protocol

from mpc_spearman.launch import start
from mpc_spearman.launch.role_process import Assignment

#: Executes a role.
COMMAND = start.command("mpc_spearman.launch.role_process")


class Process(Protocol):
    """A role's process: what `subprocess.Popen` has of it.

    Attributes
    ----------
    pid : int
        0 while it has not begun.
    stdin, stdout, stderr : binary file
        The other ends of its standard input, output and error.
    returncode : int or None
        None while nobody has waited for its end; negative for a signal.
    """

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    returncode: int | None

    def wait(self) -> int:
        """Wait for its end, in one thread only; return its exit code."""

    def kill(self) -> None:
        """End it now. A second time: do not wait for it either."""


#: Starts the process of a role, which will read its assignment from its standard input.
Start = Callable[[Assignment], Process]


def executing(command: Sequence[str] = COMMAND) -> Start:
    """Start roles by executing a command for each."""

    def execute(assignment: Assignment) -> Process:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C reaches the supervisor alone, which then ends its roles in order.
            start_new_session=True,
        )

    return execute
