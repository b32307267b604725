"""Every fault at every role, early, midway and late: how the others end, and how soon.

Each party is a real ``mpc-spearman join``, over TLS. What is seen goes into docs/faults.md, if all of it ran.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.errors import ERRORS
from mpc_spearman.identity import Identity
from mpc_spearman.version import __version__
from support.harness import ROOT
from support.members import JOIN_TIMEOUT, TIMEOUT, Ending, Members, members
from support.processes import EVER, eventually
from support.relay import Relay

#: Beyond its deadline no party may last longer than this, seconds.
SLACK = 60.0
ROLES = {"A": "source", "B": "target", "C": "coordinator"}
NAMES = tuple(ROLES)
MIDDLE = {"A": "share", "B": "share", "C": "multiply"}
#: A party's first message, or one that is soon followed by another, one midway, and a late one.
MESSAGES = {
    "A": ("SHAPE", "MASKED", "COST"),
    "B": ("SHAPE", "MASKED", "COST"),
    "C": ("HELLO", "RESULT", "FAREWELL"),
}
VIOLATED = {"ProtocolViolation", "PeerFailed", "PeerDied"}
TABLE = ROOT / "docs" / "faults.md"


@dataclass(frozen=True)
class Case:
    """A fault, and what may come of it.

    Attributes
    ----------
    fault, party, when
        As the table names them.
    expected : set of str
        Classes that survivors may end with.
    some : str
        Class that at least one of them ends with.
    deadline : float
        Seconds after the fault by which survivors know, `SLACK` aside.
    act : str
        How it is brought about: a function below.
    arguments : mapping
        For it.
    quick : bool
        Whether it stands for its fault in ``make test``; test_faults.py has a kill, a freeze, altered
        messages and unequal plans there.
    """

    fault: str
    party: str
    when: str
    expected: set[str]
    act: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    some: str = ""
    deadline: float = 0.0
    quick: bool = False

    def __str__(self) -> str:
        return "-".join((self.fault, self.party, self.when)).replace(" ", "_")


@dataclass(frozen=True)
class Row:
    """What came of a case: per survivor its class, its exit code and the seconds until it had ended."""

    case: Case
    survivors: Mapping[str, tuple[str, int, float]]


def _gone(act: str, party: str) -> Iterator[Case]:
    lost = {"kill": "PeerDied", "freeze": "PeerTimeout"}[act]
    later = 0.0 if act == "kill" else TIMEOUT
    yield Case(act, party, "connect", {"PartyMissing"}, "at", {"phase": "connect"}, deadline=JOIN_TIMEOUT)
    case = (act, party, "connect, all joined", {"PartyMissing"}, "at", {"phase": "meeting"})
    yield Case(*case, deadline=JOIN_TIMEOUT)
    for phase in (MIDDLE[party], "account"):
        yield Case(act, party, phase, {lost}, "at", {"phase": phase}, deadline=later)


def _cases() -> Iterator[Case]:
    for act in ("kill", "freeze"):
        for party in NAMES:
            yield from _gone(act, party)
    for party in NAMES:
        for phase in ("agree", MIDDLE[party], "account"):
            quick = (party, phase) == ("B", "share")
            arguments = {"phase": phase}
            yield Case("cut", party, phase, {"PeerTimeout"}, "at", arguments, deadline=TIMEOUT, quick=quick)
    for party in NAMES:
        for kind in MESSAGES[party]:
            quick = (party, kind) == ("B", "MASKED")
            expected, some = VIOLATED, "ProtocolViolation"
            if party == "C":  # others may be done by then
                expected = VIOLATED | {"done"}
            if kind == "FAREWELL":
                some = "done"  # nobody reads on after the first one
            case = ("a message sent twice", party, kind, expected, "message", {"kind": kind})
            yield Case(*case, some=some, quick=quick)
    for party in NAMES:
        name = "a byte of TLS changed on the way"
        yield Case(name, party, "midway", VIOLATED, "on_the_way", some="ProtocolViolation")
    for phase in ("agree", "multiply", "account"):
        arguments, quick = {"phase": phase}, phase == "multiply"
        case = ("what C forwards is cut off", "C", phase, {"PeerDied", "done"}, "cut_off", arguments)
        yield Case(*case, some="PeerDied", quick=quick)
    for fault, error in IDENTITIES.items():
        for party in NAMES:
            case = (f"key: {fault}", party, "connect", {error, "done"}, "identity", {"fault": fault})
            yield Case(*case, some=error, quick=party == "B" and fault == "not in the others' plans")
    for party in "AB":
        case = ("its own table is refused", party, "load", {"TableError", "done"}, "cannot_start")
        yield Case(*case, some="TableError", quick=party == "A")
    for what, (parties, settings) in PLANS.items():
        for party in parties:
            case = (f"plan: {what}", party, "connect", {"PlanMismatch", "done"}, "differing", settings)
            yield Case(*case, some="PlanMismatch", quick=party == "C")
    for party in NAMES:
        case = ("killed and started again", party, "connect, all joined", {"done"}, "restarted")
        yield Case(*case, quick=party == "C")
    for party in "AB":
        expected = {"HandshakeError", "done"}
        case = ("two processes of a party", party, "connect", expected, "twice")
        yield Case(*case, some="HandshakeError", quick=party == "A")
    yield Case("two processes of a party", "C", "connect", {"done"}, "two_coordinators")
    for party in NAMES:
        case = ("never started", party, "connect", {"PartyMissing"}, "missing")
        yield Case(*case, deadline=JOIN_TIMEOUT, quick=party == "B")


#: Faults of a party's own key, and what whoever notices ends with.
IDENTITIES = {
    "another party's": "PlanError",
    "readable by others": "PlanError",
    "not in its own plan": "PlanError",
    "not in the others' plans": "UnknownKey",
}
#: What differs, and at whom.
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "estimator": ("ABC", {"estimator": "paper"}),
    "parties": ("A", {"fourth": True}),
}
CASES = list(_cases())
ROWS: list[Row] = []
NO_HOOK: tuple[None, dict[str, Any]] = (None, {})


def others(party: str) -> list[str]:
    return [name for name in NAMES if name != party]


# ---- how faults are brought about: each returns the survivors' endings, and when the fault began


def start_all(run: Members, party: str, hook: tuple[str, Mapping[str, Any]], **other: Any) -> None:
    for name in NAMES:
        run.start(name, hook if name == party else NO_HOOK, **(other if name == party else {}))


def at(run: Members, party: str, *, phase: str, act: str) -> tuple[dict[str, Ending], float]:
    start_all(run, party, ("at", {"phase": phase, "act": act}))
    fault = run.wait_for(f"{party}.fault")
    endings = run.wait(others(party))
    if act == "kill":
        assert run.wait([party])[party].error == "RoleCrashed"
    elif act == "freeze":  # it cannot end by itself: its owner ends it
        run.parties[party].process.send_signal(signal.SIGTERM)
        assert run.wait([party])[party].code == 143
    else:
        endings |= run.wait([party])  # a party that is cut off notices that as well
    return endings, fault


def message(run: Members, party: str, *, kind: str) -> tuple[dict[str, Ending], float]:
    start_all(run, party, ("message", {"kind": kind}))
    return run.wait(NAMES), run.wait_for(f"{party}.fault")


def on_the_way(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # What others send to a party goes through a relay. To the last source nobody connects: there it is what
    # that source sends to the target.
    relayed = "B" if party == "A" else party
    relay = Relay()
    parties = deepcopy(run.plan["parties"])
    if relayed == "C":
        run.plan["network"]["port"] = relay.port
        parties["coordinator"]["listen"] = f"127.0.0.1:{relay.behind}"
    else:
        parties["target"] |= {
            "listen": f"127.0.0.1:{relay.behind}",
            "advertise": f"127.0.0.1:{relay.port}",
        }
    start_all(run, relayed, ("connected", {}), parties=parties)
    run.wait_for(f"{relayed}.fault")
    relay.change.set()
    try:
        return run.wait(NAMES), relay.changed
    finally:
        relay.close()


def cut_off(run: Members, party: str, *, phase: str) -> tuple[dict[str, Ending], float]:
    # Between A and B; both keep their links with C, which goes on itself.
    start_all(run, party, ("cut_off", {"phase": phase}))
    return run.wait(NAMES), run.wait_for(f"{party}.fault")


def mended(run: Members, mistaken: str, error: str, **other: Any) -> tuple[dict[str, Ending], float]:
    """Let a party make a mistake, and who has ended of it come again: what it has then is right.

    Where it is the coordinator's plan that differs, it is the others who notice, and mend theirs.
    """
    for name in others(mistaken):
        run.start(name, NO_HOOK)
    if mistaken != "C":
        run.wait_for_port()  # then C hears of it, if who it is can be shown
    run.start(mistaken, NO_HOOK, **other)
    by_others = mistaken == "C" and error in ("PlanMismatch", "UnknownKey")
    ended = others("C") if by_others else [mistaken]
    endings = run.wait(ended)
    assert {endings[name].error for name in ended} == {error}, endings
    for name in ended:
        run.start(name, NO_HOOK, label=f"{name}2", **(other if by_others else {}))
    staying = [name for name in NAMES if name not in ended]
    endings |= run.wait([*staying, *(f"{name}2" for name in ended)])
    if mistaken != "C":
        said = " ".join((endings["C"].shown + endings["C"].printed).split())
        known = error not in ("PlanError", "UnknownKey")
        assert (f"{mistaken} left: {error} in" in said) == known
    return endings, met(run)


def identity(run: Members, party: str, *, fault: str) -> tuple[dict[str, Ending], float]:
    parties = deepcopy(run.plan["parties"])
    own = {"C": parties["coordinator"], "B": parties["target"], "A": parties["sources"][0]}[party]
    if fault == "another party's":
        own["key"] = own["key"].replace(f"{party}.key", f"{others(party)[0]}.key")
    else:
        new = Identity.new()
        own["key"] = str(run.folder / "new.key")
        (Identity.read(run.folder / f"{party}.key", "key") if "readable" in fault else new).write(
            Path(own["key"])
        )
        if fault == "readable by others":
            Path(own["key"]).chmod(0o644)
        if fault == "not in the others' plans":
            own["identity"] = str(new)
    return mended(run, party, IDENTITIES[fault], parties=parties)


def cannot_start(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    parties = deepcopy(run.plan["parties"])
    own = parties["target"] if party == "B" else parties["sources"][0]
    own["exclude"] = ["no such column"]
    return mended(run, party, "TableError", parties=parties)


def differing(run: Members, party: str, **changed: Any) -> tuple[dict[str, Ending], float]:
    other: dict[str, Any] = dict(changed)
    if "fourth" in changed:
        sources = [*run.plan["parties"]["sources"], {"name": "D", "identity": str(Identity.new())}]
        other = {"parties": {**run.plan["parties"], "sources": sources}}
    return mended(run, party, "PlanMismatch", **other)


def restarted(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    start_all(run, party, ("at", {"phase": "meeting", "act": "kill"}))
    fault = run.wait_for(f"{party}.fault")
    assert run.wait([party])[party].error == "RoleCrashed"
    run.start(party, NO_HOOK, label=f"{party}2")
    return run.wait([*others(party), f"{party}2"]), fault


def twice(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # All have joined when the second process comes, and one does not go on before that has failed.
    second, late = f"{party}2", next(name for name in "BA" if name != party)
    held = {"phase": "meeting", "act": "hold", "until": str(run.marks / f"{second}.failed")}
    run.plan["network"]["timeout"] = EVER
    start_all(run, late, ("at", held))
    run.wait_for(f"{late}.fault")
    run.start(party, NO_HOOK, label=second)
    return run.wait([*NAMES, second]), run.wait_for(f"{second}.failed")


def two_coordinators(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # The second finds the port taken, and the run is not disturbed.
    go = run.folder / "go"
    start_all(run, "B", ("at", {"phase": "connect", "act": "hold", "until": str(go)}))
    run.wait_for_port()
    run.start("C", NO_HOOK, label="C2")
    second = run.wait(["C2"])["C2"]
    assert second.error == "NetworkError"
    assert second.files == []
    go.touch()
    return run.wait(NAMES), time.monotonic()


def missing(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    for name in others(party):
        run.start(name, NO_HOOK)
    return run.wait(others(party)), 0.0


def met(run: Members) -> float:
    """When the last party came to the meeting, or found that it cannot."""
    came = []
    for name in NAMES:
        marks = (f"{name}.connect", f"{name}.failed")
        eventually(lambda marks=marks: any(run.marked(mark) for mark in marks))
        came.append(next(at for mark in marks if (at := run.marked(mark))))
    return max(came)


# ---- the matrix


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case.quick else pytest.mark.long, id=str(case)) for case in CASES]
)
def test_survivors(case: Case, tmp_path: Path) -> None:
    with members(tmp_path) as run:
        if case.deadline == JOIN_TIMEOUT:
            run.plan["network"]["join_timeout"] = JOIN_TIMEOUT
        arguments = dict(case.arguments)
        if case.act == "at":
            arguments["act"] = case.fault
        endings, fault = globals()[case.act](run, case.party, **arguments)
        assert run.processes() == []
    seconds = {
        label: ending.at - max(fault, run.marked(f"{label}.connect") or 0.0)
        for label, ending in endings.items()
    }
    told = {label: (ending.error, ending.status) for label, ending in endings.items()}
    for label, ending in endings.items():
        assert ending.error in case.expected, (label, ending.printed, told)
        if ending.error == "done":
            assert ending.code == 0
            continue
        assert ending.code == ending.status["exit_code"] == ERRORS[ending.error].exit_code
        assert ending.files == []
        assert seconds[label] < case.deadline + SLACK, (seconds, told)
        assert "Traceback" not in ending.printed
    if case.some:
        assert case.some in {ending.error for ending in endings.values()}, told
    ROWS.append(
        Row(case, {label: (end.error, end.code, max(0.0, seconds[label])) for label, end in endings.items()})
    )


@pytest.mark.long
def test_what_was_seen_is_written_down() -> None:
    assert [row.case for row in ROWS] == CASES, "only if all of it ran, here and in order"
    part = TABLE.with_suffix(".part")
    part.write_text(page(), encoding="utf-8")
    os.replace(part, TABLE)


INTRODUCTION = f"""\
# What happens when something goes wrong

