"""Every fault at every role, early, midway and late: how the others end, and how soon.

Each party is a real ``mpc-spearman join``, over TLS. Once all cases have run, at once or in parts, their
summary goes into docs/faults.md.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from mpc_spearman.config import approval, load_plan
from mpc_spearman.errors import ERRORS
from mpc_spearman.files import write_whole
from mpc_spearman.identity import Identity
from mpc_spearman.version import __version__
from support.harness import ROOT
from support.members import JOIN_TIMEOUT, TIMEOUT, Ending, Members
from support.plans import everyone
from support.processes import EVER, eventually
from support.relay import Relay

#: Beyond its deadline no party may last longer than this, seconds.
SLACK = 60.0
#: ``network.message_timeout`` where a party is there and sends nothing more.
MESSAGE_TIMEOUT = 8.0
NAMES = "ABC"
MIDDLE = {"A": "share", "B": "share", "C": "multiply"}
#: A party's first message, or one that is soon followed by another, one midway, and a late one.
MESSAGES = dict.fromkeys("AB", ("SHAPE", "MASKED", "COST")) | {"C": ("HELLO", "RESULT", "FAREWELL")}
VIOLATED = {"ProtocolViolation", "PeerFailed", "PeerDied"}
PAGE = ROOT / "docs" / "faults.md"
HEADER = """\
| fault | at | phase or message | runs | how parties ended | deadline (s) | longest (s) |
|---|---|---|---:|---|---:|---:|
"""

#: How parties ended, and when the fault began.
Aftermath = tuple[dict[str, Ending], float]


def all_but(party: str) -> list[str]:
    return [name for name in NAMES if name != party]


def with_copy(run: Members, party: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy of the plan's parties, and in it the entry of one of them, to be changed."""
    parties = deepcopy(run.plan["parties"])
    return parties, next(entry for entry in everyone({"parties": parties}) if entry["name"] == party)


# ---- how faults are brought about


def start_all(run: Members, party: str, hook: str, settings: Any = None, **arguments: Any) -> None:
    """Start all parties, one of them with a hook and other settings."""
    for name in NAMES:
        if name == party:
            run.start(name, (hook, arguments), **(settings or {}))
        else:
            run.start(name)


def in_phase(run: Members, party: str, act: str, phase: str) -> Aftermath:
    if act == "hold":
        run.plan["network"]["message_timeout"] = MESSAGE_TIMEOUT
    start_all(run, party, "on_phase", phase=phase, act=act, until="/none")
    fault, endings = run.wait_for(f"{party}.fault"), run.wait(all_but(party))
    if act == "kill":
        assert run.wait([party])[party].error == "RoleCrashed"
    elif act in ("freeze", "hold"):  # it cannot end by itself: its owner ends it
        run.parties[party].send_signal(signal.SIGTERM)
        assert run.wait([party])[party].code == 143
    else:
        endings |= run.wait([party])  # a party that is cut off notices that as well
    return endings, fault


def hooked(run: Members, party: str, hook: str, **arguments: str) -> Aftermath:
    start_all(run, party, hook, **arguments)
    return run.wait(NAMES), run.wait_for(f"{party}.fault")


def change_on_the_way(run: Members, party: str) -> Aftermath:
    """Change a byte of what a relay passes to a party; of A, to whom nobody connects, what it sends to B."""
    receiver = "B" if party == "A" else party
    relay, parties, go = Relay(), deepcopy(run.plan["parties"]), run.folder / "go"
    if receiver == "C":
        run.plan["network"]["port"] = relay.port
        parties["coordinator"]["listen"] = f"127.0.0.1:{relay.behind}"
    else:
        parties["target"] |= {"listen": f"127.0.0.1:{relay.behind}", "advertise": f"127.0.0.1:{relay.port}"}
    start_all(run, receiver, "on_phase", {"parties": parties}, phase="agree", act="hold", until=str(go))
    with closing(relay):
        run.wait_for(f"{receiver}.fault")
        relay.change.set()
        go.touch()
        return run.wait(NAMES), relay.changed


