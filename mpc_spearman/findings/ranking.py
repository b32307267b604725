"""A copy that has only the ranking of the target's features: their order, or which are the strongest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Form, Labels, Numbers
from mpc_spearman.findings.sections import Section, Table
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.statistics.estimators import in_order
from mpc_spearman.units import printable

ESTIMATORS = {"tie_corrected": "tie-corrected, as SciPy and pandas compute it", "paper": "the paper's eq. 2"}
MEANS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}
#: What a mean cannot show, for a copy that has nothing else.
UNSEEN = (
    "A strength is a mean over all source columns: one strong pair among many weak ones hardly moves it, and "
    "positive and negative ones cancel. Only coefficients show which pairs are strong."
)
RANKING = Form("ranking", "ranking.csv", (), {"position": int, "feature": str})


def ranking_table(positions: Ints, labels: Labels, **values: Floats) -> pd.DataFrame:
    """Return the ranking as a table, with more columns of values by feature."""
    order = in_order(positions)
    columns = {"position": positions, "feature": np.array([*labels.target], dtype=object), **values}
    return pd.DataFrame({name: column[order] for name, column in columns.items()})


class Ranking(Findings):
    """The order of the target's features, opened without their strengths."""

    forms: ClassVar[Mapping[str, Form]] = {"ranking": RANKING}
    unmergeable = "it holds only the order of the features, and orders cannot be merged"

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        return {"ranking": ranking_table(numbers["positions"], labels)}

    @property
    def ranking(self) -> pd.DataFrame:
        """The list of features, the first ones first."""
        ranking: pd.DataFrame = self.tables["ranking"]
        return ranking

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "m_target": len(self.ranking)}

    def labels_of(self, numbers: Numbers) -> Labels:
        labels = super().labels_of(numbers)
        if labels.target:
            return labels
        features = np.empty(len(self.ranking), dtype=object)  # in the order of the target's table
        features[in_order(numbers["positions"])] = self.ranking["feature"]
        return Labels(labels.sources, features.tolist())

    def facts(self) -> dict[str, str]:
        strength = f"{MEANS[self.plan.strength]}, {self.plan.order}"
        return {"Estimator": ESTIMATORS[self.plan.estimator], "Strength": strength, **super().facts()}

    def precision(self) -> str:
        return f"the order of {'exact strengths' if self.exact else 'strengths with noise'}"

    def headline(self) -> str:
        together = int((self.ranking["position"] == 1).sum())
        which = f"{together} of {len(self.ranking)} features came out first, in no order"
        if together == 1:
            which = self.first("came out")
        return f"{which}; an order alone does not show whether any is related to the other side's columns"

    def first(self, verb: str = "ranks") -> str:
        """Name the feature that ranks first."""
        name, m = printable(self.ranking["feature"][0]), len(self.ranking)
        return f"{name} {verb} first {self.among}" if m > 1 else f"{name} is the only feature"

    @property
    def among(self) -> str:
        """The set of features among which the first one ranks first, in words."""
        return f"of {len(self.ranking)} features"

    def sections(self) -> list[Section]:
        ranking = self.ranking
        columns = {
            "position": [*map(str, ranking["position"])],
            "feature": [*map(printable, ranking["feature"])],
        }
        return [Section("Ranking", table=Table(columns, "ranking.csv"), notes=[UNSEEN])]
