"""A sweep without processes: what is run again, what is refused, and where it stops."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman import compare
from mpc_spearman.comparison import LAN, RUN, TIDY, per_run
from mpc_spearman.errors import BoundError, OutputError, PlanError, SetupError
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
    ("change", "named"),
    [
        ({"plans": [plan(network={"timeout": 30.0}), *LEVELS[1:]]}, "network.timeout: 30.0 here, 60.0 there"),
        ({"plans": [plan(he={"workers": 1}), *LEVELS[1:]]}, "workers: 1 here, null there"),
    ],
)
def test_other_settings_are_refused(
    fake_runs: FakeRuns, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"plans": LEVELS, "sizes": [(40, 2, 2)], "repeats": 2, "out": tmp_path}
    compare(**given)
    fake_runs.done.clear()
    with pytest.raises(OutputError, match=re.escape(named)) as refusal:
        compare(**{**given, **change})
    assert str(tmp_path) in str(refusal.value)
    assert fake_runs.done == []
    compare(**given)  # what was refused changed nothing


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("package_version", "0.0", "package_version was '0.0'"),
        ("machine", {"cores": 99}, "machine was {'cores': 99}"),
        ("seed", 1, "seed was 1"),
        ("plans", [], "is damaged"),
    ],
)
def test_figures_of_another_machine_or_version_are_not_mixed_in(
    fake_runs: FakeRuns, tmp_path: Path, key: str, value: Any, named: str
) -> None:
    compare(LEVELS, [(40, 2, 2)], out=tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(OutputError, match=re.escape(named)):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)


def test_a_foreign_directory_is_left_alone(fake_runs: FakeRuns, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="is no comparison's directory, and not empty"):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)
    with pytest.raises(OutputError, match="is no comparison's directory"):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "sweep.json").write_text("[")
    with pytest.raises(OutputError, match=r"sweep\.json is damaged"):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path / "b")


def test_without_a_directory_nothing_is_left(fake_runs: FakeRuns, temporary: Path) -> None:
    assert len(compare(LEVELS, [(40, 2, 2)])) == 2 * 3 * len(costed("mpc"))
    assert list(temporary.iterdir()) == []


def test_a_run_over_the_limit_is_stopped_and_none_that_is_larger_started(
    fake_runs: FakeRuns, tmp_path: Path
) -> None:
    fake_runs.slow = ("coefficients", 50)
    told: list[str] = []
    given: dict[str, Any] = {"plans": LEVELS, "sizes": [(n, 2, 2) for n in (40, 50, 60)], "out": tmp_path}
    table = compare(**given, limit=50, note=lambda _, text: told.append(text))
    name = "MPC, coefficients, tie_corrected"
    assert table.attrs["left_out"] == [
        f"{name}, 50 rows, 2 × 2 columns: stopped after 50.0 s, the limit",
        f"{name}, 60 rows, 2 × 2 columns: not started: with 50 rows, 2 × 2 columns it took longer than the "
        "limit of 50.0 s",
    ]
    assert set(table.attrs["left_out"]) < set(told)
    assert list(per_run(table)["n"]) == [40, 40, 50, 60]
    assert ("coefficients", 60) not in fake_runs.done
    assert "stopped after 50.0 s" in (tmp_path / "comparison.html").read_text()

    fake_runs.done.clear()
    # A higher limit is another chance.
    assert compare(**given, limit=100, network=LAN).attrs["left_out"] == []
    assert fake_runs.done == [("coefficients", 50), ("coefficients", 60)]


def test_where_every_run_is_stopped_there_is_still_a_page(fake_runs: FakeRuns, tmp_path: Path) -> None:
    fake_runs.slow = ("coefficients", 3)
    table = compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path, limit=50)
    assert len(table) == 0
    assert list(table.columns) == TIDY
    assert "Not measured" in (tmp_path / "comparison.html").read_text()


def test_a_run_that_fails_is_named(fake_runs: FakeRuns, tmp_path: Path) -> None:
    fake_runs.error = BoundError("too large")
    with pytest.raises(
        BoundError, match=r"^MPC, coefficients, tie_corrected, 40 rows, 2 × 2 columns: too large"
    ):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"plans": []}, "there is no plan"),
        ({"plans": [plan(), plan(network={"timeout": 5.0})]}, "two plans are both 'MPC, coefficients"),
        ({"sizes": []}, "sizes: there is none"),
        ({"sizes": [(40, 2)]}, r"sizes: \(40, 2\) is not"),
        ({"sizes": [(40.0, 2, 2)]}, "sizes: "),
        ({"sizes": [(2, 2, 2)]}, "at least 3 rows"),
        ({"sizes": [(40, 0, 2)]}, "1 column"),
        ({"repeats": 0}, "repeats: 0"),
        ({"repeats": True}, "repeats: True"),
        ({"limit": 0}, "limit: 0"),
    ],
)
def test_wrong_arguments_are_named(fake_runs: FakeRuns, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        compare(**{"plans": LEVELS, "sizes": [(40, 2, 2)], **arguments})


def test_without_matplotlib_a_page_is_refused_before_anything_runs(
    fake_runs: FakeRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SetupError, match=r"Run: pip install matplotlib$"):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path / "s")
    assert fake_runs.done == []
    assert not (tmp_path / "s").exists()
    compare(LEVELS, [(40, 2, 2)])  # the table alone needs none
