"""Output that goes nowhere: a run goes on, keeps its results, and leaves nobody waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
import pytest

from mpc_spearman import Result, errors
from support.harness import ROOT
from support.log_lines import timeless
from support.plans import LIGHT, mapping, split, with_keys
from support.processes import free_port
from support.server import Command

COMMAND = [sys.executable, "-W", "error", "-m", "mpc_spearman"]
#: A name that few encodings have.
NAME = "größe … 😀"
#: What a run says of its progress where nobody looks on.
RUNNING = "running: C, B, A\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plan for all parties on this machine, the same for each alone, and its tables."""
    values = np.random.default_rng(3).normal(size=(2, 50))
    for party, column in zip("AB", values, strict=True):
        table = pd.DataFrame({"id": [f"p{i}" for i in range(50)], NAME: column})
        table.to_csv(tmp_path / f"{party}.csv", index=False)
    plan = with_keys(mapping(**LIGHT, network={"address": "127.0.0.1", "port": free_port()}), tmp_path)
    plan["parties"]["target"]["table"], plan["parties"]["sources"][0]["table"] = "B.csv", "A.csv"
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    (tmp_path / "shared.yaml").write_text(json.dumps(split(plan, tmp_path)))
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


#: A locale in which only ASCII can be shown, whatever Python would rather have.
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def nobody_reads() -> Iterator[IO[bytes]]:
    """The writing end of a pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as file:
        yield file


@pytest.fixture
def full() -> Iterator[IO[bytes]]:
    with open("/dev/full", "wb") as file:
        yield file


def test_a_reader_that_leaves_after_the_first_line_ends_nothing(folder: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as shown, os.fdopen(write, "wb") as output:
        requests = ("local", "plan.yaml", "--out", "out")
        process = Command(requests, folder=folder, environment=environment(), stdout=output)
        output.close()
        assert shown.readline()
    assert timeless(process.communicate()[1]) == RUNNING
    assert process.returncode == 0
    assert {Result.load(folder / "out" / party).n for party in "ABC"} == {50}


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_behind_a_stream_ends_nothing(folder: Path, full: IO[bytes], stream: str) -> None:
    requests = ("local", "plan.yaml", "--out", "out")
    process = Command(requests, folder=folder, environment=environment(), **{stream: full})  # type: ignore[arg-type]
    _, message = process.communicate()
    assert process.returncode == 0
    if stream == "stdout":
        reader_gone = "note: some output could not be printed: No space left on device\n"
        assert timeless(message) == RUNNING + reader_gone
    assert {Result.load(folder / "out" / party).n for party in "ABC"} == {50}


def test_a_locale_without_a_character_gets_an_escape(folder: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "local", "plan.yaml", "--out", "out"],
        cwd=folder,
        env=environment(**PLAIN),
        capture_output=True,
    )
    assert (done.returncode, timeless(done.stderr.decode())) == (0, RUNNING)
    assert b"gr\\xf6\\xdfe \\u2026 \\U0001f600" in done.stdout
    assert list(Result.load(folder / "out" / "C").strengths.index) == [NAME]


@pytest.mark.long
@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_is_closed_ends_nothing(folder: Path, closed: str) -> None:
    shell = f'exec "$@" {"1" if closed == "stdout" else "2"}>&-'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", *COMMAND, "local", "plan.yaml", "--out", "out"],
        cwd=folder,
        env=environment(),
        capture_output=True,
    )
    message = RUNNING if closed == "stdout" else ""
    assert (done.returncode, timeless(done.stderr.decode())) == (0, message)
    assert Result.load(folder / "out" / "B").n == 50


def test_under_join_nobody_is_left_waiting(folder: Path, nobody_reads: IO[bytes], full: IO[bytes]) -> None:
    def join(party: str) -> tuple[str, ...]:
        return ("join", "shared.yaml", "--local", f"{party}.local", "--out", "out")

    streams = {"C": {"stdout": nobody_reads}, "B": {"stdout": full}, "A": {"stderr": full}}
    parties = {
        party: Command(join(party), folder=folder, environment=environment(), **files)
        for party, files in streams.items()
    }
    message = {party: process.communicate()[1] for party, process in parties.items()}
    for party, process in parties.items():
        status = json.loads((folder / "out" / party / "status.json").read_text())
        assert (process.returncode, status["error"]) == (0, None), message
        assert Result.load(folder / "out" / party).n == 50


def test_only_output_that_must_be_written_counts_as_lost(folder: Path, full: IO[bytes]) -> None:
    done = subprocess.run(
        [*COMMAND, "explain", "plan.yaml"], cwd=folder, env=environment(), stdout=full, stderr=subprocess.PIPE
    )
    assert done.returncode == errors.OutputError.exit_code
    assert done.stderr == b"note: some output could not be printed: No space left on device\n"
