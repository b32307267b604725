"""The README says what the code does: tables, commands, figures and links are held against it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import pandas as pd
import pytest
from pydantic import BaseModel

from mpc_spearman import load_plan
from mpc_spearman.cli import main
from mpc_spearman.config import DataParty, Plan, Protocol, TargetParty
from mpc_spearman.data.ranks import MAX_ERROR, MAX_ROWS, check_bounds
from mpc_spearman.errors import ERRORS, BoundError, PlanError
from mpc_spearman.installed import INSTALL_CRYPTEN
from mpc_spearman.results import run_directory
from mpc_spearman.results.result import Result
from mpc_spearman.statistics.reference import reference
from mpc_spearman.wire.frames import HEADER
from mpc_spearman.wire.keys import Box
from mpc_spearman.wire.meter import COLUMNS, costed

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    (found,) = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", _without_code(), re.M | re.S)
    return str(found)


def _without_code() -> str:
    # A comment in a code block looks like a heading.
    return re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)


def rows(text: str, first: str) -> list[list[str]]:
    """Body cells of the one table in `text` whose header begins with `first`."""
    blocks = re.findall(r"^\|.*(?:\n\|.*)*", text, re.M)
    (block,) = (block for block in blocks if block.startswith(f"| {first}"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


def code(text: str) -> list[str]:
    """Everything between backticks."""
    return re.findall(r"`([^`]+)`", text)


def blocks(language: str = "") -> list[str]:
    # All fences at once: the end of one in another language must not pass for a beginning.
    found = re.findall(r"^```(\w*)\n(.*?)^```", README, re.M | re.S)
    return [text for its_language, text in found if its_language == language]


def commands() -> list[list[str]]:
    """Every `mpc-spearman …` in a code block or between backticks, as arguments."""
    lines = [line for block in blocks() for line in block.splitlines()] + code(_without_code())
    return [shlex.split(line)[1:] for line in lines if line.startswith("mpc-spearman ")]


# --- who learns what ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    path = ROOT / "docs" / "who_learns_what.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_who_learns_what_are_those_of_the_view_table(maker: ModuleType) -> None:
    made = README.partition(maker.BEGIN)[2].partition(maker.END)[0].strip()
    assert made == maker.tables(), "run: python docs/who_learns_what.py"
    assert maker.levels() == ["differences", "coefficients", "strengths"]


def test_the_tables_show_what_depends_on_settings(maker: ModuleType) -> None:
    grants, sources = ("nothing", "ranking", "strengths"), ("one", "several")
    every = set(product(("mpc", "he"), ("tie_corrected", "paper"), grants, sources))
    assert maker.cell(set(), every) == "–"
    assert maker.cell(every, every) == "yes"
    assert maker.cell({choice for choice in every if choice[0] == "mpc"}, every) == "if `mpc`"
    assert maker.cell({choice for choice in every if choice[2] != "nothing"}, every) == "if granted `ranking`"
    both = {choice for choice in every if choice[1:3] == ("paper", "strengths")}
    assert maker.cell(both, every) == "if `paper`, if granted `strengths`"
    total = {choice for choice in every if choice[1::2] == ("tie_corrected", "several")}
    assert maker.cell(total, every) == "if `tie_corrected`, of several sources"
    with pytest.raises(ValueError, match="decide together"):
        maker.cell({("mpc", "paper", "ranking", "one"), ("mpc", "tie_corrected", "strengths", "one")}, every)


def test_the_tables_are_written_between_their_marks(
    maker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    monkeypatch.setattr(maker, "README", page)
    page.write_text(f"before\n{maker.BEGIN}\nold\n{maker.END}\nafter\n", encoding="utf-8")
    assert maker.main() == 0
    assert page.read_text() == f"before\n{maker.BEGIN}\n{maker.tables()}\n{maker.END}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    assert maker.main() == 1
    assert page.read_text() == "no marks"
    assert "has no lines" in capsys.readouterr().err


# --- the plan -------------------------------------------------------------------------------------------


def leaves(model: type[BaseModel], above: str = "") -> dict[str, Any]:
    """Dotted key to field, for every key of a model that holds a value."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        if inner is None:
            found[above + name] = field
        else:
            item = ".0" if get_origin(field.annotation) is tuple else ""
            found |= leaves(inner, f"{above}{name}{item}.")
    return found


