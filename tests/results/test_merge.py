"""Merging: equal to one run over all sources, and refused if results do not belong together."""

from __future__ import annotations

import io
import math
import signal
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman import Result, load_plan
from mpc_spearman.cli.main import main
from mpc_spearman.data.ids import alignment_tag
from mpc_spearman.errors import MergeError, OutputError
from mpc_spearman.findings.explained import Explained
from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Labels
from mpc_spearman.results.merge import merge
from mpc_spearman.statistics.reference import reference
from support.in_memory import run_in_memory
from support.made_results import costs, make_result, matrix_of, parts, shared_plan
from support.plans import LIGHT, files, plan
from support.references import pvalues_of
from support.tables import id_array

TAG = "0123456789abcdef" * 4
FEATURES = ["x", "y", "z"]
ROW = [[0.5, 0.1, 0.2]]


def result(source: str, values: Any, *, features: Sequence[str] = FEATURES, **changes: Any) -> Result:
    """The target's copy of a run with one source; ``holds`` says how much of it."""
    holds = changes.pop("holds", "coefficients")
    of_plan = changes.pop("plan", {})
    results = {"target": holds, "sources": holds, **of_plan.pop("results", {})}
    target = changes.get("party", "B") if changes.get("role", "target") == "target" else "B"
    plan = shared_plan(source, target=target, results=results, **of_plan)
    n = changes.pop("n", 5000)
    matrix = matrix_of(values, features, [(source, f"f{p}") for p in range(len(values))])
    held = parts(matrix, plan)
    if holds != "coefficients":
        held = {part: held[part] for part in ("strengths", "counts", "ranking")}
    if holds == "ranking":
        held = {"ranking": held["ranking"][["position", "feature"]]}
    if holds == "nothing":
        held = {}
    base: dict[str, Any] = {
        "plan": plan,
        "party": "B",
        "role": "target",
        "n": n,
        "cost": costs(changes.get("party", "B")),
        "alignment": TAG,
        **held,
    }
    return make_result(**(base | changes))


def explained_alone(source: str) -> Result:
    """The target's copy of a run at ``reveal: explained``."""
    plan = shared_plan(source, reveal="explained", results={"target": "explained"})
    numbers = {
        "explained": np.full((1, 3), 0.5),
        "explained_noise": np.zeros((1, 3)),
        "kept": np.array([2]),
        "gaps": np.zeros((1, 1)),
    }
    copy = Copy(plan, "B", "target", 5000)
    return Result(Explained.of(copy, numbers, Labels(target=FEATURES)), cost=costs("B"), alignment=TAG)


Save = Callable[..., list[Path]]


@pytest.fixture
def save(tmp_path: Path, no_pages: None) -> Save:
    def saved(*results: Result) -> list[Path]:
        return [each.save(tmp_path / f"run{number}") for number, each in enumerate(results)]

    return saved


def assert_same_numbers(first: Result, second: Result, exact: bool = True) -> None:
    pd.testing.assert_series_equal(first.strengths, second.strengths, check_exact=exact)
    pd.testing.assert_series_equal(first.counts, second.counts)
    if exact:
        for part in ("coefficients", "pvalues", "intervals", "qvalues", "ranking"):
            pd.testing.assert_frame_equal(getattr(first, part), getattr(second, part), check_exact=True)


# ---- numbers

rho = st.one_of(st.floats(-1, 1), st.just(math.nan))
matrices = st.lists(st.lists(rho, min_size=3, max_size=3), min_size=1, max_size=4)


@settings(max_examples=8)
@given(
    values=st.lists(matrices, min_size=2, max_size=4),
    strength=st.sampled_from(["mean", "mean_abs"]),
    order=st.sampled_from(["descending", "ascending"]),
)
def test_rows_are_stacked_and_strengths_are_those_of_all_rows(
    values: list[list[list[float]]], strength: str, order: str, save: Save, tmp_path: Path
) -> None:
    plan = {"strength": strength, "order": order}
    runs = save(*(result(f"S{k}", matrix, plan=plan) for k, matrix in enumerate(values)))
    merged = merge(runs, tmp_path / "out")
    everything = np.array([row for matrix in values for row in matrix])
    assert merged.coefficients.to_numpy().tobytes() == everything.tobytes()
    assert list(merged.coefficients.index) == [
        (f"S{k}", f"f{p}") for k, matrix in enumerate(values) for p in range(len(matrix))
    ]
    pooled = result("all", everything, plan=plan)
    pd.testing.assert_series_equal(merged.strengths, pooled.strengths, check_exact=True)
    pd.testing.assert_series_equal(merged.counts, pooled.counts)
    pd.testing.assert_frame_equal(merged.ranking, pooled.ranking, check_exact=True)

    # The same, where the target was granted strengths alone: weighted means, to the last digits.
    runs = save(*(result(f"S{k}", matrix, plan=plan, holds="strengths") for k, matrix in enumerate(values)))
    weighted = merge(runs, tmp_path / "out")
    assert_same_numbers(weighted, pooled, exact=False)
    assert not hasattr(weighted, "coefficients")
    assert "'strengths' on to the target" in (weighted.withheld("coefficients") or "")


