"""One process that imports what roles need, and forks a role's process at every request.

Importing torch takes longer than a small run, and every role would do it. Python's own fork server
(:mod:`multiprocessing`) would import the caller's main module in every process, and unpickle what it is sent.

A forked role has its own memory, standard input, output and error, and session (``setsid``). The process that
it is forked from has a single thread (if not, the role is executed after all), and has seen no plan, table or
secret. Randomness is not shared either: every random byte of a run comes from the kernel, or from a cipher
keyed in the role. Forked roles do share the layout of their memory and the seed of Python's hashes of text,
which hide nothing here: one user owns all of them.

The protocol, over a Unix socket that is the server's standard input: one byte, and with it four more sockets,
asks for a role: its standard input, output and error, and its *control*. On that the server writes two lines:
the process's id when it has begun, and when it has ended its status, as of ``waitpid``. When the other end of
the control closes, the server kills the role. When its own socket closes, it kills all and ends.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from mpc_spearman.launch import start

if TYPE_CHECKING:  # only the server's own process needs what these import
    from mpc_spearman.launch.role_process import Prepare

#: The commands that run a fork server, for a protocol, and a single role, where forking is not safe.
PROGRAM = start.command("mpc_spearman.launch.forkserver")
COMMAND = start.command("mpc_spearman.launch.role_process")
#: Environment variables that keep OpenBLAS, MKL and Arrow's jemalloc from starting threads when they are
#: imported. A role may still use its share of the processors (:func:`role_process.main`).
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
# From <linux/prctl.h>: the signal a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


class ForkServer:
    """Forks roles for any number of runs; close it, or use it in a ``with`` statement.

    `program` is the command of the server's process; tests give another one, which prepares the roles.
    """

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._lock = threading.Lock()
        # One server for each protocol, so that the modules of one do not count as memory of the other.
        self._servers: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server's processes, and with them all roles that still run."""
        with self._lock:
            for process, requests in self._servers.values():
                requests.close()
                process.kill()
                process.wait()
            self._servers.clear()

    def prepare(self, protocol: str) -> None:
        """Start the imports for a protocol, unless they have begun; do not wait for them."""
        self._requests(protocol)

    def start(self, protocol: str) -> RoleProcess:
        """Start the process of a role under a protocol; it reads its assignment from its standard input."""
        requests = self._requests(protocol)
        own_ends, role_ends = zip(*(socket.socketpair() for _ in range(4)), strict=True)
        with suppress(OSError):  # the server has ended: `RoleProcess.wait` will report that
            socket.send_fds(requests, [b"\0"], [role_end.fileno() for role_end in role_ends])
        for role_end in role_ends:
            role_end.close()
        return RoleProcess(own_ends)

    def _requests(self, protocol: str) -> socket.socket:
        """Return the socket of a protocol's server; start a server if none runs."""
        with self._lock:
            if protocol in self._servers:
                process, requests = self._servers[protocol]
                if process.poll() is None:
                    return requests
                requests.close()
            requests, server_end = socket.socketpair()
            with server_end:
                process = subprocess.Popen(
                    [*self._program, protocol],
                    stdin=server_end.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_ONE_THREAD},
                    start_new_session=True,
                )
            self._servers[protocol] = (process, requests)
            return requests


class RoleProcess:
    """A role's process, with the methods of `subprocess.Popen` that the supervisor uses.

    `pid` is 0 until the process has begun, and `returncode` None until `wait` has returned.
    """

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets, self._killed = sockets, False
        stdin, stdout, stderr, self._control = sockets
        self.pid = 0
        self.returncode: int | None = None
        self.stdin: IO[bytes] = stdin.makefile("wb")
        self.stdout: IO[bytes] = stdout.makefile("rb")
        self.stderr: IO[bytes] = stderr.makefile("rb")

    def wait(self) -> int:
        """Wait for the end, in one thread only; return the exit code, negative for a signal."""
        with self._control.makefile("rb") as lines:
            self.pid = int(lines.readline() or 0)
            status = lines.readline()
        for own_end in self._sockets:
            own_end.close()  # the socket closes once the files made from it are closed too
        # Without a status the server ended first, which kills its roles.
        self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL
        return self.returncode

    def kill(self) -> None:
        """Kill the process; when called again, close the pipes without waiting for its end."""
        # The server will kill it and report its status, unless it has not begun, or hangs.
        server_kills = bool(self.pid) and not self._killed
        self._killed = True
        for own_end in [self._control] if server_kills else self._sockets:
            with suppress(OSError):  # it has ended
                own_end.shutdown(socket.SHUT_WR if server_kills else socket.SHUT_RDWR)


# --- the server's process -------------------------------------------------------------------------------


def main(protocol: str, prepare: Prepare = lambda assignment, supervisor: None) -> None:
    """Import what a protocol's roles need, then fork one at every request.

    `prepare` is as for :func:`role_process.main`, in every role.
    """
    from mpc_spearman.launch import role_process

    with suppress(Exception):  # the role imports it again, and reports the error
        role_process.load(protocol)
    _serve(socket.socket(fileno=os.dup(0)))
    role_process.main(prepare)


def _serve(requests: socket.socket) -> None:
    """Fork a process at every request; return only in the forked processes."""
    wake_receiver, wake_sender = socket.socketpair()
    wake_sender.setblocking(False)
    signal.set_wakeup_fd(wake_sender.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    controls: dict[int, socket.socket] = {}
    killed: set[int] = set()
    while True:
        watched = {control: role for role, control in controls.items() if role not in killed}
        ready = select.select([requests, wake_receiver, *watched], [], [])[0]
        for closed in watched.keys() & set(ready):
            os.kill(watched[closed], signal.SIGKILL)
            killed.add(watched[closed])
        if wake_receiver in ready:
            wake_receiver.recv(4096)
            _report_ends(controls)
        if requests in ready:
            message, files, *_ = socket.recv_fds(requests, 1, 4)
            if not message:
                for role in controls:
                    os.kill(role, signal.SIGKILL)
                os._exit(0)
            single_threaded = len(os.listdir("/proc/self/task")) == 1
            role = os.fork()
            if not role:
                for end in (requests, wake_receiver, wake_sender, *controls.values()):
                    end.close()
                _become_role(files, single_threaded)
                return
            *standard, control = files
            for file in standard:
                os.close(file)
            controls[role] = socket.socket(fileno=control)
            _write_line(controls[role], role)


def _report_ends(controls: dict[int, socket.socket]) -> None:
    while controls:
        role, status = os.waitpid(-1, os.WNOHANG)
        if not role:
            return
        with controls.pop(role) as control:
            _write_line(control, status)


def _write_line(control: socket.socket, number: int) -> None:
    with suppress(OSError):  # the supervisor has closed it
        control.sendall(b"%d\n" % number)


def _become_role(files: Sequence[int], single_threaded: bool) -> None:
    """Detach this forked process from the server; if forking was unsafe, execute the role instead."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if not single_threaded:  # another thread of the server may have held a lock
        os.execv(COMMAND[0], COMMAND)
    import numpy as np

    # Seed NumPy from the kernel, or all roles would draw the same numbers. Nothing secret depends on it: no
    # mask, key or noise of a run is drawn from NumPy.
    np.random.seed()
