"""What runs leave: processes with a mark in their environment, and what this process itself holds."""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import resource
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

#: Set in the environment of every process of a test, so that those left over can be found.
TAG = "MPC_SPEARMAN_TEST"
#: Seconds after which a test gives up. Nothing takes nearly as long, also on a busy machine.
EVER = 300.0


def new_tag() -> dict[str, str]:
    """Return what to add to an environment to find its processes by."""
    return {TAG: secrets.token_hex(7)}


def processes(tag: str) -> list[int]:
    """Return the processes that have `tag` in the environment they were started with, or as their name."""
    tagged = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            texts = (process / "environ").read_bytes() + (process / "comm").read_bytes()
            if tag.encode() in texts and alive(int(process.name)):  # an ended one still has its name
                tagged.append(int(process.name))
    return tagged


def kill(tag: str) -> None:
    for process in processes(tag):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def alive(process: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def eventually(condition: Callable[[], bool], seconds: float = EVER, what: object = "it") -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.01)


#: Below those that the kernel gives away by itself, and not the same in two processes of tests.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
_ports = itertools.cycle(random.SystemRandom().sample(range(20_000 + _WORKER, 32_000, 16), 750))


def free_port() -> int:
    """Return a port that nobody listens at, and that nobody else is given before it is used."""
    for port in _ports:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


@contextmanager
def full_disk() -> Iterator[None]:
    """Let this process write no byte into any file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def control_group(memory: int) -> Iterator[Path]:
    """Make a control group of which all processes together may take so many bytes; skip where none can be."""
    folder = Path("/sys/fs/cgroup/memory", f"mpc-spearman-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(memory))
    except OSError:
        pytest.skip("no control group of memory can be made here")
    try:
        yield folder
    finally:
        folder.rmdir()


def resident() -> int:
    """How many bytes of memory this process takes now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def children(process: int) -> set[int]:
    """Return the processes that a process has started."""
    started: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # its thread has ended
            started |= {*map(int, task.read_text().split())}
    return started


def held() -> tuple[list[str], set[int]]:
    """This process's open files, sockets and child processes."""
    gc.collect()
    files = []
    for file in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            files.append(re.sub(r":\[.*", "", os.readlink(f"/proc/self/fd/{file}")))
    return sorted(files), children(os.getpid())
