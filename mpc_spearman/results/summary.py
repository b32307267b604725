"""What a result says: the sentences and tables that the report, the terminal and a notebook show.

Names come from other parties: everything returned here is printable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpc_spearman.config import OUTSIDE
from mpc_spearman.results.derived import known_columns
from mpc_spearman.statistics import explained, reading
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.intervals import INTERVAL_ROWS
from mpc_spearman.units import printable

if TYPE_CHECKING:
    from mpc_spearman.results.result import Result

#: Pairs are counted and marked at this false discovery rate, if they have this size.
DISCOVERY_RATE, SIZE = 0.05, 0.1
STRENGTHS = {"mean": "mean ρ", "mean_abs": "mean |ρ|"}
#: Columns of tables that are text; all others are numbers.
WORDS = ("pair", "feature", "source")
#: Below this no test here says how far.
_LEAST = 1e-16
#: Below such a p-value tables have something in common.
_FOUND = 0.05


@dataclass(frozen=True)
class Line:
    """A line of a table: its texts, and what a chart beside it shows; NaN for nothing.

    `value` is the length of a bar, or the place of a point with a whisker between `ends`, which is filled if
    it is `found`. `mark` is another place on the axis, and `note` helps to read the line.
    """

    cells: tuple[str, ...]
    value: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    mark: float = math.nan
    found: bool = False
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table, or its first lines, and how many more there are."""

    head: tuple[str, ...]
    lines: Sequence[Line]
    more: int = 0

    def column(self, name: str) -> list[str]:
        """Return the texts of one column."""
        at = self.head.index(name)
        return [line.cells[at] for line in self.lines]


def number(value: float, digits: int = 3) -> str:
    """Write a number with a proper minus sign; NaN as ``undefined``."""
    if math.isnan(value):
        return "undefined"
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def chance(value: float) -> str:
    """Write a p-value or a q-value."""
    if math.isnan(value):
        return "undefined"
    return f"{value:.2g}" if value >= _LEAST else f"< {_LEAST:g}"


def pairs(result: Result) -> pd.DataFrame | None:
    """Return `Result.pairs`, and which of them are ``found``; None where no coefficient is known."""
    if result.withheld("coefficients") is not None:
        return None
    table = result.pairs()
    if table["rho"].isna().all():
        return None
    table["found"] = (table["q"] <= DISCOVERY_RATE) & (table["rho"].abs() >= SIZE)
    return table


def label(result: Result, pair: Any) -> str:
    """Name a pair, with its source's party where there are several."""
    several = len(result.plan["parties"]["sources"]) > 1 and not own_rows(result)
    return printable((f"{pair.party} · " if several else "") + f"{pair.source} × {pair.target}")


def pair_table(result: Result, pairs: pd.DataFrame, count: int) -> Table:
    """List the pairs whose coefficients are farthest from 0, with their intervals."""
    head = ("pair", "ρ", f"{100 * result.plan['confidence']:g} % interval", "q")
    known: Any = pairs.dropna(subset="rho").head(count)
    lines = []
    for pair in known.itertuples():
        cells = (label(result, pair), number(pair.rho), interval(result, pair), chance(pair.q))
        ends, note = (pair.low, pair.high), _flag(result, pair)
        lines.append(Line(cells, pair.rho, ends, found=pair.found, note=note))
    return Table(head, lines, len(pairs) - len(lines))


def interval(result: Result, pair: Any) -> str:
    """Write the ends of a pair's interval, or that there is none, and why."""
    if not math.isnan(pair.low):
        return f"{number(pair.low)} to {number(pair.high)}"
    ties = "ties, under eq. 2" if result.plan["estimator"] == "paper" else "many ties"
    return f"none: {'too few rows' if result.n < INTERVAL_ROWS else ties}"


