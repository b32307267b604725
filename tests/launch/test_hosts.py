"""Every party in a network namespace of its own, as on real hosts, with firewalls and proxies between them.

All give the matrix of the run on one machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman import run_local
from mpc_spearman.errors import PartyMissing, Unreachable
from mpc_spearman.results.result import Result
from support.harness import fork_server
from support.hosts import AGENT_PORT, Job, Network, hosts, run
from support.plans import PROTOCOLS, mapping
from support.processes import eventually
from support.references import normal_tables


def plan_for(protocol: str, *sources: str, reveal: str = "coefficients") -> dict[str, Any]:
    """Return a plan under which every party learns the result."""
    return mapping(*sources, **PROTOCOLS[protocol], reveal=reveal, results={"sources": "coefficients"})


PLAN, PAILLIER = plan_for("mpc"), plan_for("paillier", reveal="differences")
PORT, OTHER = 29500, 29501
TABLES = normal_tables(307)
LISTENING = [f"parties.target.listen=10.77.0.2:{OTHER}"]


# ---- what stands between hosts; each skips the test where this machine cannot do it

#: An address that no host has itself: the network's router translates it.
OUTSIDE = "10.77.0.200"


def _rules(command: Sequence[str], rules: str) -> None:
    if shutil.which("nft") is None:
        pytest.skip("the command nft is missing (package nftables)")
    if subprocess.run([*command, "nft", "add", "table", "inet", "probe"], capture_output=True).returncode:
        pytest.skip("this kernel has no nftables")
    run(*command, "nft", "-f", "-", text=rules)


def _drop_all_but(network: Network, party: str, hook: str, interface: str, accepted: str) -> None:
    _rules(
        network.command(party),
        f"""table inet {hook}_closed {{
            chain {hook} {{
                type filter hook {hook} priority 0; policy drop;
                {interface} lo accept
                ct state established,related accept
                {accepted}
            }}
        }}""",
    )


def close(network: Network, party: str, *ports: int) -> None:
    """Let nobody connect to a host, but for these ports; it may connect to others."""
    opened = f"tcp dport {{ {', '.join(map(str, ports))} }} accept" if ports else ""
    _drop_all_but(network, party, "input", "iif", opened)


def allow_only(network: Network, party: str, to: str, port: int) -> None:
    """Let a host connect to one other host's port and to nothing else."""
    reached = f"ip daddr {network.address(to)} tcp dport {port} accept"
    _drop_all_but(network, party, "output", "oif", reached)


def translate(network: Network, party: str, outside: int, inside: int) -> str:
    """Put a host behind address translation: others reach it at the address returned, and no other way."""
    address = network.address(party)
    run(*network.on_router("ip", "address", "add", OUTSIDE, "dev", "lo"))
    _rules(
        network.on_router(),
        f"""table ip translated {{
            chain to {{
                type nat hook prerouting priority -100;
                ip daddr {OUTSIDE} tcp dport {outside} dnat to {address}:{inside}
            }}
            chain from {{
                type nat hook postrouting priority 100;
                ip saddr {address} snat to {OUTSIDE}
            }}
            chain between {{
                type filter hook forward priority 0;
                ct status dnat accept
                ip daddr {address} ct state new drop
            }}
        }}""",
    )
    return f"{OUTSIDE}:{outside}"


def ipv6_alone(network: Network, parties: Sequence[str]) -> dict[str, str]:
    """Take all hosts' IPv4 addresses away; return their IPv6 ones."""
    addresses = {}
    on = ("sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.all.disable_ipv6=0")
    run(*network.on_router(*on, "net.ipv6.conf.all.forwarding=1"))
    for number, party in enumerate(parties, 1):
        addresses[party], router = f"fd77:{number}::1", f"fd77:{number}::fe"
        for command in (
            network.command(party, *on),
            network.command(party, "ip", "-4", "address", "flush", "dev", "eth0"),
            network.command(party, "ip", "-4", "address", "flush", "dev", "lo"),
            network.command(party, "ip", "address", "add", f"{addresses[party]}/64", "dev", "eth0", "nodad"),
            network.on_router("ip", "address", "add", f"{router}/64", "dev", network.port(party), "nodad"),
            network.command(party, "ip", "-6", "route", "add", "default", "via", router),
        ):
            run(*command)
    return addresses


@contextmanager
def proxy(network: Network, host: str, folder: Path, port: int = 8888) -> Iterator[str]:
    """Run Debian's tinyproxy on a host; it lets CONNECT pass to any port."""
    if shutil.which("tinyproxy") is None:
        pytest.skip("the command tinyproxy is missing (package tinyproxy)")
    address = network.address(host)
    log, settings = folder / "proxy.log", folder / "proxy.conf"
    settings.write_text(f'Port {port}\nListen {address}\nTimeout 600\nLogFile "{log}"\nLogLevel Info\n')
    with subprocess.Popen(network.command(host, "tinyproxy", "-d", "-c", str(settings))) as process:
        try:
            eventually(lambda: log.exists() and "Accepting connections" in log.read_text())
            yield f"http://{address}:{port}"
        finally:
            process.terminate()


# ---- runs


@pytest.fixture(scope="module")
def local() -> Result:
    return run_local(PLAN, TABLES, server=fork_server())


