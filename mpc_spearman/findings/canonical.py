"""A copy with canonical correlations: whether a source's columns and the target's have anything in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Form, Labels, Numbers
from mpc_spearman.findings.sections import RATE, Section, Table, chance, number
from mpc_spearman.findings.whitened import Whitened, by_source, conditions_of_tests
from mpc_spearman.statistics import canonical, explained
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: Noise, in standard errors, from which a corrected correlation is too large on average.
_MUCH = 3.0


class Canonical(Whitened):
    """The canonical correlations of each source's columns with the target's, and Pillai's trace."""

    forms: ClassVar[Mapping[str, Form]] = {
        "canonical": Form(
            "canonical correlations", "canonical.csv", ("party", "number"),
            {
                "singular": float, "noise": float, "k_source": int, "k_target": int, "gaps": float,
                "fitted": int, "unequal": float, "dispersion": float, "chance": float,
                "correlation": float, "trace": float, "p": float, "q": float,
            },
        ),
    }  # fmt: skip

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        k = numbers["kept"]
        columns = {
            "singular": numbers["canonical"],
            "noise": numbers["canonical_noise"],
            "k_source": k,
            "k_target": np.broadcast_to(numbers["kept_target"], k.shape),
            **conditions_of_tests(numbers, len(k)),
        }
        places = range(1, numbers["canonical"].shape[1] + 1)
        return {"canonical": by_source(copy, columns, places, "number")}

    def derived_tables(self) -> dict[str, Any]:
        """Compute the limits of chance, the canonical correlations above these, and each source's test."""
        table, directions = self.table, self.directions(self.table)
        limit = canonical.largest_by_chance(directions)
        of_source = table["singular"].groupby(level="party")
        counts = table["singular"].gt(limit).groupby(level="party").cummin().to_numpy()
        squares = np.square(table["singular"]).groupby(level="party").transform("sum").to_numpy()
        undefined = of_source.transform("count").eq(0)
        trace = np.where(undefined, math.nan, squares) - directions.added_by_noise
        p = np.where(self.tested(), explained.pillai_pvalues(trace, directions), math.nan)
        first = table.index.get_level_values("number") == 1  # one test a source
        q = pd.Series(qvalues(p[first]), table.index.unique(0)).reindex(table.index, level="party").to_numpy()
        correlation = canonical.without_bias(table["singular"].to_numpy(), directions)
        correlation = np.where(counts & (q <= RATE), correlation, math.nan)
        more = {"chance": limit, "correlation": correlation, "trace": trace, "p": p, "q": q}
        return {"canonical": table.assign(**more)}

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "m_target": len(self.table.index.unique(1))}

    def warnings(self) -> list[str]:
        first = self.table[self.table.index.get_level_values("number") == 1]
        return self.warnings_of(first, "Pillai's trace")

    def headline(self) -> str:
        tables = [
            f"{printable(str(source))} and {printable(self.copy.target)}{self._in_common(rows.iloc[0])}"
            for source, rows in self.table.groupby(level="party", sort=False)
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
        hedge = "at most about" if self.noise_ratio() >= _MUCH else "about"
        return (
            f" have something in common {tested}: the largest canonical correlation is {hedge} "
            f"{number(top['correlation'], 2)}"
        )

    def sections(self) -> list[Section]:
        defined, target = self.table.dropna(subset="singular"), printable(self.copy.target)
        hedge = "at most " if self.noise_ratio() >= _MUCH else ""
        above = defined["correlation"].dropna()
        columns = {
            "source": [*map(printable, above.index.get_level_values(0))],
            "number": [*map(str, above.index.get_level_values(1))],
            "correlation": [f"{hedge}{number(value, 2)}" for value in above],
        }
        within_chance = [
            f"{'No other' if rows['correlation'].notna().any() else 'None'} of the {len(rows)} canonical "
            f"correlations of {printable(str(party))} and {target} can be told from chance."
            for party, rows in defined.groupby(level="party", sort=False)
            if rows["correlation"].isna().any()
        ]
        traces = [
            f"Pillai's trace of {printable(str(party))} and {target} is "
            f"{number(min(max(row.trace, 0.0), most))} of at most {most}."
            for party, row in defined.groupby(level="party", sort=False).first().iterrows()
            if (most := int(min(row.k_source, row.k_target)))
        ]
        table = Table(columns, "canonical.csv", above.tolist(), axis="canonical correlation")
        return [
            Section(
                "What the tables have in common",
                how_to_read="Canonical correlations: how closely a combination of the ranks of a source's "
                f"columns and one of {target}'s columns can agree; each pair of "
                "combinations is uncorrelated with those above. What chance and noise add is taken off. "
                "A correlation is shown only if unrelated tables have so large a one less than once in "
                "20.",
                table=table if len(above) else None,
                notes=[*within_chance, *traces],
            )
        ]
