"""The comparison: real runs side by side, resumed, limited, put on a network and drawn."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman import Result, compare
from mpc_spearman.cli import main
from mpc_spearman.comparison import (
    LAN,
    RUN,
    TIDY,
    WAN,
    Link,
    break_even,
    on_network,
    page,
    per_run,
    plots,
    sweep,
)
from mpc_spearman.comparison.data import tables
from mpc_spearman.comparison.shaping import unavailable
from mpc_spearman.comparison.variants import Size, variants
from mpc_spearman.config import Plan
from mpc_spearman.errors import BoundError, OutputError, PlanError, SetupError
from mpc_spearman.wire.meter import COLUMNS, costed
from support.harness import ROOT
from support.plans import plan
from support.processes import TAG, eventually, new_tag, processes

CONFIGS = ROOT / "configs"


# --- real runs, interrupted and continued -----------------------------------------------------------------

ARGUMENTS = ["compare", "mpc.yaml", "strengths.yaml", "--rows", "40", "--features", "2x3", "--out"]


def command(out: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "mpc_spearman.cli.main", *ARGUMENTS, str(out)]


def run_folders(out: Path) -> dict[str, int]:
    """Finished runs, and when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (out / "runs").glob("[!.]*/C")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A sweep by the command, interrupted by Ctrl-C when its first run has ended, and continued."""
    out = tmp_path_factory.mktemp("compare") / "sweep"
    tag = new_tag()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **tag, "COLUMNS": "120"}
    first = subprocess.Popen(
        command(out), cwd=CONFIGS, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: run_folders(out) or first.poll() is not None)
    first.send_signal(signal.SIGINT)
    _, complaint = first.communicate()
    before = run_folders(out)
    # A role that was just being started ends by itself: its lifeline is cut.
    eventually(lambda: not processes(tag[TAG]))
    parts = [path.name for path in out.rglob("*.part")]
    second = subprocess.run(command(out), cwd=CONFIGS, env=environment, capture_output=True, text=True)
    return {
        "out": out,
        "interrupted": (first.returncode, complaint, before, parts),
        "second": second,
    }


def test_an_interrupted_sweep_keeps_what_had_ended(swept: dict[str, Any]) -> None:
    code, complaint, before, parts = swept["interrupted"]
    assert code == 130
    assert complaint.startswith("interrupted: the runs that had ended are in ")
    assert len(before) == 1
    assert parts == []


def test_the_same_command_goes_on(swept: dict[str, Any]) -> None:
    second, before = swept["second"], swept["interrupted"][2]
    assert second.returncode == 0, second.stderr
    after = run_folders(swept["out"])
    assert len(after) == 2
    assert {name: after[name] for name in before} == before  # not run again
    started = re.findall(r"compare: run \d of 2: (.+)", second.stdout)
    assert started == ["MPC, strengths, tie_corrected, 40 rows, 2 × 3 columns"]
    assert f"Page: {swept['out'] / 'comparison.html'}" in second.stdout
    lines = [line for line in second.stdout.splitlines() if line.startswith("MPC ")]
    assert [line.split()[1:4] for line in lines] == [
        [level, "40", "2x3"] for level in ("coefficients", "strengths")
    ]


def test_the_table_is_the_sum_of_the_runs_costs(swept: dict[str, Any]) -> None:
    table = pd.read_csv(swept["out"] / "comparison.csv")
    assert list(table.columns) == TIDY
    figures = dict(
        zip(
            ("seconds", "wait", "bytes", "received", "messages", "rounds", "memory"), COLUMNS[2:], strict=True
        )
    )
    rows = 0
    for run, part in table.groupby(RUN, sort=False):
        _, scheme, level, estimator, n, m_a, m_b, repeat = run
        folder = swept["out"] / "runs" / f"{scheme.lower()}-{level}-{estimator}-{n}-{m_a}x{m_b}-{repeat}"
        for party, own in part.groupby("party"):
            # each party's own copy, not only the coordinator's
            cost = pd.read_csv(folder / str(party) / "cost.csv")
            cost = cost[cost["party"] == party].set_index("phase")
            for ours, theirs in figures.items():
                assert own.set_index("phase")[ours].to_dict() == cost[theirs].to_dict()
            rows += len(cost)
    assert rows == len(table) == 2 * 3 * len(costed("mpc"))


def test_python_reads_the_same_sweep(swept: dict[str, Any]) -> None:
    told: list[str] = []
    plans = [CONFIGS / "mpc.yaml", CONFIGS / "strengths.yaml"]
    table = compare(
        plans, [(40, 2, 3)], network=WAN, out=swept["out"], note=lambda _, text: told.append(text)
    )
    assert told == []
    pd.testing.assert_frame_equal(table[TIDY], pd.read_csv(swept["out"] / "comparison.csv"))
    assert list(table.columns) == [*TIDY, "transfer", "latency"]
    assert table.attrs["left_out"] == []
    matrix = Result.load(swept["out"] / "runs" / "mpc-coefficients-tie_corrected-40-2x3-1" / "C").coefficients
    made = tables(plan(), Size(40, 2, 3))
    pooled = pd.concat([made["A"], made["B"]], axis=1).drop(columns="id").corr("spearman").iloc[:2, 2:]
    np.testing.assert_allclose(matrix.to_numpy(), pooled.to_numpy(), atol=1e-14)


def test_the_page_and_the_plots_are_there_and_fetch_nothing(swept: dict[str, Any]) -> None:
    text = (swept["out"] / "comparison.html").read_text()
    assert not re.search(r"""(?:href|src)=["'](?!data:)|url\(|@import|<script""", text)
    assert text.count("<img ") == 2
    names = {path.name for path in (swept["out"] / "plots").iterdir()}
    drawn = ("phases", "bandwidth")
    assert names == {f"{name}.{kind}" for name in drawn for kind in ("svg", "pdf")}


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_a_run_on_a_real_network_beside_the_model(tmp_path: Path) -> None:
    link = Link(bandwidth=5e7, rtt=0.1)
    table = compare([plan()], [(60, 2, 3)], network=link, out=tmp_path / "sweep", shape=True)
    (run,) = per_run(table).to_dict("records")
    # Its rounds take at least half an RTT each there, and hardly anything here.
    assert run["rounds"] >= 4
    assert run["shaped"] > run["rounds"] * link.rtt / 2
    here, there = sorted((tmp_path / "sweep" / "runs").glob("*/C"))
    one, other = Result.load(here), Result.load(there)
    pd.testing.assert_frame_equal(one.coefficients, other.coefficients, check_exact=True)
    assert there.parent.name == f"{here.parent.name}-on-50-mbit-s-100-ms"
    elapsed = other.cost.set_index(["party", "phase"])[["seconds", "wait_seconds"]].sum(axis=1)
    assert table.set_index(["party", "phase"])["shaped"].to_dict() == elapsed.to_dict()
    assert f"{link}, measured" in (tmp_path / "sweep" / "comparison.html").read_text()


