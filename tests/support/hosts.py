"""Jobs whose parties run on hosts of their own: a network namespace each, started by `join` or torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpc_spearman.results.result import Result
from support.cli_server import Command
from support.harness import ROOT
from support.plans import with_keys
from support.server import hooked
from support.shaping import ShapedNetwork, unavailable

#: Where torchrun's own agents meet.
AGENT_PORT = 29400
_TORCHRUN = Path(sys.executable).parent / "torchrun"


@contextmanager
def hosts(*parties: str, rate: float | None = None, delay: float = 0.0) -> Iterator[ShapedNetwork]:
    """Hosts for the parties; skips the test where there can be none."""
    reason = unavailable()
    if reason is not None:
        pytest.skip(reason)
    with ShapedNetwork(parties, rate, delay) as network:
        yield network


@dataclass
class Job:
    """One run of a plan on a network: the parties' processes, and what they left.

    Parameters
    ----------
    network : ShapedNetwork
    folder : Path
        For the plan, keys, tables and results; the job's own.
    settings : mapping
        The plan.
    tables : mapping
        By party.
    port : int
        Where the parties meet.
    address : str
        The coordinator's, where it is not its host's own in the network.
    """

    network: ShapedNetwork
    folder: Path
    settings: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    port: int = 29500
    address: str = ""
    processes: dict[str, subprocess.Popen[bytes] | Command] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        parties = self.settings["parties"]
        self.names = [parties["coordinator"]["name"], parties["target"]["name"]]
        self.names += [source["name"] for source in parties["sources"]]
        self.address = self.address or self.network.address(self.names[0])
        network = {"address": self.address, "port": self.port}
        self.plan = self.folder / "plan.yaml"
        self.plan.write_text(json.dumps({**with_keys(self.settings, self.folder), "network": network}))
        for name, table in self.tables.items():
            table.to_parquet(self._table(name))

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
        """Start every role, or these, by ``mpc-spearman join``.

        Parameters
        ----------
        names
        waits
            A party that goes on in a phase only once a file exists: party, phase, file.
        **own
            Settings of one party alone.
        """
        hook = {}
        if waits is not None:
            party, phase, until = waits
            hook = hooked("faults:on_phase", party=party, phase=phase, act="wait", until=str(until))
        for name in names or self.names:
            with self._printed(name).open("wb") as printed:
                self.processes[name] = Command(
                    ["join", str(self.plan), *self._options(name), *own.get(name, ())],
                    folder=ROOT,
                    environment={**self._environment(), **hook},
                    stdout=printed,
                    stderr=printed,
                    namespace=self.network.namespace(name),
                )

    def torchrun(self, **own: Sequence[str]) -> None:
        """Start every role by torchrun, one node each; `own` as for `join`."""
        for rank, name in enumerate(self.names):
            node = {
                "nnodes": len(self.names),
                "nproc_per_node": 1,
                "node_rank": rank,
                "max-restarts": 0,
                "master_addr": self.address,
                "master_port": AGENT_PORT,
            }
            command = [str(_TORCHRUN), *(f"--{option}={value}" for option, value in node.items())]
            launcher = str(ROOT / "launchers" / "cluster.py")
            arguments = [launcher, str(self.plan), *self._options(name), *own.get(name, ())]
            with self._printed(name).open("wb") as printed:
                self.processes[name] = subprocess.Popen(
                    self.network.command(name, *command, *arguments),
                    cwd=ROOT,
                    env=self._environment(),
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                )

    def wait(self) -> dict[str, int]:
        """Wait for all to end; return their exit codes."""
        for name, process in self.processes.items():
            process.wait()
            self.output[name] = self.shown(name)
        return {name: process.returncode for name, process in self.processes.items()}

    def check(self, expected: Result) -> None:
        """Hold what every party was given, and its status, against the same plan run on one machine."""
        codes = self.wait()
        assert codes == dict.fromkeys(self.names, 0), self.output
        for name in self.names:
            found, wanted = self.result(name).coefficients, expected.coefficients
            if name in self.names[2:] and len(self.names) > 3:
                wanted = wanted.loc[[name]]  # one of several sources is given its own rows
            pd.testing.assert_frame_equal(found, wanted, check_exact=True)
            assert found.to_numpy().tobytes() == wanted.to_numpy().tobytes()
            status = json.loads((self.folder / "out" / name / "status.json").read_text())
            assert (status["exit_code"], status["error"], status["result"]) == (0, None, "here")

    def shown(self, party: str) -> str:
        """Return what a party has printed so far."""
        return self._printed(party).read_text(errors="replace")

    def _printed(self, party: str) -> Path:
        return self.folder / f"{party}.printed"

    def result(self, party: str) -> Result:
        return Result.load(self.folder / "out" / party)

    def _table(self, party: str) -> Path:
        return self.folder / f"{party}.parquet"

    def _options(self, party: str) -> list[str]:
        table = ["--table", str(self._table(party))] if party in self.tables else []
        return ["--party", party, *table, "--out", str(self.folder / "out")]

    def _environment(self) -> dict[str, str]:
        # The hosts share this one's processors, and threads that wait for a processor stall all others.
        threads = max(1, len(os.sched_getaffinity(0)) // len(self.names))
        return {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
