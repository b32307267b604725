"""A copy with strengths: the mean coefficient of each of the target's features, and their ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpc_spearman.findings.adjustment import comparable, in_words
from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.ranking import MEANS, RANKING, UNSEEN, Ranking, listed
from mpc_spearman.findings.sections import RATE, Line, Section, Table, chance, number, percent, with_error
from mpc_spearman.findings.tables import Form, Labels, Numbers, series, target_features
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

    tables: ClassVar[Mapping[str, Form]] = {
        "strengths": series("strengths", "strength"),
        "counts": series("counts", "count", int),
        "errors": series("standard errors of the strengths", "error"),
        "strengths_noise": series("standard deviations of the strengths' noise", "noise"),
        "ranking": Form("ranking", "ranking.csv", (), {**(RANKING.columns or {}), "strength": float}),
        "ranks": Form(
            "ranges of ranks", "ranks.csv", ("feature",),
            {"first": int, "last": int, "p": float, "q": float, "guess": float}, target_features,
        ),
    }  # fmt: skip
    unmergeable = ""

    @classmethod
    def derive(cls, copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, Any]:
        features, mu = pd.Index(list(labels.target), dtype="object"), numbers["strengths"]
        given = [name for name in cls.tables if name in numbers and cls.tables[name].is_series]
        tables: dict[str, Any] = {name: pd.Series(numbers[name], features) for name in given}
        if "strengths_noise" in tables:
            tables["errors"] = np.hypot(tables["errors"], tables["strengths_noise"])
        return {**tables, "ranking": _with_strengths(numbers["positions"], mu, features)}

    @classmethod
    def follow(cls, copy: Copy, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Test strengths, and compute which ranks their errors allow."""
        # Ties shift eq. 2 by unequal amounts: a standard error around 0 says nothing of its strengths.
        # Nor is the mean of |ρ| by chance known of adjusted columns, whose coefficients vary unequally.
        adjusted = in_words(copy.plan) and copy.plan.strength == "mean_abs"
        if "errors" not in tables or copy.plan.estimator == "paper" or adjusted:
            return {}
        if not all(comparable(copy.plan, source) for source in copy.sources):
            return {}
        mu, sampling, noise = errors_of(tables)
        two_sided, centre = copy.plan.strength == "mean", by_chance(copy.plan.strength, copy.n)
        p = pvalues(mu, np.hypot(sampling, noise), centre, two_sided=two_sided)
        guesses = np.full(len(mu), math.nan)
        if two_sided and copy.chosen(len(mu)) is None and np.median(noise) > np.median(sampling):
            guesses = best_guesses(mu, np.square(sampling) + np.square(noise))
        correlations, features = tables.get("own_correlations"), tables["strengths"].index
        sampling = rank_errors(sampling, copy.plan.strength, copy.n)
        return {"ranks": rank_table(copy, features, mu, sampling, noise, p, guesses, correlations)}

    @classmethod
    def merged(cls, copy: Copy, parts: Sequence[Findings]) -> dict[str, Any]:
        """Return means, weighted by the number of coefficients behind each."""
        counts = np.array([part.held["counts"] for part in parts], dtype=np.int64)
        means = np.array([part.held["strengths"] for part in parts])
        total = counts.sum(axis=0)
        sums = [
            math.fsum(k * mean for k, mean in zip(ks, column, strict=True) if k)
            for ks, column in zip(counts.T.tolist(), means.T.tolist(), strict=True)
        ]
        mu = [value / k if k else math.nan for value, k in zip(sums, total.tolist(), strict=True)]
        means = np.array(mu, dtype=np.float64)
        return cls.merged_means(copy, parts, means, total, means)

    @classmethod
    def merged_means(
        cls, copy: Copy, parts: Sequence[Findings], mu: Floats, counts: Ints, ranked: Floats
    ) -> dict[str, Any]:
        """Return the tables for means over several runs, ranked by values, and bounds of their errors."""
        features = pd.Index(list(parts[0].labels.target), dtype="object")
        tables: dict[str, Any] = {"strengths": pd.Series(mu, features), "counts": pd.Series(counts, features)}
        run_counts = np.array([part.held["counts"] for part in parts])
        shares = run_counts / np.maximum(run_counts.sum(axis=0), 1)
        if all("errors" in part.held for part in parts):
            # Bounds: the errors of the runs may go up and down together.
            bounds = sum(share * part.held["errors"] for share, part in zip(shares, parts, strict=True))
            tables["errors"] = pd.Series(bounds, features)
        if all("strengths_noise" in part.held for part in parts):
            noise = [share * part.held["strengths_noise"] for share, part in zip(shares, parts, strict=True)]
            tables["strengths_noise"] = pd.Series(np.sqrt(np.square(noise).sum(axis=0)), features)
        positions = estimators.positions(ranked, copy.plan.order)
        return {**tables, "ranking": _with_strengths(positions, mu, features)}

    def shows(self, numbers: Numbers) -> bool:
        """Compare; strengths may differ by this owner's noise, of whose draw others know only a bound."""
        if "strengths_noise" in numbers and self.plan.reveal == "strengths":
            shown, left = (self.held[name].to_numpy() for name in ("strengths", "strengths_noise"))
            sent, s = numbers["strengths"], numbers["strengths_noise"]
            away = np.abs(shown - sent) - REACH * np.sqrt(np.maximum(np.square(s) - np.square(left), 0.0))
            differs = (away > s + numbers["errors"]).any() or (left > s).any()
            if differs or not (np.isnan(shown) == np.isnan(sent)).all():
                return False
            positions = estimators.positions(shown, self.plan.order)
            numbers = {**numbers, "strengths": shown, "strengths_noise": left, "positions": positions}
        return super().shows(numbers)

    # --- what is said

    @property
    def chosen(self) -> int | None:
        """How many results were chosen as the strongest and are here; None if all are here."""
        return self.copy.chosen(len(self.held["strengths"]))

    @property
    def among(self) -> str:
        return super().among if self.chosen is None else f"of the {self.chosen} features that are here"

    @property
    def mean(self) -> str:
        """What a strength is, in words."""
        return MEANS[self.plan.strength]

    @property
    def over(self) -> str:
        """Of which coefficients a strength is the mean, in words; empty for those of all source columns."""
        return ""

    def noise_ratio(self) -> float:
        if not {"errors", "strengths_noise"} <= self.held.keys():
            return 0.0
        mu, sampling, noise = errors_of(self.held)
        known = ~np.isnan(mu) & (sampling > 0)
        return float(np.median(noise[known] / sampling[known])) if known.any() else 0.0

    def precision(self) -> str:
        return Findings.precision(self)

    def warnings(self) -> list[str]:
        warnings = [result_warnings.noise("the strengths")] if self.noise_ratio() > 1 else []
        if self.chosen is None:
            return warnings
        return [*result_warnings.chosen("features", self.chosen, len(self.held["strengths"])), *warnings]

    def headline(self) -> str:
        top = float(self.ranking["strength"][0])
        if math.isnan(top):
            return "No feature has a defined strength"
        if "ranks" not in self.held:
            return self.first()
        differing = self.differing
        if not len(differing):
            return f"No feature differs from chance (smallest q {chance(self.held['ranks']['q'].min())})"
        count = f"{len(differing)} {self.among} differ{'s' * (len(differing) == 1)} from chance"
        if self.ranking["feature"][0] in differing:
            return f"{self.first()}{f'; {count}' if len(self.ranking) > 1 else ''}"
        size = f"{printable(str(differing[0]))} the strongest of them, {self._size(differing[0])}"
        return f"{count}, {size}; what ranks first by {self.mean}, {self.plan.order}, does not"

    @property
    def differing(self) -> pd.Index[Any]:
        """The features that differ from chance, the strongest in size first."""
        q = self.held["ranks"]["q"]
        features: Any = (
            self.held["strengths"][q <= RATE].abs().sort_values(ascending=False, kind="stable").index
        )
        return features  # type: ignore[no-any-return]

    def first(self, verb: str = "ranks") -> str:
        """Name the feature that ranks first, by what criterion, and its strength."""
        name, top = self.ranking["feature"][0], float(self.ranking["strength"][0])
        if math.isnan(top):
            return "No feature has a defined strength"
        by = f" by {self.mean}{self.over}, {self.plan.order}" if len(self.ranking) > 1 else ""
        under = " by the paper's eq. 2" if self.plan.estimator == "paper" else ""
        level = int((self.ranking["strength"] == top).sum()) - 1
        with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
        last = int(self.held["ranks"]["last"][name]) if "ranks" in self.held else 1
        possible = f" (ranks 1 to {last} are possible)" if last > 1 else ""
        return f"{super().first(verb)}{by}{possible}, with {self._size(name)}{under}{with_it}"

    def _size(self, feature: Any) -> str:
        """Write a feature's strength and, where it says something, its standard error."""
        value = float(self.held["strengths"][feature])
        if "ranks" not in self.held:
            return f"strength {number(value)}"
        return f"strength {with_error(value, float(self.held['errors'][feature]))}"

    def sections(self) -> list[Section]:
        return [self.ranked(notes=[UNSEEN])]

    def by_sign(self) -> str:
        """Say which feature the ranking puts behind weaker ones, as it is by sign; empty if none."""
        if self.plan.strength != "mean" or "ranks" not in self.held:
            return ""
        positions = self.ranking.set_index("feature")["position"]
        for size, name in enumerate(self.differing, 1):
            if positions[name] > size and (self.held["strengths"][name] < 0) == (
                self.plan.order == "descending"
            ):
                return (
                    f"{printable(str(name))} is number {size} by size (strength "
                    f"{number(self.held['strengths'][name])}), but ranks {positions[name]} of "
                    f"{len(positions)}: with strength: mean features rank by sign, with strength: mean_abs "
                    "they would rank by size."
                )
        return ""

    def other_means(self) -> tuple[str, pd.Series[float]] | None:
        """Return the mean that strengths are not, by size or by sign, and its name, if a copy knows it."""
        return None

    def ranked(self, lead: str = "", notes: Sequence[str] = ()) -> Section:
        """Return the section with the ranking."""
        shown = self.ranking if self.chosen is None else self.ranking.dropna(subset="strength")
        names, mu = shown["feature"], shown["strength"].to_numpy(np.float64)
        columns = {
            "position": [*map(str, shown["position"])],
            "feature": [*map(printable, names)],
            self.mean: [number(one, 4) for one in mu.tolist()],
        }
        if "ranks" in self.held:
            ranks = self.held["ranks"].loc[names]
            columns["±"] = [number(one, 4) for one in self.held["errors"][names]]
            columns["ranks"] = [
                str(one) if one == other else f"{one} to {other}"
                for one, other in zip(ranks["first"], ranks["last"], strict=True)
            ]
            if ranks["guess"].notna().any():
                columns["best guess"] = [number(one, 4) for one in ranks["guess"]]
            columns["q"] = [*map(chance, ranks["q"])]
            bound = "at most " if len(self.copy.sources) > 1 else ""
            notes = [
                f"± is {bound}the standard error of a strength whose feature is unrelated to all source "
                f"columns. All ranges of ranks hold together with {percent(self.plan.confidence)}.",
                *notes,
            ]
        errors, drawn = np.full(len(mu), math.nan), ""
        if "ranks" in self.held:
            errors = self.held["errors"][names].to_numpy(np.float64)
            drawn = " The line at the end of a bar reaches one standard error either way."
        if (other := self.other_means()) is not None:
            columns[other[0]] = [number(one, 4) for one in other[1][names]]
        counts = sorted({*self.held["counts"]} - {0}) if "counts" in self.held else []
        over = f" (over {counts[0]} coefficient{'s' * (counts[0] > 1)} each)" if len(counts) == 1 else ""
        lines = [
            Line(row, value, (value - error, value + error), note=_UNDEFINED if math.isnan(value) else "")
            for row, value, error in zip(
                zip(*columns.values(), strict=True), mu.tolist(), errors.tolist(), strict=True
            )
        ]
        about = (
            f"The strength of a feature of {printable(self.copy.target)} is its {self.mean}"
            f"{self.over or f' with the source features{over}'}.{drawn}"
        )
        table = Table(tuple(columns), lines, "ranking.csv", axis=f"strength, {self.mean}")
        by_sign = self.by_sign()
        notes = [*([by_sign] if by_sign else []), *notes]
        nothing = "ranks" in self.held and not len(self.differing)
        return Section("Ranking", self.only_order() if nothing else lead, about, table, notes=notes)


