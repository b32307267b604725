"""The ledger's file: made and kept whole, its owner's alone, shared by processes, refused where damaged."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpc_spearman.cli.main import main
from mpc_spearman.data.ranks import rank_columns
from mpc_spearman.errors import PlanError, PolicyError
from mpc_spearman.privacy.charges import Charge, ChargedRun, Column, Forgotten, Peer, objections
from mpc_spearman.privacy.ledger import Ledger
from support.tables import id_array

IDS = [f"p{i}" for i in range(60)]


def make_run(ledger: Ledger, plan: int = 1, ids: list[str] = IDS, bits: float = 20.0) -> ChargedRun:
    column = Column(name="smoker", entropy=100.0, bits={"B": bits, "C": bits / 3})
    ranks = rank_columns([np.arange(len(ids)) % 7]).matrix
    return ChargedRun(
        party="A",
        plan=f"{plan:064x}",
        own=ledger.fingerprint(id_array(ids), ranks),
        peers={
            "B": Peer(grant="strengths", columns=4, inputs="b0"),
            "C": Peer(grant="coefficients", columns=0, inputs=""),
        },
        columns=(column,),
    )


def charge(ledger: Ledger, run: ChargedRun) -> None:
    ledger.charge(run, min_group=10, budget=0.5)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of two runs, of different plans."""
    ledger = Ledger(tmp_path / "ledger")
    charge(ledger, make_run(ledger, 1))
    charge(ledger, make_run(ledger, 2))
    return ledger


# ---- made and added to


def test_the_ledger_and_its_key_are_made_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "ledger")
        charge(ledger, make_run(ledger))
    finally:
        os.umask(old)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert len(ledger.key_path.read_bytes()) == 32


def test_an_id_or_the_key_is_not_in_the_ledger(ledger: Ledger) -> None:
    text = ledger.path.read_text()
    assert "p17" not in text
    assert ledger.key_path.read_bytes().hex() not in text


