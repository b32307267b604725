"""Bytes between two ranks over torch.distributed (gloo), and how the parties find each other."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from mpc_spearman.errors import NetworkError

# Our own deadlines decide (see links.py). gloo's must not: one expired gloo wait closes every pair of the
# group, and then nobody could be told why.
_FOREVER = timedelta(days=365)
_TAG = 1


class Gloo:
    """Point-to-point bytes over a gloo process group.

    A send returns when the receiver has asked for the bytes and they are handed to the kernel; one thread
    per direction and peer may use it at a time.
    """

    def send(self, rank: int, data: bytes | memoryview) -> None:
        """Send bytes to a rank."""
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        work = dist.isend(tensor, dst=rank, tag=_TAG)
        assert work is not None
        work.wait(_FOREVER)

    def receive(self, rank: int, size: int) -> memoryview:
        """Receive exactly `size` bytes from a rank."""
        buffer = bytearray(size)
        work = dist.irecv(torch.frombuffer(buffer, dtype=torch.uint8), src=rank, tag=_TAG)
        assert work is not None
        work.wait(_FOREVER)
        return memoryview(buffer).toreadonly()


def join_local(meeting_point: Path, rank: int, size: int, timeout: float) -> Gloo:
    """Join the other roles on this machine through a file that only this user can read.

    gloo is told to use the loopback interface: nothing listens on any other address.

    Raises
    ------
    NetworkError
        The group could not be formed within `timeout` seconds.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group(
            "gloo",
            # Not as a file:// address, which cannot say every path.
            store=dist.FileStore(str(meeting_point.absolute()), size),  # type: ignore[attr-defined]
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout),
        )
    except RuntimeError as error:
        raise NetworkError(f"the {size} roles did not meet within {timeout:g} s: {error}") from None
    return Gloo()


def leave() -> None:
    """Leave the group, once every link has said farewell."""
    dist.destroy_process_group()
