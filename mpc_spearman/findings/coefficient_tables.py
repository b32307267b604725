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
from mpc_spearman.findings.nominal import CATEGORIES, NOMINAL, associations, category_table, nominal_columns
from mpc_spearman.findings.sections import RATE
from mpc_spearman.findings.strengths import Strengths, errors_of, rank_table
from mpc_spearman.findings.tables import Form, Labels, Numbers, source_features, target_features
from mpc_spearman.statistics import estimators, pvalues, reading
from mpc_spearman.statistics import strengths as strength_tests
from mpc_spearman.statistics.columns import Columns, Flags, Floats, Ties
from mpc_spearman.statistics.discoveries import found_intervals
from mpc_spearman.statistics.mean_squares import mean_squares, null_errors, rank_errors, related_at_most
from mpc_spearman.statistics.shrinkage import best_guesses

_ENDS = ("low", "high")
#: What is known of columns, by the end of the names of numbers.
_KNOWN = tuple(field.name for field in fields(Columns))


def _of_both(labels: Labels, target: str) -> Sequence[Any]:
    return [*labels.sources, *((target, name) for name in labels.target)]


def _with_ends(labels: Labels, target: str) -> Sequence[Any]:
    return [(*row, end) for row in labels.sources for end in _ENDS]


def _word(ties: str) -> str:
    return Ties.named(ties).word


def _matrix(words: str, pair: str, file: str = "") -> Form:
    return Form(words, file, rows=source_features, pair=(pair,))


