"""Runs of several workers a party, each in a process: started by ``local``, or each by ``join``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpc_spearman import run_local
from mpc_spearman.errors import ERRORS
from mpc_spearman.parties import worker_name
from mpc_spearman.results.result import Result
from support.harness import ROOT, fork_server
from support.members import TIMEOUT, Members
from support.plans import everyone, mapping
from support.processes import EVER, eventually, free_port
from support.references import normal_tables

PROCESSES = [(party, shard) for party in "CBA" for shard in (0, 1)]


@contextmanager
def joining(folder: Path, **network: float) -> Iterator[Members]:
    """Set up a run of two workers a party, each on a host of its own of this machine."""
    with Members(folder) as run:
        run.plan["shards"] = 2
        run.plan["network"] |= {"address": "127.0.0.1{shard}", **network}
        for party in everyone(run.plan):
            party["workers"] = f"127.0.0.1:{free_port()}"
        yield run


def labels(*left_out: str) -> list[str]:
    every = (f"{party}-{shard}" if shard else party for party, shard in PROCESSES)
    return [label for label in every if label not in left_out]


def start(run: Members, *left_out: str) -> None:
    for party, shard in PROCESSES:
        if worker_name(party, shard) not in left_out:
            run.start(party, shard=shard)


def test_local_starts_all_workers_and_only_first_ones_write(tmp_path: Path) -> None:
    tables, seen = normal_tables(), set()
    alone, several = (
        run_local(
            mapping(shards=shards),
            tables,
            out=tmp_path / "out",
            server=fork_server(),
            watch=lambda party, phase, done, of: seen.add(party),
        )
        for shards in (1, 2)
    )
    assert several.coefficients.to_numpy().tobytes() == alone.coefficients.to_numpy().tobytes()
    assert seen == {"C", "C/1", "B", "B/1", "A", "A/1"}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["A", "B", "C"]


def test_join_starts_one_worker_and_only_first_ones_have_results(tmp_path: Path) -> None:
    with joining(tmp_path) as run:
        start(run)
        endings = run.wait(labels())
    assert {label: end.error for label, end in endings.items()} == dict.fromkeys(labels(), "done")
    for label, end in endings.items():
        assert end.status["party"] == label.replace("-", "/")
        assert end.status["result"] == ("none" if "-" in label else "here")
        assert (end.files == []) == ("-" in label)
    expected = run_local(
        mapping(results={"sources": "coefficients"}),
        {"A": ROOT / "data" / "insurer.csv", "B": ROOT / "data" / "clinic.csv"},
        server=fork_server(),
    )
    for party in "CBA":
        found = Result.load(tmp_path / "out" / party / party).coefficients
        assert found.to_numpy().tobytes() == expected.coefficients.to_numpy().tobytes()


@pytest.mark.parametrize(
    ("lost", "phase", "act"),
    [
        ("A/1", "multiply", "kill"),
        *(
            pytest.param(lost, phase, act, marks=pytest.mark.long)
            for lost in ("A", "A/1", "B/1", "C", "C/1")
            for phase in ("reveal" if lost in "AC" else "multiply", "account")
            for act in ("kill", "freeze", "cut")
            if (lost, phase, act) != ("A/1", "multiply", "kill")
        ),
    ],
)
def test_a_worker_that_is_lost_is_named_to_all(tmp_path: Path, lost: str, phase: str, act: str) -> None:
    own = lost.replace("/", "-")
    error = "PeerDied" if act == "kill" else "PeerTimeout"
    with joining(tmp_path, timeout=EVER if act == "kill" else TIMEOUT) as run:
        for party, shard in PROCESSES:
            its = worker_name(party, shard) == lost
            run.start(party, ("on_phase", {"phase": phase, "act": act}) if its else (None, {}), shard=shard)
        endings = run.wait(labels(own))
        if act == "freeze":
            run.parties[own].send_signal(signal.SIGTERM)
        last = run.wait([own])[own]
        eventually(lambda: run.processes() == [])
    assert last.error == {"kill": "RoleCrashed", "freeze": "SystemExit", "cut": "PeerTimeout"}[act]
    for end in endings.values():
        assert (end.error, end.code) == (error, ERRORS[error].exit_code), end.printed
        # Who is cut off from the other parties tells its own whom it has lost.
        assert lost in end.status["message"] or act == "cut"
        assert end.files == []


def test_a_worker_that_is_lost_while_another_party_is_waited_for_ends_the_wait(tmp_path: Path) -> None:
    with joining(tmp_path) as run:
        for shard in (0, 1):
            run.start("A", shard=shard)
        eventually(lambda: "waiting for C" in (tmp_path / "A.stderr").read_text())
        run.parties["A-1"].send_signal(signal.SIGKILL)
        end = run.wait(["A"])["A"]
    assert end.error == "PeerDied"
    assert "A/1" in end.status["message"]


@pytest.mark.long
def test_a_party_whose_table_is_refused_may_start_all_its_workers_again(tmp_path: Path) -> None:
    with joining(tmp_path) as run:
        start(run, "A")
        parties = run.plan["parties"]
        wrong = {**parties, "sources": [{**parties["sources"][0], "exclude": ["no such column"]}]}
        run.start("A", label="A-wrong", parties=wrong)
        first = run.wait(["A-wrong", "A-1"])
        run.start("A")
        run.start("A", shard=1, label="A-again")
        endings = run.wait([*labels("A-1"), "A-again"])
    assert [end.error for end in first.values()] == ["TableError", "PeerFailed"]
    assert {end.error for end in endings.values()} == {"done"}
    assert "A left: TableError in load; waiting for it again" in endings["C"].printed


@pytest.mark.long
def test_a_worker_that_never_joins_ends_all_by_name(tmp_path: Path) -> None:
    with joining(tmp_path, join_timeout=15.0) as run:
        start(run, "A/1")
        endings = run.wait(labels("A-1"))
        eventually(lambda: run.processes() == [])
    assert {end.error for end in endings.values()} == {"PartyMissing"}
    assert endings["A"].status["message"] == "A/1 (source) did not join within 15 s"
    assert not any(end.files for end in endings.values())
