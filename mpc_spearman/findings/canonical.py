"""A copy with canonical correlations: whether a source's columns and the target's have anything in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mpc_spearman.findings.explained import FOUND, OF_ONE_SOURCE, by_source
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.sections import Line, Section, Table, chance, number
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.statistics import canonical, explained, result_warnings
from mpc_spearman.units import printable


class Canonical(Findings):
    """The canonical correlations of each source's columns with the target's, and Pillai's trace."""

    tables: ClassVar[Mapping[str, Form]] = {
        "canonical": Form(
            "canonical correlations", "canonical.csv", ("party", "number"),
            {
                "correlation": float, "noise": float, "k_source": int, "k_target": int, "dispersion": float,
                "chance": float, "trace": float, "p": float,
            },
            derived=("chance", "trace", "p"),
        ),
    }  # fmt: skip
    unmergeable = OF_ONE_SOURCE

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        columns = {
            "correlation": numbers["canonical"],
            "noise": numbers["canonical_noise"],
            "k_source": numbers["kept"],
            "k_target": np.broadcast_to(numbers["kept_target"], numbers["kept"].shape),
            "dispersion": numbers.get("dispersion", np.ones(len(numbers["kept"]))),
        }
        table = by_source(copy, columns, range(1, numbers["canonical"].shape[1] + 1), "number")
        of_each = [table[name].to_numpy() for name in ("noise", "k_source", "k_target", "dispersion")]
        s, k, of_target, dispersion = of_each
        squares = np.square(table["correlation"]).groupby(level="party").transform("sum").to_numpy()
        nothing = table["correlation"].isna().groupby(level="party").transform("all")
        trace = np.where(nothing, np.nan, squares) - k * of_target * np.square(s)
        p = explained.pillai_pvalues(trace, s, k, of_target, copy.n, dispersion)
        limit = canonical.largest_by_chance(s, k, of_target, copy.n)
        return {"canonical": table.assign(chance=limit, trace=trace, p=p)}

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "m_target": len(self.held["canonical"].index.unique(1))}

    def warnings(self) -> list[str]:
        first: Any = self.held["canonical"].xs(1, level="number")
        k = first["k_source"].to_numpy() * first["k_target"].to_numpy()
        spread = explained.spread(first["noise"].to_numpy(), k, self.n).max()
        return [
            *result_warnings.explained(spread, len(first), "Pillai's trace"),
            *result_warnings.uneven(first["dispersion"].isna().to_numpy()),
        ]

    def headline(self) -> str:
        said = [
            f"{printable(str(source))} and {printable(self.copy.target)}{_trace(rows.iloc[0])}"
            for source, rows in self.held["canonical"].groupby(level="party", sort=False)
        ]
        return "The tables of " + "; the tables of ".join(said)

    def sections(self) -> list[Section]:
        known: Any = self.held["canonical"].dropna(subset="correlation")
        lines = [
            Line(
                (printable(party), str(at), number(row.correlation), number(row.chance)),
                row.correlation,
                mark=row.chance,
            )
            for (party, at), row in zip(known.index, known.itertuples(), strict=True)
        ]
        head = ("source", "number", "correlation", "by chance up to")
        return [
            Section(
                "What the tables have in common",
                about="Canonical correlations: how closely a combination of the ranks of a source's "
                f"columns and one of {printable(self.copy.target)}'s columns can agree; each pair of "
                "combinations is uncorrelated with those above. The vertical mark is what chance can "
                "give.",
                table=Table(
                    head,
                    lines,
                    "canonical.csv",
                    axis="canonical correlation; the mark: by chance up to",
                    marked=True,
                ),
            )
        ]


def _trace(top: Any) -> str:
    """Say what a source's first canonical correlation and its trace show about two tables."""
    if math.isnan(top["trace"]):
        return ": what was opened cannot be canonical correlations"
    most = int(min(top["k_source"], top["k_target"]))
    trace = f"Pillai's trace is {number(max(top['trace'], 0))} of at most {most}"
    if math.isnan(top["p"]):
        return f": {trace}, without a p-value"
    return (
        f" have {'little' if top['p'] > FOUND else 'something'} in common: {trace} (p-value "
        f"{chance(top['p'])}), and the largest canonical correlation is {number(top['correlation'])}, where "
        f"chance gives up to about {number(top['chance'])}"
    )
