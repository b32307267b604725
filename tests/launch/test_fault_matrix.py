"""Every fault at every role, early, midway and late: how the others end, and how soon.

Each party is a real ``mpc-spearman join``, over TLS. Once all cases have run, at once or in parts, their
summary goes into docs/faults.md.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Case:
    """A fault, the classes that survivors may end with, and what brings it about: a function below.

    At least one of the survivors ends with `some`. A `quick` one stands for its fault in ``make test``, where
    test_faults.py has a kill and a freeze.
    """

    fault: str
    party: str
    when: str
    expected: set[str]
    act: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    some: str = ""
    quick: bool = False

    def __str__(self) -> str:
        return "-".join((self.fault, self.party, self.when)).replace(" ", "_")

    @property
    def deadline(self) -> float:
        """Seconds within which all know of the fault, `SLACK` aside."""
        if "PartyMissing" in self.expected:
            return JOIN_TIMEOUT
        if "PeerTimeout" in self.expected:
            return MESSAGE_TIMEOUT if self.act == "hold" else TIMEOUT
        return 0.0


#: Faults of a party's own key; of the last one the others know.
IDENTITIES = (
    *("missing", "without a line in its plan", "another party's", "readable by others"),
    *("not in its own plan", "not in the others' plans"),
)


def _of_a_party(party: str) -> Iterator[Case]:
    for act, lost in (("kill", "PeerDied"), ("freeze", "PeerTimeout")):
        yield Case(act, party, "connect", {"PartyMissing"}, act, {"phase": "connect"})
        yield Case(act, party, "connect, all joined", {"PartyMissing"}, act, {"phase": "meeting"})
        for phase in (MIDDLE[party], "account"):
            yield Case(act, party, phase, {lost}, act, {"phase": phase})
    for phase in ("agree", MIDDLE[party], "account"):
        case = ("cut", party, phase, {"PeerTimeout"}, "cut", {"phase": phase})
        yield Case(*case, quick=(party, phase) == ("B", "share"))
    for kind in MESSAGES[party]:
        expected = VIOLATED | ({"done"} if party == "C" else set())  # others may be done by then
        if kind == "HELLO":  # all have not met yet, so the others wait for who ends
            expected |= {"PartyMissing"}
        some = "done" if kind == "FAREWELL" else "ProtocolViolation"  # nobody reads on after the first one
        case = ("a message sent twice", party, kind, expected, "message", {"kind": kind})
        yield Case(*case, some, quick=(party, kind) == ("B", "MASKED"))
    # What C forwards is altered outside of the TLS of A and B, who then see that it ends.
    some = "ProtocolViolation" if party != "C" else ""
    yield Case("a byte of TLS changed on the way", party, "midway", VIOLATED, "on_the_way", some=some)
    case = ("killed and started again", party, "connect, all joined", {"done"}, "restarted")
    yield Case(*case, quick=party == "C")
    yield Case("never started", party, "connect", {"PartyMissing"}, "missing", quick=party == "B")


def _mistake(
    name: str, parties: str, when: str, error: str, act: str, quick: str = "", **arguments: Any
) -> Iterator[Case]:
    """Parties make it, end, and come again."""
    for party in parties:
        yield Case(name, party, when, {error, "done"}, act, arguments, error, party == quick)


def _cases() -> Iterator[Case]:
    for party in NAMES:
        yield from _of_a_party(party)
    case = ("there, but sends nothing more", "C", "multiply", {"PeerTimeout"}, "hold")
    yield Case(*case, {"phase": "multiply"})
    for phase in ("agree", "multiply", "account"):
        case = ("what C forwards is cut off", "C", phase, {"PeerDied", "done"}, "cut_off", {"phase": phase})
        yield Case(*case, "PeerDied", phase == "multiply")
    for fault in IDENTITIES:
        error, quick = ("UnknownKey", "B") if fault == IDENTITIES[-1] else ("PlanError", "")
        yield from _mistake(f"key: {fault}", NAMES, "connect", error, "identity", quick, fault=fault)
    for fault in ("missing", "forged", "expired", "of another plan"):
        case = (f"approval: {fault}", "AB", "start", "ApprovalError", "unapproved")
        yield from _mistake(*case, quick="A" if fault == "missing" else "", fault=fault)
    for party in "AB":  # its ledger knows; it tells the others, who need not wait
        case = ("approval: used up", party, "start", {"ApprovalError", "PeerFailed"}, "unapproved")
        yield Case(*case, {"fault": "used up"}, "ApprovalError")
    yield from _mistake("its own table is refused", "AB", "load", "TableError", "cannot_start", "A")
    for what, parties in (("estimator", NAMES), ("parties", "A")):
        yield from _mistake(f"plan: {what}", parties, "connect", "PlanMismatch", "differing", "C", what=what)
    yield from _mistake("two processes of a party", "AB", "connect", "HandshakeError", "twice", "A")
    yield Case("two processes of a party", "C", "connect", {"done"}, "two_coordinators")


CASES = list(_cases())


def others(party: str) -> list[str]:
    return [name for name in NAMES if name != party]


def parties_and(run: Members, party: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copy the plan's parties; return them, and one of them, to be changed."""
    parties = deepcopy(run.plan["parties"])
    return parties, {"C": parties["coordinator"], "B": parties["target"], "A": parties["sources"][0]}[party]