def correct(
    run: Members, party: str, error: str, correction: Callable[[], object] = lambda: None, **mistake: Any
) -> Aftermath:
    """Start a party with a mistake in its settings; each party that ends then comes again without it.

    If the coordinator's plan differs, the others notice, and correct theirs.
    """
    for name in all_but(party):
        run.start(name)
    if party != "C":
        run.wait_for_port()  # so that C is told of the error, if the party can prove who it is
    run.start(party, **mistake)
    by_others = party == "C" and error in ("PlanMismatch", "UnknownKey")
    mistaken = all_but("C") if by_others else [party]
    endings = run.wait(mistaken)
    assert {endings[name].error for name in mistaken} == {error}, endings
    correction()
    for name in mistaken:
        run.start(name, label=f"{name}2", **(mistake if by_others else {}))
    endings |= run.wait([f"{name}2" if name in mistaken else name for name in NAMES])
    if party != "C":
        printed = " ".join((endings["C"].shown + endings["C"].printed).split())
        assert (f"{party} left: {error} in" in printed) == (error in ("PlanMismatch", "TableError"))
    return endings, time_of_meeting(run)


def wrong_key(run: Members, party: str, fault: str) -> Aftermath:
    parties, entry = with_copy(run, party)
    new, file = Identity.new(), run.folder / "new.key"
    if fault == "another party's":
        entry["key"] = entry["key"].replace(f"{party}.key", f"{all_but(party)[0]}.key")
    elif fault == "without a line in its plan":
        del entry["identity"]
    elif fault == "missing":
        entry["key"] = str(run.folder / "nowhere.key")
    else:
        entry["key"] = str(file)
        new.write(file)
    if fault == "readable by others":
        copyfile(run.folder / f"{party}.key", file)
        file.chmod(0o644)
    if fault == "not in the others' plans":
        entry["identity"] = str(new)
        return correct(run, party, "UnknownKey", parties=parties)
    return correct(run, party, "PlanError", parties=parties)


def without_approval(run: Members, party: str, fault: str) -> Aftermath:
    officer, file = Identity.new(), run.folder / f"{party}.approval"
    run.plan["parties"], entry = with_copy(run, party)
    entry["policy"] = {**entry["policy"], "approved_by": str(officer)}
    (run.folder / "plan.yaml").write_text(json.dumps(run.plan))

    def approve(*settings: str, until: date = date(2999, 12, 31)) -> None:
        tables = {party: run.tables[party]}
        plan = load_plan(run.folder / "plan.yaml", settings, tables)
        approval.approve(plan, party, officer, until, runs=1)

    if fault == "forged":
        approve()
        file.write_bytes(file.read_bytes().replace(b'"runs":1', b'"runs":9'))
    elif fault == "expired":
        approve(until=date(2020, 1, 31))
    elif fault == "of another plan":
        approve("estimator=paper")
    elif fault == "used up":
        approve()
        for name in NAMES:
            run.start(name, label=f"{name}1")
        assert {end.error for end in run.wait([f"{name}1" for name in NAMES]).values()} == {"done"}
        for name in NAMES:
            run.start(name)
        return run.wait(NAMES), time_of_meeting(run)
    return correct(run, party, "ApprovalError", approve)


def refused_table(run: Members, party: str) -> Aftermath:
    parties, entry = with_copy(run, party)
    entry["exclude"] = ["no such column"]
    return correct(run, party, "TableError", parties=parties)


def differing_plan(run: Members, party: str, key: str) -> Aftermath:
    sources = [*run.plan["parties"]["sources"], {"name": "D", "identity": str(Identity.new())}]
    values = {"estimator": "paper", "parties": {**run.plan["parties"], "sources": sources}}
    return correct(run, party, "PlanMismatch", **{key: values[key]})


def restart(run: Members, party: str) -> Aftermath:
    start_all(run, party, "on_phase", phase="meeting", act="kill")
    fault = run.wait_for(f"{party}.fault")
    assert run.wait([party])[party].error == "RoleCrashed"
    run.start(party, label=f"{party}2")
    return run.wait([*all_but(party), f"{party}2"]), fault


def second_process(run: Members, party: str) -> Aftermath:
    # All have joined when the second process comes, and one does not go on before that has failed.
    second, waiting = f"{party}2", next(name for name in "BA" if name != party)
    until = str(run.marks / f"{second}.failed")
    start_all(run, waiting, "on_phase", phase="meeting", act="hold", until=until)
    run.wait_for(f"{waiting}.fault")
    run.start(party, label=second)
    return run.wait([*NAMES, second]), run.wait_for(f"{second}.failed")


def second_coordinator(run: Members, party: str) -> Aftermath:
    # The second finds the port taken, and the run is not disturbed.
    go = run.folder / "go"
    start_all(run, "B", "on_phase", phase="connect", act="hold", until=str(go))
    run.wait_for_port()
    run.start("C", label="C2")
    second = run.wait(["C2"])["C2"]
    assert (second.error, second.files) == ("NetworkError", [])
    go.touch()
    return run.wait(NAMES), time.monotonic()


