"""A run directory is held by one run at a time, however the run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.errors import OutputError
from mpc_spearman.results import run_directory
from support.plan_files import files


def test_a_directory_is_held_once_and_then_free_again(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    with run_directory.locked(tmp_path / "deep" / "B"):
        with run_directory.locked(tmp_path / "deep" / "A"):
            pass
        for same in (tmp_path / "deep" / "B", tmp_path / "link" / "B", tmp_path / "deep" / "x" / ".." / "B"):
            with pytest.raises(OutputError, match="another run is writing to"), run_directory.locked(same):
                pass
    with run_directory.locked(tmp_path / "deep" / "B"):
        pass
    assert files(tmp_path) == ["link"]
    (tmp_path / ".B.lock").touch()  # of a run that was killed
    with run_directory.locked(tmp_path / "B"):
        pass
    assert files(tmp_path) == ["link"]
