"""A copy with the coefficient of every pair of columns; tests, intervals and strengths follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.sections import Line, Matrix, Section, Table, chance, number
from mpc_spearman.findings.strengths import Strengths
from mpc_spearman.findings.tables import Form, Labels, Numbers, source_features, target_features
from mpc_spearman.statistics import estimators, pvalues, reading, result_warnings
from mpc_spearman.statistics.columns import Columns, Flags, Ties
from mpc_spearman.statistics.intervals import INTERVAL_ROWS, intervals
from mpc_spearman.units import printable

#: Pairs are counted and marked at this false discovery rate, if they have this size.
DISCOVERY_RATE, SIZE = 0.05, 0.1
#: Pairs that are listed.
_LISTED = 20
_ENDS = ("low", "high")
_UNCHOSEN = ", or the pair is not among those chosen as the strongest"
_INDEPENDENT = "q assumes one row per person, and independent people."
_REPEATED = (
    "Rows that repeat a person, or people of one household or practice, make p-values too small and "
    "intervals too narrow."
)


def _of_both(labels: Labels, target: str) -> Sequence[Any]:
    return [*labels.sources, *((target, name) for name in labels.target)]


def _with_ends(labels: Labels, target: str) -> Sequence[Any]:
    return [(*row, end) for row in labels.sources for end in _ENDS]


def _word(ties: str) -> str:
    return Ties.named(ties).word


def _matrix(words: str, file: str, derived: tuple[str, ...] = ()) -> Form:
    return Form(words, file, rows=source_features, derived=derived)


class Coefficients(Strengths):
    """Coefficients, the ties of the columns they are of, and the noise in them; the rest is derived."""

    tables: ClassVar[Mapping[str, Form]] = {
        "coefficients": _matrix("coefficients", "matrix.csv"),
        "columns": Form(
            "columns' ties", "columns.csv", columns={"ties": _word, "skewness": float}, rows=_of_both
        ),
        "noise": _matrix("standard deviations of the noise", "noise.csv"),
        "ranges": Form(
            "columns' stated ranges", "ranges.csv", columns={"range": float, "weakened": bool},
            rows=_of_both, derived=("weakened",),
        ),
        "pvalues": _matrix("p-values", "pvalues.csv", ("*",)),
        "intervals": Form(
            "confidence intervals", "intervals.csv", ("party", "feature", "bound"), None, _with_ends, ("*",)
        ),
        "qvalues": _matrix("q-values", "qvalues.csv", ("*",)),
        **Strengths.tables,
        "estimators": Form(
            "strengths under both estimators", "estimators.csv", ("feature",),
            {"tie_corrected": float, "paper": float}, target_features, coordinator="they reveal all ties",
        ),
    }  # fmt: skip

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        source, target = (
            Columns(numbers[f"{side}_ties"], numbers[f"{side}_skewness"]) for side in ("source", "target")
        )
        columns = column_table(_of_both(labels, copy.target), source, target)
        rows: Any = columns.index[: len(labels.sources)]
        rows = rows.remove_unused_levels()
        features = pd.Index(list(labels.target), dtype="object")
        tables = {
            name: pd.DataFrame(numbers[name], rows, features)
            for name in ("coefficients", "noise")
            if name in numbers
        }
        if "source_ranges" in numbers and "target_ranges" in numbers:
            ranges = np.concatenate([numbers["source_ranges"], numbers["target_ranges"]])
            held = {"range": ranges, "weakened": reading.weakened(ranges, copy.n)}
            tables["ranges"] = pd.DataFrame(held, columns.index)
        if "estimators" in numbers:
            names = list(cls.tables["estimators"].columns or ())
            tables["estimators"] = pd.DataFrame(numbers["estimators"], features, names)
        return {
            **super().derive(copy, numbers, labels),
            **tables,
            "columns": columns,
            **cls.inferred(copy, columns=columns, **_known(tables)),
        }

    @classmethod
    def inferred(
        cls,
        copy: Copy,
        matrix: pd.DataFrame,
        columns: pd.DataFrame,
        noise: pd.DataFrame | None,
        ranges: pd.DataFrame | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Compute p-values, intervals and q-values of coefficients.

        A coefficient of a column that may be weakened has no interval: it may lie too near to 0. Intervals
        and q-values of pairs chosen as the strongest allow for the choice among all pairs.
        """
        pairs, rho = evidence(copy, columns, len(matrix), noise), matrix.to_numpy()
        p = pvalues.pvalues(rho, **pairs)
        confidence, tests = copy.plan["confidence"], None
        if copy.chosen:
            tested = pvalues.testable(pairs["source"], pairs["target"], pairs["estimator"])
            tests = int(np.broadcast_to(tested, rho.shape).sum())
            confidence = 1 - (1 - confidence) * (~np.isnan(rho)).sum() / max(1, tests)
        ends = np.stack(intervals(rho, confidence=confidence, **pairs), axis=1)
        ends[weakened_pairs(ranges, *matrix.shape)[:, None].repeat(2, axis=1)] = math.nan
        bounds = pd.MultiIndex.from_tuples(
            [(*row, end) for row in matrix.index for end in _ENDS], names=["party", "feature", "bound"]
        )
        return {
            "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
            "intervals": pd.DataFrame(ends.reshape(-1, matrix.shape[1]), bounds, matrix.columns),
            "qvalues": pd.DataFrame(pvalues.qvalues(p, tests), matrix.index, matrix.columns),
        }

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return all sources' rows under each other, and what follows from all of them."""
        matrix = pd.concat([part.held["coefficients"] for part in parts])
        described = pd.concat([part.held["columns"] for part in parts])
        own = described.index.get_level_values("party") == copy.target
        columns = pd.concat([described[~own], described[own & ~described.index.duplicated()]])
        tables = {"coefficients": matrix, "columns": columns}
        if all("noise" in part.held for part in parts):
            tables["noise"] = pd.concat([part.held["noise"] for part in parts])
        if all("ranges" in part.held for part in parts):
            stated = pd.concat([part.held["ranges"] for part in parts])
            tables["ranges"] = stated[~stated.index.duplicated()].reindex(columns.index)
        mu, counts = estimators.strengths(matrix.to_numpy(), copy.plan["strength"])
        inferred = cls.inferred(copy, columns=columns, **_known(tables))
        return {**tables, **inferred, **cls.merged_means(copy, parts, mu, counts)}

    def shows(self, numbers: Numbers) -> bool:
        role = self.copy.role
        known, of = self.held["columns"], "source" if role == "source" else "target"
        mine = known.index.get_level_values("party") == self.copy.party
        own = known_columns(known[mine])
        numbers = {**numbers, f"{of}_ties": own.ties, f"{of}_skewness": own.skewness}
        if "ranges" in self.held:
            numbers = {**numbers, f"{of}_ranges": self.held["ranges"]["range"][mine].to_numpy()}
        return super().shows(numbers)

    # --- what is said

    @property
    def matrix(self) -> pd.DataFrame:
        """The coefficients."""
        matrix: pd.DataFrame = self.held["coefficients"]
        return matrix

    @property
    def own_rows(self) -> bool:
        """Whether the matrix has only one source's rows, while strengths cover several sources."""
        return self.copy.role == "source" and len(self.copy.sources) > 1

    def warnings(self) -> list[str]:
        pairs = evidence(self.copy, self.held["columns"], len(self.matrix), self.held.get("noise"))
        source, target, noise = pairs["source"], pairs["target"], np.asarray(pairs["noise"])
        testable = pvalues.testable(source, target, self.plan["estimator"]) & ~self.matrix.isna().to_numpy()
        ranges = self.held.get("ranges")
        testable &= ~weakened_pairs(ranges, *self.matrix.shape)
        names = [] if ranges is None else [": ".join(label) for label in ranges.index[ranges["weakened"]]]
        if self.copy.chosen:
            testable &= ~self.matrix.isna().to_numpy()
        return [
            *result_warnings.weakened(names),
            *result_warnings.pvalues(**pairs),
            *result_warnings.intervals(self.held["intervals"].to_numpy()[::2], testable, self.n),
            *result_warnings.noise("coefficients", noise, 1 / np.sqrt(self.n - 1)),
            *super().warnings(),
        ]

    def precision(self) -> str:
        if self.copy.role == "coordinator" and self.plan["results"]["precision"] != "exact":
            return "exact in this copy alone; with noise in what is passed on"
        return super().precision()

    def pairs(self) -> pd.DataFrame:
        """Lay out the coefficients as one long table, farthest from 0 first."""
        rho, ends = self.matrix, self.held["intervals"]
        table = pd.DataFrame(
            {
                "party": np.repeat(rho.index.get_level_values(0), rho.shape[1]),
                "source": np.repeat(rho.index.get_level_values(1), rho.shape[1]),
                "target": np.tile(rho.columns, rho.shape[0]),
                "rho": rho.to_numpy().ravel(),
                "p": self.held["pvalues"].to_numpy().ravel(),
                "q": self.held["qvalues"].to_numpy().ravel(),
                "low": ends.xs("low", level="bound").to_numpy().ravel(),
                "high": ends.xs("high", level="bound").to_numpy().ravel(),
            }
        )
        order = np.argsort(-table["rho"].abs().to_numpy(), kind="stable")  # NaN comes last
        return table.iloc[order].reset_index(drop=True)

    def headline(self) -> str:
        if self.matrix.isna().all(axis=None):
            return self.first()
        pairs = self.pairs()
        which = f"strongest of {len(pairs):,} pairs" if len(pairs) > 1 else "only pair"
        best = next(pairs.head(1).itertuples())
        return f"The {which} is {self._named(best)}, with ρ = {number(best.rho)}"  # type: ignore[arg-type]

    def sections(self) -> list[Section]:
        notes = [*self.resolution(), *self._by_size()]
        if self.matrix.isna().all(axis=None):
            return [self.ranked(notes=notes)]
        return [self._strongest(self.pairs()), self.ranked(self.first(), notes), self._map()]

    def _strongest(self, pairs: pd.DataFrame) -> Section:
        """Return the section with the pairs whose coefficients are farthest from 0, with their intervals."""
        known: Any = pairs.dropna(subset="rho").head(_LISTED)
        lines = [
            Line(
                (self._named(pair), number(pair.rho), self._interval(pair.low, pair.high), chance(pair.q)),
                pair.rho,
                (pair.low, pair.high),
                found=pair.q <= DISCOVERY_RATE and abs(pair.rho) >= SIZE,
                note=self._flag(pair),
            )
            for pair in known.itertuples()
        ]
        sources, rate = ", ".join(map(printable, self.copy.sources)), f"{100 * DISCOVERY_RATE:g} %"
        target = printable(self.copy.target)
        head = ("pair", "ρ", f"{100 * self.plan['confidence']:g} % interval", "q")
        return Section(
            "The strongest pairs",
            about=f"Rank correlations ρ of a feature of {sources} with one of {target}, with confidence "
            f"intervals. Full points have q ≤ {rate} and |ρ| ≥ {SIZE}, hollow ones do not. {_REPEATED}",
            table=Table(head, lines, "matrix.csv", ("pair",), len(pairs) - len(lines), whiskers=True),
            notes=self._tested(pairs),
            short=5,
            long=5,
        )

    def _named(self, pair: Any) -> str:
        """Name a pair, with its source's party where there are several."""
        several = len(self.copy.sources) > 1 and not self.own_rows
        return printable((f"{pair.party} · " if several else "") + f"{pair.source} × {pair.target}")

    def _interval(self, low: float, high: float) -> str:
        """Write the ends of a pair's interval, or that there is none, and why."""
        if not math.isnan(low):
            return f"{number(low)} to {number(high)}"
        ties = "ties, under eq. 2" if self.plan["estimator"] == "paper" else "many ties"
        ties += ", or may be weakened" if "ranges" in self.held else ""
        return f"none: {'too few rows' if self.n < INTERVAL_ROWS else ties}"

    def _flag(self, pair: Any) -> str:
        """Say of a pair of a flag with a column without ties how large its coefficient can be."""
        columns = self.held["columns"]
        names = [(pair.party, pair.source), (self.copy.target, pair.target)]
        places: Any = [columns.index.get_loc(name) for name in names]  # `reindex` takes three times as long
        both = known_columns(columns.iloc[places])
        if set(both.ties) != {Ties.TWO_VALUES, Ties.NONE}:
            return ""
        at = both.ties == Ties.TWO_VALUES
        flag = Columns(both.ties[at], both.skewness[at])
        (most,), (area,) = reading.largest(flag, self.n), reading.auc(pair.rho, flag, self.n)
        possible = 0 <= area <= 1  # noise may carry it beyond
        return f"at most ±{number(most, 2)} for this flag; AUC {number(area, 2)}" if possible else ""

    def _tested(self, pairs: pd.DataFrame) -> list[str]:
        """Count the pairs that differ from chance, and say which coefficients so many rows can show."""
        count, discovered = int(pairs["q"].count()), pairs["q"] <= DISCOVERY_RATE
        if not count:
            return []
        large = int((discovered & (pairs["rho"].abs() >= SIZE)).sum())
        found = (
            f"{discovered.sum():,} of {count:,} pairs have q ≤ {100 * DISCOVERY_RATE:g} % (Benjamini and "
            f"Hochberg, over all pairs that have a p-value); {large:,} of these have |ρ| ≥ {SIZE}."
        )
        if self.n < INTERVAL_ROWS:
            return [found, _INDEPENDENT]
        noise = float(np.median(self.held["noise"])) if "noise" in self.held else 0.0
        least, over_all = (reading.detectable(self.n, tests, noise) for tests in (1, count))
        all_of = f", and one of {number(over_all)} if all {count:,} pairs are tested at once"
        power = (
            f"With {self.n:,} rows{' and the noise in them' if noise else ''} a test at 5 % detects a "
            f"coefficient of {number(least)} in four of five samples{all_of if count > 1 else ''}."
        )
        return [found, power, _INDEPENDENT]

    def other_means(self) -> pd.Series[float] | None:
        if self.own_rows:
            return None
        return (self.matrix if self.plan["strength"] == "mean_abs" else self.matrix.abs()).mean()

    def _by_size(self) -> list[str]:
        """Say which feature is the strongest in size, if another one ranks first by sign."""
        sizes = self.other_means()
        if sizes is None or self.plan["strength"] != "mean" or sizes.isna().all():
            return []
        best = sizes.idxmax()
        position = int(self.ranking.loc[self.ranking["feature"] == best, "position"].iloc[0])
        if position == 1:
            return []
        return [
            f"The ranking is by sign, {self.plan['order']}; the strongest in size is "
            f"{printable(str(best))}, at position {position}, with a mean |ρ| of {number(sizes.max(), 4)}."
        ]

    def _map(self) -> Section:
        """Return the section with the matrix, the target's features in the order of the ranking."""
        shown = self.matrix[list(self.ranking["feature"])]
        q, ends = (
            self.held["qvalues"][shown.columns].to_numpy(),
            self.held["intervals"][shown.columns].to_numpy(),
        )
        values, several = shown.to_numpy(), self.matrix.index.get_level_values(0).nunique() > 1

        def title(row: int, column: int) -> str:
            pair = pd.Series(dict(zip(("party", "source"), shown.index[row], strict=True)))
            pair["target"] = shown.columns[column]
            text = f"{self._named(pair)}: {number(values[row, column])}"
            if math.isnan(values[row, column]):
                return text
            return (
                f"{text} ({self._interval(*ends[2 * row : 2 * row + 2, column])}; q {chance(q[row, column])})"
            )

        whose = f"feature of {printable(self.copy.party)}" if self.own_rows else "source feature"
        return Section(
            "Coefficients",
            about=f"Rank correlation ρ of every {whose} (rows) with every feature of "
            f"{printable(self.copy.target)} (columns, in the order of the ranking). Underlined are the "
            "pairs that have a full point above. Empty cells are undefined: one of the two columns is "
            f"constant{_UNCHOSEN if self.copy.chosen else ''}. Hover over a cell for its names and numbers.",
            matrix=Matrix(
                values,
                (q <= DISCOVERY_RATE) & (np.abs(values) >= SIZE),
                [(printable(" · ".join(row) if several else row[1]), row[0]) for row in shown.index],
                [printable(name) for name in shown.columns],
                title,
                "rank correlation ρ",
            ),
        )


