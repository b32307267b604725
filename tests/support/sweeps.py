"""Sweeps without processes, and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as arrow

from mpc_spearman.comparison import TIDY
from mpc_spearman.config import Plan
from mpc_spearman.wire.meter import COLUMNS, cost_phases
from support.harness import ROOT
from support.made_results import empty
from support.plans import plan

CONFIGS = ROOT / "configs"


class FakeRuns:
    """In place of `run_local`: writes run directories at once, or fails as told.

    Every figure but rounds is a line over the rows: seconds rise by a multiple of `a_row`.
    """

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.error: Exception | None = None
        self.a_row = 1e-8

    @property
    def rows(self) -> list[int]:
        return [n for _, n in self.done]

    def __call__(self, plan: Plan, tables: Mapping[str, Path], *, out: Path, **options: Any) -> None:
        table = tables["B"]
        n = arrow.dataset(table, format=table.suffix[1:]).count_rows()
        self.done.append((plan.reveal, n))
        if self.error is not None:
            raise self.error
        cost, roles = self.cost(n, plan.protocol), {"C": "coordinator", "B": "target", "A": "source"}
        for party, role in roles.items():
            empty(plan, party, role, n, cost).save(out / party)

    def cost(self, n: int, protocol: str = "mpc") -> pd.DataFrame:
        phases = cost_phases(protocol)
        who = {"party": [p for p in "CBA" for _ in phases], "phase": [*phases] * 3}
        k = pd.Series(range(1, 1 + 3 * len(phases)))
        figures = {
            "seconds": 0.001 * k + k * self.a_row * n,
            "wait_seconds": 0.0 * k,
            "rounds": k // k,
            "peak_memory_bytes": 10**8 + 8 * k * n,
        } | dict.fromkeys(("bytes_sent", "bytes_received", "messages"), 100 * k + 8 * k * n)
        cost = pd.DataFrame({**who, **figures})[list(COLUMNS)]
        fixed = cost["phase"].isin(["connect", "keys"])
        cost.loc[fixed, ["bytes_sent", "bytes_received"]] = 100
        cost.loc[fixed, "peak_memory_bytes"] = 10**8
        cost.loc[fixed, "seconds"] = 1.0
        return cost


LEVELS = [plan(), plan(reveal="strengths")]


def made_table() -> pd.DataFrame:
    """Two phases and the handshake of a run, made up so that every sum is easy."""
    run = ["mpc", "MPC", "coefficients", "tie_corrected", 10, 2, 2, 1]
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
    return pd.DataFrame([[*run, *row] for row in rows], columns=TIDY)
