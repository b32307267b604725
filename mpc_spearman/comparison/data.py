"""Made-up tables. They are data to measure with, so any generator will do; no mask or key comes from here."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpc_spearman.comparison.variants import Size
from mpc_spearman.config import Plan

#: Every sweep's tables are the same for the same size.
SEED = 20_240_611


def tables(plan: Plan, size: Size) -> dict[str, pd.DataFrame]:
    """Make a table for each data party, the same for the same size and order of parties.

    Normal columns around one common factor, so that there is something to find; every third column is
    rounded, so that it has ties.
    """
    # Not a secret: the same tables every time are what is wanted here.
    rng = np.random.default_rng([SEED, *size])
    ids = pd.Series([f"r{row}" for row in range(size.n)])
    factor = rng.normal(size=size.n)
    sources = [source.name for source in plan.parties.sources]
    columns = {plan.parties.target.name: size.m_B, **dict.fromkeys(sources, size.m_A)}
    made = {}
    for party, m in columns.items():
        values = rng.normal(size=(m, size.n)) + np.linspace(-1, 1, m)[:, None] * factor
        values[2::3] = values[2::3].round()
        made[party] = pd.DataFrame({"id": ids, **{f"{party}_{j + 1}": values[j] for j in range(m)}})
    return made
