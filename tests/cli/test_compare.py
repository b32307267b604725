"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpc_spearman.cli import main
from mpc_spearman.comparison import sweep
from support.sweeps import CONFIGS, FakeRuns

# --- the command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "code", "named"),
    [
        (["--rows", "x"], 2, "--rows: invalid int value"),
        (["--features", "3"], 2, "'3' is not AxB, such as 10x30"),
        (["--features", "3x-1"], 2, "'3x-1' is not AxB"),
        (["--rtt", "5"], 2, "--bandwidth and --rtt: give both, or neither"),
        (["--bandwidth", "-5", "--rtt", "1"], 2, "bandwidth: "),
        (["--rows", "2"], 2, "at least 3 rows"),
        (["--out", "/proc/none/there"], 16, "cannot write to /proc/none/there"),
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
        str(tmp_path / "s"),
    ]
    try:
        ended = main.main([*given, *extra])
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == code
    assert named in capsys.readouterr().err
    assert fake_runs.done == []


def test_the_commands_limit_is_that_of_python() -> None:
    parsed = main._parser().parse_args(["compare", "p", "--rows", "9", "--features", "1x1", "--out", "o"])
    assert parsed.limit == sweep.LIMIT


def test_the_command_says_what_was_not_measured(
    fake_runs: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_runs.slow = ("coefficients", 50)
    given = ["compare", str(CONFIGS / "mpc.yaml"), "--rows", "40", "60", "--features", "2x2", "--limit", "50"]
    assert main.main([*given, "--bandwidth", "10", "--rtt", "100", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Not measured: MPC, coefficients, tie_corrected, 60 rows, 2 × 2 columns: stopped" in printed
    assert "yours" in printed