def never_start(run: Members, party: str) -> Aftermath:
    for name in all_but(party):
        run.start(name)
    return run.wait(all_but(party)), 0.0


def time_of_meeting(run: Members) -> float:
    """Return when the last party came to the meeting, or found that it cannot."""
    times = []
    for name in NAMES:
        marks = (f"{name}.connect", f"{name}.failed", f"{name}2.connect")
        eventually(lambda marks=marks: any(run.marked(mark) for mark in marks))
        times.append(next(moment for mark in marks if (moment := run.marked(mark))))
    return max(times)


# ---- the cases


@dataclass(frozen=True)
class Case:
    """A fault, the classes that survivors may end with, and what brings it about: a function above.

    At least one of the survivors ends with `some`. `when` is a phase or a message.
    """

    fault: str
    party: str
    when: str
    expected: set[str]
    act: Callable[[Members, str], Aftermath]
    some: str = ""

    def __str__(self) -> str:
        return "-".join((self.fault, self.party, self.when)).replace(" ", "_")

    @property
    def deadline(self) -> float:
        """Seconds within which all know of the fault, `SLACK` aside."""
        if "PartyMissing" in self.expected:
            return JOIN_TIMEOUT
        if "PeerTimeout" in self.expected:
            return MESSAGE_TIMEOUT if self.fault == SILENT else TIMEOUT
        return 0.0


SILENT = "there, but sends nothing more"
#: Cases that stand for their faults in ``make test``, where test_faults.py has a kill and a freeze.
QUICK = {
    "a_message_sent_twice-B-MASKED",
    "killed_and_started_again-C-connect,_all_joined",
    "what_C_forwards_is_cut_off-C-multiply",
    "key:_not_in_the_others'_plans-B-connect",
    "its_own_table_is_refused-A-load",
}


def _of_a_party(party: str) -> Iterator[Case]:
    for act, lost in (("kill", "PeerDied"), ("freeze", "PeerTimeout")):
        for when, phase in (("connect", "connect"), ("connect, all joined", "meeting")):
            yield Case(act, party, when, {"PartyMissing"}, partial(in_phase, act=act, phase=phase))
        for phase in (MIDDLE[party], "account"):
            yield Case(act, party, phase, {lost}, partial(in_phase, act=act, phase=phase))
    for phase in ("agree", MIDDLE[party], "account"):
        yield Case("cut", party, phase, {"PeerTimeout"}, partial(in_phase, act="cut", phase=phase))
    for kind in MESSAGES[party]:
        expected = VIOLATED | ({"done"} if party == "C" else set())  # others may be done by then
        if kind == "HELLO":  # all have not met yet, so the others wait for the party that ends
            expected |= {"PartyMissing"}
        some = "done" if kind == "FAREWELL" else "ProtocolViolation"  # nobody reads on after the first one
        act_twice = partial(hooked, hook="message", kind=kind)
        yield Case("a message sent twice", party, kind, expected, act_twice, some)
    # What C forwards is altered outside of the TLS of A and B, who then see that it ends.
    some = "ProtocolViolation" if party != "C" else ""
    yield Case("a byte of TLS changed on the way", party, "midway", VIOLATED, change_on_the_way, some)
    yield Case("killed and started again", party, "connect, all joined", {"done"}, restart)
    yield Case("never started", party, "connect", {"PartyMissing"}, never_start)


def _cases() -> Iterator[Case]:
    for party in NAMES:
        yield from _of_a_party(party)
    yield Case(SILENT, "C", "multiply", {"PeerTimeout"}, partial(in_phase, act="hold", phase="multiply"))
    for phase in ("agree", "multiply", "account"):  # A and B keep their links with C, which goes on itself
        cut_off = partial(hooked, hook="cut_off", phase=phase)
        yield Case("what C forwards is cut off", "C", phase, {"PeerDied", "done"}, cut_off, "PeerDied")
    # Mistakes, after which the party comes again.
    mistakes: list[tuple[str, str, str, str, Callable[[Members, str], Aftermath]]] = []
    for fault in ("missing", "without a line in its plan", "another party's", "readable by others"):
        mistakes.append((f"key: {fault}", NAMES, "connect", "PlanError", partial(wrong_key, fault=fault)))
    for fault, error in (("not in its own plan", "PlanError"), ("not in the others' plans", "UnknownKey")):
        mistakes.append((f"key: {fault}", NAMES, "connect", error, partial(wrong_key, fault=fault)))
    for fault in ("missing", "forged", "expired", "of another plan"):
        act = partial(without_approval, fault=fault)
        mistakes.append((f"approval: {fault}", "AB", "start", "ApprovalError", act))
    mistakes += [
        ("its own table is refused", "AB", "load", "TableError", refused_table),
        ("plan: estimator", NAMES, "connect", "PlanMismatch", partial(differing_plan, key="estimator")),
        ("plan: parties", "A", "connect", "PlanMismatch", partial(differing_plan, key="parties")),
        ("two processes of a party", "AB", "connect", "HandshakeError", second_process),
    ]
    for name, parties, when, error, act in mistakes:
        for party in parties:
            yield Case(name, party, when, {error, "done"}, act, error)
    for party in "AB":  # its ledger knows; it tells the others, who need not wait
        used_up, either = partial(without_approval, fault="used up"), {"ApprovalError", "PeerFailed"}
        yield Case("approval: used up", party, "start", either, used_up, "ApprovalError")
    yield Case("two processes of a party", "C", "connect", {"done"}, second_coordinator)


