"""A copy with how much of each target feature's ranks all columns of a source explain together (R²)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.findings.adjustment import comparable
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.nominal import CATEGORIES, category_table, nominal_columns
from mpc_spearman.findings.ranking import RANKING, listed
from mpc_spearman.findings.sections import RATE, Line, Section, Table, chance, number, percent
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.statistics import explained, result_warnings
from mpc_spearman.statistics.columns import Flags, Floats, Ints
from mpc_spearman.statistics.discoveries import selected_confidence
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: What two columns of the table are.
_COLUMNS = (
    "predictive: R² expected in new rows. by chance: what R² of a feature without any relation exceeds once "
    "in 20."
)
#: Why copies of several runs are not merged.
OF_ONE_SOURCE = "its numbers cannot be merged: each is of one source alone"


def by_source(copy: Copy, numbers: Mapping[str, Any], rows: Any, index: str) -> pd.DataFrame:
    """Return a table with a block for each source; a number for a whole block stands in all of its rows."""
    sources = copy.sources if copy.role != "source" else [copy.party]
    labels = pd.MultiIndex.from_product([sources, rows], names=["party", index])
    shape = (len(sources), len(rows))
    return pd.DataFrame(
        {name: np.broadcast_to(v.reshape(len(v), -1), shape).ravel() for name, v in numbers.items()}, labels
    )


def counted(copy: Copy, table: pd.DataFrame, k: Ints) -> Floats:
    """Return how many rows tests with k directions count; NaN if too few."""
    gaps, fitted, unequal = (table[name].to_numpy() for name in ("gaps", "fitted", "unequal"))
    return explained.counted_rows(copy.n, gaps, fitted, unequal, k)


def tested(copy: Copy, table: pd.DataFrame) -> Flags:
    """Return which numbers are tested: not those of a source adjusted for other columns than the target."""
    return np.array([comparable(copy.plan, party) for party in table.index.get_level_values("party")])


def adjustment_of(numbers: Numbers, count: int = 1) -> dict[str, NDArray[Any]]:
    """Return what tests know of adjusted columns; without any word of it none of `count` tests is of such."""
    return {
        "fitted": numbers.get("fitted", np.zeros(count, np.int64)),
        "unequal": numbers.get("unequal", np.ones(count)),
    }


class Explained(Findings):
    """R² of each target feature on each source, and the features ranked by it."""

    tables: ClassVar[Mapping[str, Form]] = {
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
    unmergeable = OF_ONE_SOURCE

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        r2, k = numbers["explained"], numbers["kept"]
        columns = {
            "r2": r2,
            "noise": numbers["explained_noise"],
            "k": k,
            "gaps": numbers["gaps"],
            **adjustment_of(numbers),
            "dispersion": numbers.get("dispersion", np.ones(1)),
        }
        rows = explained.counted_rows(
            copy.n, columns["gaps"], columns["fitted"], columns["unequal"], k[:, None]
        )
        positions = explained.positions(r2, k, rows, copy.plan.order)
        return {
            "explained": by_source(copy, columns, labels.target, "feature"),
            "ranking": listed(positions, pd.Index(list(labels.target), dtype="object")),
            **category_table(copy, numbers, Labels((), labels.target)),
        }

    @classmethod
    def follow(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Compute predictive R², p-values and q-values, and intervals of what is found."""
        table = tables["explained"]
        r2, s, k, dispersion = (table[name].to_numpy() for name in ("r2", "noise", "k", "dispersion"))
        n = counted(copy, table, k)
        p = np.where(tested(copy, table), explained.pvalues(r2, s, k, n, dispersion), math.nan)
        q = qvalues(p)
        differs, tests = q <= RATE, int((~np.isnan(q)).sum())
        level = selected_confidence(copy.plan.confidence, int(differs.sum()), tests)
        low, high = (np.where(differs, end, math.nan) for end in explained.r2_intervals(r2, s, k, n, level))
        predictive = explained.predictive(r2, k, n)
        return {"explained": table.assign(predictive=predictive, p=p, q=q, low=low, high=high)}

    @property
    def labels(self) -> Labels:
        return Labels((), list(self.held["explained"].index.unique(1)) if "explained" in self.held else ())

    def warnings(self) -> list[str]:
        table, sources = self.held["explained"], self.held["explained"].index.unique(0)
        n, k = self._counted, table["k"].to_numpy()
        return [
            *result_warnings.explained(explained.spread(table["noise"].to_numpy(), k, n), len(sources)),
            *result_warnings.gaps(np.isnan(n)),
            *result_warnings.uneven((table["dispersion"].isna() & table["r2"].notna()).to_numpy()),
        ]

    @property
    def _counted(self) -> Floats:
        """How many rows each test counts."""
        table = self.held["explained"]
        return counted(self.copy, table, table["k"].to_numpy())

    def noise_ratio(self) -> float:
        return float(np.median(self.held["explained"]["noise"]) * math.sqrt(self.n - 1))

    def headline(self) -> str:
        table: Any = self.held["explained"]
        if table["r2"].isna().all():
            return "No feature has a defined R²"
        differing = table[table["q"] <= RATE].sort_values("low", ascending=False, kind="stable")
        if not len(differing):
            tested = f"smallest q {chance(table['q'].min())}" if table["q"].notna().any() else "no p-values"
            return f"Of no feature is more explained than chance gives ({tested})"
        (source, feature), best = differing.index[0], differing.iloc[0]
        count, m = (self._columns(one.index.unique(1)) for one in (differing, table))
        of_new = f", {100 * min(max(best['predictive'], 0), 1):.0f} % expected in new rows"
        expected = of_new if self.noise_ratio() <= 1 else ""  # a single number would be mostly noise
        noun = "columns" if "categories" in self.held else "features"
        many = f"; {count} of {m} {noun} differ{'s' * (count == 1)} from chance" if m > 1 else ""
        return (
            f"{printable(str(source))} explains {100 * best['low']:.0f} to {100 * best['high']:.0f} % of the "
            f"variance of the ranks of {printable(str(feature))}{expected}{many}"
        )

    def _columns(self, features: Sequence[str]) -> int:
        """Return from how many columns features come; flags of one column's categories count once."""
        labels = [(self.copy.target, feature) for feature in features]
        columns = nominal_columns(self.held.get("categories"), labels)
        return len(
            {(column or feature, bool(column)) for column, feature in zip(columns, features, strict=True)}
        )

    def sections(self) -> list[Section]:
        table: Any = self.held["explained"]
        places = dict(zip(self.held["ranking"]["feature"], self.held["ranking"]["position"], strict=True))
        several = ["source"] * (len(table.index.unique(0)) > 1)
        s, k, dispersion = (table[name].to_numpy() for name in ("noise", "k", "dispersion"))
        limits = explained.chance(s, k, self._counted, dispersion)
        lines = [
            Line(
                (
                    *(str(places[feature]), printable(feature), *(printable(source) for _ in several)),
                    *(
                        share(row.r2),
                        "–" if math.isnan(row.low) else f"{share(row.low)} to {share(row.high)}",
                    ),
                    *(share(row.predictive), share(limit), chance(row.q)),
                ),
                min(max(row.r2, 0.0), 1.0) if row.r2 == row.r2 else math.nan,
                mark=min(limit, 1.0),
                note="undefined: a constant column has no ranks to explain" if math.isnan(row.r2) else "",
            )
            for (source, feature), row, limit in zip(table.index, table.itertuples(), limits, strict=True)
        ]
        head = ("position", "feature", *several, "R²", "interval", "predictive", "by chance", "q")
        nothing = not (table["q"] <= RATE).any()
        miss = percent(1 - self.plan.confidence)
        return [
            Section(
                f"What {', '.join(map(printable, self.copy.sources))} can explain",
                lead=self.only_order() if nothing else "",
                about="R² is the share of the variance of a feature's ranks that all columns of one "
                "source explain together. The ranking uses the predictive R², which is expected in new "
                "rows. The vertical mark is what features without any relation exceed once in 20. "
                "Numbers that noise carries beyond 0 or 1 are shown as these. Every q assumes one row "
                "per person, and independent people.",
                table=Table(
                    head, sorted(lines, key=lambda line: int(line.cells[0])), "explained.csv",
                    axis="R²; the mark: once in 20 by chance", marked=True,
                ),
                notes=[
                    *([] if nothing else [f"At most {miss} of the intervals miss (false coverage rate)."]),
                    _COLUMNS,
                ],
            )
        ]  # fmt: skip


def share(value: float) -> str:
    """Write a share, at most 1 and at least 0 whatever noise has made of it."""
    return number(value if math.isnan(value) else min(max(value, 0.0), 1.0))
