"""A copy with the coefficient of every pair of columns; tests, intervals and strengths follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.sections import RATE, Line, Matrix, Section, Table, chance, number, percent
from mpc_spearman.findings.strengths import Strengths, errors_of, rank_table
from mpc_spearman.findings.tables import Form, Labels, Numbers, source_features, target_features
from mpc_spearman.statistics import estimators, pvalues, reading, result_warnings
from mpc_spearman.statistics import strengths as strength_tests
from mpc_spearman.statistics.columns import Columns, Flags, Ties
from mpc_spearman.statistics.discoveries import bound_on_all, found_intervals
from mpc_spearman.statistics.intervals import INTERVAL_ROWS
from mpc_spearman.statistics.mean_squares import mean_squares, null_errors, related_at_most, root_mean_squares
from mpc_spearman.statistics.shrinkage import best_guesses
from mpc_spearman.units import printable

#: Pairs that are listed.
_LISTED = 20
_ENDS = ("low", "high")
_UNCHOSEN = ", or the pair is not among those chosen as the strongest"
#: A coefficient from which "would be found" says nothing.
_CERTAIN = 0.995
_GUESS = "The best guess allows for noise, which makes the largest numbers too large. "
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


def _matrix(words: str, file: str) -> Form:
    return Form(words, file, rows=source_features)


class Coefficients(Strengths):
    """Coefficients, the ties of the columns they are of, and the noise in them; the rest is derived."""

    tables: ClassVar[Mapping[str, Form]] = {
        "coefficients": _matrix("coefficients", "matrix.csv"),
        "columns": Form(
            "columns' ties", "columns.csv", ("party", "feature"),
            {"ties": _word, "skewness": float, "gaps": float}, _of_both,
        ),
        "noise": _matrix("standard deviations of the noise", "noise.csv"),
        "ranges": Form(
            "columns' stated ranges", "ranges.csv", ("party", "feature"),
            {"range": float, "weakened": bool}, _of_both,
        ),
        "pvalues": _matrix("p-values", "pvalues.csv"),
        "intervals": Form(
            "confidence intervals", "intervals.csv", ("party", "feature", "bound"), None, _with_ends
        ),
        "qvalues": _matrix("q-values", "qvalues.csv"),
        "guesses": _matrix("best guesses", "guesses.csv"),
        **Strengths.tables,
        "estimators": Form(
            "strengths under both estimators", "estimators.csv", ("feature",),
            {"tie_corrected": float, "paper": float}, target_features, coordinator="they reveal all ties",
        ),
    }  # fmt: skip

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        source, target = (
            Columns(*(numbers[f"{side}_{what}"] for what in ("ties", "skewness", "gaps")))
            for side in ("source", "target")
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
            stated = np.concatenate([numbers["source_ranges"], numbers["target_ranges"]])
            tables["ranges"] = pd.DataFrame({"range": stated}, columns.index)
        if "estimators" in numbers:
            names = list(cls.tables["estimators"].columns or ())
            tables["estimators"] = pd.DataFrame(numbers["estimators"], features, names)
        return {**super().derive(copy, numbers, labels), **tables, "columns": columns}

    @classmethod
    def follow(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Compute p- and q-values, intervals of what is found, and best guesses where noise is large.

        A coefficient of a column that may be weakened has no interval: it may lie too near to 0. Intervals
        and q-values of pairs chosen as the strongest allow for the choice among all pairs.
        """
        matrix, columns, noise = (tables.get(name) for name in ("coefficients", "columns", "noise"))
        if matrix is None or columns is None:
            return {}
        pairs, rho = evidence(copy, columns, len(matrix), noise), matrix.to_numpy()
        stated = tables.get("ranges")
        if stated is not None:
            stated = stated.assign(weakened=reading.weakened(stated["range"].to_numpy(), copy.n))
        weak = weakened_pairs(stated, *rho.shape)
        p = pvalues.pvalues(rho, **pairs)
        tests = None
        if copy.chosen:
            tested = pvalues.testable(pairs["source"], pairs["target"], pairs["estimator"])
            tests = int(np.broadcast_to(tested, rho.shape).sum())
        q = pvalues.qvalues(p, tests)
        found_pairs = (q <= RATE) & ~weak
        ends = np.stack(found_intervals(rho, found_pairs, copy.plan["confidence"], tests, **pairs), axis=1)
        bounds = pd.MultiIndex.from_tuples(
            [(*row, end) for row in matrix.index for end in _ENDS], names=["party", "feature", "bound"]
        )
        found = {
            "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
            "intervals": pd.DataFrame(ends.reshape(-1, matrix.shape[1]), bounds, matrix.columns),
            "qvalues": pd.DataFrame(q, matrix.index, matrix.columns),
            **cls._ranks(copy, tables),
            **({} if stated is None else {"ranges": stated}),
        }
        sampling = 1 / (copy.n - 1)
        if not copy.chosen and np.nanmedian(np.square(pairs["noise"])) > sampling:
            guesses = best_guesses(rho, np.square(pairs["noise"]) + sampling)
            found["guesses"] = pd.DataFrame(guesses, matrix.index, matrix.columns)
        return found

    @classmethod
    def _ranks(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Test strengths; means of |ρ| with noise by their squares, as far as the whole matrix is known."""
        if copy.chosen:
            return {}  # strengths are of the chosen pairs alone
        if not cls.by_squares(copy, tables):
            return super().follow(copy, tables)
        if "errors" not in tables or (copy.role == "source" and len(copy.sources) > 1):
            return {}
        squares = mean_squares(tables["coefficients"].to_numpy(), tables["noise"].to_numpy(), copy.n)
        _, sampling, _ = errors_of(tables)
        lengths = float(sampling.max()) * math.sqrt(copy.n - 1)
        errors = null_errors(
            tables["noise"].to_numpy(), related_at_most(lengths, len(tables["noise"])), copy.n
        )
        noise = tables["noise"].to_numpy()
        chance_gives = float(np.square(noise).mean()) + 1 / (copy.n - 1)
        p = strength_tests.pvalues(squares + chance_gives, errors, chance_gives, two_sided=False)
        unknown = np.full(len(squares), math.nan)
        return {"ranks": rank_table(copy, tables["strengths"].index, squares, errors, 0 * errors, p, unknown)}

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
        plan, rho = copy.plan, matrix.to_numpy()
        mu, counts = estimators.strengths(rho, plan["strength"])
        ranked = mu
        if "noise" in tables:
            noise = tables["noise"].to_numpy()
            mu, counts, ranked = strength_tests.from_noisy(
                rho, noise, copy.n, plan["strength"], plan["estimator"]
            )
        return {**tables, **cls.merged_means(copy, parts, mu, counts, ranked)}

    def shows(self, numbers: Numbers) -> bool:
        role = self.copy.role
        known, of = self.held["columns"], "source" if role == "source" else "target"
        mine = known.index.get_level_values("party") == self.copy.party
        own = known_columns(known[mine])
        of_own = {f"{of}_{what}": getattr(own, what) for what in ("ties", "skewness", "gaps")}
        if "ranges" in self.held:
            of_own[f"{of}_ranges"] = self.held["ranges"]["range"][mine].to_numpy()
        return super().shows({**numbers, **of_own})

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
        stated = self.held.get("ranges")
        names = [] if stated is None else [": ".join(label) for label in stated.index[stated["weakened"]]]
        return [
            *result_warnings.weakened(names),
            *result_warnings.pvalues(**pairs),
            *([result_warnings.noise("the coefficients")] if self.noise_ratio() > 1 else []),
        ]

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
    def mean(self) -> str:
        return "root mean square ρ" if self.by_squares(self.copy, self.held) else super().mean

    @staticmethod
    def by_squares(copy: Copy, tables: Mapping[str, Any]) -> bool:
        """Return whether strengths are root mean squares."""
        noisy = "noise" in tables
        return strength_tests.by_squares(copy.plan["strength"], copy.plan["estimator"], noisy=noisy)

    def pairs(self) -> pd.DataFrame:
        """Lay out the coefficients as one long table, farthest from 0 first."""
        rho, ends = self.matrix, self.held["intervals"]
        table = pd.DataFrame(
            {
                "party": np.repeat(rho.index.get_level_values(0), rho.shape[1]),
                "source": np.repeat(rho.index.get_level_values(1), rho.shape[1]),
                "target": np.tile(rho.columns, rho.shape[0]),
                "rho": rho.to_numpy().ravel(),
                **({"guess": self.held["guesses"].to_numpy().ravel()} if "guesses" in self.held else {}),
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
        best, tested = next(pairs.head(1).itertuples()), int(pairs["q"].count())
        which = "The only pair is" if len(pairs) == 1 else f"The strongest of {len(pairs):,} pairs is"
        strongest = f"{self._named(best)}, with ρ = {number(best.rho)}"  # type: ignore[arg-type]
        if not tested:
            return f"{which} {strongest}; no pair has a p-value"
        count = int((pairs["q"] <= RATE).sum())
        if not count:
            return f"No pair differs from chance (smallest q {chance(pairs['q'].min())}){self._limit(tested)}"
        best = next(pairs[pairs["q"] <= RATE].head(1).itertuples())
        which = f"{count:,} of {tested:,} pair{'s differ' if tested > 1 else ' differs'} from chance"
        guess = f" (best guess {number(best.guess)})" if "guesses" in self.held else ""  # type: ignore[arg-type]
        return f"{which}, the strongest {self._named(best)} with ρ = {number(best.rho)}{guess}"  # type: ignore[arg-type]

    def _limit(self, tested: int) -> str:
        """Say above which size there is no coefficient, as far as pairs have intervals."""
        known = evidence(self.copy, self.held["columns"], len(self.matrix), self.held.get("noise"))
        weak = weakened_pairs(self.held.get("ranges"), *self.matrix.shape)
        rho = np.where(weak, math.nan, self.matrix.to_numpy())
        most, of = bound_on_all(rho, self.plan["confidence"], tested, **known)
        if not of:
            return ""
        which = "all |ρ|" if of == tested else f"the |ρ| of {of:,} pairs"
        return f"; with {percent(self.plan['confidence'])} {which} are below {number(_up(most))}"

    def sections(self) -> list[Section]:
        if self.matrix.isna().all(axis=None):
            return [self.ranked()]
        return [self._strongest(self.pairs()), self.ranked(self.first()), self._map()]

    def _strongest(self, pairs: pd.DataFrame) -> Section:
        """Return the section with the pairs whose coefficients are farthest from 0, intervals where found."""
        known: Any = pairs.dropna(subset="rho").head(_LISTED)
        guesses = ["best guess"] * ("guesses" in self.held)
        lines = [
            Line(
                (
                    *(self._named(pair), number(pair.rho), *(number(pair.guess) for _ in guesses)),
                    *(self._interval(pair.low, pair.high, pair.q), chance(pair.q)),
                ),
                pair.rho,
                (pair.low, pair.high),
                found=pair.q <= RATE,
                note=self._flag(pair),
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
                lines, "matrix.csv", ("pair",), len(pairs) - len(lines), whiskers=True,
            ),
            notes=self._tested(pairs),
            short=5, long=5,
        )  # fmt: skip

    def _named(self, pair: Any) -> str:
        """Name a pair, with its source's party where there are several."""
        several = len(self.copy.sources) > 1 and not self.own_rows
        return printable((f"{pair.party} · " if several else "") + f"{pair.source} × {pair.target}")

    def _interval(self, low: float, high: float, q: float) -> str:
        """Write the ends of a pair's interval, or why there is none."""
        if not math.isnan(low):
            return f"{number(low)} to {number(high)}"
        if not q <= RATE:
            return "–"
        why = "many ties, or may be weakened" if "ranges" in self.held else "many ties"
        return f"none: {'too few rows' if self.n < INTERVAL_ROWS else why}"

    def _flag(self, pair: Any) -> str:
        """Say of a pair of a flag with a column without ties how large its coefficient can be."""
        columns = self.held["columns"]
        names = [(pair.party, pair.source), (self.copy.target, pair.target)]
        places: Any = [columns.index.get_loc(name) for name in names]  # `reindex` takes three times as long
        both = known_columns(columns.iloc[places])
        if set(both.ties) != {Ties.TWO_VALUES, Ties.NONE}:
            return ""
        at = both.ties == Ties.TWO_VALUES
        flag = Columns(both.ties[at], both.skewness[at], both.gaps[at])
        (most,), (area,) = reading.largest(flag, self.n), reading.auc(pair.rho, flag, self.n)
        possible = 0 <= area <= 1  # noise may carry it beyond
        return f"at most ±{number(most, 2)} for this flag; AUC {number(area, 2)}" if possible else ""

    def _tested(self, pairs: pd.DataFrame) -> list[str]:
        """Say how sure what was found is, or what else there can be, and what so many rows can show."""
        tested, found = int(pairs["q"].count()), int((pairs["q"] <= RATE).sum())
        if not tested:
            return []
        said = []
        if found:
            said.append(
                f"At most {percent(1 - self.plan['confidence'])} of the intervals miss (false coverage rate)."
            )
        if self.n >= INTERVAL_ROWS and found < tested:
            noise = float(np.median(self.held["noise"])) if "noise" in self.held else 0.0
            least = reading.detectable(self.n, tested, noise)
            rows = f"{self.n:,} rows{' and this noise' if noise else ''}"
            if least < _CERTAIN:
                what = f"a coefficient of {number(least)} or more would be found in four of five samples"
            else:
                what = "not even a coefficient near 1 would be found in four of five samples"
            said.append(f"With {rows}, {what}.")
        return [*said, _INDEPENDENT]

    def other_means(self) -> tuple[str, pd.Series[float]] | None:
        if self.own_rows:
            return None
        if self.plan["strength"] == "mean_abs":
            return "mean ρ", self.matrix.mean()
        if "noise" not in self.held:
            return "mean |ρ|", self.matrix.abs().mean()
        squares = mean_squares(self.matrix.to_numpy(), self.held["noise"].to_numpy(), self.n)
        return "root mean square ρ", pd.Series(root_mean_squares(squares), self.matrix.columns)

    def _map(self) -> Section:
        """Return the section with the matrix, the target's features in the order of the ranking."""
        shown = self.matrix[list(self.ranking["feature"])]
        q, ends = (self.held[name][shown.columns].to_numpy() for name in ("qvalues", "intervals"))
        values, several = shown.to_numpy(), self.matrix.index.get_level_values(0).nunique() > 1

        def title(row: int, column: int) -> str:
            pair = pd.Series(dict(zip(("party", "source"), shown.index[row], strict=True)))
            pair["target"] = shown.columns[column]
            text = f"{self._named(pair)}: {number(values[row, column])}"
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
            f"constant{_UNCHOSEN if self.copy.chosen else ''}. Hover over a cell for its names and numbers.",
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


def column_table(names: Sequence[Any], *sides: Columns) -> pd.DataFrame:
    """Label what is known of columns, of one side or one after the other, with parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=["party", "feature"])
    words = [Ties(value).word for columns in sides for value in columns.ties]
    skewness = np.concatenate([columns.skewness for columns in sides])
    gaps = np.concatenate([np.broadcast_to(columns.gaps, columns.ties.shape) for columns in sides])
    return pd.DataFrame({"ties": words, "skewness": skewness, "gaps": gaps}, index=index)


def known_columns(table: pd.DataFrame) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
    return Columns(classes, table["skewness"].to_numpy(), table["gaps"].to_numpy())


def weakened_pairs(ranges: pd.DataFrame | None, rows: int, columns: int) -> Flags:
    """Return the pairs of which a column may be weakened, (rows, columns)."""
    if ranges is None:
        return np.zeros((rows, columns), dtype=bool)
    flags = ranges["weakened"].to_numpy(dtype=bool)
    found: Flags = flags[:rows, None] | flags[rows:]
    return found


def evidence(copy: Copy, columns: pd.DataFrame, rows: int, noise: pd.DataFrame | None) -> dict[str, Any]:
    """Gather the arguments of p-values and intervals, by name; the first `rows` columns are sources'."""
    return {
        "n": copy.n,
        "source": known_columns(columns[:rows]).rows,
        "target": known_columns(columns[rows:]),
        "estimator": copy.plan["estimator"],
        "noise": 0.0 if noise is None else noise.to_numpy(),
    }