def _flag(result: Result, pair: Any) -> str:
    names = [(pair.party, pair.source), (result.plan["parties"]["target"]["name"], pair.target)]
    columns = result.columns
    places: Any = [columns.index.get_loc(name) for name in names]  # `reindex` takes three times as long
    both = known_columns(columns.iloc[places])
    if set(both.ties) != {Ties.TWO_VALUES, Ties.NONE}:
        return ""
    at = both.ties == Ties.TWO_VALUES
    flag = Columns(both.ties[at], both.skewness[at])
    (most,), (area,) = reading.largest(flag, result.n), reading.auc(pair.rho, flag, result.n)
    possible = 0 <= area <= 1  # noise may carry it beyond
    return f"at most ±{number(most, 2)} for this flag; AUC {number(area, 2)}" if possible else ""


def headline(result: Result, pairs: pd.DataFrame | None) -> str:
    """Return one sentence with the outcome: the strongest pair or, without coefficients, the ranking."""
    if pairs is None:
        return first(result)
    which = f"strongest of {len(pairs):,} pairs" if len(pairs) > 1 else "only pair"
    best = next(pairs.head(1).itertuples())
    return f"The {which} is {label(result, best)}, with ρ = {number(pairs['rho'][0])}"


def discoveries(pairs: pd.DataFrame) -> str:
    """Count the pairs that are significant if all pairs are tested at once."""
    count = (pairs["q"] <= DISCOVERY_RATE).sum()
    return (
        f"{count:,} of {pairs['q'].count():,} pairs have q ≤ {100 * DISCOVERY_RATE:g} % (Benjamini and "
        f"Hochberg, over all pairs that have a p-value); {pairs['found'].sum():,} of these have |ρ| ≥ {SIZE}."
    )


def detectable(result: Result, pairs: pd.DataFrame | None) -> str | None:
    """Say which coefficients so many rows can show, if there are coefficients."""
    count = 0 if pairs is None else int(pairs["p"].notna().sum())
    if not count or result.n < INTERVAL_ROWS:
        return None
    noise = float(np.median(result.noise)) if "noise" in result.holds else 0.0
    least, over_all = (reading.detectable(result.n, tests, noise) for tests in (1, count))
    all_of = f", and one of {number(over_all)} if all {count:,} pairs are tested at once" if count > 1 else ""
    with_noise = " and the noise in them" if noise else ""
    return (
        f"With {result.n:,} rows{with_noise} a test at 5 % detects a coefficient of {number(least)} in four "
        f"of five samples{all_of}."
    )


def ranked(result: Result) -> Table | None:
    """List the target's features as they are ranked, or canonical correlations; None where not revealed."""
    if "canonical" in result.holds:
        return _canonical(result)
    if "ranking" not in result.holds:
        return None
    if "explained" in result.holds:
        return _explained(result)
    ranking = result.ranking
    columns = {"position": [*map(str, ranking["position"])], "feature": [*map(printable, ranking["feature"])]}
    if "strength" not in ranking:
        return Table(tuple(columns), [Line(cells) for cells in zip(*columns.values(), strict=True)])
    mu = ranking["strength"].to_numpy(np.float64)
    sizes, errors = mean_sizes(result), standard_errors(result)
    columns[STRENGTHS[result.plan["strength"]]] = [number(one, 4) for one in mu.tolist()]
    if errors is not None:
        columns["±"] = [f"{number(one, 4)} {'~' if near else ' '}" for one, near in zip(*errors, strict=True)]
    marks = np.full(len(mu), math.nan)
    if sizes is not None:
        of_each = sizes[ranking["feature"]].to_numpy(np.float64)
        other = "mean" if result.plan["strength"] == "mean_abs" else "mean_abs"
        columns[STRENGTHS[other]] = [number(one, 4) for one in of_each.tolist()]
        marks = np.copysign(of_each, mu)  # on the side of each one's bar
    undefined = "undefined: a constant column has no rank correlation"
    cells = zip(*columns.values(), strict=True)
    lines = [
        Line(row, value, mark=mark, note=undefined if math.isnan(value) else "")
        for row, value, mark in zip(cells, mu.tolist(), marks.tolist(), strict=True)
    ]
    return Table(tuple(columns), lines)