def test_a_run_is_one_line_and_reads_back_as_it_was(ledger: Ledger) -> None:
    run = make_run(ledger, 3, bits=0.1 + 0.2)
    charge(ledger, run)
    assert len(ledger.path.read_text().splitlines()) == 1 + 3
    last = ledger.entries()[-1]
    assert isinstance(last, Charge)
    assert last.run == run


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(bits=st.floats(0, 1e308), entropy=st.floats(1e-300, 1e308))
def test_the_identical_run_is_known_whatever_its_numbers(
    bits: float, entropy: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger")
    run = make_run(ledger)
    column = Column(name="smoker", entropy=entropy, bits={"B": bits})
    run = run.model_copy(update={"columns": (column,)})
    for _ in range(2):
        charge(ledger, run)
    assert [entry.run for entry in ledger.entries() if isinstance(entry, Charge)] == [run, run]


def test_a_charge_is_on_the_disk_when_it_returns(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    fsync = os.fsync

    def watched(number: int) -> None:
        fsync(number)
        synced.append(ledger.path.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    charge(ledger, make_run(ledger, 1))
    assert synced == [ledger.path.read_bytes()]


def test_lines_are_only_ever_added(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(ledger, 1))
    assert ledger.path.read_bytes().startswith(before)


def test_a_refused_run_leaves_the_ledger_as_it_was(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    for run in (make_run(ledger, 3), make_run(ledger, 1, IDS[1:])):
        with pytest.raises(PolicyError) as caught:
            charge(ledger, run)
        first, *_, last = str(caught.value).splitlines()
        assert first.startswith("party A does not allow this run: its policy.ledger: ")
        assert last == (
            f"If a partner no longer keeps results: mpc-spearman ledger {ledger.path} --forget PARTNER REASON"
        )
    assert ledger.path.read_bytes() == before
    charge(ledger, make_run(ledger, 1))


def test_a_second_name_of_a_ledger_is_the_same_ledger(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(ledger.path)
    other = Ledger(link)
    with pytest.raises(PolicyError, match="column 'smoker'"):
        charge(other, make_run(other, 3))
    assert [path.name for path in link.parent.iterdir()] == ["link"]


# ---- forgetting


def test_forgetting_a_partner_keeps_the_lines_and_the_reason(ledger: Ledger) -> None:
    with pytest.raises(PolicyError):
        charge(ledger, make_run(ledger, 3))
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(ledger, 3))
    entries = ledger.entries()
    assert [type(entry) for entry in entries] == [Charge, Charge, Forgotten, Charge]
    assert isinstance(entries[2], Forgotten)
    assert (entries[2].partner, entries[2].reason) == ("B", "it deleted both results")


@pytest.mark.parametrize(
    ("partner", "reason", "says"),
    [
        ("b", "deleted", r"nothing that 'b' got counts; did you mean 'B'\?"),
        ("\x1b[2J", "deleted", r"nothing that '\\x1b\[2J' got counts; partners: B, C"),
        ("B", " ", "the reason for forgetting a partner is needed, on one printable line"),
        ("B", "two\nlines", "the reason for forgetting a partner is needed, on one printable line"),
    ],
)
def test_forgetting_needs_a_partner_and_a_reason(
    partner: str, reason: str, says: str, ledger: Ledger
) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(PlanError, match=says):
        ledger.forget(partner, reason)
    assert ledger.path.read_bytes() == before


# ---- damaged, lost, another's


def test_a_ledger_that_is_cut_short_is_refused_with_its_line(ledger: Ledger) -> None:
    whole = ledger.path.read_bytes()
    first, second, _ = whole.splitlines(keepends=True)
    for size, line in [(len(whole) - 1, 3), (len(first + second) + 1, 3), (len(first) + 40, 2)]:
        ledger.path.write_bytes(whole[:size])
        with pytest.raises(PolicyError, match=rf"ledger, line {line} is cut short.*take the line out"):
            charge(ledger, make_run(ledger))
    ledger.path.write_bytes(first + second)  # taken out
    charge(ledger, make_run(ledger, 2))
    assert len(ledger.entries()) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_never_passed_over(data: st.DataObject, ledger: Ledger) -> None:
    whole, entries = ledger.path.read_bytes(), ledger.entries()
    found: list[Charge | Forgotten] | str
    line = data.draw(st.integers(0, 2), label="line")
    lines = whole.split(b"\n")
    # the sketch makes most of a line: look at its ends as often as at all of it
    near = st.integers(0, min(600, len(lines[line]) - 1))
    place = data.draw(near | near.map(lambda i: -1 - i) | st.integers(0, len(lines[line]) - 1), label="place")
    changed = bytearray(lines[line])
    changed[place] = data.draw(st.integers(0, 255), label="byte")
    lines[line] = bytes(changed)
    ledger.path.write_bytes(b"\n".join(lines))
    try:
        found = ledger.entries()
    except PolicyError as error:
        found = str(error)
    ledger.path.write_bytes(whole)
    if isinstance(found, str):
        assert found.startswith(f"policy.ledger: {ledger.path}, line ")
    else:
        assert found == entries  # the same content in other words


def test_a_line_that_was_taken_out_or_moved_is_missed(ledger: Ledger) -> None:
    header, first, second = ledger.path.read_bytes().splitlines(keepends=True)
    for lines in ([header, second], [header, second, first], [header, first, first]):
        ledger.path.write_bytes(b"".join(lines))
        with pytest.raises(PolicyError, match=r"line [23] is damaged, or one before it was changed or taken"):
            ledger.entries()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"ledger":2,"key":"0"}\n', "line 1: its format is 2; this version reads 1"),
        (b"id,smoker\np1,0\n", "line 1: it does not begin as a ledger does"),
        (b"[]\n", "line 1: it does not begin as a ledger does"),
        (b"\xff\n", "line 1: it does not begin as a ledger does"),
        (b'{"ledger":1}\n', "line 1: it does not begin as a ledger does"),
    ],
)
def test_another_format_or_another_file_is_refused(content: bytes, says: str, ledger: Ledger) -> None:
    ledger.path.write_bytes(content)
    for use in (lambda: make_run(ledger), ledger.entries, lambda: ledger.forget("B", "deleted")):
        with pytest.raises(PolicyError, match=says):
            use()
    assert ledger.path.read_bytes() == content


def test_a_ledger_that_was_emptied_or_deleted_is_not_begun_anew(ledger: Ledger) -> None:
    for lose in (lambda: ledger.path.write_bytes(b""), ledger.path.unlink):
        lose()
        with pytest.raises(PolicyError, match=r"is empty or was missing, but its key is there\. Put the"):
            make_run(ledger)
    ledger.key_path.unlink()
    charge(ledger, make_run(ledger))


def test_a_ledger_without_its_key_or_with_another_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    key = ledger.key_path.read_bytes()
    ledger.key_path.unlink()
    with pytest.raises(PolicyError, match=r"ledger\.key is missing, and without it no run can be compared"):
        make_run(ledger)
    assert not ledger.key_path.exists()
    ledger.key_path.touch(0o600)
    ledger.key_path.write_bytes(bytes(32))
    with pytest.raises(PolicyError, match=r"ledger\.key is not the key of "):
        make_run(ledger)
    ledger.key_path.write_bytes(key[:31])
    with pytest.raises(PlanError, match=r"policy\.ledger: .*ledger\.key is not a file of 32 bytes"):
        make_run(ledger)
    assert len(ledger.entries()) == 2  # which needs no key


@pytest.mark.parametrize("name", ["ledger", "ledger.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_files_that_others_may_use_are_refused(mode: int, name: str, ledger: Ledger) -> None:
    path = ledger.path.with_name(name)
    path.chmod(mode)
    with pytest.raises(
        PlanError, match=rf"policy\.ledger: .*{name} may be read or changed by other.*chmod 600"
    ):
        make_run(ledger)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path, 0o600), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("missing/ledger"), "No such file or directory"),
    ],
    ids=["a directory", "a pipe", "a link to itself", "in no folder"],
)
def test_what_cannot_be_a_ledger(make: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    make(tmp_path / "ledger")
    with pytest.raises(PlanError, match=rf"policy\.ledger: .*{says}"):
        make_run(Ledger(tmp_path / "ledger"))


def test_reading_or_forgetting_makes_no_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for use in (ledger.entries, lambda: ledger.forget("B", "deleted")):
        with pytest.raises(PlanError, match="No such file"):
            use()
    assert list(tmp_path.iterdir()) == []


# ---- processes

_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from test_ledger import Ledger, PolicyError, charge, make_run
ledger = Ledger(Path({file!r}))
run = make_run(ledger, {plan})
print("ready", flush=True)
sys.stdin.readline()
{limit}
try:
    charge(ledger, run)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
else:
    print("charged")
"""


def child(file: Path, plan: int, limit: str = "") -> subprocess.Popen[str]:
    here = [str(Path(__file__).parent), *sys.path]
    code = _CHILD.format(path=here, file=str(file), plan=plan, limit=limit)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_nobody_else_has_the_file_between_the_check_and_the_disk(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    run = make_run(ledger, 1)

    def watched(done: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            with ledger.path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    taken.append(False)
                except BlockingIOError:
                    taken.append(True)
            return done(*arguments, **named)

        return watch

    monkeypatch.setattr("mpc_spearman.privacy.ledger.objections", watched(objections))
    monkeypatch.setattr(os, "fsync", watched(os.fsync))
    charge(ledger, run)
    assert taken == [True, True]


def test_processes_that_start_together_share_one_budget(tmp_path: Path) -> None:
    children = [child(tmp_path / "ledger", plan) for plan in range(4)]  # 20 of 100 bits each, 50 allowed
    for one in children:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in children:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = sorted(one.communicate()[0].split()[0] for one in children)
    assert said == ["PolicyError", "PolicyError", "charged", "charged"]
    assert len(Ledger(tmp_path / "ledger").entries()) == 2


@pytest.mark.parametrize("room", [0, 1000])
def test_a_full_disk_leaves_the_ledger_whole(room: int, ledger: Ledger) -> None:
    ledger.forget("B", "it deleted both results")
    before = ledger.path.read_bytes()
    size = len(before) + room
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    said, _ = child(ledger.path, 3, limit).communicate("go\n")
    assert said.startswith(f"ready\nPlanError policy.ledger: {ledger.path} cannot be used: ")
    assert ledger.path.read_bytes() == before
    charge(ledger, make_run(ledger, 3))


# ---- the command


def test_the_command_shows_runs_and_totals(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    before = ledger.path.read_bytes()
    assert main(["ledger", str(ledger.path)]) == 0
    history, totals = capsys.readouterr().out.split("\n\n")
    lines = [line.split(maxsplit=4) for line in history.splitlines()]
    time = ledger.entries()[0].time
    assert [word.strip() for word in lines[1]] == [
        time,
        "00000000",
        "60",
        "1",
        "B: strengths, C: coefficients",
    ]
    assert len(lines) == 3
    assert [line.split() for line in totals.splitlines()[1:]] == [
        ["B", "2", "40.00%", "'smoker'"],
        ["C", "2", "13.33%", "'smoker'"],
    ]
    assert ledger.path.read_bytes() == before


def test_the_command_forgets(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["ledger", str(ledger.path), "--forget", "B", "it [bold]deleted[/] both"]) == 0
    history, totals = capsys.readouterr().out.split("\n\n")
    assert history.splitlines()[-1].rstrip().endswith("B: forgotten, it [bold]deleted[/] both")
    assert [line.split()[0] for line in totals.splitlines()[1:]] == ["C"]


def test_the_command_ends_with_the_documented_codes(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", str(tmp_path / "none")]) == 2
    assert main(["ledger", str(ledger.path), "--forget", "X", "why"]) == 2
    ledger.path.chmod(0o644)
    assert main(["ledger", str(ledger.path)]) == 2
    ledger.path.chmod(0o600)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    assert main(["ledger", str(ledger.path)]) == 6
    assert "line 3 is cut short" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["ledger", str(ledger.path), "--forget", "B"])
    assert caught.value.code == 2
