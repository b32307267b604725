"""What is in the current folder is not executed in a process that holds a private table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mpc_spearman.results.result import Result
from support.harness import ROOT
from support.plans import LIGHT, mapping, split, with_keys
from support.processes import free_port
from support.references import normal_tables
from support.server import Command

#: Modules that roles import or look for: of Python, of what is installed or is not, and the package itself.
NAMES = (
    *("random", "json", "socket", "ssl", "secrets", "struct", "queue", "threading", "tempfile", "hashlib"),
    *("numpy", "torch", "pandas", "pyarrow", "crypten", "yaml", "pydantic", "jinja2", "scipy", "sklearn"),
    *("mpc_spearman", "sitecustomize", "usercustomize"),
)
TORCHRUN = Path(sys.executable).with_name("torchrun")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of modules that leave a trace when they are executed, and fail."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    code = f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__ + '\\n')\nraise SystemExit(99)\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(code)
    return folder


@pytest.fixture
def script(tmp_path: Path) -> str:
    """What is installed as ``mpc-spearman``."""
    path = tmp_path / "bin" / "mpc-spearman"
    path.parent.mkdir()
    path.write_text("import sys\nfrom mpc_spearman.cli.main import main\nsys.exit(main())\n")
    return str(path)


def run(folder: Path, *commands: Sequence[str]) -> None:
    """Run commands in a folder, all at once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONSAFEPATH", None)
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    running = [subprocess.Popen(command, cwd=folder, env=environment, **pipe) for command in commands]
    try:
        printed = [process.communicate()[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0] * len(running), "\n".join(printed)


def assert_nothing_was_executed(folder: Path) -> None:
    traces = folder.parent / "executed"
    assert not traces.exists(), traces.read_text()


def test_python_m_executes_modules_of_a_hostile_folder(hostile: Path) -> None:
    """Where the current folder comes first, as under ``python -m``, its modules are executed."""
    command = [sys.executable, "-m", "mpc_spearman.launch.role_process"]
    process = subprocess.run(command, cwd=hostile, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert process.returncode == 99
    assert (hostile.parent / "executed").exists()


def test_roles_on_this_machine(hostile: Path, tmp_path: Path) -> None:
    launcher, plan = ROOT / "launchers" / "local.py", ROOT / "configs" / "mpc.yaml"
    run(hostile, [sys.executable, str(launcher), str(plan), "--out", str(tmp_path / "out")])
    assert_nothing_was_executed(hostile)
    assert Result.load(tmp_path / "out" / "C").n == 4_406


@pytest.mark.parametrize("launcher", ["mpc-spearman", pytest.param("torchrun", marks=pytest.mark.long)])
def test_roles_that_join(hostile: Path, script: str, tmp_path: Path, launcher: str) -> None:
    """By torchrun all are started in such a folder; otherwise one, and those that it meets elsewhere."""
    agent, network = free_port(), {"address": "127.0.0.1", "port": free_port()}
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(split(with_keys(mapping(**LIGHT, network=network), tmp_path), tmp_path)))
    tables, commands, elsewhere = normal_tables(), [], []
    for party, table in tables.items():
        table.to_csv(tmp_path / f"{party}.csv", index=False)
    for rank, party in enumerate("CBA"):
        if launcher == "torchrun":
            options = ("--nnodes=3", "--nproc_per_node=1", "--max-restarts=0", f"--node_rank={rank}")
            address = ("--master_addr=127.0.0.1", f"--master_port={agent}")
            starts = ("--no-python", "--", sys.executable, script, "join")
            command = [str(TORCHRUN), *options, *address, *starts, str(plan)]
        else:
            command = [sys.executable, script, "join", str(plan)]
        options = ["--table", str(tmp_path / f"{party}.csv")] if party in tables else []
        options += ["--local", str(tmp_path / f"{party}.local"), "--out", str(tmp_path / "out")]
        if launcher == "torchrun" or party == "A":
            commands.append([*command, *options])
        else:
            elsewhere.append(Command(["join", str(plan), *options], folder=tmp_path, environment=os.environ))
    try:
        run(hostile, *commands)
        for command in elsewhere:
            command.wait()
    finally:
        for command in elsewhere:
            command.kill()
            command.communicate()
    assert not any(command.returncode for command in elsewhere)
    assert_nothing_was_executed(hostile)
    assert Result.load(tmp_path / "out" / "C").n == 40
