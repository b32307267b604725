"""Hosts within this one, a network namespace each, and jobs whose parties run on them: Linux, root.

A namespace has its own addresses, ports and loopback, as a host has. All are connected through one more, the
router. Nothing here touches the host's own network, and when a ``with`` block ends, the
namespaces are gone with whatever still runs in them.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman.results.result import Result
from support.members import Members
from support.pages import PAGES
from support.plans import everyone, split

#: Where torchrun's own agents meet.
AGENT_PORT = 29400
HOSTS = PAGES["docs/hosts.md"]
_ROUTER, _SUBNET = "10.77.0.254", "10.77.0"


class Network:
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
            for name, device, local, peer in ends:
                run("ip", "-n", name, "address", "add", local, "peer", peer, "dev", device)
                run("ip", "-n", name, "link", "set", "dev", device, "up")
            run("ip", "-n", host, "route", "add", "default", "via", _ROUTER)

    def address(self, party: str) -> str:
        return f"{_SUBNET}.{self.parties.index(party) + 1}"

    def add_address(self, party: str, *addresses: str) -> None:
        """Give a party's host further addresses, at which the others reach it."""
        for address in addresses:
            run("ip", "-n", self.namespace(party), "address", "replace", address, "dev", "lo")
            run("ip", "-n", self.router, "route", "replace", address, "via", self.address(party))

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
        network = Network(parties)
        network.make(undo)
        yield network


def run(*command: str, text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def _remove(namespace: str) -> None:
    """Delete a namespace with all that runs in it: otherwise it would live on without a name."""
    pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in pids.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


class Job(Members):
    """A run on a network, each party on a host of its own; several can run at once.

    The parties meet at `port` of `address`, by default the coordinator's host's own.
    """

    def __init__(
        self,
        network: Network,
        folder: Path,
        settings: Mapping[str, Any],
        tables: Mapping[str, pd.DataFrame],
        port: int = 29500,
        address: str = "",
    ) -> None:
        folder.mkdir()
        super().__init__(folder, settings)
        self.network, self.names = network, [party["name"] for party in everyone(settings)]
        self.address = address or network.address(self.names[0])
        self.plan["network"] = {"address": self.address, "port": port}
        for name, table in tables.items():
            self.tables[name] = folder / f"{name}.parquet"
            table.to_parquet(self.tables[name])

    def namespace(self, name: str) -> str:
        return self.network.namespace(name)

    def join(
        self,
        names: Sequence[str] | None = None,
        waits: tuple[str, str, Path] | None = None,
        **settings: Sequence[str],
    ) -> None:
        """Start every role, or these, by ``mpc-spearman join``; `settings` are of one party alone.

        By `waits` a party goes on in a phase only once a file exists: party, phase, file.
        """
        party, phase, until = waits or ("", "", "")
        hold = ("on_phase", {"phase": phase, "act": "hold", "until": str(until)})
        for name in names or self.names:
            self.start(name, hold if name == party else (None, {}), settings.get(name, ()))

    def torchrun(self) -> None:
        """Start C, B and A by the commands of the page as they stand there, each in its own folder.

        The address that they name is one of the coordinator's host.
        """
        commands = [shlex.split(line) for line in HOSTS.lines("torchrun ")]
        addresses = {word.partition("=")[2] for line in commands for word in line if "--master_addr=" in word}
        self.network.add_address(self.names[0], *addresses)
        bin_first = {"PATH": f"{Path(sys.executable).parent}:{self.environment['PATH']}"}
        for name, command in zip(self.names, commands, strict=True):
            folder = self.write_files(name)
            with self._file(name, "stderr").open("wb") as err, self._file(name, "stdout").open("wb") as out:
                self.parties[name] = subprocess.Popen(
                    self.network.command(name, *command),
                    cwd=folder,
                    env=self.environment | bin_first,
                    stdout=out,
                    stderr=err,
                )

    def write_files(self, name: str) -> Path:
        """Write the shared plan and a party's local file into a folder of the party's own."""
        folder = self.folder / "out" / name
        folder.mkdir(parents=True)
        (folder / "cluster.yaml").write_text(json.dumps(split(self.plan, folder)))
        local = json.loads((folder / f"{name}.local").read_text())
        table = {"table": str(self.tables[name])} if name in self.tables else {}
        (folder / f"{name}.yaml").write_text(json.dumps({**local, **table}))
        return folder

    def check(self, expected: Result) -> None:
        """Compare what every party received, and its status, with a run of the same plan on one machine."""
        endings = self.wait(self.names)
        assert {name: end.code for name, end in endings.items()} == dict.fromkeys(self.names, 0), endings
        for name in self.names:
            received, wanted = self.result(name).coefficients, expected.coefficients
            if name in self.names[2:] and len(self.names) > 3:
                wanted = wanted.loc[[name]]  # one of several sources receives its own rows
            pd.testing.assert_frame_equal(received, wanted, check_exact=True)
            assert received.to_numpy().tobytes() == wanted.to_numpy().tobytes()
            status = json.loads((self._results(name) / "status.json").read_text())
            assert (status["exit_code"], status["error"], status["result"]) == (0, None, "here")

    def result(self, party: str) -> Result:
        return Result.load(self._results(party))

    def _results(self, party: str) -> Path:
        (status,) = (self.folder / "out" / party).glob(f"**/{party}/status.json")
        return status.parent
