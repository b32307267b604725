"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.cli import main
from support.sweeps import CONFIGS, FakeRuns


@pytest.mark.parametrize(
    ("extra", "code", "named"),
    [
        (["--rows", "x"], 2, "--rows: invalid int value"),
        (["--features", "3"], 2, "'3' is not AxB, such as 10x30"),
        (["--features", "3x-1"], 2, "'3x-1' is not AxB"),
        (["--rows", "2"], 2, "of 3 rows"),
    ],
)
def test_wrong_usage_has_its_exit_code(
    fake_runs: FakeRuns,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    code: int,
    named: str,
) -> None:
    given = [
        "compare",
        str(CONFIGS / "mpc.yaml"),
        "--rows",
        "40",
        "--features",
        "2x2",
        "--out",
        str(tmp_path),
    ]
    try:
        ended = main.main([*given, *extra])
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == code
    assert named in capsys.readouterr().err
    assert fake_runs.done == []
