"""The command that makes what parties know each other by without TLS."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mpc_spearman.cli.main import main
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.files import read_key


def test_it_makes_random_bytes_for_their_owner_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "one", tmp_path / "other"]
    for file in files:
        assert main(["secret", str(file)]) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    one, other = (read_key(file, "network.secret") for file in files)
    assert len(one) == 32
    assert one != other
    assert "for every party of the run, and nobody else" in capsys.readouterr().out


def test_it_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    assert main(["secret", str(tmp_path / "taken")]) == OutputError.exit_code
    assert main(["secret", str(tmp_path / "no" / "where")]) == OutputError.exit_code
    assert (tmp_path / "taken").read_bytes() == b"mine"
    assert "exists and is not replaced" in capsys.readouterr().err


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    assert main(["secret", str(tmp_path / "open")]) == 0
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(PlanError, match=r"network\.secret: .* may be read or changed by other users"):
        read_key(tmp_path / "open", "network.secret")