class CoefficientTables(Strengths):
    """Coefficients, the ties of the columns they are of, and the noise in them; the rest is derived."""

    tables: ClassVar[Mapping[str, Form]] = {
        "coefficients": _matrix("coefficients", "rho", "matrix.csv"),
        "noise": _matrix("standard deviations of the noise", "noise"),
        "guesses": _matrix("best guesses", "guess"),
        "pvalues": _matrix("p-values", "p"),
        "qvalues": _matrix("q-values", "q"),
        "intervals": Form(
            "confidence intervals", "", ("party", "feature", "bound"), None, _with_ends, pair=_ENDS
        ),
        "columns": Form(
            "columns' ties", "columns.csv", ("party", "feature"),
            {"ties": _word, "skewness": float, "gaps": float}, _of_both,
        ),
        "adjustment": Form(
            "columns' adjustments", "adjustment.csv", ("party", "feature"),
            {"fitted": int, "unequal": float}, _of_both,
        ),
        "ranges": Form(
            "columns' stated ranges", "ranges.csv", ("party", "feature"),
            {"range": float, "weakened": bool}, _of_both,
        ),
        "categories": CATEGORIES,
        "nominal": NOMINAL,
        **Strengths.tables,
        "estimators": Form(
            "strengths under both estimators", "estimators.csv", ("feature",),
            {"tie_corrected": float, "paper": float}, target_features, coordinator="they reveal all ties",
        ),
    }  # fmt: skip

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        source, target = (
            Columns(**{what: numbers[f"{side}_{what}"] for what in _KNOWN if f"{side}_{what}" in numbers})
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
        if "noise" in tables and copy.chosen(tables["coefficients"].size):
            # Pairs that were not chosen have no noise, rather than noise 0.
            tables["noise"] = tables["noise"].where(tables["coefficients"].notna())
        if "source_ranges" in numbers and "target_ranges" in numbers:
            stated = np.concatenate([numbers["source_ranges"], numbers["target_ranges"]])
            tables["ranges"] = pd.DataFrame({"range": stated}, columns.index)
        if in_words(copy.plan):
            tables["adjustment"] = adjustment_table(columns.index, source, target)
        if "estimators" in numbers:
            names = list(cls.tables["estimators"].columns or ())
            tables["estimators"] = pd.DataFrame(numbers["estimators"], features, names)
        tables |= category_table(copy, numbers, labels)
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
        adjustment, rho = tables.get("adjustment"), matrix.to_numpy()
        pairs = evidence(copy, columns, len(matrix), noise, adjustment)
        stated = tables.get("ranges")
        if stated is not None:
            stated = stated.assign(weakened=reading.weakened(stated["range"].to_numpy(), copy.n))
        weak = weakened_pairs(stated, *rho.shape)
        p = pvalues.pvalues(rho, **pairs)
        chosen = copy.chosen(rho.size) is not None
        tests = tests_of(copy, p, pairs)
        q = pvalues.qvalues(p, tests)
        selected = (q <= RATE) & ~weak
        ends = np.stack(found_intervals(rho, selected, copy.plan.confidence, tests, **pairs), axis=1)
        bounds = pd.MultiIndex.from_tuples(
            [(*row, end) for row in matrix.index for end in _ENDS], names=["party", "feature", "bound"]
        )
        derived = {
            "pvalues": pd.DataFrame(p, matrix.index, matrix.columns),
            "intervals": pd.DataFrame(ends.reshape(-1, matrix.shape[1]), bounds, matrix.columns),
            "qvalues": pd.DataFrame(q, matrix.index, matrix.columns),
            **cls._ranks(copy, tables),
            **({} if stated is None else {"ranges": stated}),
        }
        if not chosen:
            derived |= associations(copy, {**tables, **derived}, pairs)
        sampling = 1 / (copy.n - 1)
        if not chosen and np.nanmedian(np.square(pairs["noise"])) > sampling:
            guesses = best_guesses(rho, np.square(pairs["noise"]) + sampling)
            derived["guesses"] = pd.DataFrame(guesses, matrix.index, matrix.columns)
        return derived

    @classmethod
    def _ranks(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Test strengths; means of |ρ| with noise by their squares, as far as the whole matrix is known."""
        if copy.chosen(tables["coefficients"].size):
            return {}  # strengths are of the chosen pairs alone
        if not cls.by_squares(copy, tables):
            return super().follow(copy, tables)
        if in_words(copy.plan) or "errors" not in tables or (copy.role == "source" and len(copy.sources) > 1):
            return {}
        noise = tables["noise"].to_numpy()
        squares = mean_squares(tables["coefficients"].to_numpy(), noise, copy.n)
        _, sampling, _ = errors_of(tables)
        length = float(sampling.max()) * math.sqrt(copy.n - 1)
        related = related_at_most(length, len(noise))
        errors = null_errors(noise, related, copy.n)
        chance_gives = float(np.square(noise).mean()) + 1 / (copy.n - 1)
        p = strength_tests.pvalues(squares + chance_gives, errors, chance_gives, two_sided=False)
        unknown, errors = np.full(len(squares), math.nan), rank_errors(squares, noise, related, copy.n)
        return {"ranks": rank_table(copy, tables["strengths"].index, squares, errors, 0 * errors, p, unknown)}

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return all sources' rows under each other, and what follows from all of them."""
        matrix = pd.concat([part.held["coefficients"] for part in parts])
        described = pd.concat([part.held["columns"] for part in parts])
        of_target = described.index.get_level_values("party") == copy.target
        columns = pd.concat([described[~of_target], described[of_target & ~described.index.duplicated()]])
        tables = {"coefficients": matrix, "columns": columns}
        if in_words(copy.plan):
            adjustments = pd.concat([part.held["adjustment"] for part in parts if "adjustment" in part.held])
            known = adjustments[~adjustments.index.duplicated()].reindex(columns.index)
            tables["adjustment"] = known.fillna({"fitted": 0, "unequal": 1.0})
        if all("noise" in part.held for part in parts):
            tables["noise"] = pd.concat([part.held["noise"] for part in parts])
        # A run that used all rows of every table has none: nothing is weakened in it.
        if ranges := [part.held["ranges"] for part in parts if "ranges" in part.held]:
            stated = pd.concat(ranges)
            tables["ranges"] = stated[~stated.index.duplicated()].reindex(columns.index)
        if flags := [part.held["categories"] for part in parts if "categories" in part.held]:
            categories = pd.concat(flags)
            tables["categories"] = categories[~categories.index.duplicated()]
        plan, rho = copy.plan, matrix.to_numpy()
        mu, counts = estimators.strengths(rho, plan.strength)
        ranked = mu
        if "noise" in tables:
            noise = tables["noise"].to_numpy()
            mu, counts, ranked = strength_tests.from_noisy(rho, noise, copy.n, plan.strength, plan.estimator)
        return {**tables, **cls.merged_means(copy, parts, mu, counts, ranked)}

    def shows(self, numbers: Numbers) -> bool:
        table, role = self.held["columns"], "source" if self.copy.role == "source" else "target"
        mine = table.index.get_level_values("party") == self.copy.party
        adjustment = self.held.get("adjustment")
        own_columns = known_columns(table[mine], None if adjustment is None else adjustment[mine])
        known: dict[str, Any] = {f"{role}_{what}": getattr(own_columns, what) for what in _KNOWN}
        known[f"{role}_nominal"] = nominal_columns(self.held.get("categories"), table.index[mine])
        if "ranges" in self.held:
            known[f"{role}_ranges"] = self.held["ranges"]["range"][mine].to_numpy()
        return super().shows({**numbers, **known})

    @staticmethod
    def by_squares(copy: Copy, tables: Mapping[str, Any]) -> bool:
        """Return whether strengths are root mean squares."""
        noisy = "noise" in tables
        return strength_tests.by_squares(copy.plan.strength, copy.plan.estimator, noisy=noisy)


def column_table(names: Sequence[Any], *sides: Columns) -> pd.DataFrame:
    """Label what is known of columns, of one side or one after the other, with parties and features."""
    index = pd.MultiIndex.from_tuples(list(names), names=["party", "feature"])
    words = [Ties(value).word for columns in sides for value in columns.ties]
    skewness = np.concatenate([columns.skewness for columns in sides])
    gaps = np.concatenate([np.broadcast_to(columns.gaps, columns.ties.shape) for columns in sides])
    return pd.DataFrame({"ties": words, "skewness": skewness, "gaps": gaps}, index=index)


def adjustment_table(index: pd.Index[Any], *sides: Columns) -> pd.DataFrame:
    """Label what is known of the adjustment of columns, of one side after the other."""
    fitted, unequal = (
        np.concatenate([np.broadcast_to(getattr(columns, what), columns.ties.shape) for columns in sides])
        for what in ("fitted", "unequal")
    )
    return pd.DataFrame({"fitted": fitted, "unequal": unequal}, index=index)


def known_columns(table: pd.DataFrame, adjustment: pd.DataFrame | None) -> Columns:
    """Give what is known of columns as the statistics take it."""
    classes = np.array([Ties.named(word) for word in table["ties"]], dtype=np.int64)
    known = Columns(classes, table["skewness"].to_numpy(), table["gaps"].to_numpy())
    if adjustment is None:
        return known
    return replace(known, unequal=adjustment["unequal"].to_numpy(), fitted=adjustment["fitted"].to_numpy())


def weakened_pairs(ranges: pd.DataFrame | None, rows: int, columns: int) -> Flags:
    """Return the pairs of which a column may be weakened, (rows, columns)."""
    if ranges is None:
        return np.zeros((rows, columns), dtype=bool)
    flags = ranges["weakened"].to_numpy(dtype=bool)
    return np.asarray(flags[:rows, None] | flags[rows:])


def tests_of(copy: Copy, p: Floats, pairs: Mapping[str, Any]) -> int:
    """Return over how many pairs tests are: those with a p-value, or that were chosen from.

    `p` has the p-values, and `pairs` is their `evidence`.
    """
    if copy.chosen(p.size) is None:
        return int((~np.isnan(p)).sum())
    tested = pvalues.testable(pairs["source"], pairs["target"], pairs["estimator"])
    return int(np.broadcast_to(tested, p.shape).sum())


def evidence(
    copy: Copy,
    columns: pd.DataFrame,
    rows: int,
    noise: pd.DataFrame | None,
    adjustment: pd.DataFrame | None,
) -> dict[str, Any]:
    """Gather the arguments of p-values and intervals, by name; the first `rows` columns are sources'.

    Where the two sides are adjusted for different columns, no row counts.
    """
    known = known_columns(columns, adjustment)
    source, target = (
        Columns(*(np.broadcast_to(array, known.ties.shape)[some] for array in vars(known).values()))
        for some in (slice(rows), slice(rows, None))
    )
    tested = [comparable(copy.plan, party) for party in columns.index.get_level_values("party")[:rows]]
    source = replace(source, unequal=np.where(tested, source.unequal, np.inf))
    return {
        "n": copy.n,
        "source": source.rows,
        "target": target,
        "estimator": copy.plan.estimator,
        "noise": 0.0 if noise is None else np.nan_to_num(noise.to_numpy()),  # NaN of pairs not chosen
    }