def test_a_real_network_takes_a_network_and_a_machine_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="shape: give the network, too"):
        compare([plan()], [(60, 2, 3)], shape=True)
    monkeypatch.setattr(sweep, "unavailable", lambda: "network namespaces take Linux and root")
    with pytest.raises(SetupError, match="take Linux and root"):
        compare([plan()], [(60, 2, 3)], network=WAN, shape=True)


# --- the same without processes ---------------------------------------------------------------------------


class FakeRuns:
    """In place of `run_local`: writes run directories at once, or fails as told."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.error: Exception | None = None
        self.slow: tuple[str, int] | None = None
        self.clock = 0.0

    def __call__(
        self,
        plan: Plan,
        frames: Mapping[str, pd.DataFrame],
        *,
        out: Path,
        watch: Any,
        note: Any,
        hosts: object = None,
    ) -> None:
        assert hosts is None
        n = len(frames["B"])
        self.done.append((plan.reveal, n))
        if self.error is not None:
            raise self.error
        if self.slow is not None and self.slow[0] == plan.reveal and n >= self.slow[1]:
            self.clock += 60.0
        watch("A", "rank", 0, 0)
        phases = costed(plan.protocol)
        numbers = {name: range(k, k + 3 * len(phases)) for k, name in enumerate(COLUMNS[2:])}
        who = {"party": [p for p in "CBA" for _ in phases], "phase": [*phases] * 3}
        roles = {"C": "coordinator", "B": "target", "A": "source"}
        cost = pd.DataFrame({**who, **numbers})
        for party, role in roles.items():
            result = Result(plan=plan.shared(), party=party, role=role, n=n, cost=cost)  # type: ignore[arg-type]
            result.save(out / party)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    """Runs without processes, and pages without figures, which take seconds to draw."""
    runs = FakeRuns()
    monkeypatch.setattr(sweep, "run_local", runs)
    monkeypatch.setattr(sweep, "monotonic", lambda: runs.clock)
    monkeypatch.setattr(page, "figures", lambda table, network: {})
    return runs


LEVELS = [plan(), plan(reveal="strengths")]


def test_a_sweep_may_grow_and_runs_only_what_is_new(fake: FakeRuns, tmp_path: Path) -> None:
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path / "s")
    fake.done.clear()
    table = compare(LEVELS, [(50, 2, 2), (40, 2, 2)], repeats=2, out=tmp_path / "s")
    # the smallest first; of what was there, nothing again
    assert fake.done == [
        ("strengths", 40), ("coefficients", 40), ("strengths", 40),
        ("coefficients", 50), ("strengths", 50), ("coefficients", 50), ("strengths", 50),
    ]  # fmt: skip
    assert len(table.drop_duplicates(RUN)) == 8
    assert len(per_run(table)) == 8


def test_a_run_whose_directory_is_not_whole_is_run_again(fake: FakeRuns, tmp_path: Path) -> None:
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    for file in (folder / "A").iterdir():
        file.unlink()
    (folder / "A").rmdir()
    compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path)
    assert fake.done == [("coefficients", 40)] * 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"plans": [plan(network={"timeout": 30.0}), *LEVELS[1:]]}, "network.timeout: 30.0 here, 60.0 there"),
        ({"plans": [plan(he={"workers": 1}), *LEVELS[1:]]}, "workers: 1 here, null there"),
        ({"plans": LEVELS[1:]}, "it has the plan 'MPC, coefficients, tie_corrected' too"),
        ({"sizes": [(50, 2, 2)]}, "it has 40 rows, 2 × 2 columns too"),
        ({"repeats": 1}, "it has 2 repeats"),
    ],
)
def test_other_settings_are_refused(
    fake: FakeRuns, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"plans": LEVELS, "sizes": [(40, 2, 2)], "repeats": 2, "out": tmp_path}
    compare(**given)
    fake.done.clear()
    with pytest.raises(OutputError, match=re.escape(named)) as refusal:
        compare(**{**given, **change})
    assert str(tmp_path) in str(refusal.value)
    assert fake.done == []
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
    fake: FakeRuns, tmp_path: Path, key: str, value: Any, named: str
) -> None:
    compare(LEVELS, [(40, 2, 2)], out=tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(OutputError, match=re.escape(named)):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)


def test_a_foreign_directory_is_left_alone(fake: FakeRuns, tmp_path: Path) -> None:
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


def test_without_a_directory_nothing_is_left(
    fake: FakeRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert len(compare(LEVELS, [(40, 2, 2)])) == 2 * 3 * len(costed("mpc"))
    assert list(tmp_path.iterdir()) == []


def test_a_run_over_the_limit_is_stopped_and_none_that_is_larger_started(
    fake: FakeRuns, tmp_path: Path
) -> None:
    fake.slow = ("coefficients", 50)
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
    assert ("coefficients", 60) not in fake.done
    assert "stopped after 50.0 s" in (tmp_path / "comparison.html").read_text()

    fake.done.clear()
    assert "it took longer" in compare(**given, limit=40).attrs["left_out"][0]
    assert fake.done == []
    # A higher limit is another chance.
    assert compare(**given, limit=100, network=LAN).attrs["left_out"] == []
    assert fake.done == [("coefficients", 50), ("coefficients", 60)]


def test_where_every_run_is_stopped_there_is_still_a_page(fake: FakeRuns, tmp_path: Path) -> None:
    fake.slow = ("coefficients", 3)
    table = compare(LEVELS[:1], [(40, 2, 2)], out=tmp_path, limit=50)
    assert len(table) == 0
    assert list(table.columns) == TIDY
    assert "Not measured" in (tmp_path / "comparison.html").read_text()


def test_a_run_that_fails_is_named(fake: FakeRuns, tmp_path: Path) -> None:
    fake.error = BoundError("too large")
    with pytest.raises(
        BoundError, match=r"^MPC, coefficients, tie_corrected, 40 rows, 2 × 2 columns: too large"
    ):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path)


def test_a_real_run_over_the_limit_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = new_tag()[TAG]
    monkeypatch.setenv(TAG, tag)
    table = compare(LEVELS[:1], [(40, 2, 2)], limit=0.001)
    assert len(table.attrs["left_out"]) == 1
    assert processes(tag) == []


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
def test_wrong_arguments_are_named(fake: FakeRuns, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        compare(**{"plans": LEVELS, "sizes": [(40, 2, 2)], **arguments})


def test_without_matplotlib_a_page_is_refused_before_anything_runs(
    fake: FakeRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"Run: pip install matplotlib$"):
        compare(LEVELS, [(40, 2, 2)], out=tmp_path / "s")
    assert fake.done == []
    assert not (tmp_path / "s").exists()
    compare(LEVELS, [(40, 2, 2)])  # the table alone needs none


# --- names ------------------------------------------------------------------------------------------------

HE = {"protocol": "he"}
LITERAL = {"pairs": "all", "packing": False}


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ({}, "MPC"),
        ({**HE, "he": {"scheme": "bfv"}}, "HE BFV"),
        (HE, "HE Paillier packed"),
        ({**HE, "he": {"randomness": "short"}}, "HE Paillier short"),
        ({**HE, "he": {"key_bits": 2048, "workers": 2}}, "HE Paillier packed, key_bits=2048, workers=2"),
        ({**HE, "reveal": "differences", "he": LITERAL}, "HE Paillier literal"),
        ({**HE, "reveal": "differences", "he": {"pairs": "all"}}, "HE Paillier packed, pairs=all"),
    ],
)
def test_a_scheme_is_named_by_what_changes_its_cost(settings: dict[str, Any], scheme: str) -> None:
    (variant,) = variants([plan(**settings)])
    assert variant.scheme == scheme
    assert variant.level == settings.get("reveal", "coefficients")


def test_the_plans_here_can_be_compared_and_lose_their_tables() -> None:
    # The others are one of these at other parties.
    others = ("cluster.yaml", "two_sources.yaml")
    found = variants(sorted(path for path in CONFIGS.glob("*.yaml") if path.name not in others))
    for name in others:
        assert str(variants([CONFIGS / name])[0]) in {str(variant) for variant in found}
    assert {variant.scheme for variant in found} == {"MPC", "HE BFV", "HE Paillier literal"}
    for variant in found:
        assert variant.plan.rows is None
        assert variant.plan.parties.target.table is None
    assert len({variant.folder(Size(10, 2, 2), 1) for variant in found}) == len(found)


def test_made_up_tables_are_the_same_again_and_have_ties() -> None:
    one, again = (tables(plan(), Size(200, 4, 3)) for _ in range(2))
    for party, m in (("A", 4), ("B", 3)):
        pd.testing.assert_frame_equal(one[party], again[party])
        assert one[party].shape == (200, m + 1)
        distinct = one[party].drop(columns="id").nunique()
        assert (distinct < 20).sum() == 1
        assert (distinct == 200).sum() == m - 1


# --- the network model --------------------------------------------------------------------------------------


def made_table() -> pd.DataFrame:
    """Two phases and the handshake of a run, made up so that every sum is easy."""
    about = ["mpc", "MPC", "coefficients", "tie_corrected", 10, 2, 2, 1]
    rows = [
        # phase, party, seconds, wait, bytes, received, messages, rounds, memory
        ("connect", "C", 9.0, 9.0, 10**9, 10**9, 9, 9, 50),
        ("share", "C", 0.5, 1.0, 0, 0, 0, 0, 10),
        ("reveal", "C", 0.25, 0.0, 0, 3000, 0, 3, 20),
        ("keep-alive", "C", 0.0, 0.0, 10**9, 10**9, 9, 0, 0),
        ("connect", "A", 9.0, 10.0, 10**9, 10**9, 9, 9, 70),
        ("share", "A", 1.0, 0.0, 2000, 1000, 2, 1, 30),
        ("reveal", "A", 0.0, 0.0, 1500, 0, 1, 1, 5),
        ("keep-alive", "A", 0.0, 0.0, 10**9, 10**9, 9, 0, 0),
    ]  # fmt: skip
    return pd.DataFrame([[*about, *row] for row in rows], columns=TIDY)


def test_a_run_is_summed_up_without_the_handshake() -> None:
    (run,) = per_run(made_table()).to_dict("records")
    assert run["seconds"] == 1.75
    assert (run["bytes"], run["messages"], run["rounds"], run["memory"]) == (3500, 3, 3, 30)
    assert run["connect"] == 19.0
    assert "modelled" not in run


def test_the_network_adds_transfer_and_latency() -> None:
    link = Link(bandwidth=8000, rtt=0.1)  # 1000 bytes a second
    table = on_network(made_table(), link)
    (run,) = per_run(table).to_dict("records")
    assert run["transfer"] == pytest.approx(
        2.0 + 3.0
    )  # A sends 2000 while sharing, C receives 3000 at the end
    assert run["latency"] == pytest.approx(3 * 0.05)
    assert run["modelled"] == pytest.approx(1.75 + 5.0 + 0.15)
    apart = table[table["phase"].isin(["connect", "keep-alive"])]
    assert (apart[["transfer", "latency"]] == 0).all(axis=None)


def test_the_presets_are_what_they_are_called() -> None:
    assert (str(LAN), str(WAN)) == ("1000 Mbit/s, 1 ms", "100 Mbit/s, 40 ms")


@pytest.mark.parametrize(
    ("bandwidth", "rtt"), [(0, 1), (-1, 1), (float("nan"), 1), (1, -1), (1, float("inf"))]
)
def test_a_link_that_cannot_be_is_refused(bandwidth: float, rtt: float) -> None:
    with pytest.raises(PlanError, match=r"bandwidth: |rtt: "):
        Link(bandwidth, rtt)


positive = st.floats(1e-3, 1e3)


@given(st.tuples(positive, positive, positive), st.tuples(positive, positive, positive))
def test_at_the_break_even_bandwidth_both_take_equally_long(
    one: tuple[float, ...], other: tuple[float, ...]
) -> None:
    first, second = (pd.Series(run, index=["seconds", "latency", "transfer"]) for run in (one, other))
    factor = break_even(first, second)

    def modelled(run: pd.Series, times: float) -> float:
        return float(run["seconds"] + run["latency"] + run["transfer"] / times)

    if factor is not None:
        assert modelled(first, factor) == pytest.approx(modelled(second, factor), rel=1e-6)
    else:  # one is faster at the lowest bandwidth and at the highest
        ahead = [modelled(first, times) - modelled(second, times) for times in (1e-9, 1e9)]
        assert ahead[0] * ahead[1] >= 0 or min(map(abs, ahead)) < 1e-5


# --- figures ----------------------------------------------------------------------------------------------


def made_runs() -> pd.DataFrame:
    """A table of two schemes, two levels, two sizes and repeats."""
    parts = []
    for factor, (scheme, level) in enumerate(
        [(s, lv) for s in ("MPC", "HE BFV") for lv in ("differences", "coefficients")], start=1
    ):
        for n in (10, 1000):
            for repeat in (1, 2):
                part = made_table().assign(scheme=scheme, level=level, n=n, repeat=repeat)
                parts.append(part.assign(seconds=part["seconds"] * factor * n, bytes=part["bytes"] * n))
    return pd.concat(parts, ignore_index=True)


def test_figures_are_the_same_again_and_fetch_nothing() -> None:
    first, again = (page.figures(made_runs(), None) for _ in range(2))
    assert list(first) == ["time-by-rows", "bytes-by-rows", "phases", "bandwidth"]
    for name, (title, figure) in first.items():
        drawing = plots.svg(figure)
        assert drawing == plots.svg(again[name][1])
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert not re.search(r"href=\"(?!#)|url\((?!#)|@import|<script", drawing)
        assert plots.pdf(figure).startswith(b"%PDF")
        assert title


def test_a_figure_names_its_axes_levels_and_schemes() -> None:
    text = "".join(
        ElementTree.fromstring(plots.svg(plots.scaling(per_run(made_runs()), "n", "seconds"))).itertext()
    )
    for word in ("rows n", "time", "differences", "coefficients", "MPC", "HE BFV", "10", "1k"):
        assert word in text


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.9), (0.3, 6.2), (0.21, 9.9), (0.4, 60.0), (0.01, 9000.0)])
def test_an_axis_has_a_few_ticks_however_long_it_is(low: float, high: float) -> None:
    runs = per_run(made_runs())
    runs["seconds"] = np.where(runs["n"] == 10, low, high)
    for axes in plots.scaling(runs, "n", "seconds").axes:
        bottom, top = axes.get_ylim()
        assert 3 <= sum(bottom <= tick <= top for tick in axes.get_yticks()) <= 8


def test_what_was_not_measured_is_drawn_as_that() -> None:
    runs = per_run(made_runs())
    guess = runs[runs["n"] == 1000].assign(n=50_000)
    text = "".join(ElementTree.fromstring(plots.svg(plots.scaling(runs, "n", "bytes", guess))).itertext())
    assert "extrapolated" in text
    assert "50k" in text


def test_both_estimators_of_a_scheme_are_two_lines() -> None:
    runs = per_run(pd.concat([made_runs(), made_runs().assign(estimator="paper")]))
    text = "".join(ElementTree.fromstring(plots.svg(plots.scaling(runs, "n", "seconds"))).itertext())
    assert "MPC, paper" in text
    assert "MPC, tie_corrected" in text


def test_the_page_shows_medians_on_every_network() -> None:
    table = made_runs()
    text = page.render(table, Link(1e6, 0.2), {})
    assert text.count("<tr>") == 1 + 8
    for words in ("LAN, modelled", "yours, modelled", "1 Mbit/s, 200 ms", "Up to 2 runs of each"):
        assert words in text


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
    fake: FakeRuns,
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
    assert fake.done == []


def test_the_commands_limit_is_that_of_python() -> None:
    parsed = main._parser().parse_args(["compare", "p", "--rows", "9", "--features", "1x1", "--out", "o"])
    assert parsed.limit == sweep.LIMIT


def test_the_command_says_what_was_not_measured(
    fake: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.slow = ("coefficients", 50)
    given = [
        "compare",
        str(CONFIGS / "mpc.yaml"),
        "--rows",
        "40",
        "60",
        "--features",
        "2x2",
        "--limit",
        "50",
    ]
    assert main.main([*given, "--bandwidth", "10", "--rtt", "100", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Not measured: MPC, coefficients, tie_corrected, 60 rows, 2 × 2 columns: stopped" in printed
    assert "yours" in printed
