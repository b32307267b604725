"""Fixtures and hooks of all tests."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")  # so that shared assertions say what they compared

from mpc_spearman.comparison import sweep  # noqa: E402
from mpc_spearman.data import csv_text  # noqa: E402
from mpc_spearman.launch import join, local, supervisor  # noqa: E402
from mpc_spearman.levels import coefficients  # noqa: E402
from mpc_spearman.network import control  # noqa: E402
from mpc_spearman.results import report  # noqa: E402
from support.meetings import Meeting  # noqa: E402
from support.plans import YAML, write_inputs  # noqa: E402
from support.processes import EVER  # noqa: E402
from support.server import fork_server  # noqa: E402
from support.sweeps import FakeRuns  # noqa: E402

# A machine that is busy is slow, and no fault is. The examples are the same each time, so that a rare one
# does not fail in somebody else's change; others are tried by --hypothesis-profile=default.
settings.register_profile(
    "patient",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("patient")


def pytest_configure() -> None:
    """Let processes of the tests be interrupted: what a shell starts in the background ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give one worker all tests of a file, or of several that share what takes long to make."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A file with a plan, beside which its tables would be."""
    path = tmp_path / "plan.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plan and its tables."""
    write_inputs(tmp_path, seed=3)
    return tmp_path


@pytest.fixture
def csv(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "clinic.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def parquet(tmp_path: Path) -> Callable[[Any], Path]:
    def write(table: Any) -> Path:
        path = tmp_path / "clinic.parquet"
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path)
        return path

    return write


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, and nothing else in it."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save results with empty pages, which takes a fraction of the time."""
    monkeypatch.setattr(report, "render", lambda result: "")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scale ranks at any number of rows; otherwise only too many rows for exact products are scaled."""
    monkeypatch.setattr(coefficients, "MAX_ROWS", 2)
    monkeypatch.setattr(coefficients, "MAX_DOUBLED", 2)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replace the supervisor, which would start roles, by a stand-in."""
    return lambda stand_in: monkeypatch.setattr(supervisor, "launch", stand_in)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how many bytes of a CSV file are read at once."""
    return lambda size: monkeypatch.setattr(csv_text, "BLOCK", size)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the roles of runs in this process from the tests' server, which has imported what they need."""
    for module in (local, join):
        monkeypatch.setattr(module, "ForkServer", lambda: nullcontext(fork_server()))


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    """Runs of a sweep, or small ones of an estimate, without processes."""
    runs = FakeRuns()
    monkeypatch.setattr(sweep, "run_local", runs)
    return runs


# ---- the door


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Meeting]]:
    """Begin meetings, of which on a busy machine no party counts as silent."""
    monkeypatch.setattr(control, "_ANSWER_SECONDS", EVER)
    meetings: list[Meeting] = []

    def begin(**settings: Any) -> Meeting:
        meetings.append(Meeting(**settings))
        return meetings[-1]

    yield begin
    for meeting in meetings:
        meeting.close()
