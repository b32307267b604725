"""What the pages say of a run, held against a run of the demo."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from mpc_spearman import load_plan
from mpc_spearman.data.ranks import MAX_ROWS
from mpc_spearman.results import run_directory
from mpc_spearman.version import __version__
from mpc_spearman.wire.channel import HEADER
from mpc_spearman.wire.meter import COLUMNS, cost_phases
from support.pages import PAGES, ROOT, code, rows, script
from support.server import Command

RESULTS, COSTS = PAGES["docs/results.md"], PAGES["docs/costs.md"]


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{MAX_ROWS:,}" in COSTS.section("Limits")
    assert f"{MAX_ROWS:,}" in PAGES["docs/protocol.md"].section("Exact integers")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and where it leaves its results."""
    out = tmp_path_factory.mktemp("readme") / "demo"
    return local("configs/mpc.yaml", out), out


def local(plan: str, out: Path) -> str:
    """Run a plan; return what it prints."""
    run = Command(("local", plan, "--out", str(out)), folder=ROOT, environment=os.environ)
    shown, errors = run.communicate()
    assert run.returncode == 0, errors
    return shown


def words(text: str) -> list[str]:
    """Return words sorted, numbers without their values: noise may change these and the order of lines."""
    return sorted(re.sub(r"\d[\d.,e-]*", "0", re.sub("[-+<>=~]", " ", text)).split())


def test_the_version_to_cite_is_that_of_the_code() -> None:
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text().splitlines()


def test_commands_print_what_the_pages_show(demo: tuple[str, Path], tmp_path: Path) -> None:
    def printed(command: str) -> str:
        plan = command.removeprefix("mpc-spearman local ")
        return demo[0] if plan == "configs/mpc.yaml" else local(plan, tmp_path / "out")

    maker = script("docs/outputs.py")
    for path in maker.PAGES:
        shown = path.read_text(encoding="utf-8")
        assert words(shown) == words(maker.filled(shown, printed)), "run: python docs/outputs.py"


def test_the_demo_leaves_what_the_pages_list(demo: tuple[str, Path]) -> None:
    table = {code(row[0])[0]: row for row in rows(RESULTS.section("What a run leaves"), "file")}
    assert set(table) == set(run_directory.FILES)
    table_names = ("ranges", "adjustment", "categories", "nominal", "explained", "canonical")
    for name in ("status.json", *(f"{table_name}.csv" for table_name in table_names)):  # of other runs
        del table[name]
    plan = load_plan(ROOT / "configs" / "mpc.yaml")
    target, (source,) = plan.parties.target.name, plan.parties.sources
    assert {path.name for path in (demo[1] / "C").iterdir()} == set(table)
    # by default the target is granted the strengths, the source nothing
    whole = {name for name, row in table.items() if row[2] == "all" or row[2].startswith("C: all")}
    assert {path.name for path in (demo[1] / target).iterdir()} == whole | {"ranking.csv", "ranks.csv"}
    assert {path.name for path in (demo[1] / source.name).iterdir()} == whole

    for name, (_, content, _) in table.items():
        if name.endswith(".csv") and "," in content:
            header = (demo[1] / "C" / name).read_text().splitlines()[0]
            assert header.startswith(code(content)[0])
    assert code(table["cost.csv"][1])[0] == ",".join(COLUMNS)
    saved = json.loads((demo[1] / "C" / "result.json").read_text())
    assert set(code(table["result.json"][1])) <= set(saved)


def test_the_phases_are_those_in_which_something_happens(demo: tuple[str, Path]) -> None:
    text = " ".join(COSTS.section("What the figures count").split())
    (named,) = re.findall(r"steps of the protocol: ([a-zA-Z(), ;]+)\.", text)
    before, he, mpc, after = re.fullmatch(
        r"(.+); then (.+) \(HE\) or (.+) \(MPC\); then (.+)", named
    ).groups()
    assert [*before.split(", "), *he.split(", "), after] == [*cost_phases("he")[:-1]]
    assert [*before.split(", "), *mpc.split(", "), after] == [*cost_phases("mpc")[:-1]]
    cost = pd.read_csv(demo[1] / "C" / "cost.csv")
    busy = cost[cost.drop(columns=["party", "phase"]).any(axis=1)]["phase"]
    assert set(cost_phases("mpc")) - {"keep-alive"} == set(busy) - {"keep-alive"}
    assert set(cost["phase"]) == set(cost_phases("mpc"))
    assert f"{HEADER} bytes of header" in text


def test_a_sent_frame_is_received(demo: tuple[str, Path]) -> None:
    cost = pd.read_csv(demo[1] / "C" / "cost.csv")
    sums = cost[cost["phase"] != "keep-alive"].groupby("phase")[["bytes_sent", "bytes_received"]].sum()
    assert (sums["bytes_sent"] == sums["bytes_received"]).all()
    assert sums["bytes_sent"].sum() > 0
