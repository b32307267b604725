"""The common base of copies of `explained` and `canonical`: a table with a block for each source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.findings.adjustment import comparable
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Numbers
from mpc_spearman.statistics import explained, result_warnings
from mpc_spearman.statistics.columns import Flags
from mpc_spearman.statistics.explained import Directions


class Whitened(Findings):
    """Numbers of each source from the products of its directions with the target's."""

    unmergeable = "its numbers cannot be merged: each is of one source alone"

    @property
    def table(self) -> Any:
        """The first table, with a block for each source."""
        return self.tables[next(iter(self.forms))]

    def directions(self, table: pd.DataFrame) -> Directions:
        """Return what tests are given about the numbers in rows of the table."""
        noise, gaps, fitted, unequal, dispersion = (
            table[name].to_numpy() for name in ("noise", "gaps", "fitted", "unequal", "dispersion")
        )
        k, *k_target = (table[name].to_numpy() for name in ("k", "k_source", "k_target") if name in table)
        n = explained.counted_rows(self.n, gaps, fitted, unequal, np.maximum.reduce([k, *k_target]))
        return Directions(n, k, noise, dispersion, *k_target)

    def tested(self) -> Flags:
        """Mark the rows that are tested: not those of sources adjusted for other columns than the target."""
        return np.array(
            [comparable(self.plan, party) for party in self.table.index.get_level_values("party")]
        )

    def noise_ratio(self) -> float:
        return float(np.median(self.table["noise"]) * math.sqrt(self.n - 1))

    def warnings_of(self, table: pd.DataFrame, numbers: str) -> list[str]:
        """Return warnings about the tests in `table`, rows of the first table; `numbers` are called so."""
        directions, defined = self.directions(table), table.iloc[:, 0].notna()
        return [
            *result_warnings.explained(
                explained.spread(directions), len(table.index.unique("party")), numbers
            ),
            *result_warnings.gaps(np.isnan(directions.n)),
            *result_warnings.uneven((table["dispersion"].isna() & defined).to_numpy()),
        ]


def by_source(copy: Copy, columns: Numbers, rows: Any, index: str) -> pd.DataFrame:
    """Return a table with a block for each source; a number for a whole block stands in all of its rows."""
    sources = copy.sources if copy.role != "source" else [copy.party]
    labels = pd.MultiIndex.from_product([sources, rows], names=["party", index])
    shape = (len(sources), len(rows))
    return pd.DataFrame(
        {name: np.broadcast_to(v.reshape(len(v), -1), shape).ravel() for name, v in columns.items()}, labels
    )


def conditions_of_tests(numbers: Numbers, count: int) -> dict[str, Any]:
    """Return two columns for `count` tests: the rows that each uses, and the weight of single rows."""
    return {
        "gaps": numbers["gaps"],
        "fitted": numbers.get("fitted", np.zeros(count, np.int64)),
        "unequal": numbers.get("unequal", np.ones(count)),
        "dispersion": numbers.get("dispersion", np.ones(count)),
    }