@pytest.fixture(scope="module")
def by_paillier() -> Result:
    return run_local(PAILLIER, TABLES, server=fork_server())


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with hosts("C", "B", "A", "A2") as network:
        yield network


def connections(network: Network, party: str, port: int) -> int:
    """Return how many connections to a port of a party's host are established."""
    shown = subprocess.run(network.command(party, "cat", "/proc/net/tcp"), capture_output=True, text=True)
    rows = [line.split() for line in shown.stdout.splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_two_jobs_run_at_once_on_the_same_hosts(
    network: Network, tmp_path: Path, local: Result, by_paillier: Result
) -> None:
    """Under MPC the target listens; under HE no data party does."""
    with (
        Job(network, tmp_path / "mpc", PLAN, TABLES, port=PORT) as mpc,
        Job(network, tmp_path / "he", PAILLIER, TABLES, port=29600) as he,
    ):
        go = tmp_path / "go"
        mpc.join(waits=("B", "agree", go), B=[f"parties.target.listen=10.77.0.2:{OTHER}"])
        he.join(B=["--keep-ranks", str(tmp_path / "ranks")])
        # The source's two; the coordinator's number is lower, so the target connects to it.
        eventually(lambda: connections(network, "B", OTHER) == 2)
        go.touch()
        mpc.check(local)
        he.check(by_paillier)
    assert len(list((tmp_path / "ranks").glob("*.ranks"))) == 1


@pytest.mark.long
def test_torchrun(network: Network, tmp_path: Path, by_paillier: Result) -> None:
    with Job(network, tmp_path / "job", PAILLIER, TABLES) as job:
        job.torchrun()
        job.check(by_paillier)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["mpc", "bfv"])
def test_two_sources_on_four_hosts(network: Network, tmp_path: Path, protocol: str) -> None:
    if protocol == "bfv":
        pytest.importorskip("tenseal")
    plan = plan_for(protocol, "A", "A2")
    second = TABLES["A"].rename(columns={"a": "c", "b": "d"}).assign(c=range(len(TABLES["A"])))
    tables = {**TABLES, "A2": second}
    expected = run_local(plan, tables, server=fork_server())
    with Job(network, tmp_path / "job", plan, tables) as job:
        job.join()
        job.check(expected)


def way(job: Job) -> str:
    """How A and B were connected, by the costs that all have."""
    return "forwarded" if job.result("C").cost["phase"].str.startswith("forwarded ").any() else "direct"


@pytest.mark.parametrize("launcher", ["join", pytest.param("torchrun", marks=pytest.mark.long)])
def test_a_and_b_are_closed_and_c_has_one_open_port(launcher: str, tmp_path: Path, local: Result) -> None:
    """Or two, under torchrun: all that is the run's is on the first, torchrun's own store on the second."""
    with hosts("C", "B", "A") as network:
        close(network, "A")
        close(network, "B")
        close(network, "C", PORT, *([AGENT_PORT] if launcher == "torchrun" else []))
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            getattr(job, launcher)()
            job.check(local)
            assert way(job) == "forwarded"


def test_a_is_behind_a_proxy_and_b_behind_address_translation(tmp_path: Path, local: Result) -> None:
    """A's host can reach the proxy's port and nothing else, by whichever name."""
    with hosts("C", "B", "A", "P") as network, proxy(network, "P", tmp_path) as proxy_address:
        close(network, "A")
        allow_only(network, "A", "P", 8888)
        close(network, "C", PORT)
        outside = translate(network, "B", 40001, OTHER)
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            job.join(
                A=[f"network.proxy={proxy_address}"], B=[*LISTENING, f"parties.target.advertise={outside}"]
            )
            job.check(local)
            assert way(job) == "direct"
        assert f"CONNECT {outside}" in (tmp_path / "proxy.log").read_text()


@pytest.mark.long
def test_all_learn_which_party_cannot_reach_which_address(tmp_path: Path) -> None:
    """B's host drops what A sends to the port that B has said: B's to mend, and the others wait for it."""
    with hosts("C", "B", "A") as network:
        close(network, "B")
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT) as job:
            settings = {name: ["network.timeout=6", "network.join_timeout=40"] for name in "CBA"}
            job.join(**{**settings, "B": [*settings["B"], *LISTENING]})
            endings = job.wait("CBA")
        assert {name: end.code for name, end in endings.items()} == {
            "B": Unreachable.exit_code,
            **dict.fromkeys("CA", PartyMissing.exit_code),
        }
        printed = {name: " ".join(end.printed.split()) for name, end in endings.items()}
        assert f"A (source) cannot reach B (target) at 10.77.0.2:{OTHER}" in printed["B"]
        for name in "CA":
            assert "B left: Unreachable in connect; waiting for it again" in printed[name]
            assert "is gone" not in printed[name]


@pytest.mark.parametrize("listening", [False, pytest.param(True, marks=pytest.mark.long)])
def test_hosts_with_ipv6_alone(listening: bool, tmp_path: Path, local: Result) -> None:
    with hosts("C", "B", "A") as network:
        addresses = ipv6_alone(network, "CBA")
        settings = [f"parties.target.listen=[{addresses['B']}]:{OTHER}"] if listening else []
        with Job(network, tmp_path / "job", PLAN, TABLES, port=PORT, address=addresses["C"]) as job:
            job.join(B=settings)
            job.check(local)
            assert way(job) == ("direct" if listening else "forwarded")
