"""One organisation per host: every party in a network namespace of its own, over TLS, as on real hosts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import run_local
from mpc_spearman.results.result import Result
from support.harness import fork_server
from support.hosts import Job, Network, hosts
from support.plans import PROTOCOLS, mapping
from support.processes import eventually

MPC, BFV = ({**PROTOCOLS[name], "reveal": "coefficients"} for name in ("mpc", "bfv"))
PAILLIER = {**PROTOCOLS["paillier"], "reveal": "differences"}


def settings(protocol: dict[str, Any], *sources: str) -> dict[str, Any]:
    """Return a plan under which every party learns the result."""
    return mapping(*sources, **protocol, results={"sources": "coefficients"})


def tables(*sources: str, n: int = 203) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    common, ids = rng.normal(size=n), [f"{row:04d}" for row in range(n)]
    return {
        party: pd.DataFrame(
            {
                "id": ids,
                f"{party}_near": common + rng.normal(size=n),
                f"{party}_ties": rng.poisson(2.0, n),
                f"{party}_far": rng.normal(size=n),
            }
        )
        for party in ("B", *(sources or ("A",)))
    }


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with hosts("C", "B", "A", "A2") as network:
        yield network


@pytest.fixture(scope="module")
def by_mpc() -> Result:
    return run_local(settings(MPC), tables(), server=fork_server())


@pytest.fixture(scope="module")
def by_paillier() -> Result:
    return run_local(settings(PAILLIER), tables(), server=fork_server())


def connections(network: Network, party: str, port: int) -> int:
    """How many connections to a port of a party's host are established."""
    shown = subprocess.run(network.command(party, "cat", "/proc/net/tcp"), capture_output=True, text=True)
    rows = [line.split() for line in shown.stdout.splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_two_jobs_at_once_with_join(
    network: Network, tmp_path: Path, by_mpc: Result, by_paillier: Result
) -> None:
    """MPC and HE on the same three hosts: of one the target listens where told, of the other nobody."""
    with (
        Job(network, tmp_path / "mpc", settings(MPC), tables(), port=29500) as mpc,
        Job(network, tmp_path / "he", settings(PAILLIER), tables(), port=29600) as he,
    ):
        go = tmp_path / "go"
        mpc.join(waits=("B", "agree", go), B=["parties.target.listen=10.77.0.2:29511"])
        he.join(B=["--keep-ranks", str(tmp_path / "ranks")])
        # The source's two; the coordinator's number is lower, so the target connects to it.
        eventually(lambda: connections(network, "B", 29511) == 2)
        go.touch()
        mpc.check(by_mpc)
        he.check(by_paillier)
    assert len(list((tmp_path / "ranks").glob("*.ranks"))) == 1


@pytest.mark.long
def test_torchrun(network: Network, tmp_path: Path, by_paillier: Result) -> None:
    with Job(network, tmp_path / "job", settings(PAILLIER), tables()) as job:
        job.torchrun()
        job.check(by_paillier)


@pytest.mark.long
@pytest.mark.parametrize("protocol", [MPC, BFV], ids=["mpc", "bfv"])
def test_two_sources_on_four_hosts(network: Network, tmp_path: Path, protocol: dict[str, Any]) -> None:
    if protocol is BFV:
        pytest.importorskip("tenseal")
    plan, data = settings(protocol, "A", "A2"), tables("A", "A2")
    expected = run_local(plan, data, server=fork_server())
    with Job(network, tmp_path / "job", plan, data) as job:
        job.join()
        job.check(expected)
