"""The first run between three organisations, carried out as the page says, and by nothing else.

C, B and A are three hosts (network namespaces) with a user each, who can read their own folder alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import pytest

from mpc_spearman.results.result import Result
from support.containers import container, give, skip_without
from support.harness import ROOT
from support.hosts import Network, hosts
from support.pages import PAGES
from support.processes import TAG, kill, new_tag

#: Each party's user, and table.
USERS = {"C": 10003, "B": 10002, "A": 10001}
TABLES = {"B": "clinic.csv", "A": "insurer.csv"}


def steps() -> dict[int, str]:
    """Return the page's numbered steps."""
    page = PAGES["docs/hosts.md"].text
    section = page.split("## A first run between three organisations\n")[1].split("\n## ")[0]
    numbered = re.findall(r"^(\d+)\. (.*?)(?=^\S|\Z)", section, re.M | re.S)
    return {int(number): text for number, text in numbered}


STEPS = steps()


class Organisations:
    """Three folders, hosts and users, and what each runs."""

    def __init__(self, folder: Path, network: Network) -> None:
        self.folder, self._network = folder, network
        self._tag = new_tag()
        for name, user in USERS.items():
            (folder / name).mkdir(mode=0o700)
            give(folder / name, user)
        #: Where the package is installed, if that is not this process's own environment.
        self.environment: Path | None = None

    def address(self, name: str) -> str:
        return self._network.address(name)

    def start(self, name: str, command: str) -> subprocess.Popen[str]:
        """Start a command in a party's folder, on its host."""
        (root := self.folder / f"root-{name}").mkdir(exist_ok=True)
        (temporary := self.folder / f"tmp-{name}").mkdir(exist_ok=True)
        give(temporary, USERS[name])
        # At the same place as outside, as an environment's commands name it.
        folder = str(self.folder / name)
        mounts = {folder: self.folder / name, "/tmp/own": temporary}
        if self.environment is not None:
            mounts[str(self.environment)] = self.environment
        inside = container(
            root,
            mounts,
            ["sh", "-ec", command],
            read_only=[str(self.environment)],
            folder=folder,
            user=USERS[name],
        )
        path = f"{(self.environment or Path(sys.prefix)) / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "TMPDIR": "/tmp/own", "OMP_NUM_THREADS": "1", **self._tag}
        return subprocess.Popen(
            self._network.command(name, *inside),
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, number: int) -> dict[str, str]:
        """Run all commands of a step at the same time; return what each party's command printed."""
        text = " ".join(STEPS[number].split())
        commands = re.findall(r"\b([CBA]) runs `(mpc-spearman [^`]+)`", text)
        assert commands, STEPS[number]
        processes = {name: self.start(name, command) for name, command in commands}
        outputs = {name: process.communicate(timeout=200) for name, process in processes.items()}
        codes = {name: process.returncode for name, process in processes.items()}
        assert codes == dict.fromkeys(processes, 0), outputs
        return {name: out for name, (out, _) in outputs.items()}

    def close(self) -> None:
        kill(self._tag[TAG])


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Organisations]:
    skip_without()
    tmp_path.chmod(0o755)
    with hosts("C", "B", "A") as network, ExitStack() as stack:
        organisations = Organisations(tmp_path, network)
        stack.callback(organisations.close)
        yield organisations


def install(three: Organisations) -> None:
    """Carry out steps 1 and 2, once: three environments would be the same."""
    clone, folder = three.folder / "clone", three.folder / "installed"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "runs"))
    build, script = (dedent(re.findall(r"```\n(.*?)```", STEPS[number], re.S)[0]) for number in (1, 2))
    subprocess.run(["sh", "-ec", build], cwd=clone, check=True, capture_output=True)
    (wheel,) = clone.glob("mpc_spearman-*.whl")
    folder.mkdir()
    shutil.copy(wheel, folder)
    # As the page says, the CPU build of PyTorch, which is smaller, comes before the wheel.
    index = os.environ.get("MPC_SPEARMAN_TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
    cpu = f"pip install --index-url {index} torch==2.13.0\npip install mpc_spearman"
    script = script.replace("pip install mpc_spearman", cpu, 1)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(["sh", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    three.environment = folder / ".venv"


def test_the_steps_are_few_and_in_order() -> None:
    assert [*STEPS] == [*range(1, len(STEPS) + 1)]
    assert len(STEPS) <= 15


@pytest.mark.long
def test_three_organisations_do_what_the_page_says(three: Organisations) -> None:
    for name, table in TABLES.items():  # step 2
        shutil.copy(ROOT / "data" / table, three.folder / name)
        give(three.folder / name, USERS[name])
    printed: dict[str, str] = {}
    for number in (3, 4, 5):
        printed |= three.run(number)
    for name in TABLES:
        assert "# ?" not in (three.folder / name / f"{name}.yaml").read_text()  # step 6: nothing is to decide
        assert (three.folder / name / f"{name}.ledger").stat().st_mode & 0o777 == 0o600
    lines = {name: re.findall(r"^identity: .*$", text, re.M)[0] for name, text in printed.items()}  # step 7
    three.run(8)
    shared = three.folder / "C" / "cluster.yaml"
    plan = shared.read_text()
    for word in ("coordinator.example.org", "# identity: ed25519:..."):
        assert f"`{word}`" in " ".join(STEPS[9].split())
        assert word in plan
    plan = plan.replace("coordinator.example.org", three.address("C"))
    for name, line in lines.items():
        plan = re.sub(rf"(name: {name}\n *)# identity: ed25519:\.\.\.", rf"\1{line}", plan)
    for name in USERS:  # steps 9 and 10
        (three.folder / name / "cluster.yaml").write_text(plan)
        give(three.folder / name, USERS[name])
    assert "and whether the policy allows the plan" in " ".join(STEPS[12].split())
    assert all("this table and its policy fit the plan" in text for text in three.run(12).values())
    digests = {re.match(r"plan ([0-9a-f ]+)", text)[1].strip() for text in three.run(13).values()}  # type: ignore[index]
    assert len(digests) == 1
    printed = three.run(14)
    for name in USERS:
        (folder,) = (three.folder / name / "runs").glob(f"cluster-*/{name}")
        assert str(folder.relative_to(three.folder / name)) in printed[name]  # step 15
        assert Result.load(folder).n == 4_406
        assert folder.stat().st_uid == USERS[name]
        assert json.loads((folder / "status.json").read_text())["exit_code"] == 0


@pytest.mark.long
def test_from_a_wheel(three: Organisations) -> None:
    install(three)
    test_three_organisations_do_what_the_page_says(three)
