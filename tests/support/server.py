"""Processes of tests, roles and ``mpc-spearman`` itself, forked from one that has imported their libraries.

Executed, this is the program of a `ForkServer`. Of a `Command` a further process is forked, which forks its
roles. The environment variable `HOOK` of a role names a hook and its arguments, in JSON:
``["module:function", {…}]``, the module in this folder. A hook takes the place of ``run_role``: it is called
as that is, with ``run_role`` before all else and the arguments by name, and runs it with another context.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_info

from mpc_spearman.launch import forkserver, role_process

HOOK = "MPC_SPEARMAN_TEST_HOOK"
# From <linux/prctl.h> and <linux/sched.h>.
_PR_SET_NAME, _CLONE_NEWNET = 15, 0x40000000
#: How the order of a command begins; a role's is a line of JSON.
_COMMAND = b"!"
#: Modules that are slow to import, by protocol: PyTorch is for one of them.
_SLOW = {
    "he": ("support.faults",),
    "mpc": (
        *("support.faults", "support.frozen", "mpc_spearman.cli.main", "mpc_spearman.results.terminal"),
        *(f"mpc_spearman.launch.{name}" for name in ("join", "local", "progress")),
    ),
}


def hooked(hook: str | None, /, **arguments: Any) -> dict[str, str]:
    """Return what to add to a role's environment for a hook."""
    return {} if hook is None else {HOOK: json.dumps([hook, arguments])}


@cache
def fork_server() -> forkserver.ForkServer:
    """Return the fork server of all processes that are started in this one."""
    server = forkserver.ForkServer([sys.executable, str(Path(__file__).absolute())])
    atexit.register(server.close)
    return server


class Command:
    """One running ``mpc-spearman``, leader of a session of its own, seen as a `Popen` is.

    `communicate` returns what does not go to files that are given; `terminal` is to be its own, in place of
    them. `name`, of at most 15 bytes, is that of it and its roles as processes. `namespace` is a network's.
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
        self._process: Any = fork_server().start("mpc")
        self._captured = [None if file else tempfile.TemporaryFile() for file in (stdout, stderr)]  # noqa: SIM115
        self._texts: list[str] = []
        files = [file or capture for file, capture in zip((stdout, stderr), self._captured, strict=True)]
        numbers = [terminal] * 3 if terminal is not None else [file.fileno() for file in files if file]
        line = _COMMAND + json.dumps(order).encode() + b"\n"
        socket.send_fds(self._process._sockets[0], [line], numbers)
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
        self.wait()
        for file in () if self._texts else self._captured:
            self._texts.append("")
            if file is not None:
                with file:
                    file.seek(0)
                    self._texts[-1] = file.read().decode()
        out, err = self._texts
        return out, err

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


# ---- the server's process, and those that are forked from it


def main(protocol: str) -> None:
    """Import what a protocol's roles and hooks need; then fork a role or a command for each request."""
    role_process.load(protocol)
    for name in _SLOW[protocol]:
        importlib.import_module(name)
    threadpool_info()  # as `load` does: it remembers where libraries are
    gc.freeze()
    forkserver._serve(socket.socket(fileno=os.dup(0)))
    with socket.socket(fileno=os.dup(0)) as requests:
        begin = requests.recv(1, socket.MSG_PEEK)
    if begin != _COMMAND:
        role_process.main(_prepare)
    else:
        _run_command(_order())


def _prepare(assignment: Any, supervisor: Any) -> None:
    """Let a role run with the hook that its environment names."""
    if HOOK in assignment.environment:
        hook, arguments = json.loads(assignment.environment[HOOK])
        module, function = hook.split(":")
        wrapped = getattr(importlib.import_module(f"support.{module}"), function)
        role_process.run_role = partial(wrapped, role_process.run_role, **arguments)


def _order() -> dict[str, Any]:
    """Read what to run, and take its files: standard output and error alone, or a terminal."""
    with socket.socket(fileno=os.dup(0)) as requests:
        line, files, *_ = socket.recv_fds(requests, 1 << 16, 3)
        while not line.endswith(b"\n"):
            line += requests.recv(1 << 16)
    order: dict[str, Any] = json.loads(line.removeprefix(_COMMAND))
    if not order["terminal"]:
        files.insert(0, os.open(os.devnull, os.O_RDONLY))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C there is a signal to it
    return order


def _run_command(order: Mapping[str, Any]) -> None:
    from mpc_spearman.cli import main as cli

    if order["name"]:
        ctypes.CDLL(None).prctl(_PR_SET_NAME, order["name"].encode())
    if order["namespace"]:
        with Path("/run/netns", order["namespace"]).open() as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), _CLONE_NEWNET) == 0
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    requests, forker_end = socket.socketpair()
    forker = os.fork()  # the process that forks its roles
    if not forker:
        requests.close()
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        forkserver._serve(forker_end)
        role_process.main(_prepare)
    forker_end.close()
    forkserver.ForkServer._requests = lambda self, protocol: requests  # type: ignore[method-assign]
    try:
        code = cli.main(order["arguments"])
    except SystemExit as end:
        code = end.code
    finally:
        requests.close()
        os.waitpid(forker, 0)
    # All of an orderly exit but to free, one by one, what was imported: that takes as long as the run.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    main(sys.argv[1])
