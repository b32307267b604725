"""A party finds problems of its own host before it waits for the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.config import load_plan
from mpc_spearman.errors import (
    ApprovalError,
    HandshakeError,
    MpcSpearmanError,
    OutputError,
    PlanError,
    PolicyError,
    TableError,
)
from mpc_spearman.identity import Identity
from mpc_spearman.launch import join
from support.harness import ROOT
from support.plans import mapping, split, with_keys

CLUSTER = ROOT / "configs" / "cluster.yaml"
CLINIC = ROOT / "data" / "clinic.csv"
LOCAL = ("--local", str(ROOT / "configs" / "local" / "B.yaml"))


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch, launched: Any) -> None:
    """Make a role that is started fail the test: it would wait for the others for ten minutes."""

    def started(*arguments: Any, **more: Any) -> None:
        pytest.fail("the role was started")

    launched(started)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_in_place_of_the_run_folder_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    plan = load_plan(CLUSTER, ["network.address=127.0.0.1"], {"B": CLINIC})
    with pytest.raises(OutputError, match=r"taken exists and is not a directory"):
        join.run_party(plan, "B", taken)
    assert taken.read_text() == "a file"


@pytest.mark.parametrize(
    ("party", "rank", "error", "named"),
    [
        ([], "1", PlanError, "which party is this? Give its local file"),
        (["--party", "Z"], "", PlanError, "the plan has no party 'Z'; parties: C, B, A"),
        (["--party", "C"], "", PlanError, "this plan is a draft, without an identity of C and B and A"),
        (["--party", "C"], "1", HandshakeError, "RANK is 1, but in the plan C (coordinator) is number 0: "),
        (["--party", "B"], "", PlanError, "party B needs its local file (--local)"),
        (
            [*LOCAL, "parties.target.policy={}"],
            "",
            PlanError,
            "party B has no ledger. If earlier runs had one",
        ),
        (
            [*LOCAL, f"parties.target.policy.approved_by={Identity.new()}"],
            "",
            ApprovalError,
            "party B has no approval",
        ),
    ],
)
def test_an_error_in_the_plan_or_the_party_leaves_no_result(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    party: list[str],
    rank: str,
    error: type[MpcSpearmanError],
    named: str,
) -> None:
    if rank:
        monkeypatch.setenv("RANK", rank)
    command = ["join", str(CLUSTER), "network.address=127.0.0.1", *party, "--out", str(tmp_path / "out")]
    assert main(command) == error.exit_code
    assert named in " ".join(capsys.readouterr().err.split())
    ran = "C" if "C" in party else "B" if "--local" in party else ""  # how its run ended is then told
    assert [path.name for path in tmp_path.rglob("*")] == (["out", ran, "status.json"] if ran else [])


def written(folder: Path, **shared: Any) -> tuple[str, ...]:
    """Write a plan and B's local file without a ledger; return the command that joins with them."""
    content = with_keys(mapping(network={"address": "127.0.0.1"}, **shared), folder)
    del content["parties"]["target"]["policy"]["ledger"]
    (folder / "plan.yaml").write_text(json.dumps(split(content, folder)))
    return (
        "join",
        str(folder / "plan.yaml"),
        "--local",
        str(folder / "B.local"),
        "--out",
        str(folder / "out"),
    )


def test_a_ledger_of_an_earlier_version_next_to_the_plan_is_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launched: Any
) -> None:
    command, ledgers = written(tmp_path), []

    def stopped(assignments: Any, *arguments: Any, **more: Any) -> None:
        ledgers.append(assignments[0].plan.parties.target.policy.ledger)
        raise TableError("stopped here")

    launched(stopped)
    assert main([*command]) == TableError.exit_code
    assert ledgers == [tmp_path / "B.ledger"]
    assert "name it in the local file (policy.ledger)" in capsys.readouterr().err
    (tmp_path / "B.ledger").unlink()
    assert main([*command]) == PlanError.exit_code
    errors = capsys.readouterr().err
    assert "restore it; otherwise make one with `mpc-spearman ledger --begin B.ledger`" in errors
    assert not (tmp_path / "B.ledger").exists()


@pytest.mark.parametrize("party", "CBA")
def test_a_plan_that_sets_an_owners_policy_is_refused_by_every_party(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], party: str
) -> None:
    """Its author would otherwise choose what A allows, where A counts it, and what A writes where."""
    command = written(tmp_path, alignment="intersect")
    plan, policy = (
        tmp_path / "plan.yaml",
        {"exact": True, "loss": 100, "lifetime": 100, "ledger": "elsewhere"},
    )
    content = json.loads(plan.read_text())
    content["parties"]["sources"][0] |= {"policy": policy, "write_unaligned": "/srv/www/rest.csv"}
    plan.write_text(json.dumps(content))
    file = str(tmp_path / f"{party}.local")
    assert main([*command[:3], file, *command[4:]]) == PlanError.exit_code
    errors = capsys.readouterr().err
    for key in ("policy", "write_unaligned"):
        assert (
            f"{plan}: parties.sources.0.{key}: is local and no part of a shared plan; 'A' writes it" in errors
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "content", "error", "named"),
    [
        ("B.ledger", None, PlanError, "B.ledger does not exist. If earlier runs had it, restore it"),
        ("B.ledger", "", PolicyError, "B.ledger, line 1: this is not the first line of a ledger"),
        ("B.key", None, PlanError, "B.key cannot be read: No such file"),
    ],
)
def test_an_unusable_ledger_or_key_is_named_before_a_process_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str | None,
    error: type[MpcSpearmanError], named: str,
) -> None:  # fmt: skip
    command = written(tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    assert main([*command, f"parties.target.policy.ledger={tmp_path / 'B.ledger'}"]) == error.exit_code
    assert named in capsys.readouterr().err
    status = json.loads((tmp_path / "out" / "B" / "status.json").read_text())
    assert (status["state"], status["error"]) == ("ended", error.__name__)
