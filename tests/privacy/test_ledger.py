"""What an owner's ledger counts: for every partner, by name or key, until it is forgotten."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import OutputError, PlanError, PolicyError
from mpc_spearman.privacy.charges import Charge, Forgotten, PartnerLoss, balances
from mpc_spearman.privacy.ledger import Ledger
from support.ledgers import charge, ended, make_run, with_two_runs


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return with_two_runs(tmp_path / "ledger")


# ---- made and added to


def test_the_ledger_is_private_and_gets_a_line_for_every_run(tmp_path: Path) -> None:
    old, run = os.umask(0), make_run(3, 0.1 + 0.2)
    try:
        ledger = Ledger.begin(tmp_path / "ledger")
        charge(ledger, run)
    finally:
        os.umask(old)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    (entry,) = ledger.entries()
    assert entry == Charge(time=entry.time, run=run)
    before = ledger.path.read_bytes()
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(1))
    assert ledger.path.read_bytes().startswith(before)
    assert len(ledger.path.read_text().splitlines()) == 1 + 3


def test_a_refused_run_leaves_the_ledger_as_it_was_under_every_name(ledger: Ledger, tmp_path: Path) -> None:
    before, link = ledger.path.read_bytes(), tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(ledger.path)
    for refuse in (
        lambda: ledger.charge(make_run(3), 5.0),
        lambda: ledger.check("A", make_run(3).told, 5.0),
        lambda: Ledger(link).charge(make_run(3), 5.0),
    ):
        with pytest.raises(PolicyError, match=r"'B' has used 4 in 2 runs.*agree on privacy\.loss 1 or less"):
            refuse()
    assert [path.name for path in link.parent.iterdir()] == ["link"]
    assert ledger.path.read_bytes() == before
    assert charge(ledger, make_run(1, 1.0), 5.0) == []


def test_no_run_begins_a_ledger_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for use in (
        ledger.entries,
        lambda: ledger.check("A", make_run().told, 4.0),
        lambda: charge(ledger, make_run()),
        lambda: ledger.forget("B", "deleted"),
    ):
        with pytest.raises(PlanError, match=r"does not exist.*restore it.*mpc-spearman ledger --begin /"):
            use()
    assert list(tmp_path.iterdir()) == []
    assert main(["ledger", "--begin", str(ledger.path)]) == 0
    ledger.check("A", make_run().told, 4.0)
    with pytest.raises(PolicyError, match="has used nothing yet"):
        ledger.check("A", make_run().told, 1.0)
    charge(ledger, make_run())
    before = ledger.path.read_bytes()
    assert main(["ledger", "--begin", str(ledger.path)]) == OutputError.exit_code
    assert "exists and is not replaced" in capsys.readouterr().err
    assert ledger.path.read_bytes() == before


# ---- who is one partner, and what counts


def test_a_partner_is_one_by_its_name_or_its_key(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    assert charge(ledger, make_run(1, identity="k1")) == []
    (new,) = charge(ledger, make_run(2, D=PartnerLoss(what="ranking", loss=1.0, identity="k2")))
    assert new.startswith("'D' is new")
    changed, together = charge(ledger, make_run(3, 1.0, identity="k2"))  # B's name with D's key: both are one
    assert changed.startswith("'B' has another key")
    assert together == "'B' and 'D' (one partner, by name or key): their sums are added up"
    (balance,) = balances(ledger.entries())
    assert (balance.names, balance.row, balance.runs) == ({"B", "D"}, 6.0, 4)


def test_the_name_of_one_line_and_key_of_another_add_up(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    charge(ledger, make_run(1, 2.0, identity="k1"))
    charge(ledger, make_run(2, None, D=PartnerLoss(what="ranking", loss=3.0, identity="k2")))
    before = ledger.path.read_bytes()
    with pytest.raises(PolicyError, match=r"'B' and 'D' \(one partner, by name or key\) has used 5 in"):
        charge(ledger, make_run(3, 2.0, identity="k2"), 4.0)
    assert ledger.path.read_bytes() == before
    # Two names in one run that turn out to be one partner: both losses count.
    run = make_run(4, 1.5, identity="k3", D=PartnerLoss(what="ranking", loss=1.5, identity="k3"))
    with pytest.raises(PolicyError, match="this run would add 3"):
        charge(ledger, run, 7.0)


def test_a_charge_that_is_taken_back_does_not_count_and_stays_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ledger = Ledger.begin(tmp_path / "ledger")
    for number in (1, 2, 3):
        run = make_run(number).model_copy(update={"id": str(number)})
        ledger.start(run)
        charge(ledger, run, 4.0)
        if number == 2:
            ledger.end(ended("2", taken_back=True))
    (balance,) = balances(ledger.entries())
    assert (balance.row, balance.runs) == (4.0, 2)
    with pytest.raises(PolicyError, match="has used 4 in 2 runs"):
        charge(ledger, make_run(4), 4.0)
    assert main(["ledger", str(ledger.path)]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert (
        "no results: taken back, because it ended before any of our results left; ended by PeerDied of C"
        in line
    )


def test_exact_runs_values_and_the_coordinators_copy_are_not_in_the_sum(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    charge(ledger, make_run(1, None))
    charge(ledger, make_run(2, B=PartnerLoss(what="coefficients", loss=4.0, unit="value")))
    charge(ledger, make_run(3, C=PartnerLoss(what="strengths", loss=2.0)))
    b, c = balances(ledger.entries())
    assert (b.row, b.value, b.exact, b.runs) == (2.0, 4.0, 1, 3)
    assert (c.names, c.row, c.runs) == ({"C"}, 2.0, 1)


def test_a_ledger_of_version_0_2_is_kept_listed_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, key = Ledger(tmp_path / "ledger"), "0123456789abcdef"
    entry = {"time": "2026-01-02T03:04:05Z", "approval": "", "run": {"plan": "ab" * 32, "own": {"n": 50},
             "columns": [{}], "peers": {"B": {"grant": "strengths"}, "C": {"grant": "nothing"}}}}  # fmt: skip
    check = hashlib.sha256((key + canonical(entry)).encode()).hexdigest()[:16]
    old = "\n".join([canonical({"ledger": 1, "key": key}), canonical({"check": check, "entry": entry}), ""])
    ledger.path.touch(0o600)
    ledger.path.write_text(old)
    charge(ledger, make_run(2), 2.0)
    assert ledger.path.read_text().startswith(old)
    assert [type(entry) for entry in ledger.entries()] == [Charge, Charge]
    assert balances(ledger.entries())[0].row == 2.0
    assert main(["ledger", str(ledger.path)]) == 0
    assert "of 0.2" in capsys.readouterr().out


def test_forgetting_a_partner_keeps_the_lines_and_the_reason(ledger: Ledger) -> None:
    with pytest.raises(PolicyError):
        charge(ledger, make_run(3), 4.0)
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(3), 4.0)
    entries = ledger.entries()
    assert [type(entry) for entry in entries] == [Charge, Charge, Forgotten, Charge]
    assert entries[2] == Forgotten(time=entries[2].time, partner="B", reason="it deleted both results")


@pytest.mark.parametrize(
    ("partner", "reason", "says"),
    [
        ("b", "deleted", r"no counted run revealed anything to 'b'; did you mean 'B'\?"),
        ("\x1b[2J", "deleted", r"no counted run revealed anything to '\\x1b\[2J'; partners: B"),
        *(("B", reason, "the reason for forgetting a partner is needed") for reason in (" ", "two\nlines")),
    ],
)
def test_forgetting_needs_a_partner_and_a_reason(
    partner: str, reason: str, says: str, ledger: Ledger
) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(PlanError, match=says):
        ledger.forget(partner, reason)
    assert ledger.path.read_bytes() == before
