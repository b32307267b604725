"""Check that this machine has what a run needs; count processes that were killed for memory."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress
from pathlib import Path

from mpc_spearman.errors import OutputError, SetupError
from mpc_spearman.files import private_folder, temporary_folder

# The most files and threads of a role (measured on runs of three parties), and how many more are needed for
# each peer, each pair that the coordinator forwards, and each processor.
_FILES, _THREADS = 64, 32
_FILES_A_PEER, _THREADS_A_PEER, _THREADS_A_PROCESSOR = 8, 8, 3
# Connections at the coordinator that have not proved which party they are from.
_UNKNOWN_CALLERS = 64
# Bytes that a folder for temporary files must have room for, whatever the table.
_TEMPORARY = 1 << 20


def check(peers: int, *, coordinates: bool) -> None:
    """Check that this machine allows a role with `peers` peers its files, threads and temporary files.

    `SetupError` for too few files or threads; `OutputError` if no temporary file can be written.
    """
    folder = temporary_folder()
    with private_folder(folder, "mpc-spearman-check-") as test_folder:
        try:
            (test_folder / "bytes").write_bytes(bytes(_TEMPORARY))
        except OSError as error:
            raise OutputError(f"cannot write to {folder}: {error.strerror}; set TMPDIR") from None
    pairs = peers * (peers - 1) // 2 if coordinates else 0
    needed = _FILES + _FILES_A_PEER * (peers + pairs) + (_UNKNOWN_CALLERS if coordinates else 0)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < needed:
        raise SetupError(
            f"this process may open {limit} files, and the run needs up to {needed}: raise the limit "
            "(ulimit -n; LimitNOFILE of a service)"
        )
    processors = len(os.sched_getaffinity(0))
    _check_threads(_THREADS + _THREADS_A_PEER * (peers + pairs) + _THREADS_A_PROCESSOR * processors)


def _check_threads(needed: int) -> None:
    """Check by starting `needed` threads: limits of the user, of a service and of a container all count."""
    release = threading.Event()
    threads = [threading.Thread(target=release.wait, daemon=True) for _ in range(needed)]
    started = 0
    try:
        for thread in threads:
            thread.start()
            started += 1
    except RuntimeError:
        raise SetupError(
            f"this process may start {started} threads, and the run needs up to {needed}: raise the limit of "
            "processes (ulimit -u; TasksMax of a service; a container's limit of pids)"
        ) from None
    finally:
        release.set()
        for thread in threads[:started]:
            thread.join()


def oom_kills() -> int:
    """Return how many processes the kernel has killed for memory since it started, in any control group."""
    with suppress(OSError):
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text("ascii").splitlines())
        return int(counters.get("oom_kill", 0))
    return 0
