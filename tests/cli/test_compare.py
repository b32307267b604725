"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.cli import main
from support.sweeps import CONFIGS, FakeRuns


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        *((["--rows", text], f"--rows: {text!r} is not a whole number from 3") for text in ("x", "2", "-5")),
        (["--repeats", "0"], "--repeats: '0' is not a whole number from 1"),
        *(
            (["--features", text], f"{text!r} is not AxB")
            for text in ("3", "3x", "axb", "3X3", "3x-1", "0x3")
        ),
    ],
)
def test_wrong_usage_has_its_exit_code(
    fake_runs: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], named: str
) -> None:
    size = ("--rows", "40", "--features", "2x2")
    given = ["compare", str(CONFIGS / "mpc.yaml"), *size, "--out", str(tmp_path / "costs.csv")]
    with pytest.raises(SystemExit) as end:
        main.main([*given, *extra])
    assert end.value.code == 2
    assert named in capsys.readouterr().err
    assert fake_runs.done == []