def _model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model, get_args(annotation))), None)


def choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return next(filter(None, map(choices, get_args(annotation))), [])


def parties(**local: Any) -> dict[str, Any]:
    return {"coordinator": {"name": "C"}, "target": {"name": "B"}, "sources": [{"name": "A", **local}]}


def check_default(stated: str, real: Any) -> None:
    """A default in backticks is the real one; words stand for None, an empty list, and what has none."""
    shown = code(stated)
    if not shown:
        assert stated in ("all", "all C has", "all others", "all processors", "none", "needed")
        assert real in (None, (), []) or str(real) == "PydanticUndefined"
    elif isinstance(real, (tuple, list)):
        assert shown == list(real)
    else:
        assert shown == [str(real).lower() if isinstance(real, bool) else str(real)]


def accepts(key: str, value: str) -> bool:
    # At the level where nothing else limits the choice.
    try:
        load_plan({"parties": parties()}, ["reveal=coefficients", f"{key}={value}"])
    except PlanError:
        return False
    return True


def test_the_shared_keys_are_those_of_the_plan() -> None:
    table = {code(row[0])[0]: row for row in rows(section("The plan"), "shared key")}
    fields = leaves(Plan)
    local = {f"parties.target.{key}" for key in leaves(TargetParty)}
    local |= {f"parties.sources.0.{key}" for key in leaves(DataParty)}
    local |= {"parties.coordinator.listen"}
    # A protocol that is not available yet has settings that are not documented yet.
    unavailable = {
        key
        for key in fields
        if key.partition(".")[0] in get_args(Protocol) and not accepts("protocol", key.partition(".")[0])
    }
    known = set(fields) - (local - {"parties.target.name", "parties.sources.0.name"})
    assert set(table) == known - unavailable
    for key, (_, default, allowed, _) in table.items():
        check_default(default, fields[key].default)
        values = choices(fields[key].annotation)
        if values:
            assert sorted(code(allowed)) == sorted(value for value in values if accepts(key, value)), key


def test_the_local_keys_are_those_of_a_data_party() -> None:
    table = {code(row[0])[0]: row for row in rows(section("The plan"), "local key")}
    fields = leaves(TargetParty)
    assert set(table) == set(fields) - {"name"}
    for key, (_, default, allowed, _) in table.items():
        check_default(default, fields[key].default)
        if choices(fields[key].annotation):
            assert sorted(code(allowed)) == sorted(choices(fields[key].annotation)), key


@pytest.mark.parametrize(
    ("key", "lowest"),
    [("rows", 3), ("privacy.min_group", 1), ("privacy.min_rows_per_feature", 0)],
)
def test_the_lowest_values_are_right(key: str, lowest: int) -> None:
    (row,) = (row for row in rows(section("The plan"), "shared key") if row[0] == f"`{key}`")
    assert row[2] == f"{lowest} or more"
    assert accepts(key, str(lowest))
    assert not accepts(key, str(lowest - 1))


@pytest.mark.parametrize("setting", ["reveal=ranking"])
def test_what_is_called_not_available_is_refused_as_that(setting: str) -> None:
    key, _, value = setting.partition("=")
    assert f"`{key}: {value}`" in README.partition("## Try it")[0]
    with pytest.raises(PlanError, match="not available yet"):
        load_plan({"parties": parties()}, [setting])


# --- errors, files, attributes --------------------------------------------------------------------------


def test_the_exit_codes_are_those_of_the_errors() -> None:
    table = rows(section("Exit codes"), "code")
    stated = {code(row[1])[0]: int(row[0]) for row in table if row[1]}
    real = {name: error.exit_code for name, error in ERRORS.items() if name != "NotRevealed"}
    assert stated == real
    assert [int(row[0]) for row in table if not row[1]] == [0, 130]


def test_the_result_attributes_are_all_there() -> None:
    stated = [name for row in rows(section("Use it from Python"), "attribute") for name in code(row[0])]
    real = [name for name, value in vars(Result).items() if isinstance(value, property)]
    assert sorted(stated) == sorted(real)


