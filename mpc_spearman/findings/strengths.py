"""A copy with strengths: the mean coefficient of each of the target's features, and their ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.adjustment import comparable, in_words
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.forms import Form, Labels, Numbers, series
from mpc_spearman.findings.ranking import MEANS, RANKING, UNSEEN, Ranking, ranking_table
from mpc_spearman.findings.sections import RATE, Section, Table, chance, differ, number, percent, with_error
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.statistics import estimators, result_warnings
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.statistics.rank_ranges import difference_variances, rank_ranges
from mpc_spearman.statistics.shrinkage import best_guesses
from mpc_spearman.statistics.strengths import by_chance, pvalues, rank_errors
from mpc_spearman.units import printable

_UNDEFINED = "undefined: a constant column has no rank correlation"


class Strengths(Ranking):
    """Strengths, how many coefficients each averages, and their standard errors."""

    forms: ClassVar[Mapping[str, Form]] = {
        "strengths": series("strengths", "strength"),
        "counts": series("counts", "count", int),
        "errors": series("standard errors of the strengths", "error"),
        "strengths_noise": series("standard deviations of the strengths' noise", "noise"),
        "ranking": Form("ranking", "ranking.csv", (), {**(RANKING.columns or {}), "strength": float}),
        "ranks": Form(
            "ranges of ranks", "ranks.csv", ("feature",),
            {"first": int, "last": int, "p": float, "q": float, "guess": float},
        ),
    }  # fmt: skip
    unmergeable = ""

    @classmethod
    def tables_from(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        features = pd.Index(list(labels.target), dtype="object")
        tables: dict[str, Any] = {
            name: pd.Series(numbers[name], features)
            for name, form in cls.forms.items()
            if name in numbers and form.is_series
        }
        if "strengths_noise" in tables:
            tables["errors"] = np.hypot(tables["errors"], tables["strengths_noise"])
        return {
            **tables,
            "ranking": ranking_table(numbers["positions"], labels, strength=numbers["strengths"]),
        }

    def derived_tables(self) -> dict[str, Any]:
        """Test strengths, and compute which ranks their errors allow."""
        # Ties shift eq. 2 by unequal amounts: a standard error around 0 says nothing of its strengths.
        # Nor is the mean of |ρ| by chance known of adjusted columns, whose coefficients vary unequally.
        plan, n = self.plan, self.n
        adjusted = in_words(plan) and plan.strength == "mean_abs"
        if "errors" not in self.tables or plan.estimator == "paper" or adjusted:
            return {}
        if not all(comparable(plan, source) for source in self.copy.sources):
            return {}
        mu, sampling, noise = self.values_and_errors()
        two_sided = plan.strength == "mean"
        p = pvalues(mu, np.hypot(sampling, noise), by_chance(plan.strength, n), two_sided=two_sided)
        guesses = np.full(len(mu), math.nan)
        if two_sided and self.chosen is None and np.median(noise) > np.median(sampling):
            guesses = best_guesses(mu, np.square(sampling) + np.square(noise))
        sampling = rank_errors(sampling, plan.strength, n)
        variances = difference_variances(sampling, noise, self.own_correlations)
        return {"ranks": self.rank_table(mu, variances, p, guesses)}

    def rank_table(self, values: Floats, variances: Floats, p: Floats, guesses: Floats) -> pd.DataFrame:
        """Return the table `ranks`, from values that rank features and the variances of their differences."""
        chosen = self.chosen is not None
        confidence, order = self.plan.confidence, self.plan.order
        first, last = rank_ranges(values, variances, confidence, order, withheld=chosen)
        q = qvalues(p, len(values) if chosen else None)
        columns = {"first": first, "last": last, "p": p, "q": q, "guess": guesses}
        return pd.DataFrame(columns, self.tables["strengths"].index)

    def values_and_errors(self) -> tuple[Floats, Floats, Floats]:
        """Return strengths, their standard errors without noise, and the noise."""
        mu, errors = (self.tables[name].to_numpy(np.float64) for name in ("strengths", "errors"))
        noise = np.zeros(len(mu))
        if "strengths_noise" in self.tables:
            noise = self.tables["strengths_noise"].to_numpy()
        return mu, np.sqrt(np.maximum(np.square(errors) - np.square(noise), 0.0)), noise

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return the merged means, weighted by the number of coefficients in each."""
        counts = np.array([part.tables["counts"] for part in parts], dtype=np.int64)
        means = np.array([part.tables["strengths"] for part in parts])
        total = counts.sum(axis=0)
        sums = [
            math.fsum(k * mean for k, mean in zip(ks, column, strict=True) if k)
            for ks, column in zip(counts.T.tolist(), means.T.tolist(), strict=True)
        ]
        mu = np.array(
            [value / k if k else math.nan for value, k in zip(sums, total.tolist(), strict=True)], np.float64
        )
        return cls.merged_means(copy, parts, mu, total, mu)

    @classmethod
    def merged_means(
        cls, copy: Copy, parts: Sequence[Findings], mu: Floats, counts: Ints, ranked: Floats
    ) -> dict[str, Any]:
        """Return the tables for means over several runs, ranked by values, and bounds of their errors."""
        labels = parts[0].labels
        features = pd.Index(list(labels.target), dtype="object")
        positions = estimators.positions(ranked, copy.plan.order)
        tables: dict[str, Any] = {
            "strengths": pd.Series(mu, features),
            "counts": pd.Series(counts, features),
            "ranking": ranking_table(positions, labels, strength=mu),
        }
        run_counts = np.array([part.tables["counts"] for part in parts])
        shares = run_counts / np.maximum(run_counts.sum(axis=0), 1)
        if all("errors" in part.tables for part in parts):
            # Bounds: the errors of the runs may go up and down together.
            bounds = (shares * [part.tables["errors"] for part in parts]).sum(axis=0)
            tables["errors"] = pd.Series(bounds, features)
        if all("strengths_noise" in part.tables for part in parts):
            noise = [
                share * part.tables["strengths_noise"] for share, part in zip(shares, parts, strict=True)
            ]
            tables["strengths_noise"] = pd.Series(np.sqrt(np.square(noise).sum(axis=0)), features)
        return tables

    def shows(self, numbers: Numbers) -> bool:
        """Compare, but let strengths differ by this owner's noise, of which others know only a bound."""
        if "strengths_noise" in numbers and self.plan.reveal == "strengths":
            mu, noise = (self.tables[name].to_numpy() for name in ("strengths", "strengths_noise"))
            sent, s = numbers["strengths"], numbers["strengths_noise"]
            away = np.abs(mu - sent) - REACH * np.sqrt(np.maximum(np.square(s) - np.square(noise), 0.0))
            differs = (away > s + numbers["errors"]).any() or (noise > s).any()
            if differs or not (np.isnan(mu) == np.isnan(sent)).all():
                return False
            positions = estimators.positions(mu, self.plan.order)
            numbers = {**numbers, "strengths": mu, "strengths_noise": noise, "positions": positions}
        return super().shows(numbers)

    # --- what is said

    @property
    def chosen(self) -> int | None:
        """How many results were chosen as the strongest and are here; None if all are here."""
        return self.copy.chosen(len(self.tables["strengths"]))

    @property
    def among(self) -> str:
        return super().among if self.chosen is None else f"of the {self.chosen} features that are here"

    @property
    def mean(self) -> str:
        """What a strength is, in words."""
        return MEANS[self.plan.strength]

    @property
    def over(self) -> str:
        """The columns that a strength averages over, in words; empty for all source columns."""
        return ""

    def noise_ratio(self) -> float:
        if not {"errors", "strengths_noise"} <= self.tables.keys():
            return 0.0
        mu, sampling, noise = self.values_and_errors()
        defined = ~np.isnan(mu) & (sampling > 0)
        return float(np.median(noise[defined] / sampling[defined])) if defined.any() else 0.0

    def precision(self) -> str:
        return Findings.precision(self)

    def warnings(self) -> list[str]:
        return [
            *result_warnings.chosen("features", self.chosen, len(self.tables["strengths"])),
            *result_warnings.noise("the strengths", self.noise_ratio()),
        ]

    def headline(self) -> str:
        if math.isnan(self.ranking["strength"][0]) or "ranks" not in self.tables:
            return self.first()
        differing = self.differing
        if not len(differing):
            return f"No feature differs from chance (smallest q {chance(self.tables['ranks']['q'].min())})"
        count = f"{len(differing)} {self.among} {differ(len(differing))} from chance"
        if self.ranking["feature"][0] in differing:
            return f"{self.first()}{f'; {count}' if len(self.ranking) > 1 else ''}"
        size = f"{printable(str(differing[0]))} the strongest of them, {self._size(differing[0])}"
        return f"{count}, {size}; what ranks first by {self.mean}, {self.plan.order}, does not"

    @property
    def differing(self) -> pd.Index[Any]:
        """The features that differ from chance, the strongest in size first."""
        sizes: Any = self.tables["strengths"][self.tables["ranks"]["q"] <= RATE].abs()
        features: pd.Index[Any] = sizes.sort_values(ascending=False, kind="stable").index
        return features

    def first(self, verb: str = "ranks") -> str:
        """Name the feature that ranks first, the criterion, and its strength."""
        name, top = self.ranking["feature"][0], float(self.ranking["strength"][0])
        if math.isnan(top):
            return "No feature has a defined strength"
        by = f" by {self.mean}{self.over}, {self.plan.order}" if len(self.ranking) > 1 else ""
        under = " by the paper's eq. 2" if self.plan.estimator == "paper" else ""
        level = int((self.ranking["strength"] == top).sum()) - 1
        level_with = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
        last = int(self.tables["ranks"]["last"][name]) if "ranks" in self.tables else 1
        possible = f" (ranks 1 to {last} are possible)" if last > 1 else ""
        return f"{super().first(verb)}{by}{possible}, with {self._size(name)}{under}{level_with}"

    def _size(self, feature: Any) -> str:
        """Write a feature's strength and, if it is known, its standard error."""
        value = float(self.tables["strengths"][feature])
        if "ranks" not in self.tables:
            return f"strength {number(value)}"
        return f"strength {with_error(value, float(self.tables['errors'][feature]))}"

    def sections(self) -> list[Section]:
        return [self.ranked(notes=[UNSEEN])]

    def by_sign(self) -> list[str]:
        """Say which feature ranks behind weaker ones because of its sign, if one does."""
        if self.plan.strength != "mean" or "ranks" not in self.tables:
            return []
        positions, mu = self.ranking.set_index("feature")["position"], self.tables["strengths"]
        for size, name in enumerate(self.differing, 1):
            if positions[name] > size and (mu[name] < 0) == (self.plan.order == "descending"):
                return [
                    f"{printable(str(name))} is number {size} by size (strength {number(mu[name])}), but "
                    f"ranks {positions[name]} of {len(positions)}: with strength: mean features rank by "
                    "sign, with strength: mean_abs they would rank by size."
                ]
        return []

    def second_mean(self) -> dict[str, pd.Series[float]]:
        """Return, by name and if known, the other mean: of |ρ| where strengths are of ρ, or the reverse."""
        return {}

    def ranked(self, lead: str = "", notes: Sequence[str] = ()) -> Section:
        """Return the section with the ranking."""
        shown = self.ranking if self.chosen is None else self.ranking.dropna(subset="strength")
        names, mu = shown["feature"], shown["strength"].tolist()
        columns = {
            "position": [*map(str, shown["position"])],
            "feature": [*map(printable, names)],
            self.mean: _four_digits(mu),
        }
        ends, about_bars = list[tuple[float, float]](), ""
        if "ranks" in self.tables:
            ranks, errors = self.tables["ranks"].loc[names], self.tables["errors"][names].tolist()
            columns["±"] = _four_digits(errors)
            columns["ranks"] = [
                str(first) if first == last else f"{first} to {last}"
                for first, last in zip(ranks["first"], ranks["last"], strict=True)
            ]
            if ranks["guess"].notna().any():
                columns["best guess"] = _four_digits(ranks["guess"])
            columns["q"] = [*map(chance, ranks["q"])]
            bound = "at most " if len(self.copy.sources) > 1 else ""
            notes = [
                f"± is {bound}the standard error of a strength whose feature is unrelated to all source "
                f"columns. All ranges of ranks hold together with {percent(self.plan.confidence)}.",
                *notes,
            ]
            ends = [(value - error, value + error) for value, error in zip(mu, errors, strict=True)]
            about_bars = " The line at the end of a bar reaches one standard error either way."
            if not len(self.differing):
                lead = self.only_order()
        for name, means in self.second_mean().items():
            columns[name] = _four_digits(means[names])
        counts = sorted({*self.tables["counts"]} - {0}) if "counts" in self.tables else []
        over = f" (over {counts[0]} coefficient{'s' * (counts[0] > 1)} each)" if len(counts) == 1 else ""
        how_to_read = (
            f"The strength of a feature of {printable(self.copy.target)} is its {self.mean}"
            f"{self.over or f' with the source features{over}'}.{about_bars}"
        )
        undefined = [_UNDEFINED if math.isnan(value) else "" for value in mu]
        table = Table(columns, "ranking.csv", mu, ends, notes=undefined, axis=f"strength, {self.mean}")
        return Section("Ranking", lead, how_to_read, table, notes=[*self.by_sign(), *notes])


def _four_digits(values: Any) -> list[str]:
    return [number(value, 4) for value in values]