# ---- how faults are brought about: each returns the survivors' endings, and when the fault began


def start_all(run: Members, party: str, hook: tuple[str, Mapping[str, Any]], **other: Any) -> None:
    for name in NAMES:
        run.start(name, *((hook,) if name == party else ()), **(other if name == party else {}))


def at(run: Members, party: str, act: str, *, phase: str) -> tuple[dict[str, Ending], float]:
    if act == "hold":
        run.plan["network"]["message_timeout"] = MESSAGE_TIMEOUT
    start_all(run, party, ("on_phase", {"phase": phase, "act": act, "until": "/none"}))
    fault, endings = run.wait_for(f"{party}.fault"), run.wait(others(party))
    if act == "kill":
        assert run.wait([party])[party].error == "RoleCrashed"
    elif act in ("freeze", "hold"):  # it cannot end by itself: its owner ends it
        run.parties[party].send_signal(signal.SIGTERM)
        assert run.wait([party])[party].code == 143
    else:
        endings |= run.wait([party])  # a party that is cut off notices that as well
    return endings, fault


kill, freeze, cut, hold = (partial(at, act=act) for act in ("kill", "freeze", "cut", "hold"))


def hooked(run: Members, party: str, hook: str, **arguments: str) -> tuple[dict[str, Ending], float]:
    start_all(run, party, (hook, arguments))
    return run.wait(NAMES), run.wait_for(f"{party}.fault")


# Of what is cut off between A and B: both keep their links with C, which goes on itself.
message, cut_off = (partial(hooked, hook=hook) for hook in ("message", "cut_off"))


