"""The ledger's file: written completely, shared by processes, refused if damaged or open to others."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import PlanError, PolicyError
from mpc_spearman.privacy import ledger as ledger_module
from mpc_spearman.privacy.charges import balances
from mpc_spearman.privacy.ledger import Ledger
from support.ledgers import charge, ended, make_run, with_two_runs


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return with_two_runs(tmp_path / "ledger")


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
    place = data.draw(
        st.sampled_from([place for place, byte in enumerate(whole) if byte != 10]), label="place"
    )
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


def child(file: Path, plan: int, limit: str = "") -> subprocess.Popen[str]:
    code = _CHILD.format(file=str(file), plan=plan, limit=limit)
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
    for process in children:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in children:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = sorted(process.communicate()[0].split()[0] for process in children)
    assert outcomes == ["PolicyError", "PolicyError", "charged", "charged"]
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("free_bytes", [0, 200])
def test_a_full_disk_leaves_the_ledger_whole(free_bytes: int, ledger: Ledger) -> None:
    ledger.forget("B", "it deleted both results")
    before = ledger.path.read_bytes()
    size = len(before) + free_bytes
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    output, _ = child(ledger.path, 3, limit).communicate("go\n")
    assert output.startswith(f"ready\nPlanError policy.ledger: {ledger.path} cannot be used: ")
    assert ledger.path.read_bytes() == before
    charge(ledger, make_run(3))


class _Dying(FileIO):
    """A file that fails at a step, and at every later one, as if the process had been killed."""

    steps = 0

    @classmethod
    def step(cls, *_: Any) -> None:
        _Dying.steps -= 1
        if _Dying.steps < 0:
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


@pytest.mark.parametrize("kind", ["charge", "refund"])
def test_a_write_that_is_killed_leaves_a_whole_line_or_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever `charge` returned, after which a share leaves, the whole line is on the disk."""
    ledger, run = Ledger.begin(tmp_path / "ledger"), make_run(3).model_copy(update={"id": "3"})
    ledger.start(run)
    if kind == "refund":
        charge(ledger, run)
    refund = partial(ledger.end, ended("3", taken_back=True))
    write = partial(charge, ledger, run) if kind == "charge" else refund
    ready, outcomes = ledger.path.read_bytes(), set()
    for steps in range(8):
        ledger.path.write_bytes(ready)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(ledger_module, "FileIO", _Dying)
            patch.setattr(os, "fsync", _Dying.step)
            _Dying.steps, returned = steps, False
            write()
            returned = True
        after = ledger.path.read_bytes()
        assert after.startswith(ready)
        if not after.endswith(b"\n"):
            with pytest.raises(PolicyError, match=rf"line {ready.count(10) + 1} is cut short"):
                ledger.entries()
            ledger.path.write_bytes(ready)  # as the error advises
        losses = [balance.row for balance in balances(ledger.entries())]
        assert losses == ([2.0] if (kind == "charge") == (ledger.path.read_bytes() != ready) else [])
        outcomes.add((returned, after != ready))
    assert outcomes == {(False, False), (False, True), (True, True)}
