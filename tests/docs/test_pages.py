"""The pages say what the code does: links, made tables, plan keys, exit codes, commands."""

from __future__ import annotations

import argparse
import os
import pydoc
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from mpc_spearman import load_plan
from mpc_spearman.cli import main
from mpc_spearman.config import HeSettings, Policy, local_party
from mpc_spearman.config.sections import Privacy
from mpc_spearman.installed import INSTALL_CRYPTEN
from mpc_spearman.levels.view import VIEW
from mpc_spearman.results.outcome import FORMS
from mpc_spearman.results.result import Result
from support.pages import CURRENT, PAGES, README, ROOT, Page, code, rows, script

PLAN, LEARNT, RESULTS = (PAGES[f"docs/{name}.md"] for name in ("plan", "who_learns_what", "results"))

# --- links ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES.values(), ids=repr)
def test_every_link_leads_somewhere(page: Page) -> None:
    for target in page.links:
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path
        assert path.exists(), target
        if anchor:
            assert anchor in PAGES[str(path.relative_to(ROOT))].anchors, target


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {target.partition("#")[0] for target in README.links}
    assert {name for name in PAGES if name != "README.md"} <= linked


@pytest.mark.parametrize("page", CURRENT, ids=repr)
def test_every_path_and_module_named_exists(page: Page) -> None:
    for word in code(page.prose):
        if re.fullmatch(r"(docs|configs|launchers|mpc_spearman|notebooks|tests)/\S+", word):
            assert (ROOT / word).exists(), word
        if re.fullmatch(r"mpc_spearman(\.\w+)+", word):
            module = ROOT / word.replace(".", "/")
            assert module.is_dir() or module.with_suffix(".py").is_file() or word in NAMES, word


#: Names of the package, not modules of it, that pages write out in full.
NAMES = {"mpc_spearman.comparison", "mpc_spearman.errors"}


def test_the_code_refers_to_pages_that_exist_and_to_no_other_text() -> None:
    for path in (ROOT / "mpc_spearman").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\bdocs/[\w-]+\.md\b", text):
            assert name in PAGES, f"{path}: {name}"
        assert "DESIGN" not in text, path


def test_names_in_docstrings_exist() -> None:
    for path in (ROOT / "mpc_spearman").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        places = ["", f"{module}.", f"{module.rpartition('.')[0]}."]
        places += [f"{module}.{name}." for name in re.findall(r"^class (\w+)", text, re.M)]
        for name in re.findall(r":(?:mod|func|class|data|meth):`~?\.?([\w.]+)`", text):
            assert any(pydoc.locate(place + name) is not None for place in places), f"{path}: {name}"


# --- generated parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["api", "errors_table", "plan_tables", "who_learns_what"])
def test_generated_parts_are_those_of_the_code(name: str) -> None:
    maker = script(f"docs/{name}.py")
    text = maker.PAGE.read_text(encoding="utf-8")
    assert text == maker.filled(text), f"run: python docs/{name}.py"


def test_the_page_of_who_learns_what_has_every_fact_and_level() -> None:
    levels = re.findall(r"^\*\*.+ learns \| from \| (.+)", LEARNT.text, re.M)
    assert {*levels} == {
        "`differences` | `coefficients` | `strengths` | `ranking` | `explained` | `canonical`"
    }
    facts = {field.tells for row in (*VIEW.meeting, *VIEW.rows) for field in row.fields}
    assert not {fact for fact in facts if fact not in LEARNT.text}


@pytest.mark.parametrize("page", PAGES.values(), ids=repr)
def test_generated_parts_name_an_existing_command(page: Page) -> None:
    for path in re.findall(r"<!-- made by: python (\S+)", page.text):
        assert (ROOT / path).is_file(), path
    assert page.text.count("<!-- made by: ") == page.text.count("<!-- end of what is made -->")


def test_every_measured_table_has_one_place_in_its_page() -> None:
    """A benchmark that writes finds the line by its own name."""
    for benchmark in sorted((ROOT / "benchmarks").glob("*.py")):
        text = benchmark.read_text(encoding="utf-8")
        if call := re.search(r'measuring\.publish\(text(?:, "([\w-]+\.md)")?', text):
            page = PAGES[f"docs/{call[1] or 'costs.md'}"]
            line = f"<!-- made by: python benchmarks/{benchmark.name} --write -->\n"
            assert page.text.count(line) == 1, benchmark.name


# --- the plan -------------------------------------------------------------------------------------------


def test_every_key_of_the_plan_is_described() -> None:
    maker = script("docs/plan_tables.py")
    for table in maker.tables().values():
        for key, field in table.items():
            assert maker.meaning(field), key
            assert maker.allowed(field), key


