"""A copy with the coefficient of every pair of columns: what it says of its tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.findings.coefficient_tables import (
    CoefficientTables,
    evidence,
    known_columns,
    tests_of,
    weakened_pairs,
)
from mpc_spearman.findings.nominal import nominal_section
from mpc_spearman.findings.sections import RATE, Line, Matrix, Section, Table, chance, number, percent
from mpc_spearman.findings.tables import CSV_PAIRS
from mpc_spearman.statistics import reading, result_warnings
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.discoveries import bound_on_all
from mpc_spearman.statistics.intervals import INTERVAL_ROWS
from mpc_spearman.statistics.mean_squares import mean_squares, root_mean_squares
from mpc_spearman.units import printable

#: Pairs that are listed.
_LISTED = 500
_UNCHOSEN = (
    ", or the pair is not among those chosen as the strongest. Rows and columns without a chosen pair are "
    "left out"
)
#: A coefficient from which "would be found" says nothing.
_CERTAIN = 0.995
_GUESS = "The best guess allows for noise, which makes the largest numbers too large. "
_BEYOND = "Noise carries some coefficients beyond ±1, where no true one can be."
_UNTESTED = (
    "Strengths have no test and no ranges of ranks here: they are means over the pairs that are here, and "
    "the other pairs are not known"
)
_INDEPENDENT = "q assumes one row per person, and independent people."
_REPEATED = (
    "Rows that repeat a person, or people of one household or practice, make p-values too small and "
    "intervals too narrow."
)


class Coefficients(CoefficientTables):
    """The sentences, tables and the map that show coefficients."""

    @property
    def matrix(self) -> pd.DataFrame:
        """The coefficients."""
        matrix: pd.DataFrame = self.held["coefficients"]
        return matrix

    @property
    def evidence(self) -> dict[str, Any]:
        """The arguments of p-values and intervals of these coefficients, by name."""
        held = self.held
        return evidence(
            self.copy, held["columns"], len(self.matrix), held.get("noise"), held.get("adjustment")
        )

    @property
    def own_rows(self) -> bool:
        """Whether the matrix has only one source's rows, while strengths cover several sources."""
        return self.copy.role == "source" and len(self.copy.sources) > 1

    def warnings(self) -> list[str]:
        stated = self.held.get("ranges")
        names = [] if stated is None else [": ".join(label) for label in stated.index[stated["weakened"]]]
        return [
            *(result_warnings.chosen("pairs", self.chosen, self.matrix.size) if self.chosen else []),
            *result_warnings.weakened(names),
            *result_warnings.pvalues(**self.evidence),
            *([result_warnings.noise("the coefficients")] if self.noise_ratio() > 1 else []),
        ]

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair that is here; last those with a constant column.

        Eq. 2 may give these 1.
        """
        pairs, ties = super().pairs(), self.held["columns"]["ties"]
        if self.chosen:
            pairs = pairs.dropna(subset="rho")
        constant = ties.index[ties == Ties.CONSTANT.word]
        target = constant[constant.get_level_values(0) == self.copy.target].get_level_values(1)
        last = pd.MultiIndex.from_frame(pairs[["party", "source"]]).isin(constant) | pairs["target"].isin(
            target
        )
        return pairs.iloc[np.argsort(last, kind="stable")].reset_index(drop=True)

    def noise_ratio(self) -> float:
        if "noise" not in self.held:
            return 0.0
        noise = self.held["noise"].to_numpy()[self.matrix.notna().to_numpy()]
        return float(np.median(noise) * np.sqrt(self.n - 1)) if noise.size else 0.0

    def precision(self) -> str:
        if self.copy.role == "coordinator" and not self.exact:
            return "exact in this copy alone: what is passed on has noise"
        return super().precision()

    @property
    def chosen(self) -> int | None:
        return self.copy.chosen(self.matrix.size)

    @property
    def mean(self) -> str:
        return "root mean square ρ" if self.by_squares(self.copy, self.held) else super().mean

    @property
    def over(self) -> str:
        return " of the pairs that are here" if self.chosen else super().over

    def headline(self) -> str:
        if self.matrix.isna().all(axis=None):
            return self.first()
        pairs = self.pairs()
        best, tested = next(pairs.head(1).itertuples()), int(pairs["q"].count())
        which = "The only pair is" if len(pairs) == 1 else f"The strongest of {len(pairs):,} pairs is"
        strongest = f"{self._named(best.party, best.source, best.target)}, with ρ = {number(best.rho)}"  # type: ignore[arg-type]
        if not tested:
            return f"{which} {strongest}; no pair has a p-value"
        count = int((pairs["q"] <= RATE).sum())
        if not count:
            return f"No pair differs from chance (smallest q {chance(pairs['q'].min())}){self._limit(tested)}"
        best = next(pairs[pairs["q"] <= RATE].head(1).itertuples())
        named = self._named(best.party, best.source, best.target)
        of = (
            f"the {len(pairs.dropna(subset='rho'))} pairs that are here"
            if self.chosen
            else f"{tested:,} pairs"
        )
        which = f"{count:,} of {of} differ{'s' * (count == 1)} from chance, the strongest"
        if tested == 1:
            which = "The only pair with a p-value differs from chance:"
        guess = f" (best guess {number(best.guess)})" if "guesses" in self.held else ""  # type: ignore[arg-type]
        return f"{which} {named} with ρ = {number(best.rho)}{guess}"  # type: ignore[arg-type]

    def _limit(self, tested: int) -> str:
        """Say above which size there is no coefficient, as far as pairs have intervals."""
        weak = weakened_pairs(self.held.get("ranges"), *self.matrix.shape)
        rho = np.where(weak, math.nan, self.matrix.to_numpy())
        most, of = bound_on_all(rho, self.plan.confidence, self._tests, **self.evidence)
        if not of:
            return ""
        which = "all |ρ|" if of == tested else f"the |ρ| of {of:,} pairs"
        if self.chosen:
            which = f"the |ρ| of the {of:,} pairs that are here"
        return f"; with {percent(self.plan.confidence)} confidence {which} are below {number(_up(most))}"

    @property
    def _tests(self) -> int:
        """Over how many pairs tests are."""
        return tests_of(self.copy, self.held["pvalues"].to_numpy(), self.evidence)

    def sections(self) -> list[Section]:
        if self.matrix.isna().all(axis=None):
            return [self.ranked()]
        nominal = [nominal_section(self.copy, self.held)] if "nominal" in self.held else []
        lead = _UNTESTED if self.chosen else self.first()
        return [self._strongest(self.pairs()), *nominal, self.ranked(lead), self._map()]

    def _strongest(self, pairs: pd.DataFrame) -> Section:
        """Return the section with the pairs whose coefficients are farthest from 0, intervals where found."""
        defined = pairs.dropna(subset="rho")
        known: Any = defined.head(_LISTED)
        described = self.held["columns"]
        places, columns = (
            {label: at for at, label in enumerate(described.index)},
            known_columns(described, None),
        )
        guesses = ["best guess"] * ("guesses" in self.held)
        lines = [
            Line(
                (
                    *(
                        self._named(pair.party, pair.source, pair.target),
                        number(pair.rho),
                        *(number(pair.guess) for _ in guesses),
                    ),
                    *(self._interval(pair.low, pair.high, pair.q), chance(pair.q)),
                ),
                pair.rho,
                (pair.low, pair.high),
                found=pair.q <= RATE,
                note=self._flag(
                    pair.rho, columns, places[pair.party, pair.source], places[self.copy.target, pair.target]
                ),
            )
            for pair in known.itertuples()
        ]
        sources, target = ", ".join(map(printable, self.copy.sources)), printable(self.copy.target)
        return Section(
            "The strongest pairs",
            about=f"Rank correlations ρ of a feature of {sources} with one of {target}. Full points "
            f"differ from chance (q ≤ {percent(RATE)}, Benjamini and Hochberg, over all pairs that have a "
            f"p-value); hollow ones do not, and have no interval. {_GUESS if guesses else ''}{_REPEATED}",
            table=Table(
                ("pair", "ρ", *guesses, "interval", "q"),
                lines, "pairs.csv" if len(pairs) <= CSV_PAIRS else "pairs.parquet", ("pair",),
                len(defined) - len(lines), points=True,
            ),
            notes=self._tested(pairs),
            short=5, long=10,
        )  # fmt: skip

    def _named(self, party: Any, source: Any, target: Any) -> str:
        """Name a pair, with its source's party where there are several."""
        several = len(self.copy.sources) > 1 and not self.own_rows
        return printable((f"{party} · " if several else "") + f"{source} × {target}")

    def _interval(self, low: float, high: float, q: float) -> str:
        """Write the ends of a pair's interval, or why there is none."""
        if not math.isnan(low):
            return f"{number(low)} to {number(high)}"
        if not q <= RATE:
            return "–"
        why = "many ties, or may be weakened" if "ranges" in self.held else "many ties"
        return f"none: {'too few rows' if self.n < INTERVAL_ROWS else why}"

    def _flag(self, rho: float, columns: Columns, *pair: int) -> str:
        """Say of a pair of a flag with a column without ties how large its coefficient can be."""
        if "adjustment" in self.held or {*columns.ties[[*pair]]} != {Ties.TWO_VALUES, Ties.NONE}:
            return ""
        flags = [at for at in pair if columns.ties[at] == Ties.TWO_VALUES]
        flag = Columns(columns.ties[flags], columns.skewness[flags], columns.gaps[flags])
        (most,), (area,) = reading.largest(flag, self.n), reading.auc(np.array([rho]), flag, self.n)
        possible = 0 <= area <= 1  # noise may carry it beyond
        return f"at most ±{number(most, 2)} for this flag; AUC {number(area, 2)}" if possible else ""

    def _tested(self, pairs: pd.DataFrame) -> list[str]:
        """Say how sure what was found is, or what else there can be, and what so many rows can show."""
        tested, count = int(pairs["q"].count()), int((pairs["q"] <= RATE).sum())
        if not tested:
            return []
        sentences = []
        if count:
            sentences.append(
                f"At most {percent(1 - self.plan.confidence)} of the intervals miss (false coverage rate)."
            )
        if self.n >= INTERVAL_ROWS and count < tested:
            noise = self.noise_ratio() / math.sqrt(self.n - 1)
            least = reading.detectable(self.n, self._tests, noise)
            rows = f"{self.n:,} rows{' and this noise' if noise else ''}"
            if least < _CERTAIN:
                what = f"a coefficient of {number(least)} or more would be found in four of five samples"
            else:
                what = "not even a coefficient near 1 would be found in four of five samples"
            sentences.append(f"With {rows}, {what}.")
        beyond = [_BEYOND] if (self.matrix.abs() > 1).any(axis=None) else []
        return [*sentences, *beyond, _INDEPENDENT]

    def other_means(self) -> tuple[str, pd.Series[float]] | None:
        if self.own_rows or self.chosen:
            return None
        if self.plan.strength == "mean_abs":
            return "mean ρ", self.matrix.mean()
        if "noise" not in self.held:
            return "mean |ρ|", self.matrix.abs().mean()
        squares = mean_squares(self.matrix.to_numpy(), self.held["noise"].to_numpy(), self.n)
        return "root mean square ρ", pd.Series(root_mean_squares(squares), self.matrix.columns)

    def _map(self) -> Section:
        """Return the section with the matrix, the target's features in the order of the ranking."""
        shown = self.matrix[list(self.ranking["feature"])]
        rows = np.ones(len(shown), dtype=bool)
        if self.chosen:
            rows = shown.notna().any(axis=1).to_numpy()
            shown = shown[rows].dropna(axis=1, how="all")
        q = self.held["qvalues"][shown.columns].to_numpy()[rows]
        ends = self.held["intervals"][shown.columns].to_numpy()[np.repeat(rows, 2)]
        values, sources = shown.to_numpy(), shown.index.to_list()
        several = self.matrix.index.get_level_values(0).nunique() > 1

        def title(row: int, column: int) -> str:
            party, source = sources[row]
            pair = self._named(party, source, shown.columns[column])
            text = f"{pair}: {number(values[row, column])}"
            if math.isnan(values[row, column]):
                return text
            low, high = ends[2 * row : 2 * row + 2, column]
            between = f"{self._interval(low, high, q[row, column])}; " if q[row, column] <= RATE else ""
            return f"{text} ({between}q {chance(q[row, column])})"

        whose = f"feature of {printable(self.copy.party)}" if self.own_rows else "source feature"
        return Section(
            "Coefficients",
            about=f"Rank correlation ρ of every {whose} (rows) with every feature of "
            f"{printable(self.copy.target)} (columns, in the order of the ranking). Underlined are the "
            "pairs that have a full point above. Empty cells are undefined: one of the two columns is "
            f"constant{_UNCHOSEN if self.chosen else ''}. Hover over a cell for its names and numbers.",
            matrix=Matrix(
                values,
                q <= RATE,
                [(printable(" · ".join(row) if several else row[1]), row[0]) for row in shown.index],
                [printable(name) for name in shown.columns],
                title,
                "rank correlation ρ",
            ),
        )


def _up(value: float) -> float:
    """Round up to three digits after the point."""
    return math.ceil(value * 1000) / 1000
