"""The ledger's file: written completely, private to its owner, shared by processes, refused if damaged."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.cli.main import main
from mpc_spearman.config.wording import canonical
from mpc_spearman.errors import OutputError, PlanError, PolicyError
from mpc_spearman.privacy import ledger as ledger_module
from mpc_spearman.privacy.charges import Charge, ChargedRun, Ended, Forgotten, PartnerLoss, balances
from mpc_spearman.privacy.ledger import Ledger, now

EXACT = PartnerLoss(what="coefficients", loss=None, counted=False)


def make_run(
    plan: int = 1, loss: float | None = 2.0, identity: str = "", **others: PartnerLoss
) -> ChargedRun:
    told = {"B": PartnerLoss(what="strengths", loss=loss, identity=identity), "C": EXACT, **others}
    return ChargedRun(party="A", plan=f"{plan:064x}", rows=60, columns=4, told=told)


def charge(ledger: Ledger, run: ChargedRun, lifetime: float = 6.0) -> list[str]:
    return ledger.charge(run, lifetime)


def ended(run: str, *, taken_back: bool) -> Ended:
    return Ended(time=now(), ended=run, error="PeerDied", party="C", phase="reveal", taken_back=taken_back)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of two runs, of different plans."""
    ledger = Ledger.begin(tmp_path / "ledger")
    charge(ledger, make_run(1))
    charge(ledger, make_run(2))
    return ledger


# ---- made and added to


def test_the_ledger_is_private_and_gets_a_line_for_every_run(tmp_path: Path) -> None:
    old, run = os.umask(0), make_run(3, 0.1 + 0.2)
    try:
        ledger = Ledger.begin(tmp_path / "ledger")
        charge(ledger, run)
    finally:
        os.umask(old)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    (entry,) = ledger.entries()
    assert entry == Charge(time=entry.time, run=run)
    before = ledger.path.read_bytes()
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(1))
    assert ledger.path.read_bytes().startswith(before)
    assert len(ledger.path.read_text().splitlines()) == 1 + 3


def test_a_refused_run_leaves_the_ledger_as_it_was_under_every_name(ledger: Ledger, tmp_path: Path) -> None:
    before, link = ledger.path.read_bytes(), tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(ledger.path)
    for refuse in (
        lambda: ledger.charge(make_run(3), 5.0),
        lambda: ledger.check("A", make_run(3).told, 5.0),
        lambda: Ledger(link).charge(make_run(3), 5.0),
    ):
        with pytest.raises(PolicyError, match=r"'B' has used 4 in 2 runs.*agree on privacy\.loss 1 or less"):
            refuse()
    assert [path.name for path in link.parent.iterdir()] == ["link"]
    assert ledger.path.read_bytes() == before
    assert charge(ledger, make_run(1, 1.0), 5.0) == []


def test_no_run_begins_a_ledger_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for use in (
        ledger.entries,
        lambda: ledger.check("A", make_run().told, 4.0),
        lambda: charge(ledger, make_run()),
        lambda: ledger.forget("B", "deleted"),
    ):
        with pytest.raises(PlanError, match=r"does not exist.*restore it.*mpc-spearman ledger --begin /"):
            use()
    assert list(tmp_path.iterdir()) == []
    assert main(["ledger", "--begin", str(ledger.path)]) == 0
    ledger.check("A", make_run().told, 4.0)
    with pytest.raises(PolicyError, match="has used nothing yet"):
        ledger.check("A", make_run().told, 1.0)
    charge(ledger, make_run())
    before = ledger.path.read_bytes()
    assert main(["ledger", "--begin", str(ledger.path)]) == OutputError.exit_code
    assert "exists and is not replaced" in capsys.readouterr().err
    assert ledger.path.read_bytes() == before


# ---- who is one partner, and what counts


