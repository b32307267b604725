"""Entries of owners' ledgers, as if runs had made them."""

from __future__ import annotations

from pathlib import Path

from mpc_spearman.privacy.charges import ChargedRun, Ended, PartnerLoss
from mpc_spearman.privacy.ledger import Ledger, now


def make_run(
    plan: int = 1, loss: float | None = 2.0, identity: str = "", **partners: PartnerLoss
) -> ChargedRun:
    exact = PartnerLoss(what="coefficients", loss=None, counted=False)
    receivers = {"B": PartnerLoss(what="strengths", loss=loss, identity=identity), "C": exact, **partners}
    return ChargedRun(party="A", plan=f"{plan:064x}", rows=60, columns=4, told=receivers)


def charge(ledger: Ledger, run: ChargedRun, lifetime: float = 6.0) -> list[str]:
    return ledger.charge(run, lifetime)


def ended(run: str, *, taken_back: bool) -> Ended:
    return Ended(time=now(), ended=run, error="PeerDied", party="C", phase="reveal", taken_back=taken_back)


def with_two_runs(path: Path) -> Ledger:
    """Make a ledger of two runs, of different plans."""
    ledger = Ledger.begin(path)
    charge(ledger, make_run(1))
    charge(ledger, make_run(2))
    return ledger
