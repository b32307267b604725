"""Recorded runs of one pair of tables at every level and estimator: each made once, when first asked for.

The tables are cut into many blocks.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from mpc_spearman.results.result import Result
from mpc_spearman.run import BLOCK_BYTES
from support.harness import run_roles
from support.in_memory import run_in_memory
from support.plans import plan
from support.recorder import record, watched_tensors
from support.references import ring_bytes
from support.transcript import Transcript, elements

N, M_A, M_D, M_B = (
    1501,
    3,
    2,
    4,
)  # odd: without ties every encoded rank is even, so a bit that is not masked shows
SMALL_BLOCKS = 1 << 11  # 24 blocks at 4 columns, 36 at 6: more than are shared ahead or can wait in a queue

LEVELS = ("differences", "coefficients", "strengths")
#: What each run grants the target and the source: every grant to each of them at least once.
GRANTS = {
    ("differences", "tie_corrected"): ("coefficients", "nothing"),
    ("differences", "paper"): ("nothing", "ranking"),
    ("coefficients", "tie_corrected"): ("strengths", "coefficients"),
    ("coefficients", "paper"): ("ranking", "strengths"),
    ("strengths", "tie_corrected"): ("strengths", "nothing"),
    ("strengths", "paper"): ("nothing", "ranking"),
}
#: The same of runs with the second source D.
GRANTS_OF_SEVERAL = {
    ("differences", "paper"): ("coefficients", "ranking"),
    ("coefficients", "tie_corrected"): ("coefficients", "coefficients"),
    ("strengths", "tie_corrected"): ("strengths", "nothing"),
    ("strengths", "paper"): ("nothing", "strengths"),
}
every_run = pytest.mark.parametrize(("level", "estimator"), list(GRANTS))
every_level = pytest.mark.parametrize("level", LEVELS)


def _tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(20_190)
    ids = [f"row-{i:05d}" for i in rng.permutation(N)]
    common = rng.normal(size=N)
    source = {
        "source_income": common + rng.normal(size=N),
        "source_visits": rng.poisson(2.0, N),
        "source_constant": np.full(N, 7),
    }
    target = {
        "target_height": rng.normal(size=N) - common,
        "target_smoker": (rng.normal(size=N) + common > 0).astype(int),
        "target_steps": rng.integers(0, 40, N) * 250,
        "target_weight": rng.normal(size=N) + common,
    }
    other_source = {
        "other_pension": rng.normal(size=N) + target["target_weight"],
        "other_car": rng.integers(0, 2, N),
    }
    columns = {"A": source, "D": other_source, "B": target}
    return {party: pd.DataFrame({"id": ids} | values) for party, values in columns.items()}


SEVERAL = _tables()
TABLES = {party: SEVERAL[party] for party in "AB"}
FEATURES = {party: [name for name in table.columns if name != "id"] for party, table in SEVERAL.items()}


def encoded(table: pd.DataFrame) -> np.ndarray:
    """Encoded ranks, 2·rank − (n + 1): int64 (columns, rows)."""
    columns = [table[name] for name in table.columns if name != "id"]
    return np.stack([(2 * rankdata(column) - (len(table) + 1)).astype(np.int64) for column in columns])


def tie_terms(party: str) -> list[int]:
    groups = [Counter(TABLES[party][name]).values() for name in FEATURES[party]]
    return [sum((t**3 - t) // 3 for t in sizes) for sizes in groups]


def kept_directory() -> Path:
    """Make a directory that lasts as long as this process."""
    directory = Path(tempfile.mkdtemp(prefix="mpc-spearman-test-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Recorded:
    """One run in memory with its files and its transcript; all tables but B's are those of sources.

    `block_bytes` cuts the tables into more blocks than they would be, other settings are the plan's.
    """

    def __init__(
        self, tables: Mapping[str, pd.DataFrame], *, block_bytes: int = BLOCK_BYTES, **settings: Any
    ) -> None:
        self.plan = plan(*(name for name in tables if name != "B"), **settings)
        self.tables = tables
        self.directory = kept_directory()
        self.results = self._run(tables, block_bytes)
        self.transcript = Transcript.read(
            self.directory / "record", self.plan.names, self.plan.canonical_json()
        )

    def _run(self, tables: Mapping[str, pd.DataFrame], block_bytes: int) -> dict[str, Result]:
        hook = partial(record, directory=str(self.directory / "record"), block_bytes=block_bytes)
        with watched_tensors():
            ended = run_in_memory(self.plan, tables, dict.fromkeys(self.plan.names, hook))
        assert not ended.errors, ended.errors
        return dict(ended.results)

    @cached_property
    def out(self) -> Path:
        """The folder of what the roles write: pages take longer than a run, and few tests look at them."""
        for party, result in self.results.items():
            result.save(self.directory / "out" / party)
        return self.directory / "out"

    def blocks(self, source: str) -> list[int]:
        """Rows of each block in one source's session of a run of :func:`recorded`."""
        columns = M_B + (len(FEATURES[source]) - 1 if self.plan.reveal == "differences" else 0)
        # at `strengths` under `paper` two more hold the tie terms
        n = N + 2 * ((self.plan.reveal, self.plan.estimator) == ("strengths", "paper"))
        step = SMALL_BLOCKS // (8 * columns)
        return [min(step, n - start) for start in range(0, n, step)]

    @property
    def rows(self) -> list[int]:
        """Rows of each block in the first source's session."""
        return self.blocks("A")

    @property
    def width(self) -> int:
        return ring_bytes(self.tables, self.plan.reveal, self.plan.estimator)

    def reduced(self, values: np.ndarray) -> np.ndarray:
        """Ring elements modulo what they travel in: int64, those nearest to 0."""
        beyond = 64 - 8 * self.width
        return values << beyond >> beyond

    def masked(self, receiver: str, sender: str) -> np.ndarray:
        """The masked values one data party received of the other, (columns, n), as `reduced` gives them."""
        return self._blocks(self.transcript.payloads(receiver, sender, "MASKED"))

    def shares(self, party: str) -> np.ndarray:
        """The shares the coordinator received of a party, blocks side by side, as `reduced` gives them."""
        return self._blocks(self.transcript.payloads("C", party, "SHARE"))

    def _blocks(self, payloads: list[bytes]) -> np.ndarray:
        values = [elements(payload, self.width) for payload in payloads]
        assert values
        if len(values) == 1:
            return values[0]
        columns = len(values[0]) // self.rows[0]
        return np.hstack([block.reshape(columns, -1) for block in values])


