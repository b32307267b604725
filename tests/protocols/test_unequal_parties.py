"""Parties with different plans or versions, or tables that do not match: all notice before any data moves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.config import load_plan
from mpc_spearman.errors import PeerFailed, PolicyError
from mpc_spearman.protocols import connect
from mpc_spearman.run import Run
from support import faults
from support.in_memory import Ended, run_in_memory
from support.plans import plan
from support.references import normal_tables

TABLES = normal_tables()
SOURCE, TARGET = TABLES["A"], TABLES["B"]
PARTIES = "ABC"


def all_end_as(ended: Ended, error: str, said: str = "") -> None:
    """All with that error; whoever finds it first says this, and others may have heard of it by then."""
    assert not ended.results
    assert ended.classes() == dict.fromkeys(PARTIES, error)
    assert any(said in str(one) for one in ended.errors.values())


def test_parties_of_unequal_plans_share_no_key() -> None:
    """The meeting has compared plans: this is for parties to whom it has shown different ones."""
    other = plan(privacy={"loss": 1})
    usual = plan(privacy={"loss": 2})
    all_end_as(
        run_in_memory({"C": usual, "B": usual, "A": other}, TABLES), "HandshakeError", "plans or versions"
    )


def test_parties_of_unequal_versions_share_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(("1.0.0", "1.0.0", "1.0.1"))
    monkeypatch.setattr(connect, "__version__", SimpleNamespace(encode=lambda: next(versions).encode()))
    all_end_as(run_in_memory(plan(), TABLES), "HandshakeError", "plans or versions")


@pytest.mark.parametrize(
    ("kind", "altered"),
    [
        ("HELLO", {"nonce": bytes(32)}),
        ("HELLO", {"public_key": X25519PrivateKey.generate().public_key().public_bytes_raw()}),
        ("CONFIRM", {"mac": bytes(32)}),
    ],
    ids=["nonce", "public key", "confirmation"],
)
def test_keys_that_parties_do_not_share_are_refused_before_use(kind: str, altered: dict[str, bytes]) -> None:
    """What a party has said arrives altered: as from another run, or with a key in the middle."""
    hook = partial(faults.on_values, kind=kind, change=lambda values: {**values, **altered})
    all_end_as(run_in_memory(plan(), TABLES, {"A": hook}), "HandshakeError", "derived different keys")


@pytest.mark.parametrize(
    "source",
    [
        SOURCE.assign(id=[*SOURCE["id"][:-1], "q"]),
        SOURCE.iloc[::-1],
        SOURCE.assign(id=SOURCE["id"].where(SOURCE["id"] != "0007", "007")),
    ],
    ids=["another id", "another order", "written otherwise"],
)
def test_same_number_but_not_the_same_rows(source: pd.DataFrame) -> None:
    entered: set[str] = set()
    watch = {"C": partial(faults.on_progress, watch=entered.add)}
    ended = run_in_memory(plan(), {"A": source, "B": TARGET}, watch)
    all_end_as(ended, "AlignmentError", "40 rows each, but not the same ids in the same order")
    assert "reveal" not in entered


# ---- rules


def test_a_policy_only_its_own_party_knows_of() -> None:
    """Set in its process, which whoever started it does not know."""

    def stricter(role: Any, run: Run, frame: Any) -> Any:
        policy = ["parties.sources.A.policy.max_reveal=strengths"]
        return role(replace(run, plan=load_plan(run.plan.model_dump(mode="json"), policy)), frame)

    ended = run_in_memory(plan(), TABLES, {"A": stricter})
    assert not ended.results
    assert type(ended.errors["A"]) is PolicyError
    assert "party A does not allow this plan: its policy.max_reveal" in str(ended.errors["A"])
    for other in "BC":  # are told the error's class and place, and no more
        assert type(ended.errors[other]) is PeerFailed
        assert ended.errors[other].about == ("PolicyError", "A", "load")
