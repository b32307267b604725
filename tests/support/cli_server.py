"""``mpc-spearman`` in processes that are forked, as their roles are: the imports take longer than most runs.

Executed, this is the program of a `ForkServer` whose processes are not roles, but the command; of each a
further one is forked, which forks its roles, with hooks (see server.py). A `Command` is seen as a `Popen` is.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from mpc_spearman.launch import forkserver, role_process

# From <linux/prctl.h> and <linux/sched.h>.
_PR_SET_NAME, _CLONE_NEWNET = 15, 0x40000000
_NAMESPACES = Path("/run/netns")


@cache
def _server() -> forkserver.ForkServer:
    made = forkserver.ForkServer([sys.executable, str(Path(__file__).absolute())])
    atexit.register(made.close)
    return made


class Command:
    """One running command, the leader of a session of its own.

    Parameters
    ----------
    arguments : sequence of str
        Of ``mpc-spearman``.
    folder : Path
        Its current one.
    environment : mapping
        All of its environment.
    stdout, stderr : binary file, optional
        Without them :meth:`communicate` returns what it prints.
    terminal : int, optional
        One that is to be its own: its standard input, output and error.
    name : str
        Of it and its roles as processes, at most 15 bytes: `support.processes` finds them by it.
    namespace : str
        A network namespace to run in, by its name.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        terminal: int | None = None,
        name: str = "",
        namespace: str = "",
    ) -> None:
        order = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "name": name,
            "namespace": namespace,
            "terminal": terminal is not None,
        }
        self._process: Any = _server().start(SimpleNamespace(plan={"protocol": "mpc"}))  # type: ignore[arg-type]
        self._kept = [None if given else tempfile.TemporaryFile() for given in (stdout, stderr)]  # noqa: SIM115
        self._said: list[str] = []
        ends = zip(self._kept, (stdout, stderr), strict=True)
        files = [terminal] * 3 if terminal is not None else [(own or given).fileno() for own, given in ends]
        socket.send_fds(self._process._ends[0], [json.dumps(order).encode() + b"\n"], files)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()
        self._waiter = threading.Thread(target=self._process.wait, daemon=True)
        self._waiter.start()

    @property
    def pid(self) -> int:
        from support.processes import eventually

        eventually(lambda: self._process.pid != 0)
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def poll(self) -> int | None:
        return self._process.returncode

    def wait(self) -> int:
        self._waiter.join()
        return self._process.returncode

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; return what it has printed, where that is not in files that were given."""
        self.wait()
        for file in () if self._said else self._kept:
            self._said.append("")
            if file is not None:
                with file:
                    file.seek(0)
                    self._said[-1] = file.read().decode()
        out, err = self._said
        return out, err

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


# ---- the server's process, and the command's


def main(protocol: str) -> None:
    """Import what the command and its roles need, and fork it at every request."""
    role_process.load(protocol)
    from mpc_spearman.cli import main as cli
    from mpc_spearman.launch import join, local, progress  # noqa: F401
    from mpc_spearman.results import terminal  # noqa: F401
    from support import server

    forkserver._serve(socket.socket(fileno=os.dup(0)))
    order = _order()
    if order["name"]:
        ctypes.CDLL(None).prctl(_PR_SET_NAME, order["name"].encode())
    if order["namespace"]:
        with (_NAMESPACES / order["namespace"]).open() as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), _CLONE_NEWNET) == 0
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    requests, theirs = socket.socketpair()
    forker = os.fork()  # the process that forks its roles
    if not forker:
        requests.close()
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        forkserver._serve(theirs)
        role_process.main(server.prepare)
    theirs.close()
    forkserver.ForkServer._requests = lambda self, protocol: requests  # type: ignore[method-assign]
    try:
        code = cli.main(order["arguments"])
    finally:
        requests.close()
        os.waitpid(forker, 0)
    sys.exit(code)


def _order() -> dict[str, Any]:
    """Read what to run, and take its files: standard output and error alone, or a terminal."""
    asked = socket.socket(fileno=os.dup(0))
    said, files, *_ = socket.recv_fds(asked, 1 << 16, 3)
    while not said.endswith(b"\n"):
        said += asked.recv(1 << 16)
    asked.close()
    order: dict[str, Any] = json.loads(said)
    if not order["terminal"]:
        files.insert(0, os.open(os.devnull, os.O_RDONLY))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C there is a signal to it
    return order


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    main(sys.argv[1])
