"""What is in an owner's ledger, and when: before anything about its table leaves, and however a run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.config import Plan, load_plan
from mpc_spearman.config.wording import spoken
from mpc_spearman.errors import PolicyError
from mpc_spearman.parties import Party
from mpc_spearman.privacy.charges import Charge, Ended, Entry, Started, balances
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.protocols import roles
from mpc_spearman.protocols.charge import partner_losses
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.links import Links
from support.faults import with_links
from support.in_memory import run_in_memory
from support.plans import LIGHT, mapping, plan
from support.processes import EVER
from support.references import normal_tables

#: Messages about nobody's rows; those about which rows there are. All others are computed from columns, and
#: some of these tell of the rows of the run.
GREETINGS = {"HELLO", "CONFIRM", "ABORT"}
ROWS = {"SHAPE", "ALIGNMENT", "MATCHING_KEY", "OFFER", "PSEUDONYMS"}
TELLING = {"SHARE", "PADDED", "REPLICA", "ORDER", "CIPHERTEXT", "NOISE", "EVALUATED"}
NOISY = {"results": {"precision": "statistical"}}


def with_ledgers(folder: Path, content: dict[str, Any]) -> Plan:
    """Give each data party of a plan a new ledger in a folder, under its name."""
    for party in (content["parties"]["target"], *content["parties"]["sources"]):
        ledger = Ledger.begin(folder / party["name"])
        party["policy"] = {**party.get("policy", {}), "ledger": str(ledger.path)}
    return load_plan(content)


def entries(folder: Path, party: str = "A") -> list[Entry]:
    return Ledger(folder / party).entries()


@pytest.mark.parametrize(
    ("reveal", "more", "expected"),
    [
        ("coefficients", {}, {"C": (None, False), "B": (2.0, True), "A2": (0.0, False)}),
        (
            "strengths",
            {"results": {"sources": "ranking"}},
            {"C": (2.0, True), "B": (2.0, True), "A2": (2.0, True)},
        ),
        ("ranking", {"opened_to": "target"}, {"C": (0.0, False), "B": (2.0, True), "A2": (0.0, False)}),
        (
            "strengths",
            {"results": {"precision": "exact"}},
            {"C": (None, True), "B": (None, True), "A2": (0.0, False)},
        ),
        (
            "differences",
            {"results": {"target": "nothing"}},
            {"C": (None, False), "B": (0.0, False), "A2": (0.0, False)},
        ),
    ],
)
def test_every_partner_is_in_the_ledger_and_noisy_numbers_count(
    reveal: str, more: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    chosen = plan("A1", "A2", cautious=True, reveal=reveal, **more)
    losses = partner_losses(chosen, chosen.roster("A1"))
    assert {name: (loss.loss, loss.counted) for name, loss in losses.items()} == expected


def test_whoever_hears_of_noisy_vectors_counts_and_others_do_not() -> None:
    """With noise on inputs, statements about what is multiplied are noisy numbers of the rows of the run."""
    content = mapping("A1", "A2", cautious=True, reveal="strengths", results={"target": "nothing"})
    losses = partner_losses(load_plan(content), load_plan(content).roster("A1"))
    assert {name: loss.loss for name, loss in losses.items()} == {"C": 2.0, "B": 0.0, "A2": 0.0}
    content["parties"]["sources"][0]["noise"] = "inputs"
    losses = partner_losses(load_plan(content), load_plan(content).roster("A1"))
    assert losses["B"].what == "statements"
    assert losses["B"].counted
    assert {name: loss.loss for name, loss in losses.items() if loss.counted}.keys() >= {"B", "C"}


# ---- when


def linked(links: Callable[..., Links]) -> Callable[..., Any]:
    """Return a hook that runs a role with other links."""
    return partial(with_links, links=partial(links, abort_seconds=EVER))


class _Watched(Links):
    """Links that note what is in a party's ledger when a message is sent, and fail at a message received."""

    def __init__(
        self, ledger: Path, sent: list[tuple[str, set[str]]], fails: int, *arguments: Any, **more: Any
    ):
        super().__init__(*arguments, **more)
        self._ledger, self._seen, self._left = ledger, sent, fails

    def send(self, peer: Party, kind: Kind, values: Mapping[str, Any], **more: Any) -> bytes:
        self._seen.append((kind.name, {type(entry).__name__ for entry in Ledger(self._ledger).entries()}))
        return super().send(peer, kind, values, **more)

    def receive(self, peer: Party, kind: Kind, **more: Any) -> dict[str, Any]:
        self._left -= 1
        if self._left == 0:
            raise PolicyError("the run is ended here")
        return super().receive(peer, kind, **more)