def _explained(result: Result) -> Table:
    """List the share explained of each feature; the mark is what chance exceeds once in 20."""
    found: Any = result.explained
    places = dict(zip(result.ranking["feature"], result.ranking["position"], strict=True))
    several = len(found.index.unique(0)) > 1
    s, k, dispersion = (found[name].to_numpy() for name in ("noise", "k", "dispersion"))
    limits = explained.chance(s, k, result.n, dispersion)
    lines = [
        Line(
            (
                *(str(places[feature]), printable(feature)),
                *([printable(source)] if several else []),
                *(number(row.r2), number(row.predictive), number(limit), chance(row.q)),
            ),
            row.r2,
            mark=limit,
            note="undefined: a constant column has no ranks to explain" if math.isnan(row.r2) else "",
        )
        for (source, feature), row, limit in zip(found.index, found.itertuples(), limits, strict=True)
    ]
    head = ("position", "feature", *(["source"] if several else []), "R²", "predictive", "by chance", "q")
    return Table(head, sorted(lines, key=lambda line: int(line.cells[0])))


def _canonical(result: Result) -> Table:
    known: Any = result.canonical.dropna(subset="correlation")
    lines = []
    for (party, at), row in zip(known.index, known.itertuples(), strict=True):
        cells = (printable(party), str(at), number(row.correlation), number(row.chance))
        lines.append(Line(cells, row.correlation, mark=row.chance))
    return Table(("source", "number", "correlation", "by chance up to"), lines)


def own_rows(result: Result) -> bool:
    """Return whether this copy's matrix has only one source's rows, while strengths cover several sources."""
    return result.role == "source" and len(result.plan["parties"]["sources"]) > 1


def mean_sizes(result: Result) -> pd.Series[float] | None:
    """Mean |ρ| of each feature, or mean ρ if strengths are mean |ρ|; None if a copy cannot know it."""
    if "coefficients" not in result.holds or own_rows(result):
        return None
    matrix = result.coefficients
    return (matrix if result.plan["strength"] == "mean_abs" else matrix.abs()).mean()


def standard_errors(result: Result) -> tuple[list[float], list[bool]] | None:
    """Return each strength's, by the ranking, and whether it is too close to the one above."""
    # Ties shift eq. 2 by unequal amounts: a standard error around 0 says nothing of its strengths.
    if "errors" not in result.holds or result.plan["estimator"] == "paper":
        return None
    ranking = result.ranking
    mu = ranking["strength"].to_numpy(np.float64)
    errors = np.where(np.isnan(mu), math.nan, result.errors[ranking["feature"]])
    if np.isnan(errors).all():
        return None
    close = [False, *reading.unresolved(mu, errors)]
    return errors.tolist(), [bool(near) and not math.isnan(one) for near, one in zip(close, mu, strict=True)]


def resolution(result: Result) -> str | None:
    """Say what standard errors are, and which neighbours cannot be told apart; None if there are none."""
    if (known := standard_errors(result)) is None:
        return None
    close, m = sum(known[1]), len(known[1])
    which = "All neighbours can be told apart"
    if close:
        which = f"~ marks {close} of {m} features that cannot be told apart from the one above"
    return "± is a strength's standard error if its feature is independent of all source columns." + (
        f" {which} (by 1.96 standard errors of a difference)." if m > 1 else ""
    )


def by_size(result: Result) -> str | None:
    """Say which feature is the strongest in size, if another one ranks first by sign."""
    sizes = mean_sizes(result)
    if sizes is None or result.plan["strength"] != "mean" or sizes.isna().all():
        return None
    best, ranking = sizes.idxmax(), result.ranking
    position = int(ranking.loc[ranking["feature"] == best, "position"].iloc[0])
    if position == 1:
        return None
    return (
        f"The ranking is by sign, {result.plan['order']}; the strongest in size is "
        f"{printable(str(best))}, at position {position}, with a mean |ρ| of {number(sizes.max(), 4)}."
    )