def on_the_way(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # What others send to a party goes through a relay; of A, to whom nobody connects, what it sends to B.
    relayed = "B" if party == "A" else party
    relay, parties = Relay(), deepcopy(run.plan["parties"])
    if relayed == "C":
        run.plan["network"]["port"] = relay.port
        parties["coordinator"]["listen"] = f"127.0.0.1:{relay.behind}"
    else:
        parties["target"] |= {"listen": f"127.0.0.1:{relay.behind}", "advertise": f"127.0.0.1:{relay.port}"}
    go = run.folder / "go"
    start_all(
        run, relayed, ("on_phase", {"phase": "agree", "act": "hold", "until": str(go)}), parties=parties
    )
    with closing(relay):
        run.wait_for(f"{relayed}.fault")
        relay.change.set()
        go.touch()
        return run.wait(NAMES), relay.changed


def mended(
    run: Members, mistaken: str, error: str, mend: Callable[[], object] = lambda: None, **other: Any
) -> tuple[dict[str, Ending], float]:
    """Let a party make a mistake, and who has ended of it come again: what it has then is right.

    Where it is the coordinator's plan that differs, it is the others who notice, and mend theirs.
    """
    for name in others(mistaken):
        run.start(name)
    if mistaken != "C":
        run.wait_for_port()  # then C hears of it, if who it is can be shown
    run.start(mistaken, **other)
    by_others = mistaken == "C" and error in ("PlanMismatch", "UnknownKey")
    ended = others("C") if by_others else [mistaken]
    endings = run.wait(ended)
    assert {endings[name].error for name in ended} == {error}, endings
    mend()
    for name in ended:
        run.start(name, label=f"{name}2", **(other if by_others else {}))
    endings |= run.wait([f"{name}2" if name in ended else name for name in NAMES])
    if mistaken != "C":
        said = " ".join((endings["C"].shown + endings["C"].printed).split())
        assert (f"{mistaken} left: {error} in" in said) == (error in ("PlanMismatch", "TableError"))
    return endings, met(run)


def identity(run: Members, party: str, *, fault: str) -> tuple[dict[str, Ending], float]:
    parties, own = parties_and(run, party)
    if fault == "another party's":
        own["key"] = own["key"].replace(f"{party}.key", f"{others(party)[0]}.key")
    elif fault == "without a line in its plan":
        del own["identity"]
    elif fault == "missing":
        own["key"] = str(run.folder / "nowhere.key")
    else:
        new, file = Identity.new(), run.folder / "new.key"
        own["key"] = str(file)
        if fault == "readable by others":
            copyfile(run.folder / f"{party}.key", file)
            file.chmod(0o644)
        else:
            new.write(file)
        if fault == IDENTITIES[-1]:
            own["identity"] = str(new)
    return mended(run, party, "UnknownKey" if fault == IDENTITIES[-1] else "PlanError", parties=parties)


def unapproved(run: Members, party: str, *, fault: str) -> tuple[dict[str, Ending], float]:
    officer, file = Identity.new(), run.folder / f"{party}.approval"
    run.plan["parties"], own = parties_and(run, party)
    own["policy"] = {**own["policy"], "approved_by": str(officer)}
    (run.folder / "plan.yaml").write_text(json.dumps(run.plan))

    def approve(*settings: str, until: date = date(2999, 12, 31)) -> None:
        section, table = {"A": ("sources.A", "insurer"), "B": ("target", "clinic")}[party]
        changed = [f"parties.{section}.table={ROOT / 'data' / table}.csv", *settings]
        approval.approve(load_plan(run.folder / "plan.yaml", changed), party, officer, until, runs=1)

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
        return run.wait(NAMES), met(run)
    return mended(run, party, "ApprovalError", approve)


def cannot_start(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    parties, own = parties_and(run, party)
    own["exclude"] = ["no such column"]
    return mended(run, party, "TableError", parties=parties)


def differing(run: Members, party: str, *, what: str) -> tuple[dict[str, Ending], float]:
    sources = [*run.plan["parties"]["sources"], {"name": "D", "identity": str(Identity.new())}]
    other = {"estimator": "paper", "parties": {**run.plan["parties"], "sources": sources}}
    return mended(run, party, "PlanMismatch", **{what: other[what]})


def restarted(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    start_all(run, party, ("on_phase", {"phase": "meeting", "act": "kill"}))
    fault = run.wait_for(f"{party}.fault")
    assert run.wait([party])[party].error == "RoleCrashed"
    run.start(party, label=f"{party}2")
    return run.wait([*others(party), f"{party}2"]), fault


def twice(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # All have joined when the second process comes, and one does not go on before that has failed.
    second, late = f"{party}2", next(name for name in "BA" if name != party)
    held = {"phase": "meeting", "act": "hold", "until": str(run.marks / f"{second}.failed")}
    start_all(run, late, ("on_phase", held))
    run.wait_for(f"{late}.fault")
    run.start(party, label=second)
    return run.wait([*NAMES, second]), run.wait_for(f"{second}.failed")


def two_coordinators(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    # The second finds the port taken, and the run is not disturbed.
    go = run.folder / "go"
    start_all(run, "B", ("on_phase", {"phase": "connect", "act": "hold", "until": str(go)}))
    run.wait_for_port()
    run.start("C", label="C2")
    second = run.wait(["C2"])["C2"]
    assert (second.error, second.files) == ("NetworkError", [])
    go.touch()
    return run.wait(NAMES), time.monotonic()


def missing(run: Members, party: str) -> tuple[dict[str, Ending], float]:
    for name in others(party):
        run.start(name)
    return run.wait(others(party)), 0.0


def met(run: Members) -> float:
    """When the last party came to the meeting, or found that it cannot."""
    came = []
    for name in NAMES:
        marks = (f"{name}.connect", f"{name}.failed", f"{name}2.connect")
        eventually(lambda marks=marks: any(run.marked(mark) for mark in marks))
        came.append(next(at for mark in marks if (at := run.marked(mark))))
    return max(came)


# ---- the matrix


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case.quick else pytest.mark.long, id=str(case)) for case in CASES]
)
def test_survivors(case: Case, tmp_path: Path, cache: pytest.Cache) -> None:
    with Members(tmp_path) as run:
        run.plan["network"]["timeout"] = TIMEOUT if case.fault in ("freeze", "cut") else EVER
        if case.deadline == JOIN_TIMEOUT:
            run.plan["network"]["join_timeout"] = JOIN_TIMEOUT
        endings, fault = globals()[case.act](run, case.party, **case.arguments)
        eventually(lambda: run.processes() == [], 30.0, "the end of all processes")
    told = {label: (ending.error, ending.status) for label, ending in endings.items()}
    ends = {}
    for label, ending in endings.items():
        seconds = ending.at - max(fault, run.marked(f"{label}.connect") or 0.0)
        ends[label] = (ending.error, ending.code, max(0.0, seconds))
        assert ending.error in case.expected, (label, ending.printed, told)
        if ending.error == "done":
            assert ending.code == 0
            continue
        assert ending.code == ending.status["exit_code"] == ERRORS[ending.error].exit_code
        assert ending.files == []
        assert seconds < case.deadline + SLACK, (seconds, told)
        assert "Traceback" not in ending.printed
    if case.some:
        assert case.some in {ending.error for ending in endings.values()}, told
    cache.set(f"faults/{case}", ends)  # so that not all has to run in one go


@pytest.mark.long
def test_what_was_seen_is_written_down(cache: pytest.Cache) -> None:
    def rows() -> list[tuple[Case, dict[str, Any]]]:
        return [(case, cache.get(f"faults/{case}", {})) for case in CASES]

    # The last cases may still run beside this test.
    eventually(lambda: all(ends for _, ends in rows()), 120.0, "some case")
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition("<!-- made by: make test-all -->\n")
    after = rest[rest.index("<!-- end of what is made -->") :]
    write_whole(PAGE, (before + mark + table(rows()) + after).encode())
    for case in CASES:
        cache.set(f"faults/{case}", {})


def table(rows: list[tuple[Case, dict[str, Any]]]) -> str:
    """Write the summary: one line for each fault and deadline."""
    groups: dict[tuple[str, float], list[tuple[Case, dict[str, Any]]]] = {}
    for case, ends in rows:
        groups.setdefault((case.fault, case.deadline), []).append((case, ends))
    lines, beyond = [], 0.0
    for (fault, deadline), its in groups.items():
        where = ", ".join(dict.fromkeys(case.party for case, _ in its))
        when = "; ".join(dict.fromkeys(case.when for case, _ in its))
        ended = [end for _, ends in its for end in ends.values()]
        counts = Counter(error if error == "done" else f"{error} {code}" for error, code, _ in ended)
        classes = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        longest = max((seconds for error, _, seconds in ended if error != "done"), default=0.0)
        beyond = max(beyond, longest - deadline)
        cells = f"{fault} | {where} | {when} | {len(its)} | {classes} | {deadline:g} | {longest:.1f}"
        lines.append(f"| {cells} |\n")
    about = f"{len(rows)} runs; nobody took more than {beyond:.1f} s beyond the deadline"
    return f"Version {__version__}, {date.today()}, {about}:\n\n{HEADER}{''.join(lines)}"
