"""A run directory is held by one run at a time, however the run ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mpc_spearman.errors import OutputError
from mpc_spearman.files import lock
from mpc_spearman.results import run_directory
from support.plans import files


def test_a_directory_is_held_once_and_then_free_again(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    with run_directory.locked(tmp_path / "deep" / "B"):
        with run_directory.locked(tmp_path / "deep" / "A"):
            pass
        for spelling in (
            tmp_path / "deep" / "B",
            tmp_path / "link" / "B",
            tmp_path / "deep" / "x" / ".." / "B",
        ):
            with (
                pytest.raises(OutputError, match="another run is writing to"),
                run_directory.locked(spelling),
            ):
                pass
    with run_directory.locked(tmp_path / "deep" / "B"):
        pass
    assert files(tmp_path) == ["link"]
    (tmp_path / ".B.lock").touch()  # of a run that was killed
    with run_directory.locked(tmp_path / "B"):
        pass
    assert files(tmp_path) == ["link"]


class Replaced(type(Path())):
    """A path whose file is replaced by another once it is open: at the second use of its name."""

    used = 0

    def __fspath__(self) -> str:
        Replaced.used += 1
        if Replaced.used == 2:
            (file := Path(str(self))).rename(file.with_name("gone"))
            file.touch()
        return super().__fspath__()


def test_a_lock_is_on_the_file_that_has_the_name_now(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    held = lock(Replaced(file), os.O_RDWR | os.O_CREAT)
    assert (tmp_path / "gone").exists()
    assert os.path.samestat(os.fstat(held), file.stat())
    os.close(held)


class Interrupting(type(Path())):
    """A path; by Ctrl-C its k-th renaming is not done, or done and the program hears no more of it."""

    left: ClassVar[int]
    done: ClassVar[bool]

    def rename(self, target: Path) -> Any:
        Interrupting.left -= 1
        if Interrupting.left == 0 and not self.done:
            raise KeyboardInterrupt
        moved = super().rename(target)
        if Interrupting.left == 0:
            raise KeyboardInterrupt
        return moved


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("which", range(1, 5))
def test_results_are_replaced_all_or_none_whenever_it_is_interrupted(
    which: int, done: bool, tmp_path: Path
) -> None:
    Interrupting.left, Interrupting.done = which, done
    moves = {Interrupting(tmp_path, f"new {name}"): Interrupting(tmp_path, name) for name in "AB"}
    for folder in (*moves, *moves.values()):
        folder.mkdir()
        Path(folder, "of").write_text(folder.name)
    with pytest.raises(KeyboardInterrupt):
        run_directory.swap(moves)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B", "new A", "new B"]
    assert all(Path(folder, "of").read_text() == folder.name for folder in (*moves, *moves.values()))
