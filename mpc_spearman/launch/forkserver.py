"""One process that imports what roles need, and forks a role's process whenever it is asked to.

Importing torch takes longer than a small run, and every role would do it. Here it is done once, for one run
or for many. Python's own fork server (:mod:`multiprocessing`) would import the caller's main module in every
process, and unpickle what it is sent.

A role forked here has its own memory, its own standard input, output and error, its own session (as of
``setsid``) and its own end. The process that it is forked from has a single thread (if not, the role is
executed after all), and has seen no plan, no table and no secret. Nor is randomness shared: every random byte
of a run comes from the kernel, or from a cipher keyed in the role. What forked roles do share is the layout
of their memory and the seed of Python's hashes of text, which hide nothing here: one user owns all of them.

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
from typing import IO

from mpc_spearman.launch import role_process, start
from mpc_spearman.launch.pipe import Assignment
from mpc_spearman.launch.role_process import Prepare

#: Executes a fork server, which is given the protocol; and a single role, where it is not safe to fork.
PROGRAM = start.command("mpc_spearman.launch.forkserver")
COMMAND = start.command("mpc_spearman.launch.role_process")
#: What keeps libraries from starting threads when they are imported: OpenBLAS, MKL, and Arrow's jemalloc. A
#: role may use its share of the processors all the same (:func:`role_process.main`).
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
# From <linux/prctl.h>: the signal a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


class ForkServer:
    """Forks roles for as many runs as wanted; to be closed, or used in a ``with`` statement.

    `program` executes the server's process. Another than the package's own, which calls :func:`main` in the
    end, can prepare what runs in the roles; no plan and no command line gets here.
    """

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._lock = threading.Lock()
        # One for each protocol: what one needs is no part of the other's memory, which is measured.
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
        """Let the imports for a protocol begin, if they have not; returns without waiting for them."""
        self._requests(protocol)

    def start(self, assignment: Assignment) -> RoleProcess:
        """Start a role's process, which will read its assignment from its standard input."""
        requests = self._requests(assignment.plan["protocol"])
        pairs = [socket.socketpair() for _ in range(4)]
        with suppress(OSError):  # the server is gone, and so is the role: it will be found to have ended
            socket.send_fds(requests, [b"\0"], [other_end.fileno() for _, other_end in pairs])
        for _, other_end in pairs:
            other_end.close()
        return RoleProcess([ours for ours, _ in pairs])

    def _requests(self, protocol: str) -> socket.socket:
        """Return the socket of a protocol's server, after starting one if there is none that runs."""
        with self._lock:
            if protocol in self._servers:
                process, requests = self._servers[protocol]
                if process.poll() is None:
                    return requests
                requests.close()
            requests, other_end = socket.socketpair()
            with other_end:
                process = subprocess.Popen(
                    [*self._program, protocol],
                    stdin=other_end.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_ONE_THREAD},
                    start_new_session=True,
                )
            self._servers[protocol] = (process, requests)
            return requests


class RoleProcess:
    """A role's process, seen from the supervisor: the part of `subprocess.Popen` that it uses.

    `pid` is 0 while it has not begun, `returncode` None while nobody has waited for its end.
    """

    def __init__(self, ends: Sequence[socket.socket]) -> None:
        self._ends = ends
        self._killed = False
        stdin, stdout, stderr, self._control = ends
        self.pid = 0
        self.returncode: int | None = None
        self.stdin: IO[bytes] = stdin.makefile("wb")
        self.stdout: IO[bytes] = stdout.makefile("rb")
        self.stderr: IO[bytes] = stderr.makefile("rb")

    def wait(self) -> int:
        """Wait for its end, in one thread only; return its exit code, negative for a signal."""
        with self._control.makefile("rb") as lines:
            self.pid = int(lines.readline() or 0)
            status = lines.readline()
        for end in self._ends:
            end.close()  # once the files of it are closed, too
        # Whose server ended first was killed with it.
        code = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL
        self.returncode = code
        return code

    def kill(self) -> None:
        """End it now. A second time: do not wait for it either."""
        if self.pid and not self._killed:
            closed, how = [self._control], socket.SHUT_WR  # the server will kill it, and say so
        else:  # a server that has not begun, or hangs
            closed, how = list(self._ends), socket.SHUT_RDWR
        self._killed = True
        for end in closed:
            with suppress(OSError):  # it has ended
                end.shutdown(how)


# --- the server's process -------------------------------------------------------------------------------


def main(protocol: str, prepare: Prepare = lambda assignment, supervisor: None) -> None:
    """Import what a protocol's roles need, then fork one at every request.

    `prepare` is as for :func:`role_process.main`, in every role.
    """
    with suppress(Exception):  # a role imports it again, and can say what is wrong
        role_process.load(protocol)
    _serve(socket.socket(fileno=os.dup(0)))
    role_process.main(prepare)


def _serve(requests: socket.socket) -> None:
    """Fork a process at every request; returns in each of them, and never in the server's own."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    controls: dict[int, socket.socket] = {}
    killed: set[int] = set()
    while True:
        watched = {control: role for role, control in controls.items() if role not in killed}
        ready = select.select([requests, woken, *watched], [], [])[0]
        for closed in watched.keys() & set(ready):
            os.kill(watched[closed], signal.SIGKILL)
            killed.add(watched[closed])
        if woken in ready:
            woken.recv(4096)
            _report_ends(controls)
        if requests in ready:
            message, files, *_ = socket.recv_fds(requests, 1, 4)
            if not message:
                for role in controls:
                    os.kill(role, signal.SIGKILL)
                os._exit(0)
            alone = len(os.listdir("/proc/self/task")) == 1
            role = os.fork()
            if not role:
                for end in (requests, woken, waker, *controls.values()):
                    end.close()
                _become_role(files, alone)
                return
            *standard, control = files
            for file in standard:
                os.close(file)
            controls[role] = socket.socket(fileno=control)
            _tell(controls[role], role)


def _report_ends(controls: dict[int, socket.socket]) -> None:
    while controls:
        role, status = os.waitpid(-1, os.WNOHANG)
        if not role:
            return
        with controls.pop(role) as control:
            _tell(control, status)


def _tell(control: socket.socket, number: int) -> None:
    with suppress(OSError):  # nobody wants to know any more
        control.sendall(b"%d\n" % number)


def _become_role(files: Sequence[int], alone: bool) -> None:
    """Make this process, just forked, one of its own; if that is not safe, execute the role instead."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if not alone:  # a thread that another process had may have held any lock
        os.execv(COMMAND[0], COMMAND)
    import numpy as np

    # From the kernel, or all roles would draw alike. Nothing secret depends on it: no mask, key or noise of a
    # run is drawn from NumPy.
    np.random.seed()
