"""Many runs in one process: no run leaves anything in it or on the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from mpc_spearman import run_local
from mpc_spearman.launch.forkserver import ForkServer
from support.meetings import PARTIES, Meeting, assert_connected
from support.plans import LIGHT, mapping
from support.processes import eventually, held
from support.references import normal_tables


@pytest.mark.parametrize(
    ("runs", "one_server"),
    [
        (3, True),
        *(
            pytest.param(runs, one_server, marks=pytest.mark.long)
            for runs, one_server in ((1, False), (50, False), (50, True))
        ),
    ],
)
@pytest.mark.timeout(1800)
def test_many_runs_leave_nothing(temporary: Path, runs: int, one_server: bool) -> None:
    with ForkServer() if one_server else nullcontext() as server:
        first = run_local(mapping(**LIGHT), normal_tables(), server=server)  # imports what runs need
        before, threads = held(), threading.active_count()
        for _ in range(runs):
            result = run_local(mapping(**LIGHT), normal_tables(), server=server)
            assert held() == before
            assert threading.active_count() <= threads
            assert os.listdir(temporary) == []
    assert result.coefficients.equals(first.coefficients)


def test_meetings_leave_no_socket_and_no_thread(meet: Callable[..., Meeting]) -> None:
    threads, before = threading.active_count(), held()
    for _ in range(5):
        run = meet()
        for member in PARTIES:
            run.come(member)
        assert_connected(run.wait())
        run.close()
        # Threads that listened end a moment later.
        eventually(lambda: threading.active_count() <= threads)
        assert held() == before
