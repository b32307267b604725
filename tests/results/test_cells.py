"""Names in CSV files: harmless to any program that opens them, and unchanged when read back."""

from __future__ import annotations

import csv
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpc_spearman.results import cells, saved
from mpc_spearman.results.result import Result
from support.made_results import matrix_of, parts, shared_plan, small

#: What makes a spreadsheet take a cell for a formula.
FORMULA = "=+-@＝＋－＠\t\r"
NAMES = [
    '=HYPERLINK("http://x","y")',
    "+1+cmd|' /C calc'!A0",
    "-2",
    "@SUM(1)",
    "＝1+1",
    "'quoted",
    "''twice",
    "\t=1+1",
    "\r\n=1+1",
    "a;=1+1",
    "a; \t@x",
    "a;b",
    "\x1b[31mred\x9b2J\x07\u202eder",
    "back\\slash",
    "back\\u003dslash",
    'a "name", with\ncommas',
    " =space",
    "größe · 数据 😀 \u200d",
    "",
]


def unescaped(text: str) -> str:
    """Undo the escaping, as docs/results.md describes it."""
    undo = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")
    return undo.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\\", text.removeprefix("'"))


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\\u001b")
@example("a; \t@x")
@example(" =x;;-y")
def test_every_name_comes_back_and_does_no_harm(name: str) -> None:
    text = cells.written(name)
    assert unescaped(text) == name
    for cell in text.split(";"):  # some spreadsheets go by that
        assert not cell.lstrip() or cell.lstrip()[0] not in FORMULA
    assert all(unicodedata.category(c) not in ("Cc", "Zl", "Zp") for c in text)
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


#: What shows nothing by itself, of each kind of character that Unicode has.
UNSEEN = [
    *"\ufeff\u200b\u200e\u200f\u00ad\u2060\u180e\u061c\u00a0\u3000\u034f\ufe0f\u3164\u115f\u2800\U000e0001\x7f\t\r",
    "\u200b \ufeff",
]


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
@pytest.mark.parametrize("formula", ["=1+1", "+1", "-x", "@SUM(1)", "﹦1", "\u2212x"])
def test_nothing_that_does_not_show_hides_a_formula(unseen: str, formula: str) -> None:
    def executes(cell: str) -> bool:
        """Whether a program that skips all but ASCII's printing characters, and wide ones', runs it."""
        seen = [c for c in cell if c.isprintable() and not c.isspace() and c not in "".join(UNSEEN)]
        return unicodedata.normalize("NFKC", seen[0]) in "=+-@\u2212"

    assert executes(unseen + formula)  # as it was written, unless a space or a control stood there
    for name in (unseen + formula, f"a;{unseen}{formula}"):
        text = cells.written(name)
        assert unescaped(text) == name
        assert not any(executes(cell) for cell in text.split(";"))


@pytest.mark.parametrize("name", ["x", "größe", "a;b", "mean-of-5", "a=b", "5", "C:/x", "数据"])
def test_most_names_are_written_as_they_are(name: str) -> None:
    assert cells.written(name) == name


def test_a_result_with_such_names_comes_back(tmp_path: Path) -> None:
    names = [name for name in NAMES if name]
    plan = shared_plan("A")
    values = np.random.default_rng(1).uniform(-0.9, 0.9, (len(names), len(names)))
    matrix = matrix_of(values, names, [("A", name) for name in names])
    held = parts(matrix, plan)
    estimators = pd.DataFrame({"tie_corrected": held["strengths"], "paper": held["strengths"]})
    result = small(plan=plan, warnings=NAMES, estimators=estimators, **held)
    folder = result.save(tmp_path / "run")
    assert saved.files(Result.load(folder)) == saved.files(result)
    for path in folder.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        assert not {c for c in text if unicodedata.category(c) == "Cc"} - {"\n"}
        for line in csv.reader(text.splitlines()):
            assert not [cell for cell in line if cell[:1] in ("=", "+", "@") or cell[:2] == "-2"]
    text = (folder / "result.json").read_text(encoding="utf-8")
    assert not {c for c in text if unicodedata.category(c) == "Cc" or c == "\u202e"} - {"\n"}