def test_a_partner_is_one_by_its_name_or_its_key(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    assert charge(ledger, make_run(1, identity="k1")) == []
    (new,) = charge(ledger, make_run(2, D=PartnerLoss(what="ranking", loss=1.0, identity="k2")))
    assert new.startswith("'D' is new")
    changed, together = charge(ledger, make_run(3, 1.0, identity="k2"))  # B's name with D's key: both are one
    assert changed.startswith("'B' has another key")
    assert together == "'B' and 'D' (one partner, by name or key): their sums are added up"
    (one,) = balances(ledger.entries())
    assert (one.names, one.row, one.runs) == ({"B", "D"}, 6.0, 4)


def test_the_name_of_one_line_and_key_of_another_add_up(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    charge(ledger, make_run(1, 2.0, identity="k1"))
    charge(ledger, make_run(2, None, D=PartnerLoss(what="ranking", loss=3.0, identity="k2")))
    run, sums = make_run(3, 2.0, identity="k2"), balances(ledger.entries())
    # The old rule: the sum of the first balance with this name or key alone.
    first = next(one for one in sums if one.is_of("B", run.told["B"]))
    assert first.row + 2.0 <= 4.0
    assert sum(one.row for one in sums if one.is_of("B", run.told["B"])) + 2.0 == 7.0
    before = ledger.path.read_bytes()
    with pytest.raises(PolicyError, match=r"'B' and 'D' \(one partner, by name or key\) has used 5 in"):
        charge(ledger, run, 4.0)
    assert ledger.path.read_bytes() == before
    # Two names in one run that turn out to be one partner: both losses count.
    both = make_run(4, 1.5, identity="k3", D=PartnerLoss(what="ranking", loss=1.5, identity="k3"))
    with pytest.raises(PolicyError, match="this run would add 3"):
        charge(ledger, both, 7.0)


def test_a_charge_that_is_taken_back_does_not_count_and_stays_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ledger = Ledger.begin(tmp_path / "ledger")
    for number in (1, 2, 3):
        run = make_run(number).model_copy(update={"id": str(number)})
        ledger.start(run)
        charge(ledger, run, 4.0)
        if number == 2:
            ledger.end(ended("2", taken_back=True))
    (one,) = balances(ledger.entries())
    assert (one.row, one.runs) == (4.0, 2)
    with pytest.raises(PolicyError, match="has used 4 in 2 runs"):
        charge(ledger, make_run(4), 4.0)
    assert main(["ledger", str(ledger.path)]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert (
        "no results: taken back, because it ended before any of our results left; ended by PeerDied of C"
        in line
    )


def test_exact_runs_values_and_the_coordinators_copy_are_not_in_the_sum(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    charge(ledger, make_run(1, None))
    charge(ledger, make_run(2, B=PartnerLoss(what="coefficients", loss=4.0, unit="value")))
    charge(ledger, make_run(3, C=PartnerLoss(what="strengths", loss=2.0)))
    b, c = balances(ledger.entries())
    assert (b.row, b.value, b.exact, b.runs) == (2.0, 4.0, 1, 3)
    assert (c.names, c.row, c.runs) == ({"C"}, 2.0, 1)


def test_a_ledger_of_version_0_2_is_kept_listed_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, key = Ledger(tmp_path / "ledger"), "0123456789abcdef"
    entry = {"time": "2026-01-02T03:04:05Z", "approval": "", "run": {"plan": "ab" * 32, "own": {"n": 50},
             "columns": [{}], "peers": {"B": {"grant": "strengths"}, "C": {"grant": "nothing"}}}}  # fmt: skip
    check = hashlib.sha256((key + canonical(entry)).encode()).hexdigest()[:16]
    old = "\n".join([canonical({"ledger": 1, "key": key}), canonical({"check": check, "entry": entry}), ""])
    ledger.path.touch(0o600)
    ledger.path.write_text(old)
    charge(ledger, make_run(2), 2.0)
    assert ledger.path.read_text().startswith(old)
    assert [type(entry) for entry in ledger.entries()] == [Charge, Charge]
    assert balances(ledger.entries())[0].row == 2.0
    assert main(["ledger", str(ledger.path)]) == 0
    assert "of 0.2" in capsys.readouterr().out


def test_forgetting_a_partner_keeps_the_lines_and_the_reason(ledger: Ledger) -> None:
    with pytest.raises(PolicyError):
        charge(ledger, make_run(3), 4.0)
    ledger.forget("B", "it deleted both results")
    charge(ledger, make_run(3), 4.0)
    entries = ledger.entries()
    assert [type(entry) for entry in entries] == [Charge, Charge, Forgotten, Charge]
    assert entries[2] == Forgotten(time=entries[2].time, partner="B", reason="it deleted both results")


@pytest.mark.parametrize(
    ("partner", "reason", "says"),
    [
        ("b", "deleted", r"no counted run revealed anything to 'b'; did you mean 'B'\?"),
        ("\x1b[2J", "deleted", r"no counted run revealed anything to '\\x1b\[2J'; partners: B"),
        *(("B", reason, "the reason for forgetting a partner is needed") for reason in (" ", "two\nlines")),
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


def test_a_shortened_removed_or_moved_line_is_refused_by_number(ledger: Ledger) -> None:
    whole = ledger.path.read_bytes()
    first, second, _ = whole.splitlines(keepends=True)
    for size, line in [(len(whole) - 1, 3), (len(first + second) + 1, 3), (len(first) + 40, 2)]:
        ledger.path.write_bytes(whole[:size])
        with pytest.raises(PolicyError, match=rf"ledger, line {line} is cut short.*delete it"):
            charge(ledger, make_run())
    ledger.path.write_bytes(first + second)  # taken out
    charge(ledger, make_run(2))
    header, first, second = ledger.path.read_bytes().splitlines(keepends=True)
    for lines in ([header, second], [header, second, first], [header, first, first]):
        ledger.path.write_bytes(b"".join(lines))
        with pytest.raises(
            PolicyError, match=r"line [23] is damaged, or an earlier line was changed or removed"
        ):
            ledger.entries()


@settings(max_examples=200)
@given(data=st.data())
def test_a_changed_byte_is_never_passed_over(data: st.DataObject, ledger: Ledger) -> None:
    whole, entries = ledger.path.read_bytes(), ledger.entries()
    changed = bytearray(whole)
    place = data.draw(st.sampled_from([at for at, byte in enumerate(whole) if byte != 10]), label="place")
    changed[place] = data.draw(st.integers(0, 255), label="byte")
    ledger.path.write_bytes(changed)
    try:
        assert ledger.entries() == entries  # the same content in other words
    except PolicyError as error:
        assert str(error).startswith(f"policy.ledger: {ledger.path}, line ")  # noqa: PT017
    ledger.path.write_bytes(whole)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"ledger":4}\n', "line 1: its format is 4; this version reads 1 to 3"),
        (b"id,smoker\np1,0\n", "line 1: this is not the first line of a ledger"),
        (b"[]\n", "line 1: this is not the first line of a ledger"),
        (b"\xff\n", "line 1: this is not the first line of a ledger"),
    ],
)
def test_another_format_or_another_file_is_refused(content: bytes, says: str, ledger: Ledger) -> None:
    ledger.path.write_bytes(content)
    for use in (lambda: charge(ledger, make_run()), ledger.entries, lambda: ledger.forget("B", "deleted")):
        with pytest.raises(PolicyError, match=says):
            use()
    assert ledger.path.read_bytes() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_files_that_others_may_use_are_refused(mode: int, ledger: Ledger) -> None:
    path = ledger.path
    path.chmod(mode)
    with pytest.raises(PlanError, match=r"policy\.ledger: .*may be read or changed by other.*chmod go="):
        charge(ledger, make_run())
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path, 0o600), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("missing/ledger"), "does not exist"),
    ],
    ids=["a directory", "a pipe", "a link to itself", "in no folder"],
)
def test_other_files_are_refused_as_ledgers(make: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    make(tmp_path / "ledger")
    with pytest.raises(PlanError, match=rf"policy\.ledger: .*{says}"):
        charge(Ledger(tmp_path / "ledger"), make_run())


# ---- processes

_CHILD = """
import sys
from pathlib import Path
from mpc_spearman.privacy.charges import ChargedRun, PartnerLoss
from mpc_spearman.privacy.ledger import Ledger
ledger, told = Ledger(Path({file!r})), {{"B": PartnerLoss(what="strengths", loss=2.0)}}
run = ChargedRun(party="A", plan="{plan:064x}", rows=60, columns=4, told=told)
{hook}
print("ready", flush=True)
sys.stdin.readline()
{limit}
try:
    ledger.charge(run, 4.0)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
else:
    print("charged")
"""


def child(file: Path, plan: int, limit: str = "", hook: str = "") -> subprocess.Popen[str]:
    code = _CHILD.format(file=str(file), plan=plan, limit=limit, hook=hook)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], **pipes, text=True)


