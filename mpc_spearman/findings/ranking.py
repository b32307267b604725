"""A copy with the ranking of the target's features alone: their order, or which are the strongest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.sections import Line, Section, Table
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.units import printable

ESTIMATORS = {"tie_corrected": "tie-corrected, as SciPy and pandas compute it", "paper": "the paper's eq. 2"}
MEANS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}
#: What a mean cannot show, for a copy that has nothing else.
UNSEEN = (
    "A strength is a mean over all source columns: one strong pair among many weak ones hardly moves it, and "
    "positive and negative ones cancel. Only coefficients show which pairs are strong."
)
RANKING = Form("ranking", "ranking.csv", (), {"position": int, "feature": str})


def order_of(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the target's features as the ranking lists them: equal ones in the table's order."""
    return np.argsort(positions, kind="stable")


def listed(positions: NDArray[np.int64], features: pd.Index[Any]) -> pd.DataFrame:
    """Return the ranking as a table."""
    order = order_of(positions)
    return pd.DataFrame({"position": positions[order], "feature": features[order].tolist()})


class Ranking(Findings):
    """The order of the target's features, opened without their strengths."""

    tables: ClassVar[Mapping[str, Form]] = {"ranking": RANKING}
    unmergeable = "it holds only the order of the features, and orders cannot be merged"

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        return {"ranking": listed(numbers["positions"], pd.Index(list(labels.target), dtype="object"))}

    @property
    def ranking(self) -> pd.DataFrame:
        """The list of features, the first ones first."""
        ranking: pd.DataFrame = self.held["ranking"]
        return ranking

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "m_target": len(self.ranking)}

    def labels_of(self, numbers: Numbers) -> Labels:
        known = super().labels_of(numbers)
        if known.target:
            return known
        features = np.empty(len(self.ranking), dtype=object)  # in the order of the target's table
        features[order_of(numbers["positions"])] = self.ranking["feature"]
        return Labels(known.sources, features.tolist())

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
        """Among which features one is first, in words."""
        return f"of {len(self.ranking)} features"

    def sections(self) -> list[Section]:
        cells = [(str(at), printable(name)) for at, name in self.ranking.itertuples(index=False)]
        table = Table(("position", "feature"), [Line(row) for row in cells], "ranking.csv")
        return [Section("Ranking", table=table, notes=[UNSEEN])]
