"""Real roles in real processes, one of them at fault: how each ends, and what is left behind.

Every run writes into an empty directory, with a hook from faults.py in the faulty role's process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mpc_spearman.errors import (
    MpcSpearmanError,
    PeerDied,
    PeerFailed,
    PeerTimeout,
    RoleCrashed,
    TableError,
)
from mpc_spearman.launch import supervisor
from mpc_spearman.results.result import Result
from support.harness import fork_server, run_roles
from support.plans import LIGHT, plan
from support.processes import EVER
from support.references import normal_tables

#: ``network.timeout`` where a party is silent, seconds.
TIMEOUT = 4.0
#: Every phase that each role enters under MPC, in order; and those of common rows and of HE.
DATA_PHASES = (
    *("start", "load", "connect", "agree", "align", "rank", "describe", "multiply", "share", "reveal"),
    *("publish", "account"),
)
MPC_PHASES = {
    "A": DATA_PHASES,
    "B": DATA_PHASES,
    "C": ("start", "connect", "agree", "multiply", "describe", "reveal", "publish", "account"),
}
INTERSECT_PHASES = dict.fromkeys("ABC", ("intersect",))
HE_PHASES = {"A": ("keys", "encrypt"), "B": ("keys", "evaluate"), "C": ("keys", "decrypt")}
#: The cases of ``make test``; the others are long.
QUICK = {
    *(("kill", "A", "start"), ("kill", "C", "reveal"), ("kill", "C", "intersect"), ("kill", "B", "evaluate")),
    *(("refuse", "A", "rank"), ("freeze", "A", "rank")),
}


def _cases() -> Iterator[Any]:
    for phases, settings in (
        (MPC_PHASES, {}),
        (INTERSECT_PHASES, {"alignment": "intersect"}),
        (HE_PHASES, LIGHT),
    ):
        for act, (party, names) in product(("kill", "memory", "refuse", "freeze"), phases.items()):
            for phase in names:
                case = (act, party, phase)
                # A silent party is missed only while others wait for it, and any error is like another.
                late = act == "freeze" and phase in ("start", "load", "connect", "intersect")
                if not late and (act != "refuse" or case in QUICK):
                    yield pytest.param(*case, settings, marks=() if case in QUICK else pytest.mark.long)


@dataclass(frozen=True)
class Aftermath:
    """How a run ended: each role's outcome, the files and the processes that are left."""

    outcomes: Mapping[str, supervisor.Outcome]
    files: list[str]
    processes: set[int]
    staging: Path

    @property
    def error(self) -> MpcSpearmanError | None:
        """The error that the run as a whole fails with."""
        cause = supervisor.first_cause(self.outcomes)
        return None if cause is None else cause.error

    def assert_clean(self) -> None:
        assert self.files == []
        assert self.processes == set()

    def assert_all_ended_by_themselves(self) -> None:
        assert "stopped" not in {outcome.kind for outcome in self.outcomes.values()}, self.outcomes

    def errors_of_others(self, party: str) -> list[Any]:
        return [outcome.error for name, outcome in self.outcomes.items() if name != party]


