"""Bytes, messages and rounds that are worked out, against those that runs metered."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.comparison.traffic import Flow, Traffic
from mpc_spearman.engines.he.engine import sizes
from mpc_spearman.engines.he.schemes import secret_key
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Roster
from support.in_memory import run_in_memory
from support.plans import plan

N, NAME = 3000, 5  # rows; "B_001"


def tables(n: int, **columns: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(4)
    ids = [f"{row:06d}" for row in range(n)]
    return {
        party: pd.DataFrame({"id": ids} | {f"{party}_{i:03d}": rng.normal(size=n) for i in range(m)})
        for party, m in columns.items()
    }


SMALL = {"key_bits": 256, "insecure": True, "randomness": "short"}
PLANS: dict[str, dict[str, Any]] = {
    "differences": {"reveal": "differences"},
    "coefficients": {"reveal": "coefficients"},
    "strengths": {"reveal": "strengths"},
    "strengths, paper": {"reveal": "strengths", "estimator": "paper"},
    "ranking": {"reveal": "ranking"},
    "ranking, top": {"reveal": "ranking", "top": 2},
    "ranking, to the target": {"reveal": "ranking", "opened_to": "target"},
    **{
        f"{name}, {level}": {"protocol": "he", "he": he, "reveal": level}
        for name, he in (("BFV", {"scheme": "bfv"}), ("Paillier", SMALL))
        for level in ("differences", "coefficients", "strengths")
    },
    "the paper literally": {
        "protocol": "he",
        "he": {**SMALL, "pairs": "all", "packing": False},
        "reveal": "differences",
        "rows": 200,
    },
    "intersect": {"alignment": "intersect"},
    "nothing passed on": {"results": {"target": "nothing", "sources": "nothing"}},
    "all passed on": {"results": {"target": "coefficients", "sources": "coefficients"}},
}


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("name", PLANS)
def test_what_is_worked_out_is_what_a_run_meters(name: str, sources: int) -> None:
    check(sources, N, **PLANS[name])


@pytest.mark.parametrize(
    "settings",
    [
        {"reveal": "coefficients"},
        {"reveal": "differences"},
        {"reveal": "differences", "protocol": "he", "he": {"scheme": "bfv"}},
    ],
    ids=str,
)
def test_so_are_many_blocks_of_rows(settings: dict[str, Any]) -> None:
    check(1, 140_000, **settings)


def check(sources: int, n: int, **settings: Any) -> None:
    """Hold every figure of every party and phase against that of a run."""
    if settings.get("he", {}).get("scheme") == "bfv" and importlib.util.find_spec("tenseal") is None:
        pytest.skip("needs TenSEAL")
    columns = {"A": 3, "D": 2}
    used = list(columns)[:sources]
    given = plan(*used, **settings)
    ended = run_in_memory(given, tables(n, B=4, **{source: columns[source] for source in used}))
    assert not ended.errors, ended.errors
    roster = Roster.of(given, "C")
    features = {source: columns[source.name] for source in roster.sources}
    everything = {**features, roster.target: 4}
    shapes = Shapes(given.rows or n, features, 4, everything, everything, features)
    keys = {}
    if given.protocol == "he":
        for source in roster.sources:
            computation = level_of(given).computation(shapes)
            layout = sizes(computation, None if computation.summed else source)
            keys[source] = secret_key(given.he, *layout).public
    worked_out = Traffic(given, shapes, keys, NAME).flows
    metered = ended.result("C").cost.set_index(["party", "phase"])
    figures = ["bytes_sent", "bytes_received", "messages", "rounds"]
    for party in roster.parties:
        for phase in metered.loc[party.name].index.drop("keep-alive"):
            expected = Flow(*(int(metered.loc[(party.name, phase), figure]) for figure in figures))
            assert worked_out.get((party, phase), Flow()) == expected, (party.name, phase)
