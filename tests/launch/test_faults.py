"""Real roles in real processes, with one of them at fault: who ends how, and what is left behind.

Every run here writes into an empty directory, with a hook from faults.py in the roles' processes. `Aftermath`
holds everything to check afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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

#: ``network.timeout`` where somebody is silent, seconds.
TIMEOUT = 4.0
#: Every phase that each role enters, in order.
DATA_PHASES = (
    *("start", "load", "connect", "agree", "align", "rank", "describe", "multiply", "share", "reveal"),
    *("publish", "account"),
)
PHASES = {
    "A": DATA_PHASES,
    "B": DATA_PHASES,
    "C": ("start", "connect", "agree", "multiply", "describe", "reveal", "publish", "account"),
}
MATRIX = [(party, phase) for party, phases in PHASES.items() for phase in phases]


@dataclass(frozen=True)
class Aftermath:
    """What came of a run."""

    outcomes: Mapping[str, supervisor.Outcome]
    entered: Mapping[tuple[str, str], float]
    files: list[str]
    processes: set[int]
    staging: Path

    @property
    def error(self) -> MpcSpearmanError | None:
        """What the run as a whole fails with."""
        cause = supervisor.first_cause(self.outcomes)
        return None if cause is None else cause.error

    def assert_clean(self) -> None:
        assert self.files == []
        assert self.processes == set()

    def assert_ended_by_themselves(self) -> None:
        """Nobody had to be ended: those who are left have noticed that a party is gone."""
        assert "stopped" not in {outcome.kind for outcome in self.outcomes.values()}, self.outcomes

    def others(self, party: str) -> list[str]:
        return [name for name in self.outcomes if name != party]

    def error_of(self, party: str) -> Any:
        return self.outcomes[party].error

    def classes(self) -> dict[str, str]:
        return {party: type(outcome.error).__name__ for party, outcome in self.outcomes.items()}


def descendants() -> set[int]:
    """Find the processes that this one has started, and those that they have, and so on."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, more = set(), {os.getpid()}
    while more:
        more = {process for process, parent in parents.items() if parent in more}
        found |= more
    return found


TABLES = normal_tables()

RunWith = Callable[..., Aftermath]


@pytest.fixture
def run_with(tmp_path: Path) -> RunWith:
    def run(
        hook: str, *, timeout: float = 60.0, settings: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Aftermath:
        entered: dict[tuple[str, str], float] = {}
        began = time.monotonic()
        staging = tmp_path / "out"
        staging.mkdir()
        its = plan(**{"network": {"timeout": timeout}, **(settings or {})})
        fork_server().prepare(its.protocol)
        before = descendants()
        roles = run_roles(
            its,
            TABLES,
            staging,
            f"faults:{hook}",
            arguments,
            watch=lambda party, phase, *_: entered.setdefault((party, phase), time.monotonic() - began),
        )
        files = sorted(str(path.relative_to(staging)) for path in staging.rglob("*"))
        return Aftermath(roles.outcomes, entered, files, descendants() - before, staging)

    return run


# ---- a role that is gone


def check_killed(after: Aftermath, party: str, phase: str) -> None:
    after.assert_clean()
    after.assert_ended_by_themselves()
    assert after.outcomes[party].kind == "died"
    assert after.outcomes[party].exit_code == -9
    for other in after.others(party):
        assert after.outcomes[other].kind == "raised"
        assert type(after.error_of(other)) is PeerDied, after.classes()
        assert after.error_of(other).about[:2] == ("PeerDied", party)
        assert after.outcomes[other].exit_code == PeerDied.exit_code
    assert type(after.error) is RoleCrashed
    assert f"party {party} ended by signal SIGKILL in phase {phase}" in str(after.error)


@pytest.mark.parametrize(
    ("party", "phase"),
    [
        pytest.param(*entry, marks=() if entry in (("A", "start"), ("C", "reveal")) else pytest.mark.long)
        for entry in MATRIX
    ],
)
def test_killed_in_every_phase(run_with: RunWith, party: str, phase: str) -> None:
    check_killed(run_with("on_phase", party=party, phase=phase, act="kill"), party, phase)


@pytest.mark.parametrize(
    "party", ["C", *(pytest.param(party, marks=pytest.mark.long) for party in ("A", "B"))]
)
def test_killed_while_common_rows_are_found(run_with: RunWith, party: str) -> None:
    intersected = {"alignment": "intersect"}
    after = run_with("on_phase", party=party, phase="intersect", act="kill", settings=intersected)
    check_killed(after, party, "intersect")


@pytest.mark.parametrize(
    ("party", "phase"),
    [
        ("B", "evaluate"),
        *(
            pytest.param(party, phase, marks=pytest.mark.long)
            for party, own in {"A": ("keys", "encrypt"), "B": ("keys",), "C": ("keys", "decrypt")}.items()
            for phase in own
        ),
    ],
)
@pytest.mark.parametrize("act", ["kill", pytest.param("memory", marks=pytest.mark.long)])
def test_faults_in_phases_of_homomorphic_encryption(
    run_with: RunWith, party: str, phase: str, act: str
) -> None:
    after = run_with("on_phase", settings=LIGHT, party=party, phase=phase, act=act)
    if act == "kill":
        check_killed(after, party, phase)
    else:
        check_raised(after, party, phase, MpcSpearmanError)


@pytest.mark.long
def test_ended_without_a_word(run_with: RunWith) -> None:
    after = run_with("on_phase", party="A", phase="rank", act="exit")
    after.assert_clean()
    assert str(after.error).startswith("the process of party A ended with exit code 3 in phase rank")
    assert after.classes() == {"A": "RoleCrashed", "B": "PeerDied", "C": "PeerDied"}


# ---- a role that raises


def check_raised(after: Aftermath, party: str, phase: str, error: type[MpcSpearmanError]) -> None:
    after.assert_clean()
    after.assert_ended_by_themselves()
    assert type(after.error) is error
    assert after.error is after.error_of(party)
    assert after.outcomes[party].exit_code == error.exit_code
    for other in after.others(party):
        assert type(after.error_of(other)) is PeerFailed, after.classes()
        assert after.error_of(other).about == (error.__name__, party, phase)
        text = str(after.error_of(other))
        assert f"party {party} stopped in phase {phase}: {error.public} ({error.__name__})" in text
        assert "salary" not in text
        assert after.outcomes[other].exit_code == PeerFailed.exit_code


def test_an_error_stays_with_its_party_and_ends_all(run_with: RunWith) -> None:
    after = run_with("on_phase", party="A", phase="rank", act="refuse")
    check_raised(after, "A", "rank", TableError)
    assert str(after.error) == "column 'salary' was refused"


def test_an_unexpected_error_names_its_place_and_no_value(run_with: RunWith) -> None:
    after = run_with("on_phase", party="B", phase="multiply", act="divide")
    check_raised(after, "B", "multiply", MpcSpearmanError)
    text = str(after.error)
    assert text.startswith("party B stopped with an unexpected KeyError")
    assert "faults.py" in text
    assert "in _divide" in text
    assert "918273645" not in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("party", "phase"), [entry for entry in MATRIX if entry[1] not in ("start", "connect")]
)
def test_raising_in_every_phase(run_with: RunWith, party: str, phase: str) -> None:
    after = run_with("on_phase", party=party, phase=phase, act="memory")
    check_raised(after, party, phase, MpcSpearmanError)
    assert "unexpected MemoryError" in str(after.error)


