"""A party finds problems of its own host before it waits for the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.config import load_plan
from mpc_spearman.errors import ApprovalError, HandshakeError, MpcSpearmanError, OutputError, PlanError
from mpc_spearman.identity import Identity
from mpc_spearman.launch import join
from support.harness import ROOT

CLUSTER = ROOT / "configs" / "cluster.yaml"
CLINIC = ROOT / "data" / "clinic.csv"


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch, launched: Any) -> None:
    """Make a role that is started fail the test: it would wait for the others for ten minutes."""

    def started(*arguments: Any, **more: Any) -> None:
        pytest.fail("the role was started")

    launched(started)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_nowhere_to_write(tmp_path: Path) -> None:
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
        (
            ["--party", "B", "--shard", "2", "shards=2"],
            "",
            PlanError,
            "--shard 2: under shards: 2 a worker's number is 0 to 1",
        ),
        (
            [
                "--party",
                "B",
                "--shard",
                "1",
                "shards=2",
                f"parties.target.policy.approved_by={Identity.new()}",
            ],
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
    known = {"C": "C", "1": "B.shard=1"}  # how its run ended is then told
    kept = [["out", folder, "status.json"] for word, folder in known.items() if word in party]
    assert [path.name for path in tmp_path.rglob("*")] == (kept[0] if kept else [])
