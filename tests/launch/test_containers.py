"""The Containerfile, the compose file and the Kubernetes manifest, as far as one machine can run them.

No image is built, and no cluster asked: containers are mount namespaces with a read-only root and a user
without rights, which run the commands of the files as they stand there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mpc_spearman.cli.main import main
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.results.result import Result
from support.containers import USER, container, give, skip_without
from support.harness import ROOT
from support.processes import TAG, free_port, kill, new_tag

#: A party's name to its table.
TABLES = {"A": "insurer.csv", "B": "clinic.csv"}
BIN = Path(sys.executable).parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files for containers, and one for each party, as `init` makes them."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--containers"]) == 0
    assert main(["init", "--shared"]) == 0
    plan = (tmp_path / "cluster.yaml").read_text().replace("29500", str(free_port()))
    for name in "CBA":
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        table = [TABLES[name]] if name in TABLES else []
        for file in table:
            shutil.copy(ROOT / "data" / file, file)
        assert main(["init", *table, "--party", name]) == 0
        line = f"identity: {Identity.read(Path(f'{name}.key'), 'key')}"
        plan = re.sub(rf"(name: {name}\n *)# identity: .*", rf"\1{line}", plan)
    for name in "CBA":
        (tmp_path / name / "cluster.yaml").write_text(plan)
    tmp_path.chmod(0o755)
    return tmp_path


def run(commands: Mapping[str, list[str]], environments: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Run all parties' commands at once; return what each printed as errors, once all have ended well."""
    tag, base = new_tag(), {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    parties = {
        name: subprocess.Popen(
            command, env={**base, **tag, **environments[name]}, stderr=subprocess.PIPE, text=True
        )
        for name, command in commands.items()
    }
    try:
        errors = {name: process.communicate(timeout=120)[1] for name, process in parties.items()}
    finally:
        kill(tag[TAG])
    assert {name: process.returncode for name, process in parties.items()} == dict.fromkeys(parties, 0), (
        errors
    )
    return errors


@pytest.mark.long
def test_three_containers_by_the_compose_file(folder: Path) -> None:
    skip_without()
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    instructions = dict(
        line.split(" ", 1) for line in (folder / "Containerfile").read_text().splitlines() if line
    )
    commands, environments = {}, {}
    for service, settings in services.items():
        name = service.upper()
        assert (settings["read_only"], settings["cap_drop"]) == (True, ["ALL"])
        assert settings["user"] == f"${{MPC_UID:-{USER}}}:${{MPC_GID:-{USER}}}"
        (folder / name / "out").mkdir()
        give(folder / name)
        volumes = dict(volume.split(":")[::-1] for volume in settings["volumes"])
        mounts = {place: folder / source for place, source in volumes.items()}
        (temporary,) = (entry.partition(":")[0] for entry in settings["tmpfs"])
        mounts[temporary] = folder / f"tmp-{name}"
        for folder_to_give in (mounts[temporary], folder / f"root-{name}"):
            folder_to_give.mkdir()
            give(folder_to_give)
        command = [*json.loads(instructions["ENTRYPOINT"]), *settings["command"]]
        where = instructions["WORKDIR"]
        commands[name] = container(folder / f"root-{name}", mounts, command, folder=where, names=["c"])
        environments[name] = settings["environment"] | dict(
            word.split("=") for word in instructions["ENV"].split()
        )
    run(commands, environments)
    assert {Result.load(folder / name / "out" / name).n for name in "CBA"} == {4_406}
    assert all((folder / name / "out" / name).stat().st_uid == USER for name in "CBA")


def manifests(folder: Path) -> dict[str, Any]:
    """Return the pods of the manifest's Jobs, by party."""
    parts = [*yaml.safe_load_all((folder / "kubernetes.yaml").read_text())]
    assert [(part["kind"], part["metadata"]["name"]) for part in parts] == [
        ("Service", "c"), ("Job", "c"), ("Job", "b"), ("Job", "a")
    ]  # fmt: skip
    return {part["metadata"]["name"].upper(): part["spec"]["template"]["spec"] for part in parts[1:]}


@pytest.mark.long
def test_each_partys_job_by_the_manifest(folder: Path) -> None:
    """Config maps and secrets cannot be written; ledger, results and temporary files have volumes."""
    skip_without()
    commands, environments, ledgers = {}, {}, {}
    for name, pod in manifests(folder).items():
        (party,) = pod["containers"]
        assert pod["securityContext"]["runAsUser"] == USER
        assert party["securityContext"]["readOnlyRootFilesystem"]
        volumes, read_only = {}, []
        for volume in pod["volumes"]:
            volumes[volume["name"]] = folder / f"{name}-{volume['name']}"
            volumes[volume["name"]].mkdir()
            if {"configMap", "secret"} & volume.keys():
                read_only.append(volume["name"])
        for file in ("cluster.yaml", f"{name}.yaml"):
            shutil.copy(folder / name / file, volumes["plan"])
        shutil.copy(folder / name / f"{name}.key", volumes["key"])
        (volumes["key"] / f"{name}.key").chmod(0o440)  # as a secret's file is for a pod's group
        plan = volumes["plan"] / "cluster.yaml"
        plan.write_text(plan.read_text().replace("coordinator.example.org", "127.0.0.1"))
        if name in TABLES:
            shutil.copy(ROOT / "data" / TABLES[name], volumes["data"])
            local_file = volumes["plan"] / f"{name}.yaml"
            local_file.write_text(
                local_file.read_text().replace(f"table: {TABLES[name]}", f"table: /data/{TABLES[name]}")
            )
            ledgers[name] = volumes["ledger"] / f"{name}.ledger"
            Ledger.begin(ledgers[name])
        places = {mount["mountPath"]: mount for mount in party["volumeMounts"]}
        assert {place for place, mount in places.items() if mount.get("readOnly")} == {
            "/plan", "/secret", *(["/data"] if name in TABLES else [])
        }  # fmt: skip
        mounts = {place: volumes[mount["name"]] for place, mount in places.items()}
        (root := folder / f"root-{name}").mkdir()
        for folder_to_give in (root, *volumes.values()):
            give(folder_to_give)
        commands[name] = container(
            root, mounts, [*party["command"], *party["args"]],
            read_only=[place for place, mount in places.items() if mount["name"] in read_only],
        )  # fmt: skip
        environments[name] = {variable["name"]: variable["value"] for variable in party["env"]} | {
            "OMP_NUM_THREADS": "1"
        }
    errors = run(commands, environments)
    for name in "CBA":
        assert Result.load(folder / f"{name}-out" / name).n == 4_406
        lines = [json.loads(line) for line in errors[name].splitlines() if line.startswith("{")]
        assert {line["party"] for line in lines} >= {name}
    assert all(Ledger(ledger).entries() for ledger in ledgers.values())


def test_what_the_manifest_asks_for_is_what_it_has(folder: Path) -> None:
    pods = manifests(folder)
    for name, pod in pods.items():
        (party,) = pod["containers"]
        assert {mount["name"] for mount in party["volumeMounts"]} == {
            variable["name"] for variable in pod["volumes"]
        }
        threads = {variable["name"]: variable["value"] for variable in party["env"]}["OMP_NUM_THREADS"]
        assert threads == party["resources"]["limits"]["cpu"]
        assert pod["restartPolicy"] == "Never"
        assert party["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert f"/secret/{name}.key" in party["args"][0]


@pytest.mark.long
def test_the_images_pip_lines_install_a_package_that_runs(tmp_path: Path) -> None:
    """In an empty environment; PyTorch's index can be another one here (MPC_SPEARMAN_TORCH_INDEX)."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    build = tmp_path / "build"
    shutil.copytree(
        ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "runs")
    )
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", build, "."]
    subprocess.run(wheel, cwd=tmp_path / "clone", check=True)
    text = (ROOT / "mpc_spearman" / "templates" / "Containerfile").read_text()
    lines = re.findall(r"^RUN (.*)$", text, re.M)
    assert all(line.startswith("pip install --no-cache-dir ") for line in lines)
    (index,) = re.findall(r"^ARG TORCH_INDEX=(\S+)$", text, re.M)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}",
        "TORCH_INDEX": os.environ.get("MPC_SPEARMAN_TORCH_INDEX", index),
        "HOME": str(tmp_path),
    }
    for line in [*lines, "mpc-spearman init --containers", "mpc-spearman init --shared"]:
        done = subprocess.run(["sh", "-ec", line], cwd=build, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
    demo = shlex.join(["mpc-spearman", "local", str(ROOT / "configs" / "mpc.yaml"), "--out", "out"])
    subprocess.run(["sh", "-ec", demo], cwd=build, env=environment, check=True, capture_output=True)
    assert Result.load(build / "out" / "C").n == 4_406
    assert (build / "cluster.yaml").read_bytes() == (ROOT / "configs" / "cluster.yaml").read_bytes()