def unseen(result: Result) -> str | None:
    """Say what a mean cannot show, if a copy has nothing else."""
    if {"coefficients", *OUTSIDE} & {*result.holds} or "ranking" not in result.holds:
        return None
    return (
        "A strength is a mean over all source columns: one strong pair among many weak ones hardly moves it, "
        "and positive and negative ones cancel. Only coefficients show which pairs are strong."
    )


def first(result: Result) -> str:
    """Say what ranks first, by what criterion, or what tables have in common."""
    if result.plan["reveal"] == "canonical":
        return _in_common(result)
    if "ranking" not in result.holds:
        return f"This copy of {printable(result.party)} ({result.role}) holds no ranking"
    ranking, plan = result.ranking, result.plan
    name, m = printable(ranking["feature"][0]), len(ranking)
    place = f"{name} ranks first of {m} features" if m > 1 else f"{name} is the only feature"
    if "explained" in result.holds:
        of_it: Any = result.explained.xs(ranking["feature"][0], level="feature")
        if of_it["r2"].isna().all():
            return "No feature has a defined R²"
        best = of_it.loc[of_it["predictive"].idxmax()]
        if best["p"] > _FOUND:
            return f"{place}, but {printable(best.name)} explains no more of it than chance gives"
        share, of_new = (min(max(best[part], 0), 1) for part in ("r2", "predictive"))
        part = f"{share:.0%} of the variance of its ranks, {of_new:.0%} expected in new rows"
        return f"{place}: {printable(best.name)} explains {part}"
    if "strength" not in ranking:
        together = int((ranking["position"] == 1).sum())
        return place if together == 1 else f"{together} of {m} features rank first, in no order"
    top = float(ranking["strength"][0])
    if math.isnan(top):
        return "No feature has a defined strength"
    errors = standard_errors(result)
    size = number(top) + ("" if errors is None else f" ± {number(errors[0][0])}")
    by = f" by {STRENGTHS[plan['strength']]}, {plan['order']}" if m > 1 else ""
    under = " by the paper's eq. 2" if plan["estimator"] == "paper" else ""
    level = int((ranking["strength"] == top).sum()) - 1
    with_it = f", level with {level} other{'s' if level > 1 else ''}" if level else ""
    return f"{place}{by}, with strength {size}{under}{with_it}"


def _in_common(result: Result) -> str:
    if why := result.withheld("canonical"):
        return why.removesuffix(".")
    target = printable(result.plan["parties"]["target"]["name"])
    said = [
        f"{printable(str(source))} and {target}{_trace(rows.iloc[0])}"
        for source, rows in result.canonical.groupby(level="party", sort=False)
    ]
    return "The tables of " + "; the tables of ".join(said)


def _trace(top: Any) -> str:
    """Say what a source's first canonical correlation and its trace show about two tables."""
    if math.isnan(top["trace"]):
        return ": what was opened cannot be canonical correlations"
    most = int(min(top["k_source"], top["k_target"]))
    trace = f"Pillai's trace is {number(max(top['trace'], 0))} of at most {most}"
    if math.isnan(top["p"]):
        return f": {trace}, without a p-value"
    return (
        f" have {'little' if top['p'] > _FOUND else 'something'} in common: {trace} (p-value "
        f"{chance(top['p'])}), and the largest canonical correlation is {number(top['correlation'])}, where "
        f"chance gives up to about {number(top['chance'])}"
    )


def rows(result: Result) -> str:
    """Say how many rows were used, and out of how many, as far as this copy knows."""
    of = ", ".join(f"{printable(name)} {rows:,}" for name, rows in result.offered.items())
    return f"{result.n:,}" + (f", common to all parties (of {of})" if of else "")


def precision(result: Result) -> str:
    """Say how exact the numbers of this copy are."""
    if result.plan["reveal"] == "ranking":
        return "an order; how close strengths may be is among the warnings"
    if result.plan["results"]["precision"] == "exact":
        return "exact"
    if result.role == "coordinator" and result.withheld("coefficients") is None:
        return "exact in this copy alone; with noise in what is passed on"
    privacy = result.plan["privacy"]
    return f"with noise, for privacy.loss {privacy['loss']:g} and unit {privacy['unit']}"