def test_merging_in_two_steps_gives_the_same_as_at_once(save: Save, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    runs = save(*(result(f"S{k}", generator.uniform(-1, 1, (k + 1, 3))) for k in range(3)))
    at_once = merge(runs, tmp_path / "at once")
    merge(runs[:2], tmp_path / "two")
    in_steps = merge([tmp_path / "two", runs[2]], tmp_path / "three")
    assert_same_numbers(in_steps, at_once)
    assert in_steps.plan == at_once.plan
    pd.testing.assert_frame_equal(in_steps.cost, at_once.cost)
    assert at_once.plan.names[2:] == ("S0", "S1", "S2")
    assert at_once.alignment == TAG
    assert_same_numbers(Result.load(tmp_path / "at once"), at_once)


def test_the_plan_is_the_least_that_all_revealed(save: Save, tmp_path: Path) -> None:
    runs = save(
        result("A", [[0.5, 0.1, 0.2]], plan={"reveal": "differences"}),
        result("D", [[0.5, 0.1, 0.2], [0.1, 0.1, 0.1]], plan={"reveal": "strengths"}, holds="strengths"),
    )
    merged = merge(runs, tmp_path / "out")
    assert (merged.plan.reveal, merged.plan.results.target) == ("strengths", "strengths")
    assert merged.strengths.to_numpy() == pytest.approx([1.1 / 3, 0.1, 0.5 / 3])
    assert merged.counts.tolist() == [3, 3, 3]


def test_costs_are_summed_and_warnings_united(save: Save, tmp_path: Path) -> None:
    bigger = costs("B").assign(peak_memory_bytes=5000)
    runs = save(
        result("A", [[0.5, 0.1, 0.2]], warnings=["B.x is constant", "first"]),
        result("D", [[0.5, 0.1, 0.2]], warnings=["B.x is constant", "second"], cost=bigger),
    )
    merged = merge(runs, tmp_path / "out")
    assert merged.warnings[:3] == ("B.x is constant", "first", "second")
    assert "merged from 2 results" in merged.warnings[3]
    assert f"{runs[0]} (A; protocol mpc, plan " in merged.warnings[3]
    assert len(merged.warnings) == 4
    expected = costs("B")
    for column in expected.columns[2:-1]:
        expected[column] *= 2
    expected["peak_memory_bytes"] = 5000
    pd.testing.assert_frame_equal(merged.cost, expected)


# ---- real runs


def pooled_tables() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    generator = np.random.default_rng(11)
    sources = {
        "A": pd.DataFrame(generator.normal(size=(90, 3)), columns=["a", "b", "c"]),
        "D": pd.DataFrame(generator.integers(0, 5, size=(90, 2)), columns=["d", "e"]),
    }
    return sources, pd.DataFrame(generator.normal(size=(90, 3)), columns=FEATURES)


def run_one(source: str, out: Path, key: Path, **more: Any) -> Path:
    sources, target = pooled_tables()
    settings = load_plan(plan(source, **more), [f"parties.target.alignment_key={key}"])
    tables = {source: sources[source], "B": target}
    for name, table in tables.items():
        tables[name] = table.assign(id=[f"p{i}" for i in range(90)])
    return run_in_memory(settings, tables).results["B"].save(out)


def test_two_runs_merged_are_the_pooled_tables_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "b.key"
    runs = [run_one("A", tmp_path / "one", key), run_one("D", tmp_path / "two", key, **LIGHT)]
    assert main(["merge", *map(str, runs), "--out", str(tmp_path / "both")]) == 0
    shown = capsys.readouterr()
    assert "No pair differs from chance" in shown.out
    assert shown.out.splitlines()[-1] == f"Report: {tmp_path / 'both' / 'report.html'}"
    merged = Result.load(tmp_path / "both")
    sources, target = pooled_tables()
    expected = reference(sources, target)
    pd.testing.assert_frame_equal(merged.coefficients, expected.coefficients, rtol=1e-14)
    p = pvalues_of(expected.coefficients.to_numpy(), sources.values(), [target], estimator="tie_corrected")
    np.testing.assert_allclose(merged.pvalues, p, rtol=1e-12)
    pd.testing.assert_series_equal(merged.strengths, expected.strengths, rtol=1e-13)
    assert list(merged.ranking["feature"]) == list(expected.ranking["feature"])
    by_pandas = pd.concat([*sources.values(), target], axis=1).corr("spearman").loc[list("abcde"), FEATURES]
    np.testing.assert_allclose(merged.coefficients.to_numpy(), by_pandas.to_numpy(), rtol=1e-12)
    page = (tmp_path / "both" / "report.html").read_text()
    assert "merged from 2 results" in page

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            signal.raise_signal(signal.SIGINT)
            return 0

    with redirect_stdout(Output()):
        assert main(["merge", *map(str, runs), "--out", str(tmp_path / "again")]) == 130
    assert capsys.readouterr().err == f"interrupted: the results are in {tmp_path / 'again'}\n"


def test_weakened_columns_stay_so_when_merged_with_complete_runs(tmp_path: Path) -> None:
    """300 rows of the target: with A they are the same, and D has 4,000, of which 40 have a flag."""
    rng, key, runs = np.random.default_rng(0), tmp_path / "b.key", []
    many = pd.DataFrame({"rare": np.arange(4000) % 100 == 0, "w": rng.normal(size=4000)}, dtype=float)
    tables = {"A": pd.DataFrame({"x": rng.normal(size=300)}), "D": many}
    target = pd.DataFrame({"y": rng.normal(size=300)})
    for source, alignment in (("A", "same"), ("D", "intersect")):
        results = {"precision": "statistical", "target": "coefficients"}
        settings = plan(source, reveal="coefficients", alignment=alignment, results=results)
        settings = load_plan(settings, [f"parties.target.alignment_key={key}"])
        with_ids = {
            name: rows.assign(id=[f"p{i}" for i in range(len(rows))])
            for name, rows in ((source, tables[source]), ("B", target))
        }
        runs.append(run_in_memory(settings, with_ids).results["B"].save(tmp_path / source))
    merge(runs, tmp_path / "both")
    for folder, expected in (
        (runs[1], [True, False, False]),
        (tmp_path / "both", [False, True, False, False]),
    ):
        ranges = Result.load(folder).findings.tables["ranges"]
        assert ranges["weakened"].tolist() == expected


def test_runs_over_other_rows_are_refused(save: Save, tmp_path: Path) -> None:
    ids = id_array(["p1", "p2", "p3"])
    turned, fewer = (
        result("D", ROW, alignment=alignment_tag(tmp_path / "key", rows)) for rows in (ids[::-1], ids[:2])
    )
    first = result("A", ROW, alignment=alignment_tag(tmp_path / "key", ids))
    with pytest.raises(MergeError, match="other row ids, or another parties"):
        merge(save(first, fewer), tmp_path / "both")
    assert not (tmp_path / "both").exists()
    merge(save(first, turned), tmp_path / "both")  # no number depends on the order of rows


# ---- what is refused


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (result("D", ROW, party="T"), "the target differs: 'B' and 'T'"),
        (result("D", ROW, n=4999), "number of rows differs: 5000 and 4999"),
        (result("D", ROW, features=["x", "z", "y"]), "list of the target's features differs"),
        (result("D", ROW, plan={"estimator": "paper"}), "estimator differs: 'tie_corrected' and 'paper'"),
        (result("D", ROW, plan={"confidence": 0.9}), "confidence differs: 0.95 and 0.9"),
        (result("D", ROW, alignment="f" * 64), "other row ids, or another"),
        (result("D", ROW, alignment=None), r"no tag of its row ids.*set parties\.target\.alignment_key"),
        (result("A", ROW), r"party 'A' is in more than one of the runs \(.*run0, .*run1\)"),
        (result("a", ROW), "party 'a' is in more than one"),
        (result("D", ROW, role="coordinator", party="C"), "is the copy of C, the coordinator"),
        (result("D", ROW, holds="ranking"), r"orders cannot be merged.*\(results\.target\)"),
        (result("D", ROW, holds="nothing"), "holds nothing that can be merged"),
        (result("D", ROW, plan={"results": {"strongest": 2}}), r"the strongest results alone"),
        (explained_alone("D"), "its numbers cannot be merged: each is of one source alone"),
    ],
)
def test_results_that_do_not_belong_together(
    later: Result, message: str, save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = save(result("A", ROW), later)
    with pytest.raises(MergeError, match=message) as caught:
        merge(runs, tmp_path / "out")
    assert str(runs[1]) in str(caught.value)
    assert files(tmp_path) == ["run0", "run1"]
    assert main(["merge", *map(str, runs), "--out", str(tmp_path / "out")]) == 24
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_one_run_is_not_enough_and_twice_the_same_is_refused(save: Save, tmp_path: Path) -> None:
    (run,) = save(result("A", ROW))
    with pytest.raises(MergeError, match="at least two"):
        merge([run], tmp_path / "out")
    with pytest.raises(MergeError, match="party 'A' is in more than one"):
        merge([run, run], tmp_path / "out")


def test_nothing_is_overwritten(save: Save, tmp_path: Path) -> None:
    runs = save(result("A", ROW), result("D", ROW))
    with pytest.raises(OutputError, match="is one of the runs"):
        merge(runs, tmp_path / "x" / ".." / "run1")
    assert Result.load(runs[1]).plan.names == ("C", "B", "D")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match=r"thesis\.tex"):
        merge(runs, tmp_path / "mine")
    assert files(tmp_path) == ["mine", "run0", "run1"]
