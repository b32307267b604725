"""The order in which a run has its rows changes no number that anyone is given or opens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from support.in_memory import run_in_memory
from support.plans import plan

N = 80
CASES = [
    *(("mpc", level, "tie_corrected") for level in ("differences", "coefficients", "strengths", "ranking")),
    *(("mpc", level, "paper") for level in ("coefficients", "strengths")),
    *(("he", level, "tie_corrected") for level in ("differences", "coefficients", "strengths")),
]


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(31)
    common = rng.normal(size=N)

    def columns(side: str) -> dict[str, Any]:
        return {f"{side}{i}": np.round(common + rng.normal(size=N), i) for i in range(3)}

    ids = [f"p{i}" for i in rng.permutation(N)]
    return {party: pd.DataFrame({"id": ids, **columns(party)}) for party in "AB"}


@pytest.mark.parametrize(("protocol", "level", "estimator"), CASES)
def test_rows_in_another_order_give_the_same_numbers(protocol, level, estimator):
    settings: dict[str, Any] = {"protocol": protocol, "reveal": level, "estimator": estimator}
    if protocol == "he":
        settings["he"] = {"key_bits": 512, "insecure": True}
    first = tables()
    order = np.random.default_rng(32).permutation(N)
    again = {party: table.iloc[order].reset_index(drop=True) for party, table in first.items()}
    one, other = (run_in_memory(plan(**settings), its) for its in (first, again))
    for party in "CBA":
        mine, theirs = one.result(party), other.result(party)
        assert mine.holds == theirs.holds
        for part in mine.holds:
            a, b = getattr(mine, part), getattr(theirs, part)
            assert a.equals(b), (party, part)
