"""Hosts within this one, a network namespace each, and jobs whose parties run on them: Linux, root.

A namespace is to its processes a host of its own: own addresses, own ports, own loopback. All are connected
through one more, the router. Nothing here touches the host's own network, and when a ``with`` block ends, the
namespaces are gone with whatever still runs in them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman.results.result import Result
from support.harness import ROOT
from support.plans import everyone, with_keys
from support.server import Command, hooked

#: Where torchrun's own agents meet.
AGENT_PORT = 29400
_TORCHRUN = Path(sys.executable).parent / "torchrun"
_ROUTER, _SUBNET = "10.77.0.254", "10.77.0"


class Network:
    """A host for each of these; see :func:`hosts`."""

    def __init__(self, parties: Sequence[str]) -> None:
        self.parties = tuple(parties)
        # A name of its own for each: several networks may exist at a time.
        self._prefix = f"mpcs-{secrets.token_hex(4)}"
        self.router = f"{self._prefix}-router"

    def make(self, undo: ExitStack) -> None:
        for name in (self.router, *map(self.namespace, self.parties)):
            run("ip", "netns", "add", name)
            undo.callback(_remove, name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "netns", "exec", self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for party in self.parties:
            host, port, address = self.namespace(party), self.port(party), self.address(party)
            cable = ("link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", host)
            run("ip", "-n", self.router, *cable)
            ends = ((host, "eth0", address, _ROUTER), (self.router, port, _ROUTER, address))
            for name, device, own, peer in ends:
                run("ip", "-n", name, "address", "add", own, "peer", peer, "dev", device)
                run("ip", "-n", name, "link", "set", "dev", device, "up")
            run("ip", "-n", host, "route", "add", "default", "via", _ROUTER)

    def address(self, party: str) -> str:
        return f"{_SUBNET}.{self.parties.index(party) + 1}"

    def namespace(self, party: str) -> str:
        return f"{self._prefix}-{self.parties.index(party)}"

    def port(self, party: str) -> str:
        """Return the name of the router's end of a host's cable."""
        return f"port{self.parties.index(party)}"

    def command(self, party: str, *command: str) -> list[str]:
        """Return the command that runs another one on a party's host."""
        return ["ip", "netns", "exec", self.namespace(party), *command]

    def on_router(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.router, *command]


@contextmanager
def hosts(*parties: str) -> Iterator[Network]:
    """Make hosts for the parties; skip the test where there can be none."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("network namespaces take Linux and root")
    if shutil.which("ip") is None:
        pytest.skip("the command ip is missing (package iproute2)")
    probe = f"mpcs-{secrets.token_hex(4)}"
    if subprocess.run(["ip", "netns", "add", probe], check=False).returncode:
        pytest.skip("this machine makes no network namespaces")
    run("ip", "netns", "del", probe)
    with ExitStack() as undo:
        made = Network(parties)
        made.make(undo)
        yield made


def run(*command: str, text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def _remove(namespace: str) -> None:
    """Delete a namespace with all that runs in it: otherwise it would live on without a name."""
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in found.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


@dataclass
class Job:
    """One run of a plan on a network: the parties' processes, and what they leave in a folder of its own.

    The parties meet at `port` of `address`, by default the coordinator's host's own.
    """

    network: Network
    folder: Path
    settings: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    port: int = 29500
    address: str = ""
    processes: dict[str, subprocess.Popen[bytes] | Command] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.names = [party["name"] for party in everyone(self.settings)]
        self.address = self.address or self.network.address(self.names[0])
        network = {"address": self.address, "port": self.port}
        self.plan = self.folder / "plan.yaml"
        plan = with_keys(self.settings, self.folder)
        for party in everyone(plan):
            party["workers"] = "127.0.0.1:29700"  # each party is on one host
        self.plan.write_text(json.dumps({**plan, "network": network}))
        for name, table in self.tables.items():
            table.to_parquet(self.folder / f"{name}.parquet")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def join(
        self,
        names: Sequence[str] | None = None,
        waits: tuple[str, str, Path] | None = None,
        **own: Sequence[str],
    ) -> None:
        """Start every role, or these, by ``mpc-spearman join``; `own` are settings of one party alone.

        By `waits` a party goes on in a phase only once a file exists: party, phase, file.
        """
        hook = {}
        if waits is not None:
            party, phase, until = waits
            hook = hooked("faults:on_phase", party=party, phase=phase, act="hold", until=str(until))
        for name in names or self.names:
            with self._printed(name).open("wb") as printed:
                self.processes[name] = Command(
                    ["join", *self._asked(name, own)],
                    folder=ROOT,
                    environment={**self._environment(), **hook},
                    stdout=printed,
                    stderr=printed,
                    namespace=self.network.namespace(name),
                )

    def torchrun(self, **own: Sequence[str]) -> None:
        """Start every role by torchrun, one node each; `own` as for `join`."""
        meeting = (f"--master_addr={self.address}", f"--master_port={AGENT_PORT}", "--max-restarts=0")
        workers = f"--nproc_per_node={self.settings.get('shards', 1)}"
        nodes = (f"--nnodes={len(self.names)}", workers, *meeting)
        launcher = str(ROOT / "launchers" / "cluster.py")
        for rank, name in enumerate(self.names):
            command = [str(_TORCHRUN), *nodes, f"--node_rank={rank}", launcher, *self._asked(name, own)]
            with self._printed(name).open("wb") as printed:
                self.processes[name] = subprocess.Popen(
                    self.network.command(name, *command),
                    cwd=ROOT,
                    env=self._environment(),
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                )

    def wait(self) -> dict[str, int]:
        """Wait for all; return their exit codes."""
        for process in self.processes.values():
            process.wait()
        return {name: process.returncode for name, process in self.processes.items()}

    def check(self, expected: Result) -> None:
        """Hold what every party was given, and its status, against the same plan run on one machine."""
        codes = self.wait()
        assert codes == dict.fromkeys(self.names, 0), [self.shown(name) for name in self.names]
        for name in self.names:
            found, wanted = self.result(name).coefficients, expected.coefficients
            if name in self.names[2:] and len(self.names) > 3:
                wanted = wanted.loc[[name]]  # one of several sources is given its own rows
            pd.testing.assert_frame_equal(found, wanted, check_exact=True)
            assert found.to_numpy().tobytes() == wanted.to_numpy().tobytes()
            status = json.loads((self.folder / "out" / name / "status.json").read_text())
            assert (status["exit_code"], status["error"], status["result"]) == (0, None, "here")

    def shown(self, party: str) -> str:
        return self._printed(party).read_text(errors="replace")

    def result(self, party: str) -> Result:
        return Result.load(self.folder / "out" / party)

    def _printed(self, party: str) -> Path:
        return self.folder / f"{party}.printed"

    def _asked(self, party: str, own: Mapping[str, Sequence[str]]) -> list[str]:
        table = ["--table", str(self.folder / f"{party}.parquet")] if party in self.tables else []
        out = str(self.folder / "out")
        return [str(self.plan), "--party", party, *table, "--out", out, *own.get(party, ())]

    def _environment(self) -> dict[str, str]:
        # The hosts share this one's processors, and threads that wait for a processor stall all others.
        threads = max(1, len(os.sched_getaffinity(0)) // len(self.names))
        return {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