@pytest.mark.long
@pytest.mark.parametrize("party", PHASES)
@pytest.mark.parametrize("phase", ["start", "connect"])
def test_raising_before_all_have_met(run_with: RunWith, party: str, phase: str) -> None:
    after = run_with("on_phase", party=party, phase=phase, act="memory")
    after.assert_clean()
    after.assert_ended_by_themselves()
    assert "unexpected MemoryError" in str(after.error)
    assert {type(after.error_of(other)) for other in after.others(party)} == {PeerFailed}


# ---- silence


@pytest.mark.parametrize(
    "act", ["sleep", *(pytest.param(act, marks=pytest.mark.long) for act in ("sort", "count"))]
)
def test_two_time_outs_of_computing_are_no_time_out(run_with: RunWith, act: str) -> None:
    after = run_with("on_phase", party="A", phase="rank", act=act, seconds=7.0, timeout=3.0)
    assert after.error is None
    assert after.processes == set()
    cost = Result.load(after.staging / "C").cost
    assert cost.query("phase == 'keep-alive'")["messages"].min() > 4


@pytest.mark.long
def test_a_call_that_blocks_all_threads_too_long_is_a_time_out(run_with: RunWith) -> None:
    # The keep-alives come from a thread. What holds the interpreter is silent; nothing in this package does.
    after = run_with("on_phase", party="A", phase="rank", act="block", seconds=3 * TIMEOUT, timeout=TIMEOUT)
    after.assert_clean()
    assert {type(after.error_of(party)) for party in "BC"} == {PeerTimeout}


def check_stopped(after: Aftermath, party: str) -> None:
    after.assert_clean()
    for other in after.others(party):
        assert after.outcomes[other].kind == "raised"
        assert type(after.error_of(other)) is PeerTimeout, after.classes()
        assert after.error_of(other).about[:2] == ("PeerTimeout", party)
    assert type(after.error) is PeerTimeout
    # It cannot end by itself: the supervisor ends it, as soon as there is nobody else left to wait for.
    assert after.outcomes[party].kind == "stopped"
    last = max(after.outcomes[other].seconds for other in after.others(party))
    assert after.outcomes[party].seconds - last < EVER / 2


def test_a_stopped_role_fails_at_the_deadline(run_with: RunWith) -> None:
    after = run_with("on_phase", party="A", phase="rank", act="freeze", timeout=TIMEOUT)
    check_stopped(after, "A")
    text = f"A (source) sent nothing for {TIMEOUT:g} s, not even a keep-alive"
    told = [str(after.error_of(party)) for party in "BC"]
    assert any(text in error for error in told)
    assert all(
        text in error or "reports a lost connection with party A (PeerTimeout)" in error for error in told
    )
    assert any("waiting for" in error or "computing" in error for error in told)


@pytest.mark.long
@pytest.mark.parametrize(
    ("party", "phase"), [entry for entry in MATRIX if entry[1] not in ("start", "load", "connect")]
)
def test_stopped_in_every_phase(run_with: RunWith, party: str, phase: str) -> None:
    check_stopped(run_with("on_phase", party=party, phase=phase, act="freeze", timeout=TIMEOUT), party)