@pytest.mark.parametrize(
    "settings",
    [
        {"reveal": "strengths", **NOISY},
        {"reveal": "coefficients", **NOISY},
        {"reveal": "strengths"},
        pytest.param({"reveal": "ranking", **NOISY}, marks=pytest.mark.long),
        {**LIGHT, "reveal": "strengths", **NOISY},
        {"reveal": "strengths", "alignment": "intersect", **NOISY},
        {"reveal": "strengths", "noise": "inputs", **NOISY},
    ],
    ids=["strengths", "coefficients", "exact", "ranking", "he", "intersect", "inputs"],
)
def test_the_ledger_holds_what_was_sent_wherever_a_run_ends(
    settings: Mapping[str, Any], tmp_path: Path
) -> None:
    """The other party ends the run at each message that it receives; both are watched.

    Nothing leaves before its line is there, and a charge is taken back exactly if nothing told of the rows.
    """
    exact = "results" not in settings
    telling = TELLING | ({"COLUMNS", "DESCRIPTION"} if exact else set())
    telling |= {"DESCRIPTION"} if settings["reveal"] == "coefficients" else set()
    back = set()
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        content = mapping(**{key: value for key, value in settings.items() if key != "noise"})
        if "noise" in settings:
            content["parties"]["sources"][0]["noise"] = settings["noise"]
        chosen = with_ledgers(folder, content)
        sent: dict[str, list[tuple[str, set[str]]]] = {"A": [], "B": []}
        hooks = {
            party: linked(partial(_Watched, folder / party, sent[party], number * (party == "B")))
            for party in sent
        }
        ended = run_in_memory(chosen, normal_tables(), hooks)
        for party, seen in sent.items():
            for kind, in_ledger in seen:
                assert kind in GREETINGS or "Started" in in_ledger, (number, kind)
                assert kind in GREETINGS | ROWS or "Charge" in in_ledger, (number, kind)
            lines = entries(folder, party)
            kinds = {type(entry).__name__ for entry in lines}
            ends = [entry for entry in lines if isinstance(entry, Ended)]
            assert len(ends) == ("Started" in kinds and party in ended.errors)
            noisy_statements = {"COLUMNS"} if party == "A" and "noise" in settings else set()
            told_rows = bool((telling | noisy_statements) & {kind for kind, _ in seen})
            assert [entry.taken_back for entry in ends] == ["Charge" in kinds and not told_rows] * len(ends)
            back |= {entry.taken_back for entry in ends}
        if not ended.errors:
            break
    assert not ended.errors  # a run that is ended at no message
    assert back == {True, False} or exact


# ---- what a partner reads for nothing


PEOPLE, CHOSEN = 400, 40


def reads(folder: Path, flags: list[bool]) -> tuple[list[int], list[Entry]]:
    """Return what a partner that ends every run after A's first statement has heard, and A's ledger.

    In each run it matches one person of interest, of whom everything but a flag is known, and others without.
    """
    chosen = with_ledgers(folder, mapping(cautious=True, reveal="strengths", alignment="intersect"))
    table = pd.DataFrame({"id": range(PEOPLE), "flag": 0, "visits": np.arange(PEOPLE) % 7})
    table.loc[range(len(flags)), "flag"] = np.array(flags, dtype=int)
    table.loc[PEOPLE - CHOSEN, "flag"] = 1  # somebody who is never chosen
    heard: list[int] = []

    class Ending(Links):
        def receive(self, peer: Party, kind: Kind, **more: Any) -> dict[str, Any]:
            values = super().receive(peer, kind, **more)
            if kind is Kind.COLUMNS and peer.name == "A":
                heard.append(int(values["defined"][0]))
                raise PolicyError("the plan is not allowed after all")
            return values

    for person in range(len(flags)):
        rows = [person, *range(PEOPLE - CHOSEN + 1, PEOPLE)]
        its_rows = pd.DataFrame({"id": rows, "x": np.arange(CHOSEN), "y": np.arange(CHOSEN)[::-1]})
        run_in_memory(chosen, {"A": table, "B": its_rows}, {"B": linked(Ending)})
    return heard, entries(folder)


