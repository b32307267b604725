"""A folder with a plan and its tables, for the command to run on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

PLAN = """
parties:
  coordinator: {name: C}
  target: {name: B, table: b.csv}
  sources: [{name: A, table: a.csv}]
"""
INPUTS = ["a.csv", "b.csv", "plan.yaml"]


def write_inputs(folder: Path, seed: int) -> None:
    (folder / "plan.yaml").write_text(PLAN)
    values = np.random.default_rng(seed).normal(size=(5, 50))
    ids = [f"p{i}" for i in range(50)]
    pd.DataFrame({"id": ids, "a": values[0], "b": values[1]}).to_csv(folder / "a.csv", index=False)
    pd.DataFrame({"id": ids, **dict(zip("xyz", values[2:], strict=True))}).to_csv(
        folder / "b.csv", index=False
    )


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
