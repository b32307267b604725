"""Columns whose categories have no order, in a copy of coefficients: one line for each whole column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.findings.adjustment import in_words
from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.forms import Form, Labels, Numbers
from mpc_spearman.findings.sections import RATE, Section, Table, chance, number
from mpc_spearman.statistics.columns import Columns, Ints, Ties
from mpc_spearman.statistics.nominal import Side, association
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import qvalues
from mpc_spearman.units import printable

#: Which features are flags, and of which category of which column.
CATEGORIES = Form("categories", "categories.csv", ("party", "feature"), {"column": str, "category": str})
#: η² or V of every pair of columns of which one has no order, or both.
NOMINAL = Form(
    "nominal associations", "nominal.csv", (),
    {
        "party": str, "source": str, "target": str, "measure": str, "value": float, "df": int, "p": float,
        "q": float,
    },
)  # fmt: skip
#: Lines that are shown.
_LISTED = 20


def category_table(copy: Copy, numbers: Numbers, labels: Labels) -> dict[str, pd.DataFrame]:
    """Return the table of the columns' categories that a party may know, if there are any."""
    sides = {"source": labels.sources, "target": [(copy.target, name) for name in labels.target]}
    flags = {
        label: column
        for side, features in sides.items()
        for label, column in zip(features, numbers.get(f"{side}_nominal", ()), strict=False)
        if column
    }
    if not flags:
        return {}
    names = [(column, label[1].removeprefix(f"{column}=")) for label, column in flags.items()]
    index = pd.MultiIndex.from_tuples([*flags], names=CATEGORIES.index)
    return {"categories": pd.DataFrame(names, index, ["column", "category"])}


def nominal_columns(categories: pd.DataFrame | None, features: Iterable[tuple[str, str]]) -> list[str]:
    """Return the column of which each feature, named after its party, is a flag; "" for others."""
    column_of = {} if categories is None else categories["column"].to_dict()
    return [column_of.get(feature, "") for feature in features]


@dataclass(frozen=True)
class _WholeColumn:
    """A column with an order, or the varying flags of a column without; with their places."""

    party: str
    name: str
    places: Ints
    side: Side


def _whole_columns(
    features: Sequence[tuple[str, str]], categories: pd.DataFrame, described: Columns
) -> list[_WholeColumn]:
    """Return the columns behind one side's features, in their order; `described` is of the features."""
    places = dict[tuple[str, str, bool], list[int]]()
    for place, (feature, column) in enumerate(
        zip(features, nominal_columns(categories, features), strict=True)
    ):
        of_column = places.setdefault((feature[0], column or feature[1], bool(column)), [])
        of_column += [place] if described.ties[place] < Ties.CONSTANT else []
    return [
        _WholeColumn(party, name, np.array(varying, dtype=np.int64), Side(described.select(varying), nominal))
        for (party, name, nominal), varying in places.items()
    ]


def associations(copy: Copy, tables: Mapping[str, Any], pairs: Pairs) -> dict[str, pd.DataFrame]:
    """Return η² or V of all pairs of columns, one of them or both without an order, with p and q.

    The p-values of single pairs are among the tables. There are no associations of adjusted features: what
    covariates explain of several flags does not add up to a column's.
    """
    matrix, categories = tables["coefficients"], tables.get("categories")
    if categories is None or pairs.estimator == "paper" or in_words(copy.plan):
        return {}
    rho, p_of_pairs = matrix.to_numpy(), tables["pvalues"].to_numpy()
    noise = np.broadcast_to(pairs.noise, rho.shape)
    parties = (copy.plan.parties.target, *copy.plan.parties.sources)
    on_inputs = any(party.noise == "inputs" for party in parties)
    sources = _whole_columns(list(matrix.index), categories, pairs.source.flat)
    targets = _whole_columns([(copy.target, name) for name in matrix.columns], categories, pairs.target)
    lines = []
    for source, target in product(sources, targets):
        if not (source.side.nominal or target.side.nominal):
            continue
        is_v, block = source.side.nominal and target.side.nominal, np.ix_(source.places, target.places)
        value, freedom, p = math.nan, 0, math.nan
        if rho[block].size and not np.isnan(rho[block]).any():
            related = association(
                rho[block], noise[block], copy.n, source.side, target.side, on_inputs=on_inputs
            )
            value = math.sqrt(max(0.0, related.square)) if is_v else related.square
            # A single coefficient has a better test.
            freedom, p = related.freedom, related.p if rho[block].size > 1 else float(p_of_pairs[block][0, 0])
        lines.append((source.party, source.name, target.name, "V" if is_v else "η²", value, freedom, p))
    table = pd.DataFrame(lines, columns=[*(NOMINAL.columns or ())][:-1])
    return {"nominal": table.assign(q=qvalues(table["p"].to_numpy()))}


def nominal_section(copy: Copy, tables: Mapping[str, Any]) -> Section:
    """Return the section with the lines of smallest p."""
    table, several = tables["nominal"], len(copy.sources) > 1
    shown: Any = table.sort_values(["p", "value"], ascending=[True, False], kind="stable").head(_LISTED)
    columns = {
        "columns": [
            printable((f"{row.party} · " if several else "") + f"{row.source} × {row.target}")
            for row in shown.itertuples()
        ],
        "measure": shown["measure"].tolist(),
        "value": [*map(number, shown["value"].clip(lower=0.0))],
        "q": [*map(chance, shown["q"])],
    }
    less = " The mean of what noise adds is taken off; what is then below 0 is shown as 0."
    count, tested = int((table["q"] <= RATE).sum()), int(table["q"].notna().sum())
    lead = f"{count:,} of {tested:,} pairs with a column without an order differ from chance"
    how_to_read = (
        "η² is the share of the variance of a column's ranks that the categories of the other explain "
        "(Kruskal and Wallis' test). V is Cramér's, of two columns without an order (χ² test). Both are 0 "
        "to 1. Which categories are high or low, the coefficients of their flags show."
        f"{less if 'noise' in tables else ''}"
    )
    values = shown["value"].clip(0.0, 1.0).tolist()
    names, more = ("columns", "measure"), len(table) - len(shown)
    shown_table = Table(columns, "nominal.csv", values, names=names, more=more)
    return Section("Columns without an order", lead if tested else "", how_to_read, shown_table)