def rank_table(
    copy: Copy,
    features: pd.Index[Any],
    values: Floats,
    sampling: Floats,
    noise: Floats,
    p: Floats,
    guesses: Floats,
    correlations: Floats | None = None,
) -> pd.DataFrame:
    """Return the table `ranks`, of values that are to be ranked, and of their errors and p-values.

    `correlations`, (m_B, m_B), are of the features with each other, if this copy knows them.
    """
    variances = difference_variances(sampling, noise, correlations)
    chosen = copy.chosen(len(values)) is not None
    first, last = rank_ranges(values, variances, copy.plan.confidence, copy.plan.order, withheld=chosen)
    columns = {
        "first": first,
        "last": last,
        "p": p,
        "q": qvalues(p, len(values) if chosen else None),
        "guess": guesses,
    }
    return pd.DataFrame(columns, features)


def errors_of(tables: Mapping[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Return strengths, their standard errors without noise, and the noise."""
    mu, both = (tables[name].to_numpy(np.float64) for name in ("strengths", "errors"))
    noise = tables["strengths_noise"].to_numpy() if "strengths_noise" in tables else np.zeros(len(mu))
    return mu, np.sqrt(np.maximum(np.square(both) - np.square(noise), 0.0)), noise


def _with_strengths(positions: Ints, mu: Floats, features: pd.Index[Any]) -> pd.DataFrame:
    """Return the ranking with the strength of each feature."""
    return listed(positions, features).assign(strength=mu[np.argsort(positions, kind="stable")])
