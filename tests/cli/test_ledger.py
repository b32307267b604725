"""The command `ledger`: what it shows, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.privacy.charges import Charge, Ended, Started, balances
from mpc_spearman.privacy.ledger import Ledger
from support.ledgers import charge, ended, make_run, with_two_runs
from support.members import Members
from support.plans import LIGHT, mapping


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return with_two_runs(tmp_path / "ledger")


def test_the_command_shows_runs_totals_column_meanings_and_forgets(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    before = ledger.path.read_bytes()
    assert main(["ledger", str(ledger.path)]) == 0
    history, totals, meaning = capsys.readouterr().out.split("\n\n")
    time = ledger.entries()[0].time
    lines = [line.split(maxsplit=7) for line in history.splitlines()]
    receivers = "B: strengths, loss 2; C: coefficients, exact; not counted"
    assert [word.strip() for word in lines[1]] == [time, *["0000"] * 4, "60", "4", receivers]
    assert len(lines) == 1 + 2
    assert [line.split() for line in totals.splitlines()[1:]] == [["B", "2", "4", "0", "0", time]]
    assert all(f"{name}: " in meaning for name in ("used", "of values", "without bound"))
    assert ledger.path.read_bytes() == before
    assert main(["ledger", str(ledger.path), "--forget", "B", "it [bold]deleted[/] both"]) == 0
    history, totals, _ = capsys.readouterr().out.split("\n\n")
    assert history.splitlines()[-1].rstrip().endswith("B: forgotten, it [bold]deleted[/] both")
    assert [line.split() for line in totals.splitlines()[1:]] == [["B", "0", "0", "0", "0"]]


def test_the_command_shows_use_of_the_limit_and_endings_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ledger = Ledger.begin(tmp_path / "ledger")
    for number in (1, 2):
        run = make_run(number).model_copy(update={"id": str(number), "name": "cluster", "limit": 4.0})
        ledger.start(run)
        charge(ledger, run)
    ledger.end(ended("2", taken_back=False))
    ledger.start(make_run(3).model_copy(update={"id": "3"}))
    assert main(["ledger", str(ledger.path)]) == 0
    history, totals, _ = capsys.readouterr().out.split("\n\n")
    first, second, third = history.splitlines()[1:]
    assert "cluster (0000 0000 0000 0000)" in first
    assert first.rstrip().endswith("B: strengths, loss 2; C: coefficients, exact; not counted")
    assert second.rstrip().endswith("not counted; ended by PeerDied of C in reveal")
    assert third.rstrip().endswith("no results yet: it is not charged, and still runs or was killed")
    assert totals.splitlines()[1].split()[:5] == ["B", "2", "4", "of", "4"]


def test_the_command_ends_with_the_documented_codes(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([str(tmp_path / "none")], [str(ledger.path), "--forget", "X", "why"]):
        assert main(["ledger", *arguments]) == 2
    ledger.path.chmod(0o644)
    assert main(["ledger", str(ledger.path)]) == 2
    ledger.path.chmod(0o600)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    assert main(["ledger", str(ledger.path)]) == 6
    assert "line 3 is cut short" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("id\n")  # which others may read
    assert main(["ledger", str(tmp_path / "a.csv")]) == 6
    with pytest.raises(SystemExit) as caught:
        main(["ledger", str(ledger.path), "--forget", "B"])
    assert caught.value.code == 2


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