Written by `make test-all` (tests/launch/test_fault_matrix.py), version {__version__}. Every party is a real
`mpc-spearman join` over TLS, with `network.timeout: {TIMEOUT:g}` and, where a party does not come,
`network.join_timeout: {JOIN_TIMEOUT:g}` (by default 60 and 600). A is the source, B the target, C the
coordinator, whose host forwards what passes between A and B (but where a byte is changed on the way to B). In
every run no process was left, and nobody who failed wrote anything but `status.json`.

Each cell says how that party ended: class of the error, exit code, and seconds until its command had
ended, after the fault or after it came to the meeting, whichever is later. The deadline is how long a party
may wait for such a fault; the tests assert that all ended within {SLACK:g} s more. The longest took
{{worst:.1f}} s; the most beyond a deadline was {{beyond:.1f}} s. A dash is the party at fault, which is gone,
frozen or never came. `PeerFailed`: another party found the fault and told this one. `done`: the fault came
too late to matter to it.

"""
HEADER = ("| Fault | At | Phase or message | Deadline (s) | A | B | C |", "|---|---|---|---|---|---|---|")


def page() -> str:
    """Write the table."""
    failed = [
        (row.case.deadline, end[2]) for row in ROWS for end in row.survivors.values() if end[0] != "done"
    ]
    worst = max(seconds for _, seconds in failed)
    beyond = max(seconds - deadline for deadline, seconds in failed)
    lines = [*INTRODUCTION.format(worst=worst, beyond=beyond).splitlines(), *HEADER]
    for row in ROWS:
        case = row.case
        cells = [_cell(row, name) for name in NAMES]
        first = [case.fault, f"{case.party} ({ROLES[case.party]})", case.when, f"{case.deadline:g}"]
        lines.append("| " + " | ".join([*first, *cells]) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, name: str) -> str:
    ends = [row.survivors[label] for label in (name, f"{name}2") if label in row.survivors]
    cells = ["done, 0" if error == "done" else f"{error} {code}, {s:.1f} s" for error, code, s in ends]
    return "; ".join(cells) or "–"