def column_table(names: Sequence[Any], *sides: Columns) -> pd.DataFrame:
    """Label what is known of columns, of one side or one after the other, with parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=["party", "feature"])
    words = [Ties(value).word for columns in sides for value in columns.ties]
    skewness = np.concatenate([columns.skewness for columns in sides])
    return pd.DataFrame({"ties": words, "skewness": skewness}, index=index)


def known_columns(table: pd.DataFrame) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
    return Columns(classes, table["skewness"].to_numpy())


def weakened_pairs(ranges: pd.DataFrame | None, rows: int, columns: int) -> Flags:
    """Return the pairs of which a column may be weakened, (rows, columns)."""
    if ranges is None:
        return np.zeros((rows, columns), dtype=bool)
    flags = ranges["weakened"].to_numpy(dtype=bool)
    found: Flags = flags[:rows, None] | flags[rows:]
    return found


def _known(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {"matrix": tables["coefficients"], "noise": tables.get("noise"), "ranges": tables.get("ranges")}


def evidence(copy: Copy, columns: pd.DataFrame, rows: int, noise: pd.DataFrame | None) -> dict[str, Any]:
    """Gather the arguments of p-values and intervals, by name; the first `rows` columns are sources'."""
    return {
        "n": copy.n,
        "source": known_columns(columns[:rows]).rows,
        "target": known_columns(columns[rows:]),
        "estimator": copy.plan["estimator"],
        "noise": 0.0 if noise is None else noise.to_numpy(),
    }
