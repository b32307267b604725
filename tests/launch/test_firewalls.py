"""One open port at the coordinator, and what stands between hosts: each gives the local run's matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import run_local
from mpc_spearman.errors import PartyMissing, Unreachable
from mpc_spearman.results.result import Result
from support import firewalls
from support.harness import fork_server
from support.hosts import AGENT_PORT, Job, hosts
from support.plans import mapping

PLAN = mapping(results={"sources": "coefficients"})
PORT, OTHER = 29500, 29501


def _tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(8)
    common, ids = rng.normal(size=307), [f"{row:04d}" for row in range(307)]
    return {
        party: pd.DataFrame(
            {"id": ids, f"{party}1": common + rng.normal(size=307), f"{party}2": rng.poisson(2.0, 307)}
        )
        for party in "BA"
    }


TABLES = _tables()
LISTENING = [f"parties.target.listen=10.77.0.2:{OTHER}"]


@pytest.fixture(scope="module")
def local() -> Result:
    return run_local(PLAN, TABLES, server=fork_server())


def way(job: Job) -> str:
    """How A and B were connected, by the costs that all have."""
    return "forwarded" if job.result("C").cost["phase"].str.startswith("forwarded ").any() else "direct"


def test_a_and_b_are_closed_and_c_has_one_open_port(tmp_path: Path, local: Result) -> None:
    with hosts("C", "B", "A") as network:
        firewalls.close(network, "A")
        firewalls.close(network, "B")
        firewalls.close(network, "C", PORT)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.join()
            job.check(local)
            assert way(job) == "forwarded"


@pytest.mark.long
def test_b_is_behind_address_translation(tmp_path: Path, local: Result) -> None:
    with hosts("C", "B", "A") as network:
        firewalls.close(network, "A")
        firewalls.close(network, "C", PORT)
        outside = firewalls.translate(network, "B", 40001, OTHER)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.join(B=[*LISTENING, f"parties.target.advertise={outside}"])
            job.check(local)
            assert way(job) == "direct"


def test_a_is_behind_a_proxy_and_b_behind_address_translation(tmp_path: Path, local: Result) -> None:
    """A's host can reach the proxy's port and nothing else, by whichever name."""
    with hosts("C", "B", "A", "P") as network, firewalls.proxy(network, "P", tmp_path) as proxy:
        firewalls.close(network, "A")
        firewalls.allow_only(network, "A", "P", 8888)
        firewalls.close(network, "C", PORT)
        outside = firewalls.translate(network, "B", 40001, OTHER)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.join(A=[f"network.proxy={proxy}"], B=[*LISTENING, f"parties.target.advertise={outside}"])
            job.check(local)
            assert way(job) == "direct"
        assert f"CONNECT {outside}" in (tmp_path / "proxy.log").read_text()


@pytest.mark.long
def test_a_is_behind_a_proxy_and_b_has_no_open_port(tmp_path: Path, local: Result) -> None:
    with hosts("C", "B", "A", "P") as network, firewalls.proxy(network, "P", tmp_path) as proxy:
        firewalls.allow_only(network, "A", "P", 8888)
        firewalls.close(network, "A")
        firewalls.close(network, "B")
        firewalls.close(network, "C", PORT)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.join(A=[f"network.proxy={proxy}"])
            job.check(local)
            assert way(job) == "forwarded"


@pytest.mark.long
def test_who_cannot_reach_whom_and_where_is_told_to_all(tmp_path: Path) -> None:
    """B's host drops what A sends to the port that B has said: B's to mend, and the others wait for it."""
    with hosts("C", "B", "A") as network:
        firewalls.close(network, "B")
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            own = {name: ["network.timeout=6", "network.join_timeout=40"] for name in "CBA"}
            job.join(**{**own, "B": [*own["B"], *LISTENING]})
            codes = job.wait()
        assert codes == {"B": Unreachable.exit_code, **dict.fromkeys("CA", PartyMissing.exit_code)}
        printed = {name: " ".join(job.output[name].split()) for name in "CBA"}
        assert f"A (source) cannot reach B (target) at 10.77.0.2:{OTHER}" in printed["B"]
        for name in "CA":
            assert "B left: Unreachable in connect; waiting for it again" in printed[name]
            assert "is gone" not in printed[name]


@pytest.mark.parametrize("listening", [False, pytest.param(True, marks=pytest.mark.long)])
def test_hosts_with_ipv6_alone(listening: bool, tmp_path: Path, local: Result) -> None:
    with hosts("C", "B", "A") as network:
        addresses = firewalls.ipv6_alone(network, "CBA")
        own = [f"parties.target.listen=[{addresses['B']}]:{OTHER}"] if listening else []
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT, address=addresses["C"]) as job:
            job.join(B=own)
            job.check(local)
            assert way(job) == ("direct" if listening else "forwarded")


@pytest.mark.long
def test_torchrun_with_two_open_ports(tmp_path: Path, local: Result) -> None:
    """All that is the run's is on the first, torchrun's own store on the second."""
    with hosts("C", "B", "A") as network:
        firewalls.close(network, "A")
        firewalls.close(network, "B")
        firewalls.close(network, "C", PORT, AGENT_PORT)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.torchrun()
            job.check(local)
            assert way(job) == "forwarded"
