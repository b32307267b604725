"""A copy with strengths: the mean coefficient of each of the target's features, and their ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mpc_spearman.findings.findings import Copy, Findings
from mpc_spearman.findings.ranking import MEANS, RANKING, UNSEEN, Ranking, listed
from mpc_spearman.findings.sections import Line, Section, Table, number
from mpc_spearman.findings.tables import Form, Labels, Numbers, series
from mpc_spearman.privacy.gaussian import REACH
from mpc_spearman.statistics import estimators, reading, result_warnings
from mpc_spearman.units import printable

_UNDEFINED = "undefined: a constant column has no rank correlation"
_NOT_CHOSEN = "not among those chosen as the strongest"


class Strengths(Ranking):
    """Strengths, how many coefficients each averages, and their standard errors."""

    tables: ClassVar[Mapping[str, Form]] = {
        "strengths": series("strengths", "strength"),
        "counts": series("counts", "count", int),
        "errors": series("standard errors of the strengths", "error"),
        "strengths_noise": series("standard deviations of the strengths' noise", "noise"),
        "ranking": Form("ranking", "ranking.csv", (), {**(RANKING.columns or {}), "strength": float}),
    }
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
        return cls.merged_means(copy, parts, np.array(mu, dtype=np.float64), total)

    @classmethod
    def merged_means(
        cls, copy: Copy, parts: Sequence[Findings], mu: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> dict[str, Any]:
        """Return the tables for means over several runs, and bounds of their standard errors."""
        features = pd.Index(list(parts[0].labels.target), dtype="object")
        tables = {"strengths": pd.Series(mu, features), "counts": pd.Series(counts, features)}
        of_each = np.array([part.held["counts"] for part in parts])
        shares = of_each / np.maximum(of_each.sum(axis=0), 1)
        if all("errors" in part.held for part in parts):
            # Bounds: the errors of the runs may go up and down together.
            bounds = sum(share * part.held["errors"] for share, part in zip(shares, parts, strict=True))
            tables["errors"] = pd.Series(bounds, features)
        if all("strengths_noise" in part.held for part in parts):
            noise = [share * part.held["strengths_noise"] for share, part in zip(shares, parts, strict=True)]
            tables["strengths_noise"] = pd.Series(np.sqrt(np.square(noise).sum(axis=0)), features)
        positions = estimators.positions(mu, copy.plan["order"])
        return {**tables, "ranking": _with_strengths(positions, mu, features)}

    def shows(self, numbers: Numbers) -> bool:
        """Compare; strengths may differ by this owner's noise, of whose draw others know only a bound."""
        if "strengths_noise" in numbers and self.plan["reveal"] == "strengths":
            shown, said, s = (
                self.held["strengths"].to_numpy(),
                numbers["strengths"],
                numbers["strengths_noise"],
            )
            owners = len(self.copy.sources) + 1
            away = np.abs(shown - said) - REACH * s / math.sqrt(owners)
            if not (np.isnan(shown) == np.isnan(said)).all() or (away > s + numbers["errors"]).any():
                return False
            numbers = {
                **numbers,
                "strengths": shown,
                "strengths_noise": s * math.sqrt(1 - 1 / owners),
                "positions": estimators.positions(shown, self.plan["order"]),
            }
        return super().shows(numbers)

    # --- what is said

    def warnings(self) -> list[str]:
        said = []
        if self.copy.chosen is not None:
            pairs = self.held.get("coefficients")
            what, of = ("features", len(self.held["strengths"])) if pairs is None else ("pairs", pairs.size)
            said = result_warnings.chosen(what, self.copy.chosen, of)
        if not {"errors", "strengths_noise"} <= self.held.keys():
            return said
        s, both = (self.held[name].to_numpy() for name in ("strengths_noise", "errors"))
        return said + result_warnings.noise("strengths", s, np.sqrt(np.maximum(both**2 - s**2, 0.0)))

    def headline(self) -> str:
        return self.first()

    def first(self) -> str:
        """Name the feature that ranks first, by what criterion, and its strength."""
        top = float(self.ranking["strength"][0])
        if math.isnan(top):
            return "No feature has a defined strength"
        errors = self.standard_errors()
        size = number(top) + ("" if errors is None else f" ± {number(errors[0][0])}")
        by = f" by {MEANS[self.plan['strength']]}, {self.plan['order']}" if len(self.ranking) > 1 else ""
        under = " by the paper's eq. 2" if self.plan["estimator"] == "paper" else ""
        level = int((self.ranking["strength"] == top).sum()) - 1
        with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
        return f"{super().first()}{by}, with strength {size}{under}{with_it}"

    def standard_errors(self) -> tuple[list[float], list[bool]] | None:
        """Return each strength's, by the ranking, and whether it is too close to the one above."""
        # Ties shift eq. 2 by unequal amounts: a standard error around 0 says nothing of its strengths.
        if "errors" not in self.held or self.plan["estimator"] == "paper":
            return None
        mu = self.ranking["strength"].to_numpy(np.float64)
        errors = np.where(np.isnan(mu), math.nan, self.held["errors"][self.ranking["feature"]])
        if np.isnan(errors).all():
            return None
        close = [False, *reading.unresolved(mu, errors)]
        close = [bool(near) and not math.isnan(one) for near, one in zip(close, mu, strict=True)]
        return errors.tolist(), close

    def resolution(self) -> list[str]:
        """Say what standard errors are, and which neighbours cannot be told apart."""
        if (known := self.standard_errors()) is None:
            return []
        close, m = sum(known[1]), len(known[1])
        which = "All neighbours can be told apart"
        if close:
            which = f"~ marks {close} of {m} features that cannot be told apart from the one above"
        which = f" {which} (by 1.96 standard errors of a difference)." if m > 1 else ""
        return [
            f"± is a strength's standard error if its feature is independent of all source columns.{which}"
        ]

    def other_means(self) -> pd.Series[float] | None:
        """Return the mean that strengths are not, of ρ or |ρ|, by feature; None if a copy cannot know it."""
        return None

    def sections(self) -> list[Section]:
        return [self.ranked(notes=[*self.resolution(), UNSEEN])]

    def ranked(self, lead: str = "", notes: Sequence[str] = ()) -> Section:
        """Return the section with the ranking."""
        plan, m = self.plan, len(self.ranking)
        mu = self.ranking["strength"].to_numpy(np.float64)
        other, errors = self.other_means(), self.standard_errors()
        columns = {
            "position": [*map(str, self.ranking["position"])],
            "feature": [*map(printable, self.ranking["feature"])],
            MEANS[plan["strength"]]: [number(one, 4) for one in mu.tolist()],
        }
        if errors is not None:
            columns["±"] = [
                f"{number(one, 4)} {'~' if near else ' '}" for one, near in zip(*errors, strict=True)
            ]
        marks, drawn = np.full(m, math.nan), ""
        if other is not None:
            of_each = other[self.ranking["feature"]].to_numpy(np.float64)
            columns[next(name for how, name in MEANS.items() if how != plan["strength"])] = [
                number(one, 4) for one in of_each.tolist()
            ]
            marks = np.copysign(of_each, mu)  # on the side of each one's bar
            drawn = " The vertical mark is the mean ρ."
            if plan["strength"] == "mean":
                drawn = (
                    " The vertical mark is the mean |ρ|, drawn on the bar's side: far beyond the bar, "
                    "positive and negative correlations cancel."
                )
        counts = sorted({*self.held["counts"]} - {0}) if "counts" in self.held else []
        over = f" (over {counts[0]} coefficient{'s' * (counts[0] > 1)} each)" if len(counts) == 1 else ""
        kind = "mean" if plan["strength"] == "mean" else "mean absolute"
        target = printable(self.copy.target)
        undefined = _UNDEFINED if self.copy.chosen is None else _NOT_CHOSEN
        lines = [
            Line(row, value, mark=mark, note=undefined if math.isnan(value) else "")
            for row, value, mark in zip(
                zip(*columns.values(), strict=True), mu.tolist(), marks.tolist(), strict=True
            )
        ]
        return Section(
            "Ranking",
            lead,
            f"The strength of a feature of {target} is the {kind} rank correlation with the source "
            f"features{over}.{drawn}",
            Table(tuple(columns), lines, "ranking.csv", axis=f"strength, {MEANS[plan['strength']]}"),
            notes=notes,
        )


def _with_strengths(
    positions: NDArray[np.int64], mu: NDArray[np.float64], features: pd.Index[Any]
) -> pd.DataFrame:
    """Return the ranking with the strength of each feature."""
    return listed(positions, features).assign(strength=mu[np.argsort(positions, kind="stable")])
