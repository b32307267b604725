"""A copy with canonical correlations: whether a source's columns and the target's have anything in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.explained import OF_ONE_SOURCE, adjustment_of, by_source, counted, tested
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.sections import RATE, Line, Section, Table, chance, number
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.statistics import canonical, explained, result_warnings
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: Noise, in standard errors, from which a corrected correlation is too large on average.
_MUCH = 3.0


class Canonical(Findings):
    """The canonical correlations of each source's columns with the target's, and Pillai's trace."""

    tables: ClassVar[Mapping[str, Form]] = {
        "canonical": Form(
            "canonical correlations", "canonical.csv", ("party", "number"),
            {
                "singular": float, "noise": float, "k_source": int, "k_target": int, "gaps": float,
                "fitted": int, "unequal": float, "dispersion": float, "chance": float,
                "correlation": float, "trace": float, "p": float, "q": float,
            },
        ),
    }  # fmt: skip
    unmergeable = OF_ONE_SOURCE

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        columns = {
            "singular": numbers["canonical"],
            "noise": numbers["canonical_noise"],
            "k_source": numbers["kept"],
            "k_target": np.broadcast_to(numbers["kept_target"], numbers["kept"].shape),
            "gaps": numbers["gaps"],
            **adjustment_of(numbers, len(numbers["kept"])),
            "dispersion": numbers.get("dispersion", np.ones(len(numbers["kept"]))),
        }
        places = range(1, numbers["canonical"].shape[1] + 1)
        return {"canonical": by_source(copy, columns, places, "number")}

    @classmethod
    def follow(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Compute what chance gives, correlations where values exceed that, and each source's test."""
        table = tables["canonical"]
        value, s, k, of_target, dispersion = (
            table[name].to_numpy() for name in ("singular", "noise", "k_source", "k_target", "dispersion")
        )
        n = counted(copy, table, np.maximum(k, of_target))
        limit = canonical.largest_by_chance(s, k, of_target, n)
        counts = table["singular"].gt(limit).groupby(level="party").cummin().to_numpy()
        squares = np.square(table["singular"]).groupby(level="party").transform("sum").to_numpy()
        nothing = table["singular"].isna().groupby(level="party").transform("all")
        trace = np.where(nothing, np.nan, squares) - k * of_target * np.square(s)
        p = explained.pillai_pvalues(trace, s, k, of_target, n, dispersion)
        p = np.where(tested(copy, table), p, math.nan)
        first = table.index.get_level_values("number") == 1  # one test a source
        q = pd.Series(qvalues(p[first]), table.index.unique(0)).reindex(table.index, level="party").to_numpy()
        differs = counts & (q <= RATE)
        correlation = np.where(differs, canonical.without_bias(value, s, k, of_target, n), math.nan)
        more = {"chance": limit, "correlation": correlation, "trace": trace, "p": p, "q": q}
        return {"canonical": table.assign(**more)}

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "m_target": len(self.held["canonical"].index.unique(1))}

    def warnings(self) -> list[str]:
        first: Any = self.held["canonical"].xs(1, level="number")
        noise, k_source, k_target = (first[name].to_numpy() for name in ("noise", "k_source", "k_target"))
        n = counted(self.copy, first, np.maximum(k_source, k_target))
        spread = explained.spread(noise, k_source * k_target, n)
        return [
            *result_warnings.explained(spread, len(first), "Pillai's trace"),
            *result_warnings.gaps(np.isnan(n)),
            *result_warnings.uneven(first["dispersion"].isna().to_numpy()),
        ]

    def noise_ratio(self) -> float:
        return float(np.median(self.held["canonical"]["noise"]) * math.sqrt(self.n - 1))

    def headline(self) -> str:
        tables = [
            f"{printable(str(source))} and {printable(self.copy.target)}{self._in_common(rows.iloc[0])}"
            for source, rows in self.held["canonical"].groupby(level="party", sort=False)
        ]
        return "The tables of " + "; the tables of ".join(tables)

    def _in_common(self, top: Any) -> str:
        """Say what a source's test and its largest canonical correlation show about two tables."""
        if math.isnan(top["trace"]):
            return ": what was opened cannot be canonical correlations"
        if math.isnan(top["p"]):
            return ": whether they have anything in common cannot be tested"
        tested = f"(p-value {chance(top['p'])})"
        if top["q"] > RATE:
            return f" cannot be told to have anything in common {tested}"
        if math.isnan(top["correlation"]):
            return f" have something in common {tested}, but no combination of columns stands out"
        about = "at most about" if self.noise_ratio() >= _MUCH else "about"
        return (
            f" have something in common {tested}: the largest canonical correlation is {about} "
            f"{number(top['correlation'], 2)}"
        )

    def sections(self) -> list[Section]:
        known: Any = self.held["canonical"].dropna(subset="singular")
        about = "at most " if self.noise_ratio() >= _MUCH else ""
        above_chance: Any = known.dropna(subset="correlation")
        lines = [
            Line((printable(party), str(at), f"{about}{number(value, 2)}"), value)
            for (party, at), value in above_chance["correlation"].items()
        ]
        within_chance = [
            f"{'None' if len(rows) == len(known.loc[party]) else 'No other'} of the {len(known.loc[party])} "
            f"canonical correlations of {printable(party)} and {printable(self.copy.target)} can be told "
            "from chance."
            for party, rows in known[known["correlation"].isna()].groupby(level="party", sort=False)
        ]
        traces = [
            f"Pillai's trace of {printable(str(party))} and {printable(self.copy.target)} is "
            f"{number(min(max(row.trace, 0.0), most))} of at most {most}."
            for party, row in known.groupby(level="party", sort=False).first().iterrows()
            if (most := int(min(row.k_source, row.k_target)))
        ]
        return [
            Section(
                "What the tables have in common",
                about="Canonical correlations: how closely a combination of the ranks of a source's "
                f"columns and one of {printable(self.copy.target)}'s columns can agree; each pair of "
                "combinations is uncorrelated with those above. What chance and noise add is taken off. "
                "A correlation is shown only if unrelated tables have so large a one less than once in "
                "20.",
                table=Table(
                    ("source", "number", "correlation"), lines, "canonical.csv", axis="canonical correlation"
                )
                if lines
                else None,
                notes=[*within_chance, *traces],
            )
        ]