def test_the_limits_are_those_of_the_code() -> None:
    text = section("Limits")
    assert f"3 to {MAX_ROWS:,} rows" in text
    assert f"within {MAX_ERROR:g}".replace("1e-09", "1e-9") in text
    assert "about 2.6 million" in text
    assert "divided by the cube root of the number of\n  sources" in text
    for sources in (1, 2, 8):
        most = int(2_600_000 / sources ** (1 / 3))
        check_bounds(most, 100, reveal="strengths", estimator="tie_corrected", sources=sources)
        with pytest.raises(BoundError):
            check_bounds(
                most * 265 // 260, sources, reveal="strengths", estimator="tie_corrected", sources=sources
            )


def test_the_install_command_is_the_one_the_error_names() -> None:
    assert [block.splitlines() for block in blocks() if "pip " in block] == [
        ["pip install .", INSTALL_CRYPTEN]
    ]


# --- commands -------------------------------------------------------------------------------------------


def test_the_commands_are_understood() -> None:
    found = commands()
    assert len(found) >= 4
    for arguments in found:
        if len(arguments) == 1:  # the command's name in a sentence
            continue
        parsed = main._parser().parse_args(arguments)
        for path in getattr(parsed, "plans", ()):
            load_plan(ROOT / path)
        if not hasattr(parsed, "plan"):
            continue
        tables = dict(parsed.table) if arguments[0] == "local" else {}
        if arguments[0] == "join" and parsed.table:
            tables = {parsed.party: parsed.table}
        plan = load_plan(ROOT / parsed.plan, parsed.settings, tables)
        everyone = (plan.parties.target, *plan.parties.sources)
        needed = (
            everyone if arguments[0] == "local" else [own for own in everyone if own.name == parsed.party]
        )
        for party in needed:
            assert party.table is not None


