"""One organisation per host: every party in a network namespace of its own, over TLS, as on real hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import run_local
from mpc_spearman.errors import PlanError
from mpc_spearman.results.result import Result
from support.harness import ROOT, fork_server
from support.hosts import Job, Network, hosts
from support.plans import mapping
from support.processes import eventually

MPC = {"protocol": "mpc", "reveal": "coefficients"}
BFV = {"protocol": "he", "reveal": "coefficients", "he": {"scheme": "bfv"}}
PAILLIER = {
    "protocol": "he",
    "reveal": "differences",
    "he": {"scheme": "paillier", "key_bits": 512, "insecure": True, "randomness": "short"},
}


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
    with hosts("C", "B", "A", "A2") as made:
        yield made


@pytest.fixture(scope="module")
def by_mpc() -> Result:
    return run_local(settings(MPC), tables(), server=fork_server())


def connections(network: Network, party: str, port: int) -> int:
    """How many connections to a port of a party's host are established."""
    shown = subprocess.run(network.command(party, "cat", "/proc/net/tcp"), capture_output=True, text=True)
    rows = [line.split() for line in shown.stdout.splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_two_jobs_at_once_with_join(network: Network, tmp_path: Path, by_mpc: Result) -> None:
    """MPC and HE on the same three hosts: of one the target listens where told, of the other nobody."""
    expected = run_local(settings(PAILLIER), tables(), server=fork_server())
    with (
        Job(network, tmp_path / "mpc", settings(MPC), tables(), port=29500) as mpc,
        Job(network, tmp_path / "he", settings(PAILLIER), tables(), port=29600) as he,
    ):
        go = tmp_path / "go"
        mpc.join(waits=("B", "agree", go), B=["parties.target.listen=10.77.0.2:29511"])
        he.join()
        # The source's two; the coordinator's number is lower, so the target connects to it.
        eventually(lambda: connections(network, "B", 29511) == 2)
        go.touch()
        mpc.check(by_mpc)
        he.check(expected)


def test_torchrun(network: Network, tmp_path: Path, by_mpc: Result) -> None:
    with Job(network, tmp_path / "job", settings(MPC), tables()) as job:
        job.torchrun()
        job.check(by_mpc)


def test_a_draft_is_an_error(tmp_path: Path) -> None:
    """Documentation addresses (RFC 5737), which no host has: nothing is sent before the plan is refused."""
    command = [sys.executable, "-m", "mpc_spearman", "join", str(ROOT / "configs" / "cluster.yaml")]
    options = ["network.address=192.0.2.1", "--party", "C", "--out", str(tmp_path / "out")]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert ended.returncode == PlanError.exit_code == 2
    assert "this plan is a draft, without an identity of C and B and A" in " ".join(ended.stderr.split())
    assert not (tmp_path / "out" / "C" / "result.json").exists()


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


def test_nothing_is_left_after_a_failure() -> None:
    """Neither namespaces nor what ran in them."""

    def fail() -> None:
        with hosts("C", "B") as network:
            made.append(network.command("B")[-1])
            command = network.command("B", "sh", "-c", "echo here; exec sleep 1000")
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
            assert running[0].stdout is not None
            assert running[0].stdout.readline() == b"here\n"
            assert made[0] in namespaces()
            raise ZeroDivisionError

    made: list[str] = []
    running: list[subprocess.Popen[bytes]] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    with running[0] as process:
        assert process.wait() == -9
    assert made[0].rpartition("-")[0] not in namespaces()


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
