"""The notebooks: kept executed and small, nothing of this machine in them, and executed again here."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from support.pages import ROOT, script

FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def text_of(output: Any) -> str:
    """All an output shows, as text."""
    return "\n".join([output.get("text", ""), *(str(data) for data in output.get("data", {}).values())])


def check_executed(path: Path) -> None:
    """Every cell was executed, in order, and none failed or complained."""
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error", text_of(output)
            assert output.get("name") != "stderr", text_of(output)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_executed_and_small(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    check_executed(path)
    assert path.stat().st_size < 600_000
    assert name == "cluster" or any(
        "image/svg+xml" in output.get("data", {}) for cell in cells(path, "code") for output in cell.outputs
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_machine_it_ran_on_is_in_it(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        outputs = [text_of(output) for output in cell.get("outputs", [])]
        for text in [cell.source, *(re.sub(r"<svg.*</svg>", "", text, flags=re.S) for text in outputs)]:
            # an absolute path: a slash that begins a word, and a second one
            assert re.findall(r"""(?:^|[\s"'(=>])/[\w.-]+/[\w./-]*""", text) == []
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_in_its_prose_is_computed(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    for cell in cells(path, "markdown"):
        prose = re.sub(r"`[^`]*`|eq\. 2", "", cell.source)
        assert re.findall(r".*\d.*", prose) == []
    # and in texts that cells make, digits stand only where a value is put in
    for cell in cells(path, "code"):
        for call in ast.walk(ast.parse(cell.source)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Markdown":
                values = [value for value in ast.walk(call) if isinstance(value, ast.FormattedValue)]
                formats = {id(value.format_spec) for value in values}
                for part in ast.walk(call):
                    if isinstance(part, ast.JoinedStr) and id(part) not in formats:
                        text = "".join(str(v.value) for v in part.values if isinstance(v, ast.Constant))
                        assert not re.search(r"\d", re.sub(r"`[^`]*`|[Ee]q\. 2", "", text)), text


def test_every_notebook_has_parameters_and_small_ones() -> None:
    module = script("notebooks/execute.py")
    assert sorted(module.SMALL) == NAMES
    for name, small in module.SMALL.items():
        (parameters,) = (
            c for c in cells(FOLDER / f"{name}.ipynb", "code") if "parameters" in c.metadata.get("tags", [])
        )
        assigned = {
            n.id
            for n in ast.walk(ast.parse(parameters.source))
            if isinstance(getattr(n, "ctx", None), ast.Store)
        }
        assert {t.id for s in ast.parse(small).body for t in s.targets} <= assigned  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("tenseal") is None, reason="no TenSEAL for this Python")
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_can_be_executed_again(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "execute.py"), name, "--small", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    check_executed(tmp_path / f"{name}.ipynb")