def test_the_options_are_those_of_the_command() -> None:
    parser = main._parser()
    (commands_action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert {arguments[0] for arguments in commands()} == set(commands_action.choices)
    real = {
        option
        for command in commands_action.choices.values()
        for action in command._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    used = {word for arguments in commands() for word in arguments if word.startswith("--")}
    others = {"--slow", "--master_port"}  # of a benchmark, and of torchrun
    named = {word for word in code(_without_code()) if word.startswith("--")} - others
    assert used | named == real - {"--help"}


def test_the_make_targets_and_plans_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", README, re.M))
    targets = {name for pair in named for name in pair if name}
    assert targets == {"demo", "test", "test-all", "notebooks", "check", "install"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target
    text = section("The plan")
    for plan in (ROOT / "configs").glob("*.yaml"):
        assert f"(configs/{plan.name})" in text


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", _without_code())
    assert len(targets) > 10
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", _without_code(), re.M)
    }
    for target in targets:
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("https://"):
            assert (ROOT / target).exists(), target


def test_every_path_named_exists() -> None:
    for word in code(_without_code()):
        if re.match(r"(docs|configs|launchers|mpc_spearman|notebooks)/", word):
            assert (ROOT / word).exists(), word


# --- what a run gives -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and where it leaves its results."""
    out = tmp_path_factory.mktemp("readme") / "demo"
    command = [sys.executable, "-m", "mpc_spearman.cli.main", "local", "configs/mpc.yaml", "--out", str(out)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return run.stdout, out


def test_the_demo_prints_what_the_readme_shows(demo: tuple[str, Path]) -> None:
    (shown,) = (block for block in blocks() if "ranks first" in block)
    assert shown in demo[0]


def test_the_demo_leaves_what_the_readme_lists(demo: tuple[str, Path]) -> None:
    table = {code(row[0])[0]: row for row in rows(section("What a run leaves"), "file")}
    assert set(table) == set(run_directory.FILES)
    del table["status.json"]  # of `join` alone
    plan = load_plan(ROOT / "configs" / "mpc.yaml")
    target, (source,) = plan.parties.target.name, plan.parties.sources
    assert {path.name for path in (demo[1] / "C").iterdir()} == set(table)
    # by default the target is granted everything, the source nothing
    assert {path.name for path in (demo[1] / target).iterdir()} == set(table) - {"estimators.csv"}
    whole = {name for name, row in table.items() if row[2] == "all" or row[2].startswith("C: all")}
    assert {path.name for path in (demo[1] / source.name).iterdir()} == whole

    for name, (_, content, _) in table.items():
        if name.endswith(".csv") and "," in content:
            header = (demo[1] / "C" / name).read_text().splitlines()[0]
            assert header.startswith(code(content)[0])
    assert code(table["cost.csv"][1])[0] == ",".join(COLUMNS)
    about = json.loads((demo[1] / "C" / "result.json").read_text())
    assert set(code(table["result.json"][1])) <= set(about)


def test_the_phases_are_those_in_which_something_happens(demo: tuple[str, Path]) -> None:
    text = " ".join(section("What the cost figures count").split())
    (named,) = re.findall(r"steps of the protocol: ([a-zA-Z(), ;]+)\.", text)
    before, he, mpc, after = re.fullmatch(
        r"(.+); then (.+) \(HE\) or (.+) \(MPC\); then (.+)", named
    ).groups()
    assert [*before.split(", "), *he.split(", "), after] == [*costed("he")[:-1]]
    assert [*before.split(", "), *mpc.split(", "), after] == [*costed("mpc")[:-1]]
    cost = pd.read_csv(demo[1] / "C" / "cost.csv")
    busy = cost[cost.drop(columns=["party", "phase"]).any(axis=1)]["phase"]
    assert set(costed("mpc")) - {"keep-alive"} == set(busy) - {"keep-alive"}
    assert set(cost["phase"]) == set(costed("mpc"))
    assert f"{HEADER} bytes of header" in text
    assert f"{Box.OVERHEAD} of authentication" in text


def test_what_is_sent_is_received(demo: tuple[str, Path]) -> None:
    cost = pd.read_csv(demo[1] / "C" / "cost.csv")
    sums = cost[cost["phase"] != "keep-alive"].groupby("phase")[["bytes_sent", "bytes_received"]].sum()
    assert (sums["bytes_sent"] == sums["bytes_received"]).all()
    assert sums["bytes_sent"].sum() > 0


def test_the_tie_trap_is_as_told() -> None:
    tables = [pd.read_csv(ROOT / "data" / name).drop(columns="id") for name in ("insurer.csv", "clinic.csv")]
    found = {
        estimator: reference({"A": tables[0]}, tables[1], estimator=estimator).ranking
        for estimator in ("tie_corrected", "paper")
    }
    text = section("Two estimators, and the tie trap")
    stated = rows(text, "feature")
    assert len(stated) == len(tables[1].columns)
    for feature, *cells in stated:
        for estimator, (strength, position) in zip(found, (cells[:2], cells[2:]), strict=True):
            ranking = found[estimator].set_index("feature").loc[code(feature)[0]]
            assert strength == f"{ranking['strength']:.4f}".replace("-", "−")
            assert int(position) == ranking["position"]
    hlthp = {name: ranking.set_index("feature").loc["hlthp", "strength"] for name, ranking in found.items()}
    assert (round(hlthp["paper"], 2), round(hlthp["tie_corrected"], 2)) == (0.56, -0.02)
    assert "0.56 where the truth is −0.02" in " ".join(text.split())
    assert f"{len(tables[1]):,} rows" in section("Try it")


def test_the_python_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("python")
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
    }
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    assert "the run revealed no more than 'strengths' (reveal)." in run.stdout
    assert (tmp_path / "runs" / "private" / "B" / "ranking.csv").is_file()


# --- pictures -------------------------------------------------------------------------------------------


def test_the_pictures_are_small_and_whole() -> None:
    report = (ROOT / "docs" / "report.png").read_bytes()
    assert report.startswith(b"\x89PNG\r\n\x1a\n")
    assert report.endswith(b"IEND\xaeB`\x82")
    assert len(report) <= 200_000
    drawing = (ROOT / "docs" / "overview.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(drawing)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # nothing to load from anywhere: GitHub would not, and a reader need not
    assert not re.search(r"href=|url\((?!#)|@import|<script", drawing)
    assert "prefers-color-scheme: dark" in drawing
