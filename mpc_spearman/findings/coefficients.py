"""A copy with the coefficient of every pair of columns: the sentences and sections that show its tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.findings.coefficient_tables import CoefficientTables, weakened_pairs
from mpc_spearman.findings.forms import CSV_PAIRS
from mpc_spearman.findings.nominal import nominal_section
from mpc_spearman.findings.sections import RATE, Matrix, Section, Table, chance, differ, number, percent
from mpc_spearman.statistics import reading, result_warnings
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.intervals import INTERVAL_ROWS, bound_on_all
from mpc_spearman.statistics.mean_squares import mean_squares, root_mean_squares
from mpc_spearman.units import printable

#: Pairs that are listed.
_LISTED = 500
#: A coefficient from which "would be found" says nothing.
_CERTAIN = 0.995
_UNCHOSEN = (
    ", or the pair is not among those chosen as the strongest. Rows and columns without a chosen pair are "
    "left out"
)
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

    def warnings(self) -> list[str]:
        ranges = self.tables.get("ranges")
        weakened = [] if ranges is None else [": ".join(label) for label in ranges.index[ranges["weakened"]]]
        return [
            *result_warnings.chosen("pairs", self.chosen, self.matrix.size),
            *result_warnings.weakened(weakened),
            *result_warnings.pvalues(self.column_pairs),
            *result_warnings.noise("the coefficients", self.noise_ratio()),
        ]

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair in this copy; pairs with a constant column are last.

        Eq. 2 may give these 1.
        """
        pairs, ties = super().pairs(), self.tables["columns"]["ties"]
        if self.chosen:
            pairs = pairs.dropna(subset="rho")
        constant = ties.index[ties == Ties.CONSTANT.word]
        target = constant[constant.get_level_values(0) == self.copy.target].get_level_values(1)
        is_constant = pd.MultiIndex.from_frame(pairs[["party", "source"]]).isin(constant)
        is_constant |= pairs["target"].isin(target)
        return pairs.iloc[np.argsort(is_constant, kind="stable")].reset_index(drop=True)

    def noise_ratio(self) -> float:
        if "noise" not in self.tables:
            return 0.0
        noise = self.tables["noise"].to_numpy()[self.matrix.notna().to_numpy()]
        return float(np.median(noise) * np.sqrt(self.n - 1)) if noise.size else 0.0

    def precision(self) -> str:
        if self.copy.role == "coordinator" and not self.exact:
            return "exact in this copy alone: what is passed on has noise"
        return super().precision()

    @property
    def mean(self) -> str:
        return "root mean square ρ" if self.by_squares else super().mean

    @property
    def over(self) -> str:
        return " of the pairs that are here" if self.chosen else super().over

    def headline(self) -> str:
        if self.matrix.isna().all(axis=None):
            return self.first()
        pairs = self.pairs()
        tested, differing = int(pairs["q"].count()), pairs[pairs["q"] <= RATE]
        count = len(differing)
        if tested and not count:
            return f"No pair differs from chance (smallest q {chance(pairs['q'].min())}){self._limit(tested)}"
        best: Any = next((differing if count else pairs).itertuples())
        pair, rho = self._name(best.party, best.source, best.target), f"with ρ = {number(best.rho)}"
        if not tested:
            which = "The only pair is" if len(pairs) == 1 else f"The strongest of {len(pairs):,} pairs is"
            return f"{which} {pair}, {rho}; no pair has a p-value"
        of = f"{tested:,} pairs"
        if self.chosen:
            of = f"the {pairs['rho'].count()} pairs that are here"
        which = f"{count:,} of {of} {differ(count)} from chance, the strongest"
        if tested == 1:
            which = "The only pair with a p-value differs from chance:"
        guess = f" (best guess {number(best.guess)})" if "guesses" in self.tables else ""
        return f"{which} {pair} {rho}{guess}"

    def _limit(self, tested: int) -> str:
        """Say below which size all coefficients are, by the pairs' intervals."""
        weak = weakened_pairs(self.tables.get("ranges"), *self.matrix.shape)
        rho = np.where(weak, math.nan, self.matrix.to_numpy())
        most, of = bound_on_all(rho, self.column_pairs, self.plan.confidence, self._tests)
        if not of:
            return ""
        which = "all |ρ|" if of == tested else f"the |ρ| of {of:,} pairs"
        if self.chosen:
            which = f"the |ρ| of the {of:,} pairs that are here"
        most = math.ceil(most * 1000) / 1000
        return f"; with {percent(self.plan.confidence)} confidence {which} are below {number(most)}"

    @property
    def _tests(self) -> int:
        """The number of tests."""
        return self.tests_of(self.tables["pvalues"].to_numpy())

    def sections(self) -> list[Section]:
        if self.matrix.isna().all(axis=None):
            return [self.ranked()]
        nominal = [nominal_section(self.copy, self.tables)] if "nominal" in self.tables else []
        lead = _UNTESTED if self.chosen else self.first()
        return [self._strongest(self.pairs()), *nominal, self.ranked(lead), self._map()]

    def _strongest(self, pairs: pd.DataFrame) -> Section:
        """Return the section with the pairs whose coefficients are farthest from 0, and their intervals."""
        defined = pairs.dropna(subset="rho")
        listed: Any = defined.head(_LISTED)
        lines = [*listed.itertuples()]
        guesses = {"best guess": [*map(number, listed["guess"])]} if "guesses" in self.tables else {}
        columns = {
            "pair": [self._name(pair.party, pair.source, pair.target) for pair in lines],
            "ρ": [*map(number, listed["rho"])],
            **guesses,
            "interval": [self._interval(pair.low, pair.high, pair.q) for pair in lines],
            "q": [*map(chance, listed["q"])],
        }
        places = {label: place for place, label in enumerate(self.tables["columns"].index)}
        described, target = self.all_columns, self.copy.target
        table = Table(
            columns,
            "pairs.csv" if len(pairs) <= CSV_PAIRS else "pairs.parquet",
            listed["rho"].tolist(),
            [*zip(listed["low"].tolist(), listed["high"].tolist(), strict=True)],
            differing=(listed["q"] <= RATE).tolist(),
            notes=[
                self._flag(
                    pair.rho, described, [places[pair.party, pair.source], places[target, pair.target]]
                )
                for pair in lines
            ],
            names=("pair",),
            more=len(defined) - len(lines),
            points=True,
        )
        how_to_read = (
            f"Rank correlations ρ of a feature of {', '.join(map(printable, self.copy.sources))} with one of "
            f"{printable(target)}. Full points differ from chance (q ≤ {percent(RATE)}, Benjamini and "
            "Hochberg, over all pairs that have a p-value); hollow ones do not, and have no interval. "
            f"{_GUESS if guesses else ''}{_REPEATED}"
        )
        notes = self._about_tests(pairs)
        return Section(
            "The strongest pairs", how_to_read=how_to_read, table=table, notes=notes, short=5, long=10
        )

    def _name(self, party: Any, source: Any, target: Any) -> str:
        """Name a pair, with its source's party where there are several."""
        several = len(self.copy.sources) > 1 and not self.own_rows
        return printable((f"{party} · " if several else "") + f"{source} × {target}")

    def _interval(self, low: float, high: float, q: float) -> str:
        """Write the ends of a pair's interval, or why there is none."""
        if not math.isnan(low):
            return f"{number(low)} to {number(high)}"
        if not q <= RATE:
            return "–"
        why = "many ties, or may be weakened" if "ranges" in self.tables else "many ties"
        return f"none: {'too few rows' if self.n < INTERVAL_ROWS else why}"

    def _flag(self, rho: float, columns: Columns, pair: list[int]) -> str:
        """Say of a pair of a flag with a column without ties how large its coefficient can be."""
        if "adjustment" in self.tables or {*columns.ties[pair]} != {Ties.TWO_VALUES, Ties.NONE}:
            return ""
        flag = columns.select([place for place in pair if columns.ties[place] == Ties.TWO_VALUES])
        (most,), (area,) = reading.largest(flag, self.n), reading.auc(np.array([rho]), flag, self.n)
        possible = 0 <= area <= 1  # noise may carry it beyond
        return f"at most ±{number(most, 2)} for this flag; AUC {number(area, 2)}" if possible else ""

    def _about_tests(self, pairs: pd.DataFrame) -> list[str]:
        """Say how many intervals may miss, and which coefficients so many rows can show."""
        tested, count = int(pairs["q"].count()), int((pairs["q"] <= RATE).sum())
        if not tested:
            return []
        sentences = []
        if count:
            miss = percent(1 - self.plan.confidence)
            sentences.append(f"At most {miss} of the intervals miss (false coverage rate).")
        if self.n >= INTERVAL_ROWS and count < tested:
            noise = self.noise_ratio() / math.sqrt(self.n - 1)
            least = reading.detectable(self.n, self._tests, noise)
            size = f"a coefficient of {number(least)} or more"
            if least >= _CERTAIN:
                size = "not even a coefficient near 1"
            rows = f"{self.n:,} rows{' and this noise' if noise else ''}"
            sentences.append(f"With {rows}, {size} would be found in four of five samples.")
        if (self.matrix.abs() > 1).any(axis=None):
            sentences.append(_BEYOND)
        return [*sentences, _INDEPENDENT]

    def second_mean(self) -> dict[str, pd.Series[float]]:
        if self.own_rows or self.chosen:
            return {}
        if self.plan.strength == "mean_abs":
            return {"mean ρ": self.matrix.mean()}
        if "noise" not in self.tables:
            return {"mean |ρ|": self.matrix.abs().mean()}
        squares = mean_squares(self.matrix.to_numpy(), self.tables["noise"].to_numpy(), self.n)
        return {"root mean square ρ": pd.Series(root_mean_squares(squares), self.matrix.columns)}

    def _map(self) -> Section:
        """Return the section with the matrix, the target's features in the order of the ranking."""
        shown = self.matrix[list(self.ranking["feature"])]
        rows = np.ones(len(shown), dtype=bool)
        if self.chosen:
            rows = shown.notna().any(axis=1).to_numpy()
            shown = shown[rows].dropna(axis=1, how="all")
        q = self.tables["qvalues"][shown.columns].to_numpy()[rows]
        ends = self.tables["intervals"][shown.columns].to_numpy()[np.repeat(rows, 2)]
        values, sources = shown.to_numpy(), shown.index.to_list()
        several = self.matrix.index.get_level_values(0).nunique() > 1

        def title(row: int, column: int) -> str:
            party, source = sources[row]
            pair = self._name(party, source, shown.columns[column])
            text = f"{pair}: {number(values[row, column])}"
            if math.isnan(values[row, column]):
                return text
            low, high = ends[2 * row : 2 * row + 2, column]
            between = f"{self._interval(low, high, q[row, column])}; " if q[row, column] <= RATE else ""
            return f"{text} ({between}q {chance(q[row, column])})"

        rows_are = f"feature of {printable(self.copy.party)}" if self.own_rows else "source feature"
        how_to_read = (
            f"Rank correlation ρ of every {rows_are} (rows) with every feature of "
            f"{printable(self.copy.target)} (columns, in the order of the ranking). Underlined are the pairs "
            "that have a full point above. Empty cells are undefined: one of the two columns is constant"
            f"{_UNCHOSEN if self.chosen else ''}. Hover over a cell for its names and numbers."
        )
        labels = [(printable(" · ".join(row) if several else row[1]), row[0]) for row in sources]
        names = [*map(printable, shown.columns)]
        matrix = Matrix(values, q <= RATE, labels, names, title, "rank correlation ρ")
        return Section("Coefficients", how_to_read=how_to_read, matrix=matrix)