def test_the_limits_of_a_policy_are_the_shared_defaults() -> None:
    assert (Policy().loss, Policy().unit) == (Privacy().loss, Privacy().unit)
    assert Policy().min_key_bits == HeSettings().key_bits


def test_every_plan_is_introduced() -> None:
    for plan in (ROOT / "configs").glob("*.yaml"):
        assert f"(../configs/{plan.name})" in PLAN.prose


# --- results --------------------------------------------------------------------------------------------


def test_the_result_attributes_are_all_there() -> None:
    stated = [name for row in rows(RESULTS.section("In Python"), "attribute") for name in code(row[0])]
    real = [name for name in dir(Result) if isinstance(getattr(Result, name), property)]
    real += [*FORMS, "warnings", "alignment", "record"]
    assert sorted(stated) == sorted(real)


# --- commands and examples ------------------------------------------------------------------------------


def test_the_install_command_is_the_one_the_error_names() -> None:
    lines = [line for page in CURRENT for line in page.lines("pip ")]
    assert [line for line in lines if "crypten" in line] == [INSTALL_CRYPTEN] * 2
    cpu = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    assert README.lines("pip ") == [cpu, "pip install .", INSTALL_CRYPTEN]


def commands_in_plans() -> list[list[str]]:
    """The commands that plans give in their comments."""
    lines = [line for plan in (ROOT / "configs").glob("*.yaml") for line in plan.read_text().splitlines()]
    return [
        shlex.split(line, comments=True)[1:]
        for line in (line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        if line.startswith("mpc-spearman ")
    ]


def in_clone(file: str | Path) -> Path:
    """Return a file of the repository in place of one that a reader's `init` writes."""
    if str(file) == "plan.yaml":
        return ROOT / "configs" / "mpc.yaml"
    written = {"cluster.yaml": "cluster.yaml", **{f"{name}.yaml": f"local/{name}.yaml" for name in "ABC"}}
    return ROOT / "configs" / written[str(file)] if str(file) in written else ROOT / file


COMMANDS = {repr(page): page.commands() for page in CURRENT} | {"configs": commands_in_plans()}


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
def test_the_commands_are_understood(commands: list[list[str]]) -> None:
    for arguments in commands:
        if len(arguments) == 1 or any(word.isupper() for word in arguments):
            continue  # a command's name in a sentence, or its form in general
        parsed = main._parser(arguments[0]).parse_args(arguments)
        for path in getattr(parsed, "plans", ()):
            load_plan(ROOT / path)
        if not hasattr(parsed, "plan"):
            continue
        tables = dict(parsed.table) if arguments[0] == "local" else {}
        local = getattr(parsed, "local", None)
        if local is not None:
            local = in_clone(local)
            parsed.party = local_party(local)
        if arguments[0] in ("join", "check") and parsed.table:
            tables = {parsed.party: parsed.table}
        plan = load_plan(in_clone(parsed.plan), getattr(parsed, "settings", ()), tables, local=local)
        everyone = (plan.parties.target, *plan.parties.sources)
        me = getattr(parsed, "party", None)
        needed = everyone if arguments[0] == "local" else [party for party in everyone if party.name == me]
        for party in needed:
            assert party.table is not None


def test_the_options_are_those_of_the_command() -> None:
    commands = [arguments for page in CURRENT for arguments in page.commands()]
    assert {arguments[0] for arguments in commands} == set(main._COMMANDS)
    real = {
        option
        for name in main._COMMANDS
        for of_all in main._parser(name)._actions
        if isinstance(of_all, argparse._SubParsersAction)
        for action in of_all.choices[name]._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    used = {word for arguments in commands for word in arguments if word.startswith("--")}
    others = {"--slow", "--master_port"}  # of a benchmark, and of torchrun
    named = {word for page in CURRENT for word in code(page.prose) if re.fullmatch(r"--\w+", word)} - others
    assert used | named == real - {"--help"}


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(page.text for page in CURRENT)
    targets = {name for pair in re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", text, re.M) for name in pair}
    assert targets - {""} == {"demo", "test", "test-all", "notebooks", "benchmarks", "check", "install"}
    for target in targets - {""}:
        assert re.search(rf"^{target}:", makefile, re.M), target


EXAMPLES = [
    pytest.param(text, id=f"{page}-{number}")
    for page in CURRENT
    for number, text in enumerate(page.blocks("python"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_python_examples_run(example: str, tmp_path: Path) -> None:
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
    }
    run = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    if "runs/private" in example:
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