def test_a_charge_is_on_disk_when_it_returns_and_locked_until_then(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        with ledger.path.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        sync(descriptor)
        synced.append(ledger.path.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    charge(ledger, make_run(1))
    assert synced == [ledger.path.read_bytes()]


def test_processes_that_start_together_share_one_budget(tmp_path: Path) -> None:
    ledger = Ledger.begin(tmp_path / "ledger")
    children = [child(ledger.path, plan) for plan in range(4)]  # 2 each, 4 allowed
    for one in children:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in children:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = sorted(one.communicate()[0].split()[0] for one in children)
    assert said == ["PolicyError", "PolicyError", "charged", "charged"]
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("room", [0, 200])
def test_a_full_disk_leaves_the_ledger_whole(room: int, ledger: Ledger) -> None:
    ledger.forget("B", "it deleted both results")
    before = ledger.path.read_bytes()
    size = len(before) + room
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    said, _ = child(ledger.path, 3, limit).communicate("go\n")
    assert said.startswith(f"ready\nPlanError policy.ledger: {ledger.path} cannot be used: ")
    assert ledger.path.read_bytes() == before
    charge(ledger, make_run(3))


_KILL = """
import os
from io import FileIO
from mpc_spearman.privacy import ledger as module
steps = 0
def dying(done):
    def do(*arguments, **named):
        global steps
        if (steps := steps + 1) == {at}:
            os._exit(9)
        return done(*arguments, **named)
    return do
class File(FileIO):
    def write(self, data):
        half = len(data) // 2
        return dying(super().write)(data[:half]) + dying(super().write)(data[half:])
    seek, truncate = dying(FileIO.seek), dying(FileIO.truncate)
module.FileIO, module.os.fsync = File, dying(os.fsync)
"""


def test_a_run_killed_at_any_step_left_a_line_or_sent_nothing(ledger: Ledger) -> None:
    """Whenever `charge` returned, after which a share leaves, the whole line is on the disk."""
    ledger.forget("B", "so that there is room")
    ready, found = ledger.path.read_bytes(), set()
    for at in range(1, 8):
        ledger.path.write_bytes(ready)
        said, _ = child(ledger.path, 3, hook=_KILL.format(at=at)).communicate("go\n")
        after = ledger.path.read_bytes()
        assert after.startswith(ready)
        if "charged" in said:
            assert len(ledger.entries()) == 4
        elif after != ready and not after.endswith(b"\n"):
            with pytest.raises(PolicyError, match="line 5 is cut short"):
                ledger.entries()
        found.add(("charged" in said, after != ready))
    assert found == {(False, False), (False, True), (True, True)}


class _Dying(FileIO):
    """A file that fails at a step, and at every later one, as if the process had been killed."""

    left = 0

    def step(self) -> None:
        _Dying.left -= 1
        if _Dying.left < 0:
            raise KeyboardInterrupt

    def write(self, data: Any, /) -> int:
        self.step()
        written = super().write(data[: len(data) // 2])
        self.step()
        return written + super().write(data[len(data) // 2 :])

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.step()
        return super().seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        self.step()
        return super().truncate(size)


def test_a_run_killed_during_its_refund_is_charged_or_refunded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, run = Ledger.begin(tmp_path / "ledger"), make_run(3).model_copy(update={"id": "3"})
    ledger.start(run)
    charge(ledger, run)
    ready, found = ledger.path.read_bytes(), set()
    for at in range(7):
        ledger.path.write_bytes(ready)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(ledger_module, "FileIO", _Dying)
            _Dying.left = at
            ledger.end(ended("3", taken_back=True))
        after = ledger.path.read_bytes()
        if not after.endswith(b"\n"):
            with pytest.raises(PolicyError, match="line 4 is cut short"):
                ledger.entries()
            ledger.path.write_bytes(ready)  # as the error advises
        sums = [one.row for one in balances(ledger.entries())]
        assert sums == ([2.0] if ledger.path.read_bytes() == ready else [])
        found.add(tuple(sums))
    assert found == {(2.0,), ()}


# ---- the command


def test_the_command_shows_runs_totals_column_meanings_and_forgets(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    before = ledger.path.read_bytes()
    assert main(["ledger", str(ledger.path)]) == 0
    history, totals, meaning = capsys.readouterr().out.split("\n\n")
    time = ledger.entries()[0].time
    lines = [line.split(maxsplit=7) for line in history.splitlines()]
    what = "B: strengths, loss 2; C: coefficients, exact; not counted"
    assert [word.strip() for word in lines[1]] == [time, *["0000"] * 4, "60", "4", what]
    assert len(lines) == 1 + 2
    assert [line.split() for line in totals.splitlines()[1:]] == [["B", "2", "4", "0", "0", time]]
    assert all(f"{name}: " in meaning for name in ("used", "of values", "without bound"))
    assert ledger.path.read_bytes() == before
    assert main(["ledger", str(ledger.path), "--forget", "B", "it [bold]deleted[/] both"]) == 0
    history, totals, _ = capsys.readouterr().out.split("\n\n")
    assert history.splitlines()[-1].rstrip().endswith("B: forgotten, it [bold]deleted[/] both")
    assert [line.split() for line in totals.splitlines()[1:]] == [["B", "0", "0", "0", "0"]]


def test_the_command_shows_use_of_the_limit_and_endings_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ledger = Ledger.begin(tmp_path / "ledger")
    for number in (1, 2):
        run = make_run(number).model_copy(update={"id": str(number), "name": "cluster", "limit": 4.0})
        ledger.start(run)
        charge(ledger, run)
    ledger.end(ended("2", taken_back=False))
    assert main(["ledger", str(ledger.path)]) == 0
    history, totals, _ = capsys.readouterr().out.split("\n\n")
    first, second = history.splitlines()[1:]
    assert "cluster (0000 0000 0000 0000)" in first
    assert first.rstrip().endswith("B: strengths, loss 2; C: coefficients, exact; not counted")
    assert second.rstrip().endswith("not counted; ended by PeerDied of C in reveal")
    assert totals.splitlines()[1].split()[:5] == ["B", "2", "4", "of", "4"]


def test_the_command_ends_with_the_documented_codes(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([str(tmp_path / "none")], [str(ledger.path), "--forget", "X", "why"]):
        assert main(["ledger", *arguments]) == 2
    ledger.path.chmod(0o644)
    assert main(["ledger", str(ledger.path)]) == 2
    ledger.path.chmod(0o600)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    assert main(["ledger", str(ledger.path)]) == 6
    assert "line 3 is cut short" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("id\n")  # which others may read
    assert main(["ledger", str(tmp_path / "a.csv")]) == 6
    with pytest.raises(SystemExit) as caught:
        main(["ledger", str(ledger.path), "--forget", "B"])
    assert caught.value.code == 2
