"""Plans as they are written, and what is said of those that cannot be loaded."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.config import load_plan
from mpc_spearman.errors import PlanError
from support.plans import mapping

#: The least that a plan has to say.
MINIMAL = mapping(cautious=True)
YAML = """\
reveal: coefficients
parties:
  coordinator: {name: C}
  target: {name: B, table: b.csv}
  sources: [{name: A, table: sub/a.csv}]
"""


def plan_with(changes: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """MINIMAL with values set by dotted key; list items by position."""
    plan = copy.deepcopy(MINIMAL) | top
    for key, value in (changes or {}).items():
        node: Any = plan
        *above, last = key.split(".")
        for part in above:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    return plan


def problems(source: Any, *overrides: str, **tables: Path | None) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(source, overrides, tables)
    return str(caught.value).splitlines()


def problem(source: Any, *overrides: str) -> str:
    (line,) = problems(source, *overrides)
    return line


INPUTS = ["a.csv", "b.csv", "plan.yaml"]


def write_inputs(folder: Path, seed: int) -> None:
    """Make a folder with a plan and its tables, for the command to run on."""
    (folder / "plan.yaml").write_text(YAML.replace("sub/", ""))
    values = np.random.default_rng(seed).normal(size=(5, 50))
    ids = pd.Index([f"p{i}" for i in range(50)], name="id")
    pd.DataFrame(values[:2].T, ids, ["a", "b"]).to_csv(folder / "a.csv")
    pd.DataFrame(values[2:].T, ids, ["x", "y", "z"]).to_csv(folder / "b.csv")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
