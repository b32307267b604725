"""An approval is of one party, plan, local part, time and number of runs, and of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from mpc_spearman.cli.main import main
from mpc_spearman.config import Plan, approval, check_approval, load_plan
from mpc_spearman.errors import ApprovalError, OutputError, PlanError
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.charges import ChargedRun, PartnerLoss
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.run import Run
from support.in_memory import run_in_memory
from support.plans import mapping

FUTURE = "2999-12-31"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plan, A's local file that asks for approval, the officer's key, and an approval."""
    folder = tmp_path / "ours"
    folder.mkdir()
    assert main(["key", str(folder / "officer.key")]) == 0
    content = mapping(cautious=True, alignment="intersect", network={"address": "127.0.0.1", "port": 9})
    local_file = {
        "party": "A",
        "table": "insurer.csv",
        "policy": {"ledger": "A.ledger", "approved_by": str(Identity.read(folder / "officer.key", "key"))},
    }
    (folder / "plan.yaml").write_text(yaml.safe_dump(content))
    (folder / "A.yaml").write_text(yaml.safe_dump(local_file))
    Ledger.begin(folder / "A.ledger")
    assert approve(folder) == 0
    return folder


def approve(folder: Path, *arguments: str, until: str = FUTURE, key: str = "officer.key") -> int:
    files = [str(folder / "plan.yaml"), "--local", str(folder / "A.yaml"), "--key", str(folder / key)]
    return main(["approve", *files, "--until", until, *arguments])


def loaded(folder: Path, *settings: str) -> Plan:
    return load_plan(folder / "plan.yaml", settings, local=folder / "A.yaml")


def check(folder: Path, *settings: str) -> Any:
    return check_approval(loaded(folder, *settings), "A")


def test_an_approval_is_valid_in_a_copy_of_the_folder(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    approval = check(tmp_path / "elsewhere")
    assert (approval.party, approval.runs, str(approval.until)) == ("A", 1, FUTURE)
    # where the party can be reached says nothing of what it gives
    assert check(folder, "parties.sources.A.listen=10.0.0.7:29501") == approval
    plan = loaded(folder)
    assert check_approval(plan, "B") is None
    assert check_approval(plan, "C") is None


def forge(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"runs":1', b'"runs":9'))


def expire(file: Path) -> None:
    officer = Identity.read(file.with_name("officer.key"), "key")
    over = date.today() - timedelta(days=2)
    approval.approve(loaded(file.parent), "A", officer, over, 1)


def sign_by_another(file: Path) -> None:
    main(["key", str(file.with_name("other.key"))])
    local_file = file.with_name("A.yaml")
    text = local_file.read_text()
    ours, another = (
        str(Identity.read(file.with_name(f"{name}.key"), "key")) for name in ("officer", "other")
    )
    local_file.write_text(text.replace(ours, another))
    assert approve(file.parent, key="other.key") == 0
    local_file.write_text(text)


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        forge,
        sign_by_another,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes().splitlines()[0] + b"\nAAAA\n"),
        expire,
        lambda file: file.with_name("plan.yaml").write_text(
            file.with_name("plan.yaml").read_text().replace("intersect", "same")
        ),
    ],
    ids=["missing", "forged", "another's", "empty", "bad signature", "expired", "of another plan"],
)
def test_anything_else_ends_join_before_it_meets_anyone(
    folder: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(folder / "A.approval")
    with pytest.raises(ApprovalError):
        check(folder)
    local_file = ("--local", str(folder / "A.yaml"), "--out", str(folder / "out"))
    code = main(["join", str(folder / "plan.yaml"), *local_file])
    assert code == ApprovalError.exit_code == 26
    assert not (folder / "out" / "A" / "result.json").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "rows=10",
        "parties.sources.A.table=other.csv",
        "parties.sources.A.exclude=[x]",
        "parties.sources.A.encode={grade: [low, high]}",
        "parties.sources.A.policy.max_reveal=differences",
        "parties.sources.A.table={query: select 1, connection: 'env:DB'}",
    ],
)
def test_a_setting_on_the_command_line_is_not_approved(folder: Path, setting: str) -> None:
    with pytest.raises(ApprovalError, match="approves a different"):
        check(folder, setting)


