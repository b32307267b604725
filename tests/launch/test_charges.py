"""What ledgers say of a run that real processes began and did not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.privacy.charges import Charge, Ended, Started, balances
from mpc_spearman.privacy.ledger import Ledger
from support.members import Members
from support.plans import LIGHT, mapping


def test_a_killed_process_stays_charged_and_others_are_refunded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    plan = mapping(**LIGHT, reveal="strengths", results={"precision": "statistical"}, purpose="a trial")
    with Members(tmp_path, plan) as run:
        run.start("A", ("on_phase", {"phase": "encrypt", "act": "kill"}))
        for name in "CB":
            run.start(name)
        endings = run.wait("CBA")
    assert {name: end.error for name, end in endings.items()} == {
        "C": "PeerDied", "B": "PeerDied", "A": "RoleCrashed"
    }  # fmt: skip
    ledgers = {name: Ledger(tmp_path / f"{name}.ledger") for name in "AB"}
    killed, informed = (ledgers[name].entries() for name in "AB")
    assert [type(entry) for entry in killed] == [Started, Charge]
    assert [type(entry) for entry in informed] == [Started, Charge, Ended]
    assert {tuple(balance.names): balance.row for balance in balances(killed)} == {("C",): 2.0, ("B",): 2.0}
    assert balances(informed) == []
    assert main(["ledger", str(ledgers["B"].path)]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert "B: a trial (" in row  # the plan's file, and its purpose
    assert "no results: taken back, because it ended before any of our results left" in row
    assert "; ended by PeerDied of A in " in row