def test_a_partner_that_ends_runs_reads_nothing_that_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [True, False, True, True, False]
    heard, lines = reads(tmp_path, flags)
    charged = sum(isinstance(entry, Charge) for entry in lines)
    assert len(set(heard)) < 2 or len(heard) <= charged
    assert all(entry.row <= 4 for entry in balances(lines))

    old = tmp_path / "old"  # the order of steps that it was: statements first
    old.mkdir()
    align, charge, describe = roles.align, roles.charge, roles.describe

    def late(run: Any, table: Any, *more: Any) -> None:
        for source in run.roster.sessions:
            align(run, table, source)
        charge(run, table)
        describe(run, table, *more)

    monkeypatch.setattr(roles, "align", lambda run, table, source: None)
    monkeypatch.setattr(roles, "charge", lambda run, table: None)
    monkeypatch.setattr(roles, "describe", late)
    heard, lines = reads(old, flags)
    if len(set(heard)) > 1:  # what was stated told of the rows used
        assert [count == 2 for count in heard] == flags
    assert len(heard) == len(flags)
    assert not any(isinstance(entry, Charge) for entry in lines)


# ---- runs that end before they are charged


def test_a_run_that_ends_after_matching_has_a_line_saying_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    content = mapping(cautious=True, alignment="intersect", purpose="a study of costs")
    chosen = with_ledgers(tmp_path, content)

    class Ending(Links):
        def receive(self, peer: Party, kind: Kind, **more: Any) -> dict[str, Any]:
            values = super().receive(peer, kind, **more)
            if kind is Kind.SHAPE:
                raise PolicyError("too few")
            return values

    tables = {party: table.assign(id=range(40)) for party, table in normal_tables().items()}
    tables["A"]["id"] += 5
    run_in_memory(chosen, tables, {"B": linked(Ending)}, plan_name="cluster")
    start, end = entries(tmp_path)
    assert isinstance(start, Started)
    assert isinstance(end, Ended)
    assert {name: entry.what for name, entry in start.started.told.items()} == {
        "B": "common rows",
        "C": "sizes",
    }
    assert (start.started.rows, end.rows, end.error, end.party) == (40, 35, "PolicyError", "B")
    assert balances([start, end]) == []
    assert main(["ledger", str(tmp_path / "A")]) == 0
    row = " ".join(capsys.readouterr().out.splitlines()[1].split())
    assert f"cluster: a study of costs ({spoken(chosen.digest())[:19]}) 40 2 B learnt which 35 of our" in row
    assert "no results: it ended before it was charged; ended by PolicyError of B in agree" in row


def test_what_an_owner_can_know_alone_is_refused_before_it_charges(tmp_path: Path) -> None:
    content = mapping(cautious=True, reveal="strengths")
    chosen = with_ledgers(tmp_path, content)
    for party in (chosen.parties.target, *chosen.parties.sources):
        policy = party.policy.model_copy(update={"max_reveal": ("strengths",)})
        chosen = chosen.with_party(party.model_copy(update={"policy": policy}))
    tables = normal_tables(60)
    tables["A"]["b"] = 7
    ended = run_in_memory(chosen, tables)
    assert ended.classes() == {"A": "PolicyError", "B": "PeerFailed", "C": "PeerFailed"}
    assert "min_columns: 2 or more source columns" in str(ended.errors["A"])
    assert [type(entry).__name__ for entry in entries(tmp_path)] == ["Started", "Ended"]