@pytest.mark.parametrize(
    "setting",
    [
        "policy={}",
        "policy.approved_by=null",
        pytest.param(f"policy.approved_by={Identity.new()}", id="another"),
    ],
)
def test_no_setting_takes_the_rule_away(folder: Path, setting: str) -> None:
    with pytest.raises(PlanError, match="approved_by"):
        check(folder, f"parties.sources.A.{setting}")


def test_an_approval_is_used_up_by_runs_that_sent_something(folder: Path) -> None:
    plan = loaded(folder)
    assert approve(folder) == 0
    approval = check_approval(plan, "A")
    table = pd.DataFrame({"id": range(400), "x": range(400)})

    def run() -> Mapping[str, str]:
        def approved(role: Callable[..., Any], run: Run, frame: Any) -> Any:
            return role(replace(run, approval=approval), frame)

        return run_in_memory(plan, {"A": table, "B": table}, {"A": approved}).classes()

    assert run() == {}
    lines = len(Ledger(folder / "A.ledger").entries())
    assert run() == {"A": "ApprovalError", "B": "PeerFailed", "C": "PeerFailed"}  # and the others are told
    assert len(Ledger(folder / "A.ledger").entries()) == lines
    assert approve(folder) == 0
    approval = check_approval(plan, "A")
    assert run() == {}


def test_a_run_that_only_matched_ids_uses_up_an_approval(folder: Path) -> None:
    approval, ledger = check(folder), Ledger(folder / "A.ledger")
    assert approval is not None

    def of(number: int, kind: str) -> ChargedRun:
        losses = {"B": PartnerLoss(what=kind, loss=0.0, counted=False)}
        return ChargedRun(party="A", plan="ab", rows=9, columns=1, told=losses, id=str(number))

    ledger.start(of(1, "sizes"), approval)
    ledger.start(of(2, "common rows"), approval)
    ledger.charge(of(2, "strengths"), 4.0, approval)  # it is this run that has used it
    for again in (
        lambda: ledger.start(of(3, "sizes"), approval),
        lambda: ledger.charge(of(1, "strengths"), 4.0, approval),
        lambda: ledger.check("A", {}, 4.0, approval),
    ):
        with pytest.raises(ApprovalError, match="was for 1 run"):
            again()


def test_an_officer_sees_what_is_approved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("purpose=a study of costs", "parties.sources.A.exclude=[salary]", "reveal=strengths")
    assert approve(folder, *settings) == 0
    printed = capsys.readouterr().out.splitlines()
    for line in (
        "Purpose: a study of costs",
        "Level (reveal): strengths",
        f"Columns: all of {folder / 'insurer.csv'} but the id and salary, whose names are not sent",
        "B learns which of its own people are also in our table, even if the run stops later. "
        "C learns only how many.",
    ):
        assert line in printed
    assert any(line.startswith("passed on: to B strengths") for line in printed)
    assert printed[-1].endswith("party A may run this plan once, until 2999-12-31")
    assert approve(folder, key="none.key") == PlanError.exit_code
    assert "`mpc-spearman key FILE` makes such a key" in capsys.readouterr().err


def test_refused_approvals_say_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", str(folder / "officer.key")]) == OutputError.exit_code
    assert approve(folder, key="plan.yaml") == PlanError.exit_code  # others may read it, and it is no key
    assert main(["key", str(folder / "other.key")]) == 0
    assert approve(folder, key="other.key") == PlanError.exit_code
    assert "does not name this key" in capsys.readouterr().err
    party = f"parties.target.identity={Identity.read(folder / 'officer.key', 'key')}"
    assert approve(folder, party) == PlanError.exit_code
    assert "this is the key of party B" in capsys.readouterr().err
    assert approve(folder, until=str(date.today() - timedelta(days=2))) == PlanError.exit_code
    assert "--until" in capsys.readouterr().err
    for wrong in (("--until", "soon"), ("--runs", "0"), ("--runs", "10000000000")):
        with pytest.raises(SystemExit) as usage:
            approve(folder, *wrong)
        assert usage.value.code == 2
