"""Runs over so few rows that Student's t is no p-value, as processes and from both sides of the wire."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from mpc_spearman import Result, run_local
from mpc_spearman.config import AGREE_TO_ALL
from mpc_spearman.statistics.reference import reference
from support.harness import fork_server

SOURCE = pd.DataFrame({"same": [1, 2, 3, 4, 5, 6], "mixed": [3, 1, 2, 5, 4, 6], "tied": [1, 1, 2, 3, 4, 4]})
TARGET = pd.DataFrame({"y": [10, 20, 30, 40, 50, 60]})


def test_six_rows_have_the_pvalues_of_720_arrangements(tmp_path: Path) -> None:
    plan = {
        "results": {"target": "coefficients", "precision": "exact"},
        "parties": {
            "coordinator": {"name": "C"},
            "target": {"name": "B", "policy": dict(AGREE_TO_ALL)},
            "sources": [{"name": "A", "policy": dict(AGREE_TO_ALL)}],
        },
    }
    ids = pd.DataFrame({"id": list("abcdef")})
    tables = {"A": ids.join(SOURCE), "B": ids.join(TARGET)}
    expected = reference({"A": SOURCE}, TARGET)
    for result in (run_local(plan, tables, out=tmp_path, server=fork_server()), Result.load(tmp_path / "B")):
        p = result.pvalues["y"].loc["A"]
        assert p["same"] == pytest.approx(2 / math.factorial(6), rel=1e-12)
        assert p["mixed"] == pytest.approx(expected.pvalues.loc[("A", "mixed"), "y"], rel=1e-12)
        # Who is tied with whom is not known outside: an approximation, and a sentence that says so.
        assert p["tied"] != pytest.approx(expected.pvalues.loc[("A", "tied"), "y"], rel=0.01)
        if result.role == "coordinator":
            assert any("1 of 3 p-values are approximations" in text for text in result.warnings)
