"""A sweep without processes: what is run again, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpc_spearman import compare
from mpc_spearman.comparison import RUN, per_run
from mpc_spearman.errors import BoundError, PlanError
from mpc_spearman.wire.meter import costed
from support.plans import plan
from support.sweeps import LEVELS, FakeRuns


def test_a_sweep_may_grow_and_runs_only_what_is_new(fake_runs: FakeRuns, tmp_path: Path) -> None:
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path / "s")
    fake_runs.done.clear()
    table = compare(LEVELS, [(50, 2, 2), (40, 2, 2)], repeats=2, out=tmp_path / "s")
    # the smallest first; of what was there, nothing again
    assert fake_runs.done == [
        ("strengths", 40), ("coefficients", 40), ("strengths", 40),
        ("coefficients", 50), ("strengths", 50), ("coefficients", 50), ("strengths", 50),
    ]  # fmt: skip
    assert len(table.drop_duplicates(RUN)) == 8
    assert len(per_run(table)) == 8


def test_a_run_whose_directory_is_not_whole_is_run_again(fake_runs: FakeRuns, tmp_path: Path) -> None:
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    for file in (folder / "A").iterdir():
        file.unlink()
    (folder / "A").rmdir()
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path)
    assert fake_runs.done == [("coefficients", 40)] * 2


@pytest.mark.parametrize(
    "change", [{"network": {"timeout": 30.0}}, {"he": {"workers": 1}}], ids=lambda change: next(iter(change))
)
def test_runs_under_other_settings_are_kept_apart(
    fake_runs: FakeRuns, tmp_path: Path, change: dict[str, Any]
) -> None:
    for _ in range(2):
        for settings in ({}, change):
            compare([plan(**settings)], [(40, 2, 2)], out=tmp_path)
    assert len(fake_runs.done) == len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("__version__", "0.0"), ("machine", lambda: {"cores": 99}), ("data.SEED", 1)]
)
def test_figures_of_another_machine_or_version_are_not_mixed_in(
    fake_runs: FakeRuns, tmp_path: Path, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(LEVELS, [(40, 2, 2)], out=tmp_path)
    monkeypatch.setattr(f"mpc_spearman.comparison.sweep.{name}", value)
    assert len(compare(LEVELS, [(40, 2, 2)], out=tmp_path)) == 2 * 3 * len(costed("mpc"))
    assert len(fake_runs.done) == 4


def test_without_a_directory_nothing_is_left(fake_runs: FakeRuns, temporary: Path) -> None:
    assert len(compare(LEVELS, [(40, 2, 2)])) == 2 * 3 * len(costed("mpc"))
    assert list(temporary.iterdir()) == []


def test_a_run_that_fails_is_named(fake_runs: FakeRuns, tmp_path: Path) -> None:
    fake_runs.error = BoundError("too large")
    with pytest.raises(
        BoundError, match=r"^MPC, coefficients, tie_corrected, 40 rows, 2 × 2 columns: too large"
    ):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        {"plans": []},
        {"plans": [plan(), plan(network={"timeout": 5.0})]},
        {"sizes": []},
        {"sizes": [(2, 2, 2)]},
        {"sizes": [(40, 0, 2)]},
        {"repeats": 0},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(fake_runs: FakeRuns, arguments: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        compare(**{"plans": LEVELS, "sizes": [(40, 2, 2)], **arguments})
    assert fake_runs.done == []
