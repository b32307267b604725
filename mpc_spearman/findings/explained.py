"""A copy with how much of each target feature's ranks all columns of a source explain together (R²)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.ranking import RANKING, listed
from mpc_spearman.findings.sections import Line, Section, Table, chance, number
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.statistics import explained, result_warnings
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: Below such a p-value something is explained, or in common.
FOUND = 0.05
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


class Explained(Findings):
    """R² of each target feature on each source, and the features ranked by it."""

    tables: ClassVar[Mapping[str, Form]] = {
        "explained": Form(
            "explained shares", "explained.csv",
            columns={
                "r2": float, "noise": float, "k": int, "dispersion": float, "predictive": float, "p": float,
                "q": float,
            },
            derived=("predictive", "p", "q"),
        ),
        "ranking": RANKING,
    }  # fmt: skip
    unmergeable = OF_ONE_SOURCE

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        r2, s, k = numbers["explained"], numbers["explained_noise"], numbers["kept"]
        columns = {"r2": r2, "noise": s, "k": k, "dispersion": numbers.get("dispersion", np.ones(1))}
        table = by_source(copy, columns, labels.target, "feature")
        share, noise, directions, dispersion = (table[name].to_numpy() for name in columns)
        p = explained.pvalues(share, noise, directions, copy.n, dispersion)
        predictive = explained.predictive(share, directions, copy.n)
        positions = explained.positions(r2, k, copy.n, copy.plan["order"])
        return {
            "explained": table.assign(predictive=predictive, p=p, q=qvalues(p)),
            "ranking": listed(positions, pd.Index(list(labels.target), dtype="object")),
        }

    @property
    def labels(self) -> Labels:
        return Labels((), list(self.held["explained"].index.unique(1)) if "explained" in self.held else ())

    def warnings(self) -> list[str]:
        table, sources = self.held["explained"], self.held["explained"].index.unique(0)
        spread = explained.spread(table["noise"].to_numpy(), table["k"].to_numpy(), self.n).max()
        return [
            *result_warnings.explained(spread, len(sources)),
            *result_warnings.uneven((table["dispersion"].isna() & table["r2"].notna()).to_numpy()),
        ]

    def headline(self) -> str:
        ranking, table = self.held["ranking"], self.held["explained"]
        name, m = printable(ranking["feature"][0]), len(ranking)
        place = f"{name} ranks first of {m} features" if m > 1 else f"{name} is the only feature"
        of_it: Any = table.xs(ranking["feature"][0], level="feature")
        if of_it["r2"].isna().all():
            return "No feature has a defined R²"
        best = of_it.loc[of_it["predictive"].idxmax()]
        if best["p"] > FOUND:
            return f"{place}, but {printable(best.name)} explains no more of it than chance gives"
        share, of_new = (min(max(best[part], 0), 1) for part in ("r2", "predictive"))
        part = f"{share:.0%} of the variance of its ranks, {of_new:.0%} expected in new rows"
        return f"{place}: {printable(best.name)} explains {part}"

    def sections(self) -> list[Section]:
        found: Any = self.held["explained"]
        places = dict(zip(self.held["ranking"]["feature"], self.held["ranking"]["position"], strict=True))
        several = ["source"] * (len(found.index.unique(0)) > 1)
        s, k, dispersion = (found[name].to_numpy() for name in ("noise", "k", "dispersion"))
        limits = explained.chance(s, k, self.n, dispersion)
        lines = [
            Line(
                (
                    *(str(places[feature]), printable(feature), *(printable(source) for _ in several)),
                    *(number(row.r2), number(row.predictive), number(limit), chance(row.q)),
                ),
                row.r2,
                mark=limit,
                note="undefined: a constant column has no ranks to explain" if math.isnan(row.r2) else "",
            )
            for (source, feature), row, limit in zip(found.index, found.itertuples(), limits, strict=True)
        ]
        head = ("position", "feature", *several, "R²", "predictive", "by chance", "q")
        return [
            Section(
                f"What {', '.join(map(printable, self.copy.sources))} can explain",
                about="R² is the share of the variance of a feature's ranks that all columns of one "
                "source explain together. The ranking uses the predictive R², which is expected in new "
                "rows. The vertical mark is what features without any relation exceed once in 20. R² is "
                "below 0 where the correction for noise was larger than R² itself. Every q assumes one "
                "row per person, and independent people.",
                table=Table(
                    head, sorted(lines, key=lambda line: int(line.cells[0])), "ranking.csv",
                    axis="R²; the mark: once in 20 by chance", marked=True,
                ),
            )
        ]  # fmt: skip
