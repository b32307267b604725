"""The command before anything runs: its help, usage errors, and the exit code of every error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman import errors
from mpc_spearman.cli.main import main
from mpc_spearman.errors import SetupError
from support.harness import ROOT
from support.plans import INPUTS, files

# ---- before anything runs

PLAN, SIZE = str(ROOT / "configs" / "mpc.yaml"), ("--features", "2x2", "--out", "x")
HEAVY = ("torch", "pandas", "numpy", "scipy", "pyarrow", "crypten", "jinja2", "pydantic", "rich")


@pytest.mark.parametrize("arguments", [["--help"], ["local", "--help"], ["--version"]])
def test_help_needs_no_heavy_import(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom mpc_spearman.cli.main import main\n"
        f"try:\n    main({arguments!r})\n"
        f"finally:\n    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert done.stderr == "[]\n"
    assert done.stdout.startswith(("usage: mpc-spearman", "0."))


@pytest.mark.parametrize(
    "arguments",
    [
        ["local"],
        ["remote", "plan.yaml"],
        ["local", "plan.yaml", "--frob"],
        ["local", "plan.yaml", "--out"],
        ["local", "plan.yaml", "--table", "A"],
        ["local", "plan.yaml", "--table", "=a.csv"],
        ["local", "plan.yaml", "--out", "x", "--frob", "reveal=strengths"],
        ["key"],
        ["merge", "--out", "x"],
        ["merge", "one", "two"],
        *(["compare", PLAN, "--rows", rows, *SIZE] for rows in ("x", "2", "-5")),
        *(["compare", PLAN, "--rows", "3", "--features", size] for size in ("3", "3x", "axb", "3x-1", "0x3")),
        ["compare", PLAN, "--rows", "3", *SIZE, "--repeats", "0"],
        ["check", PLAN, "--party", "A", "--other", "0"],
    ],
)
def test_a_command_line_that_makes_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == 2
    assert "usage: mpc-spearman" in capsys.readouterr().err


def test_no_arguments_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: mpc-spearman" in capsys.readouterr().out


@pytest.fixture
def signals() -> Iterator[None]:
    saved = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["none.yaml"], errors.PlanError, "none.yaml: no such file; did you mean"),
        (["plan.yaml", "reveal=coeficients"], errors.PlanError, "reveal"),
        (["plan.yaml", "--out", "x", "reveal=coeficients"], errors.PlanError, "reveal"),
        (["plan.yaml", "nonsense"], errors.PlanError, "not of the form key=value"),
        (["plan.yaml", "--out", "x", "nonsense"], errors.PlanError, "not of the form key=value"),
        (["plan.yaml", "--table", "D=a.csv"], errors.PlanError, "'D'"),
        (["plan.yaml", "reveal=differences"], errors.PolicyError, "party B does not allow this plan"),
        (
            ["~/plan.yaml", "protocol=he", "--table", "A=~/none.csv", "--quiet"],
            errors.TableError,
            "no such file",
        ),
        (["plan.yaml", "--out", "a.csv"], errors.OutputError, "a.csv exists and is not a directory"),
    ],
)
def test_an_error_is_one_line_and_its_own_exit_code(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: type[errors.MpcSpearmanError],
    text: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    assert main(["local", *arguments]) == error.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert text in err
    assert files(folder) == INPUTS


@pytest.mark.parametrize(
    ("before", "message"),
    [('mkdir "$1"; cd "$1"; rmdir "$1"', "No such file"), ("ulimit -n 14", "Too many open files")],
)
def test_a_machine_that_lacks_something_is_an_error(before: str, message: str, tmp_path: Path) -> None:
    script = f'{before}; exec "$0" -m mpc_spearman local "$2"'
    folder, plan = str(tmp_path / "gone"), str(ROOT / "configs" / "mpc.yaml")
    arguments = ["bash", "-c", script, sys.executable, folder, plan]
    ending = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (ending.returncode, ending.stderr[:7]) == (SetupError.exit_code, "error: ")
    assert message in ending.stderr
    assert ending.stderr.count("\n") == 1


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_arguments_are_read_has_its_own_exit_code(number: signal.Signals) -> None:
    class Arguments(list[str]):
        def __getitem__(self, place: Any) -> Any:
            signal.raise_signal(number)

    try:
        code = main(Arguments(["local"]))
    except SystemExit as ending:
        code = ending.code
    assert code == 128 + number


def test_every_documented_exit_code_is_its_own() -> None:
    documented = dict(re.findall(r"(\w+) +(\d+)\n", (errors.__doc__ or "").replace("│", "").replace("─", "")))
    codes = {name: cls.exit_code for name, cls in errors.ERRORS.items() if name != "NotRevealed"}
    assert {name: int(code) for name, code in documented.items()} == codes
    assert len(set(codes.values())) == len(codes)
