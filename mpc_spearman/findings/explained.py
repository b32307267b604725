"""A copy with how much of each target feature's ranks all columns of a source explain together (R²)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Form, Labels, Numbers
from mpc_spearman.findings.nominal import CATEGORIES, category_table, nominal_columns
from mpc_spearman.findings.ranking import RANKING, ranking_table
from mpc_spearman.findings.sections import RATE, Section, Table, chance, differ, number, percent
from mpc_spearman.findings.whitened import Whitened, by_source, conditions_of_tests
from mpc_spearman.statistics import explained
from mpc_spearman.statistics.intervals import selected_confidence
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: What two columns of the table are.
_COLUMNS = (
    "predictive: R² expected in new rows. by chance: what R² of a feature without any relation exceeds once "
    "in 20."
)
_UNDEFINED = "undefined: a constant column has no ranks to explain"


class Explained(Whitened):
    """R² of each target feature on each source, and the features ranked by it."""

    forms: ClassVar[Mapping[str, Form]] = {
        "explained": Form(
            "explained shares", "explained.csv",
            columns={
                "r2": float, "noise": float, "k": int, "gaps": float, "fitted": int, "unequal": float,
                "dispersion": float,
                "predictive": float, "p": float, "q": float, "low": float, "high": float,
            },
        ),
        "ranking": RANKING,
        "categories": CATEGORIES,
    }  # fmt: skip

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        r2, k, rows = numbers["explained"], numbers["kept"], conditions_of_tests(numbers, 1)
        columns = {"r2": r2, "noise": numbers["explained_noise"], "k": k, **rows}
        n = explained.counted_rows(copy.n, rows["gaps"], rows["fitted"], rows["unequal"], k[:, None])
        return {
            "explained": by_source(copy, columns, labels.target, "feature"),
            "ranking": ranking_table(explained.positions(r2, k, n, copy.plan.order), labels),
            **category_table(copy, numbers, Labels((), labels.target)),
        }

    def derived_tables(self) -> dict[str, Any]:
        """Compute predictive R², p-values and q-values, and intervals of R² that differs from chance."""
        directions, r2 = self.directions(self.table), self.table["r2"].to_numpy()
        p = np.where(self.tested(), explained.pvalues(r2, directions), math.nan)
        q = qvalues(p)
        differs, tests = q <= RATE, int((~np.isnan(q)).sum())
        level = selected_confidence(self.plan.confidence, int(differs.sum()), tests)
        low, high = (
            np.where(differs, end, math.nan) for end in explained.r2_intervals(r2, directions, level)
        )
        predictive = explained.predictive(r2, directions.k, directions.n)
        return {"explained": self.table.assign(predictive=predictive, p=p, q=q, low=low, high=high)}

    @property
    def labels(self) -> Labels:
        return Labels((), list(self.table.index.unique(1)))

    def warnings(self) -> list[str]:
        return self.warnings_of(self.table, "R²")

    def headline(self) -> str:
        table = self.table
        if table["r2"].isna().all():
            return "No feature has a defined R²"
        differing = table[table["q"] <= RATE].sort_values("low", ascending=False, kind="stable")
        if not len(differing):
            tested = f"smallest q {chance(table['q'].min())}" if table["q"].notna().any() else "no p-values"
            return f"Of no feature is more explained than chance gives ({tested})"
        (source, feature), best = differing.index[0], differing.iloc[0]
        count, m = (self._columns(rows.index.unique(1)) for rows in (differing, table))
        of_new = f", {100 * min(max(best['predictive'], 0), 1):.0f} % expected in new rows"
        expected = of_new if self.noise_ratio() <= 1 else ""  # a single number would be mostly noise
        noun = "columns" if "categories" in self.tables else "features"
        many = f"; {count} of {m} {noun} {differ(count)} from chance" if m > 1 else ""
        return (
            f"{printable(str(source))} explains {100 * best['low']:.0f} to {100 * best['high']:.0f} % of the "
            f"variance of the ranks of {printable(str(feature))}{expected}{many}"
        )

    def _columns(self, features: Sequence[str]) -> int:
        """Return how many columns the features come from; flags of one column's categories count once."""
        labels = [(self.copy.target, feature) for feature in features]
        columns = nominal_columns(self.tables.get("categories"), labels)
        return len(
            {(column or feature, bool(column)) for column, feature in zip(columns, features, strict=True)}
        )

    def sections(self) -> list[Section]:
        places = dict(zip(self.tables["ranking"]["feature"], self.tables["ranking"]["position"], strict=True))
        positions = self.table.index.get_level_values(1).map(places)
        table = self.table.iloc[np.argsort(positions, kind="stable")]
        limits = explained.chance(self.directions(table))
        sources, features = ([*map(printable, table.index.get_level_values(level))] for level in (0, 1))
        columns = {
            "position": [*map(str, sorted(positions))],
            "feature": features,
            **({"source": sources} if len({*sources}) > 1 else {}),
            "R²": [*map(share, table["r2"])],
            "interval": [
                "–" if math.isnan(low) else f"{share(low)} to {share(high)}"
                for low, high in zip(table["low"], table["high"], strict=True)
            ],
            "predictive": [*map(share, table["predictive"])],
            "by chance": [*map(share, limits)],
            "q": [*map(chance, table["q"])],
        }
        nothing = not (table["q"] <= RATE).any()
        miss = f"At most {percent(1 - self.plan.confidence)} of the intervals miss (false coverage rate)."
        return [
            Section(
                f"What {', '.join(map(printable, self.copy.sources))} can explain",
                lead=self.only_order() if nothing else "",
                how_to_read="R² is the share of the variance of a feature's ranks that all columns of one "
                "source explain together. The ranking uses the predictive R², which is expected in new "
                "rows. The vertical mark is what features without any relation exceed once in 20. "
                "Numbers that noise carries beyond 0 or 1 are shown as these. Every q assumes one row "
                "per person, and independent people.",
                table=Table(
                    columns,
                    "explained.csv",
                    table["r2"].clip(0.0, 1.0).tolist(),
                    marks=np.minimum(limits, 1.0).tolist(),
                    notes=[_UNDEFINED if undefined else "" for undefined in table["r2"].isna()],
                    axis="R²; the mark: once in 20 by chance",
                ),
                notes=[*([] if nothing else [miss]), _COLUMNS],
            )
        ]


def share(value: float) -> str:
    """Write a share, cut to 0 … 1 if noise has moved it beyond."""
    return number(value if math.isnan(value) else min(max(value, 0.0), 1.0))
