"""Columns whose categories have no order, in a copy of coefficients: one line for each whole column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpc_spearman.findings.findings import Copy
from mpc_spearman.findings.sections import RATE, Line, Section, Table, chance, number
from mpc_spearman.findings.tables import Form, Labels, Numbers
from mpc_spearman.statistics.columns import Columns, Ints, Ties
from mpc_spearman.statistics.nominal import Side, association
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
    """Return the table of categories, if a party knows of any, from which columns features are flags of."""
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


def columns_of(categories: pd.DataFrame | None, party: str, features: Sequence[str]) -> list[str]:
    """Return the column that each feature of a party is a flag of; "" for others."""
    known = {} if categories is None else categories["column"].to_dict()
    return [known.get((party, feature), "") for feature in features]


@dataclass(frozen=True)
class _Column:
    """A whole column: its party and name, and the places of its flags, or its own, in the matrix."""

    party: str
    name: str
    places: Ints
    nominal: bool


def _whole_columns(labels: Sequence[tuple[str, str]], categories: pd.DataFrame) -> list[_Column]:
    """Return the columns behind a side's features, in their order."""
    places = dict[tuple[str, str, bool], list[int]]()
    for place, (party, feature) in enumerate(labels):
        (column,) = columns_of(categories, party, [feature])
        places.setdefault((party, column or feature, bool(column)), []).append(place)
    return [
        _Column(party, name, np.array(these), nominal) for (party, name, nominal), these in places.items()
    ]


def associations(copy: Copy, tables: Mapping[str, Any], pairs: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return η² or V of all pairs of columns, one of them or both without an order, with p and q.

    `pairs` are the arguments of p-values of single pairs, whose p-values are among the tables.
    """
    matrix, categories = tables["coefficients"], tables.get("categories")
    if categories is None or pairs["estimator"] == "paper":
        return {}
    rho, p_of_pairs = matrix.to_numpy(), tables["pvalues"].to_numpy()
    noise = np.broadcast_to(pairs["noise"], rho.shape)
    parties = (copy.plan.parties.target, *copy.plan.parties.sources)
    on_inputs = any(party.noise == "inputs" for party in parties)
    source_side, target = pairs["source"], pairs["target"]
    source = Columns(source_side.ties[:, 0], source_side.skewness[:, 0], source_side.gaps[:, 0])
    sources = _whole_columns(list(matrix.index), categories)
    targets = _whole_columns([(copy.target, name) for name in matrix.columns], categories)
    lines = []
    for one in sources:
        for other in (other for other in targets if one.nominal or other.nominal):
            rows, columns = (
                side.places[known.ties[side.places] < Ties.CONSTANT]
                for side, known in ((one, source), (other, target))
            )
            value, freedom, p = math.nan, 0, math.nan
            at = np.ix_(rows, columns)
            if len(rows) and len(columns) and not np.isnan(rho[at]).any():
                sides = (
                    Side(_some(source, rows), one.nominal),
                    Side(_some(target, columns), other.nominal),
                )
                its = association(rho[at], noise[at], copy.n, *sides, on_inputs=on_inputs)
                value, freedom, p = its.square, its.freedom, its.p
                if rho[at].size == 1:
                    p = float(
                        p_of_pairs[at].item()
                    )  # of the one coefficient, for which there is a better test
            both = one.nominal and other.nominal
            value = math.sqrt(max(0.0, value)) if both else value
            lines.append((one.party, one.name, other.name, "V" if both else "η²", value, freedom, p))
    table = pd.DataFrame(lines, columns=[*(NOMINAL.columns or ())][:-1])
    return {"nominal": table.assign(q=qvalues(table["p"].to_numpy()))}


def _some(columns: Columns, places: Ints) -> Columns:
    return Columns(columns.ties[places], columns.skewness[places], columns.gaps[places])


def nominal_section(copy: Copy, tables: Mapping[str, Any]) -> Section:
    """Return the section with the lines of smallest p."""
    table, noisy, several = tables["nominal"], "noise" in tables, len(copy.sources) > 1
    ordered: Any = table.sort_values(["p", "value"], ascending=[True, False], kind="stable").head(_LISTED)
    lines = [
        Line(
            (
                printable((f"{row.party} · " if several else "") + f"{row.source} × {row.target}"),
                *(row.measure, number(max(0.0, row.value) if row.value == row.value else row.value)),
                chance(row.q),
            ),
            min(max(0.0, row.value), 1.0),
            found=row.q <= RATE,
        )
        for row in ordered.itertuples()
    ]
    less = " The mean of what noise adds is taken off; what is then below 0 is shown as 0." if noisy else ""
    count = int((table["q"] <= RATE).sum())
    tested = int(table["q"].notna().sum())
    return Section(
        "Columns without an order",
        lead=f"{count:,} of {tested:,} pairs with a column without an order differ from chance",
        about="η² is the share of the variance of a column's ranks that the categories of the other explain "
        "(Kruskal and Wallis' test). V is Cramér's, of two columns without an order (χ² test). Both are 0 "
        f"to 1. Which categories are high or low, the coefficients of their flags show.{less}",
        table=Table(
            ("columns", "measure", "value", "q"), lines, "nominal.csv", ("columns", "measure"),
            len(table) - len(lines),
        ),
    )  # fmt: skip
