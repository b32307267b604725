"""A level is one module and one line: a made-up one runs end to end in a copy of the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import mpc_spearman
from mpc_spearman.config import AGREE_TO_ALL

PACKAGE = Path(mpc_spearman.__file__).parent
LINE = '    "balance": Place(ordered=False),\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and one more level in it, its tables, plan and run."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(PACKAGE, home / "mpc_spearman", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).parent / "balance.py", home / "mpc_spearman" / "levels")
    order = home / "mpc_spearman" / "config" / "levels.py"
    text, count = re.subn(r'(    "canonical": Place\(.*\n)', rf"\1{LINE}", order.read_text())
    assert count == 1
    order.write_text(text)
    a = pd.DataFrame({"id": range(50), "u": range(50), "v": [i * 7 % 50 for i in range(50)]})
    b = pd.DataFrame({"id": range(50), "up": range(50), "mixed": [-i * 7 % 50 for i in range(50)]})
    for name, table in (("A", a), ("B", b)):
        table.to_csv(home / f"{name}.csv", index=False)
    owner = {"policy": dict(AGREE_TO_ALL) | {"max_reveal": ["balance"]}}
    plan = {
        "reveal": "balance",
        "results": {"precision": "exact"},
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B", "table": "B.csv", "alignment_key": "key", **owner},
            "sources": [{"name": "A", "table": "A.csv", **owner}],
        },
    }
    (home / "plan.yaml").write_text(json.dumps(plan))
    return home


def commands(home: Path, *lines: str) -> str:
    """Run commands one after the other in a process that has the copy; return what they print."""
    code = "import sys; from mpc_spearman.cli.main import main; [main(line.split()) for line in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *lines],
        cwd=home, env=os.environ | {"PYTHONPATH": str(home), "COLUMNS": "120"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_made_up_level_takes_one_module_and_one_line(home: Path) -> None:
    printed = commands(
        home,
        "local plan.yaml --out runs",
        "explain plan.yaml",
        "verify runs/B",
        "merge runs/B runs/B --out merged",
    )
    assert "The most balanced feature is mixed." in printed
    assert re.search(r"mixed +0\.500", printed)
    assert "Warning: a made-up level warns" in printed
    assert "the share of positive coefficients" in printed
    assert "ok  B: what this folder shows against the message" in printed
    assert "holds nothing that can be merged" in printed
    saved = json.loads((home / "runs" / "B" / "result.json").read_text())
    assert (saved["reveal"], saved["holds"], saved["tables"]["balance"]["balance"]) == (
        "balance",
        ["balance"],
        [1.0, 0.5],
    )
    assert "The most balanced feature is mixed" in (home / "runs" / "B" / "report.html").read_text()
    withheld = (home / "runs" / "A" / "report.html").read_text()
    assert "passes &#39;nothing&#39; on to the sources (results.sources)" in withheld