CASES = list(_cases())


# ---- the matrix


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if str(case) in QUICK else pytest.mark.long, id=str(case))
        for case in CASES
    ],
)
def test_how_the_survivors_of_a_fault_end(case: Case, tmp_path: Path, cache: pytest.Cache) -> None:
    with Members(tmp_path) as run:
        run.plan["network"]["timeout"] = TIMEOUT if case.fault in ("freeze", "cut") else EVER
        if case.deadline == JOIN_TIMEOUT:
            run.plan["network"]["join_timeout"] = JOIN_TIMEOUT
        endings, fault = case.act(run, case.party)
        eventually(lambda: run.processes() == [], 30.0, "the end of all processes")
    statuses = {label: (ending.error, ending.status) for label, ending in endings.items()}
    summary = {}
    for label, ending in endings.items():
        seconds = ending.at - max(fault, run.marked(f"{label}.connect") or 0.0)
        summary[label] = (ending.error, ending.code, max(0.0, seconds))
        assert ending.error in case.expected, (label, ending.printed, statuses)
        if ending.error == "done":
            assert ending.code == 0
            continue
        assert ending.code == ending.status["exit_code"] == ERRORS[ending.error].exit_code
        assert ending.files == []
        assert seconds < case.deadline + SLACK, (seconds, statuses)
        assert "Traceback" not in ending.printed
    if case.some:
        assert case.some in {ending.error for ending in endings.values()}, statuses
    cache.set(f"faults/{case}", summary)  # so that not all has to run in one go


@pytest.mark.long
def test_the_summary_of_all_cases_is_written_into_the_page(cache: pytest.Cache) -> None:
    def rows() -> list[tuple[Case, dict[str, Any]]]:
        return [(case, cache.get(f"faults/{case}", {})) for case in CASES]

    # The last cases may still run beside this test.
    eventually(lambda: all(summary for _, summary in rows()), 120.0, "some case")
    before, mark, page_end = PAGE.read_text(encoding="utf-8").partition("<!-- made by: make test-all -->\n")
    after = page_end[page_end.index("<!-- end of what is made -->") :]
    write_whole(PAGE, (before + mark + table(rows()) + after).encode())
    for case in CASES:
        cache.set(f"faults/{case}", {})


def table(rows: list[tuple[Case, dict[str, Any]]]) -> str:
    """Return the summary: one line for each fault and deadline."""
    groups: dict[tuple[str, float], list[tuple[Case, dict[str, Any]]]] = {}
    for case, summary in rows:
        groups.setdefault((case.fault, case.deadline), []).append((case, summary))
    lines, beyond = [], 0.0
    for (fault, deadline), group in groups.items():
        parties = ", ".join(dict.fromkeys(case.party for case, _ in group))
        when = "; ".join(dict.fromkeys(case.when for case, _ in group))
        endings = [ending for _, summary in group for ending in summary.values()]
        counts = Counter(error if error == "done" else f"{error} {code}" for error, code, _ in endings)
        classes = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        longest = max((seconds for error, _, seconds in endings if error != "done"), default=0.0)
        beyond = max(beyond, longest - deadline)
        cells = f"{fault} | {parties} | {when} | {len(group)} | {classes} | {deadline:g} | {longest:.1f}"
        lines.append(f"| {cells} |\n")
    summary = f"{len(rows)} runs; nobody took more than {beyond:.1f} s beyond the deadline"
    return f"Version {__version__}, {date.today()}, {summary}:\n\n{HEADER}{''.join(lines)}"