class Frozen(Recorded):
    """A run in processes whose clocks stand still and which have no generator: see frozen.py."""

    def _run(self, tables: Mapping[str, pd.DataFrame], block_bytes: int) -> dict[str, Result]:
        out = self.directory / "out"
        out.mkdir()
        arguments = {"directory": str(self.directory / "record"), "block_bytes": block_bytes}
        outcomes = run_roles(self.plan, tables, out, "frozen:record_frozen", arguments)
        assert {outcome.kind for outcome in outcomes.values()} == {"returned"}, outcomes
        assert not list(self.directory.glob("record/*/refused"))
        return {party: Result.load(out / party) for party in outcomes}


def _settings(level: str, estimator: str, *, several: bool = False) -> dict[str, Any]:
    target, sources = (GRANTS_OF_SEVERAL if several else GRANTS)[level, estimator]
    return {
        "reveal": level,
        "estimator": estimator,
        "results": {"target": target, "sources": sources},
        "block_bytes": SMALL_BLOCKS,
    }


@cache
def recorded(level: str, estimator: str) -> Recorded:
    return Recorded(TABLES, **_settings(level, estimator))


@cache
def recorded_of_several(level: str, estimator: str) -> Recorded:
    return Recorded(SEVERAL, **_settings(level, estimator, several=True))


@cache
def frozen(level: str, repeat: int) -> Recorded:
    """Return a run with no clock and no generator; with another `repeat` the same once more."""
    return Frozen(TABLES, **_settings(level, "tie_corrected"))
