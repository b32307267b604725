"""The tables of a copy with the coefficient of every pair of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.adjustment import comparable, in_words
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Form, Labels, Numbers
from mpc_spearman.findings.nominal import CATEGORIES, NOMINAL, associations, category_table, nominal_columns
from mpc_spearman.findings.sections import RATE
from mpc_spearman.findings.strengths import Strengths
from mpc_spearman.statistics import estimators, reading
from mpc_spearman.statistics import mean_squares as squares_of
from mpc_spearman.statistics.columns import Columns, Flags, Floats, Ties
from mpc_spearman.statistics.intervals import selected_intervals
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues
from mpc_spearman.statistics.rank_ranges import difference_variances
from mpc_spearman.statistics.shrinkage import best_guesses
from mpc_spearman.statistics.strengths import pvalues as strength_pvalues

#: What messages say of columns, by the end of the names of numbers.
_OF_COLUMNS = tuple(field.name for field in fields(Columns))


def _matrix(words: str, pair: str, file: str = "") -> Form:
    return Form(words, file, pair=(pair,))


def _of_features(words: str, file: str, **columns: Any) -> Form:
    return Form(words, file, columns=columns, every_feature=True)


class CoefficientTables(Strengths):
    """The tables of coefficients, of their noise and of columns' ties, and the tables derived from these."""

    forms: ClassVar[Mapping[str, Form]] = {
        "coefficients": _matrix("coefficients", "rho", "matrix.csv"),
        "noise": _matrix("standard deviations of the noise", "noise"),
        "guesses": _matrix("best guesses", "guess"),
        "pvalues": _matrix("p-values", "p"),
        "qvalues": _matrix("q-values", "q"),
        "intervals": Form(
            "confidence intervals", index=("party", "feature", "bound"), pair=("low", "high")
        ),
        "columns": _of_features(
            "columns' ties", "columns.csv",
            ties=lambda word: Ties.named(word).word, skewness=float, gaps=float,
        ),
        "adjustment": _of_features("columns' adjustments", "adjustment.csv", fitted=int, unequal=float),
        "ranges": _of_features("columns' stated ranges", "ranges.csv", range=float, weakened=bool),
        "categories": CATEGORIES,
        "nominal": NOMINAL,
        **Strengths.forms,
        "estimators": Form(
            "strengths under both estimators", "estimators.csv", ("feature",),
            {"tie_corrected": float, "paper": float}, coordinator="they reveal all ties",
        ),
    }  # fmt: skip

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        columns = Columns.joined(
            Columns(
                **{name: numbers[f"{side}_{name}"] for name in _OF_COLUMNS if f"{side}_{name}" in numbers}
            )
            for side in ("source", "target")
        )
        described = column_table(labels.every_feature(copy.target), columns)
        rows: Any = described.index[: len(labels.sources)]
        rows = rows.remove_unused_levels()
        features = pd.Index(list(labels.target), dtype="object")
        tables = {
            name: pd.DataFrame(numbers[name], rows, features)
            for name in ("coefficients", "noise")
            if name in numbers
        }
        if "noise" in tables and copy.chosen(tables["coefficients"].size):
            # Pairs that were not chosen have no noise, rather than noise 0.
            tables["noise"] = tables["noise"].where(tables["coefficients"].notna())
        if "source_ranges" in numbers and "target_ranges" in numbers:
            stated = np.concatenate([numbers["source_ranges"], numbers["target_ranges"]])
            tables["ranges"] = pd.DataFrame({"range": stated}, described.index)
        if in_words(copy.plan):
            adjustment = {"fitted": columns.fitted, "unequal": columns.unequal}
            tables["adjustment"] = pd.DataFrame(adjustment, described.index)
        if "estimators" in numbers:
            tables["estimators"] = pd.DataFrame(numbers["estimators"], features, ["tie_corrected", "paper"])
        tables |= category_table(copy, numbers, labels)
        return {**super().tables_from(copy, numbers, labels), **tables, "columns": described}

    def derived_tables(self) -> dict[str, Any]:
        """Compute p- and q-values, intervals of coefficients that differ from 0, and best guesses.

        A coefficient of a column that may be weakened has no interval: it may lie too near to 0. Intervals
        and q-values of pairs chosen as the strongest allow for the choice among all pairs.
        """
        matrix, pairs = self.matrix, self.column_pairs
        rho, n = matrix.to_numpy(), self.n
        derived = {}
        if "ranges" in self.tables:
            stated = self.tables["ranges"]
            derived["ranges"] = stated.assign(weakened=reading.weakened(stated["range"].to_numpy(), n))
        p = pvalues(rho, pairs)
        tests = self.tests_of(p)
        q = qvalues(p, tests)
        selected = (q <= RATE) & ~weakened_pairs(derived.get("ranges"), *rho.shape)
        ends = np.stack(selected_intervals(rho, pairs, selected, self.plan.confidence, tests), axis=1)
        form = self.forms["intervals"]
        bounds: Any = pd.MultiIndex.from_tuples(form.rows(self.labels, "") or (), names=form.index)
        derived |= {
            "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
            "intervals": pd.DataFrame(ends.reshape(-1, matrix.shape[1]), bounds, matrix.columns),
            "qvalues": pd.DataFrame(q, matrix.index, matrix.columns),
        }
        if self.chosen:
            return derived  # strengths are of the chosen pairs alone, and best guesses need all pairs
        derived |= self._ranks() | associations(self.copy, {**self.tables, **derived}, pairs)
        sampling, variances = 1 / (n - 1), np.square(pairs.noise)
        if np.nanmedian(variances) > sampling:
            guesses = best_guesses(rho, variances + sampling)
            derived["guesses"] = pd.DataFrame(guesses, matrix.index, matrix.columns)
        return derived

    def _ranks(self) -> dict[str, Any]:
        """Test strengths and rank features; means of noisy |ρ| by squares, if the matrix is complete."""
        if not self.by_squares:
            return super().derived_tables()
        if in_words(self.plan) or "errors" not in self.tables or self.own_rows:
            return {}
        noise, n = self.tables["noise"].to_numpy(), self.n
        squares = squares_of.mean_squares(self.matrix.to_numpy(), noise, n)
        _, sampling, _ = self.values_and_errors()
        related = squares_of.related_at_most(float(sampling.max()) * math.sqrt(n - 1), len(noise))
        errors = squares_of.null_errors(noise, related, n)
        by_chance = float(np.square(noise).mean()) + 1 / (n - 1)
        p = strength_pvalues(squares + by_chance, errors, by_chance, two_sided=False)
        variances = difference_variances(squares_of.rank_errors(squares, noise, related, n))
        return {"ranks": self.rank_table(squares, variances, p, np.full(len(squares), math.nan))}

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return the rows of all sources in one table, and the tables derived from them."""

        def joined(name: str) -> pd.DataFrame:
            """Return the rows of all parts' tables of a name, each label once."""
            rows: pd.DataFrame = pd.concat([part.tables[name] for part in parts if name in part.tables])
            return rows[~rows.index.duplicated()]

        held = {name for part in parts for name in part.tables}
        matrix, described = joined("coefficients"), joined("columns")
        of_target = described.index.get_level_values("party") == copy.target
        columns = pd.concat([described[~of_target], described[of_target]])
        tables = {"coefficients": matrix, "columns": columns}
        if in_words(copy.plan):
            adjustment = joined("adjustment").reindex(columns.index)
            tables["adjustment"] = adjustment.fillna({"fitted": 0, "unequal": 1.0})
        # A run that used all rows of every table has no ranges: nothing is weakened in it.
        if "ranges" in held:
            tables["ranges"] = joined("ranges").reindex(columns.index)
        if "categories" in held:
            tables["categories"] = joined("categories")
        plan, rho = copy.plan, matrix.to_numpy()
        if all("noise" in part.tables for part in parts):
            tables["noise"] = joined("noise")
            noise = tables["noise"].to_numpy()
            mu, counts, ranked = squares_of.from_noisy(rho, noise, copy.n, plan.strength, plan.estimator)
        else:
            mu, counts = estimators.strengths(rho, plan.strength)
            ranked = mu
        return {**tables, **cls.merged_means(copy, parts, mu, counts, ranked)}

    def shows(self, numbers: Numbers) -> bool:
        table, role = self.tables["columns"], "source" if self.copy.role == "source" else "target"
        of_owner = table.index.get_level_values("party") == self.copy.party
        columns = self.all_columns.select(np.flatnonzero(of_owner).tolist())
        own_numbers: dict[str, Any] = {f"{role}_{name}": array for name, array in vars(columns).items()}
        own_numbers[f"{role}_nominal"] = nominal_columns(self.tables.get("categories"), table.index[of_owner])
        if "ranges" in self.tables:
            own_numbers[f"{role}_ranges"] = self.tables["ranges"]["range"][of_owner].to_numpy()
        return super().shows({**numbers, **own_numbers})

    # --- what tests know

    @property
    def matrix(self) -> pd.DataFrame:
        """The coefficients."""
        matrix: pd.DataFrame = self.tables["coefficients"]
        return matrix

    @property
    def chosen(self) -> int | None:
        return self.copy.chosen(self.matrix.size)

    @property
    def own_rows(self) -> bool:
        """Whether the matrix has only one source's rows, while strengths cover several sources."""
        return self.copy.role == "source" and len(self.copy.sources) > 1

    @property
    def by_squares(self) -> bool:
        """Whether strengths are root mean squares."""
        return squares_of.by_squares(self.plan.strength, self.plan.estimator, noisy="noise" in self.tables)

    @property
    def all_columns(self) -> Columns:
        """The columns of both sides as the statistics take them, the sources' first."""
        table, adjustment = self.tables["columns"], self.tables.get("adjustment")
        ties = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
        columns = Columns(ties, table["skewness"].to_numpy(), table["gaps"].to_numpy())
        if adjustment is None:
            return columns
        return replace(
            columns, unequal=adjustment["unequal"].to_numpy(), fitted=adjustment["fitted"].to_numpy()
        )

    @property
    def column_pairs(self) -> Pairs:
        """What tests are given about the pairs; sides adjusted for different columns are not tested."""
        rows, columns, noise = len(self.matrix), self.all_columns, self.tables.get("noise")
        source, target = columns.select(slice(rows)), columns.select(slice(rows, None))
        parties = self.matrix.index.get_level_values("party")
        tested = [comparable(self.plan, party) for party in parties]
        return Pairs(
            self.n,
            replace(source, unequal=np.where(tested, source.unequal, np.inf)).rows,
            target,
            self.plan.estimator,
            0.0 if noise is None else np.nan_to_num(noise.to_numpy()),  # NaN of pairs not chosen
        )

    def tests_of(self, p: Floats) -> int:
        """Return the number of tests: pairs with a p-value, or all pairs from which some were chosen."""
        if self.chosen is None:
            return int((~np.isnan(p)).sum())
        return int(np.broadcast_to(self.column_pairs.testable, p.shape).sum())


def column_table(labels: Sequence[Any], columns: Columns) -> pd.DataFrame:
    """Return the table `columns`, whose rows are named by party and feature."""
    index = pd.MultiIndex.from_tuples(list(labels), names=["party", "feature"])
    gaps = np.broadcast_to(columns.gaps, columns.ties.shape)
    words = [Ties(value).word for value in columns.ties]
    return pd.DataFrame({"ties": words, "skewness": columns.skewness, "gaps": gaps}, index)


def weakened_pairs(ranges: pd.DataFrame | None, rows: int, columns: int) -> Flags:
    """Return the pairs of which a column may be weakened, (rows, columns)."""
    if ranges is None:
        return np.zeros((rows, columns), dtype=bool)
    flags = ranges["weakened"].to_numpy(dtype=bool)
    return np.asarray(flags[:rows, None] | flags[rows:])
