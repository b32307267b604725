"""A run in shards gives the results of one process per party, at every level, and opens nothing more."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpc_spearman.results.result import Result
from support.in_memory import Ended, run_in_memory
from support.plans import PROTOCOLS, plan

RNG = np.random.default_rng(7)
N = 61
TABLES = {
    "A": pd.DataFrame({"id": range(N), "a": RNG.integers(0, 9, N), "b": RNG.normal(size=N)}),
    "D": pd.DataFrame({"id": range(N), "c": RNG.integers(0, 2, N), "d": RNG.normal(size=N)}),
    "B": pd.DataFrame({"id": range(N), "x": RNG.normal(size=N), "y": RNG.integers(0, 4, N), "z": range(N)}),
}
HE, BFV = PROTOCOLS["paillier"], PROTOCOLS["bfv"]
SETTINGS: dict[str, dict[str, Any]] = {
    "differences": {"reveal": "differences"},
    "coefficients": {"reveal": "coefficients"},
    "paper": {"reveal": "strengths", "estimator": "paper"},
    "strengths": {"reveal": "strengths"},
    "ranking": {"reveal": "ranking"},
    "explained": {"reveal": "explained"},
    "canonical": {"reveal": "canonical"},
    "intersect": {"alignment": "intersect"},
    "differences, he": {"reveal": "differences", **HE},
    "literal, he": {"reveal": "differences", **HE, "he": {**HE["he"], "form": "literal"}},
    "coefficients, he": {"reveal": "coefficients", **HE},
    "strengths, he": {"reveal": "strengths", **HE},
    "explained, he": {"reveal": "explained", **HE},
    "differences, bfv": {"reveal": "differences", **BFV},
    "explained, bfv": {"reveal": "explained", **BFV},
}


#: With few rows some workers have fewer than others, or none.
FEW = ("differences", "coefficients", "ranking", "intersect", "coefficients, he")


def numbers(result: Result) -> dict[str, Any]:
    parts = ("coefficients", "strengths", "ranking", "explained", "canonical")
    return {part: getattr(result, part) for part in parts if result.withheld(part) is None}


@cache
def run(name: str, shards: int, rows: int) -> Ended:
    tables = {party: table.head(rows) for party, table in TABLES.items()}
    blocks = {} if rows == N else {"block_bytes": 64}
    return run_in_memory(plan("A", "D", shards=shards, **SETTINGS[name]), tables, **blocks)


@pytest.mark.parametrize(
    ("name", "shards", "rows"), [*product(SETTINGS, (2, 4), (N,)), *product(FEW, (4, 8), (5,))]
)
def test_shards_change_no_number(name: str, shards: int, rows: int) -> None:
    if "bfv" in name:
        pytest.importorskip("tenseal")
    alone, several = (run(name, of, rows) for of in (1, shards))
    for party in "CBAD":
        expected, found = numbers(alone.result(party)), numbers(several.result(party))
        assert expected.keys() == found.keys()
        assert expected or party in "AD"
        for part, value in expected.items():
            if part in ("explained", "canonical"):  # a rotation is drawn afresh: to within rounding
                np.testing.assert_allclose(found[part], value, atol=1e-7)
            else:
                pd.testing.assert_frame_equal(
                    pd.DataFrame(found[part]), pd.DataFrame(value), check_exact=True
                )