def descendants() -> set[int]:
    """Return the processes that this one has started, and those that they have, and so on."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    processes, generation = set(), {os.getpid()}
    while generation:
        generation = {process for process, parent in parents.items() if parent in generation}
        processes |= generation
    return processes


TABLES = normal_tables()

RunWith = Callable[..., Aftermath]


@pytest.fixture
def run_with(tmp_path: Path) -> RunWith:
    """Return a function that runs with a fault: an act of `faults.ACTS` when a party enters a phase."""

    def run(
        act: str,
        party: str,
        phase: str,
        settings: Mapping[str, Any] = MappingProxyType({}),
        *,
        timeout: float = 60.0,
        **arguments: Any,
    ) -> Aftermath:
        staging = tmp_path / "out"
        staging.mkdir()
        run_plan = plan(**{"network": {"timeout": timeout}, **settings})
        fork_server().prepare(run_plan.protocol)
        before = descendants()
        fault = {"party": party, "phase": phase, "act": act, **arguments}
        outcomes = run_roles(run_plan, TABLES, staging, "faults:on_phase", fault)
        files = sorted(str(path.relative_to(staging)) for path in staging.rglob("*"))
        return Aftermath(outcomes, files, descendants() - before, staging)

    return run


# ---- a role that is gone, raises or freezes


@pytest.mark.parametrize(("act", "party", "phase", "settings"), list(_cases()))
def test_a_fault_in_every_phase(
    run_with: RunWith, act: str, party: str, phase: str, settings: dict[str, Any]
) -> None:
    after = run_with(act, party, phase, settings, timeout=TIMEOUT if act == "freeze" else 60.0)
    after.assert_clean()
    errors, outcome = after.errors_of_others(party), after.outcomes[party]
    kinds = {other.kind for name, other in after.outcomes.items() if name != party}
    assert kinds == {"raised"}
    if act == "freeze":
        assert {type(error) for error in (*errors, after.error)} == {PeerTimeout}
        assert {error.about[:2] for error in errors} == {("PeerTimeout", party)}
        # It cannot end by itself: the supervisor ends it, as soon as there is nobody else left to wait for.
        assert outcome.kind == "stopped"
        ends = [other.seconds for name, other in after.outcomes.items() if name != party]
        assert outcome.seconds - max(ends) < EVER / 2
        silent = f"{party} (source) sent nothing for {TIMEOUT:g} s, not even a keep-alive"
        if (party, phase) == ("A", "rank"):
            assert any(silent in str(error) for error in errors)
            lost = "reports a lost connection with party A (PeerTimeout)"
            assert all(silent in str(error) or lost in str(error) for error in errors)
            assert any("waiting for" in str(error) or "computing" in str(error) for error in errors)
        return
    after.assert_all_ended_by_themselves()
    if act == "kill":
        assert (outcome.kind, outcome.exit_code) == ("died", -9)
        assert {type(error) for error in errors} == {PeerDied}
        assert {error.about[:2] for error in errors} == {("PeerDied", party)}
        assert type(after.error) is RoleCrashed
        assert f"party {party} ended by signal SIGKILL in phase {phase}" in str(after.error)
        return
    raised = TableError if act == "refuse" else MpcSpearmanError
    assert type(after.error) is raised
    assert after.error is outcome.error
    assert outcome.exit_code == raised.exit_code
    text = "column 'salary' was refused" if act == "refuse" else "unexpected MemoryError"
    assert text in str(after.error)
    assert {type(error) for error in errors} == {PeerFailed}
    if phase in ("start", "connect"):  # before all have met
        return
    notice = f"party {party} stopped in phase {phase}: {raised.public} ({raised.__name__})"
    for error in errors:
        assert error.about == (raised.__name__, party, phase)
        assert notice in str(error)
        assert "salary" not in str(error)


@pytest.mark.long
def test_a_role_that_exits_without_an_error_has_crashed(run_with: RunWith) -> None:
    after = run_with("exit", "A", "rank")
    after.assert_clean()
    assert str(after.error).startswith("the process of party A ended with exit code 3 in phase rank")
    assert {type(error) for error in after.errors_of_others("A")} == {PeerDied}


def test_an_unexpected_error_names_its_place_and_no_value(run_with: RunWith) -> None:
    after = run_with("divide", "B", "multiply")
    text = str(after.error)
    assert text.startswith("party B stopped with an unexpected KeyError")
    assert "faults.py" in text
    assert "in _divide" in text
    assert "918273645" not in text


# ---- silence


@pytest.mark.parametrize(
    "act", ["sleep", *(pytest.param(act, marks=pytest.mark.long) for act in ("sort", "count"))]
)
def test_two_time_outs_of_computing_are_no_time_out(run_with: RunWith, act: str) -> None:
    after = run_with(act, "A", "rank", seconds=7.0, timeout=3.0)
    assert after.error is None
    assert after.processes == set()
    cost = Result.load(after.staging / "C").cost
    assert cost.query("phase == 'keep-alive'")["messages"].min() > 4


@pytest.mark.long
def test_a_call_that_blocks_all_threads_too_long_is_a_time_out(run_with: RunWith) -> None:
    # The keep-alives come from a thread. What holds the interpreter is silent; nothing in this package does.
    after = run_with("block", "A", "rank", seconds=3 * TIMEOUT, timeout=TIMEOUT)
    after.assert_clean()
    assert {type(error) for error in after.errors_of_others("A")} == {PeerTimeout}
