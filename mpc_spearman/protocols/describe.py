"""The step in which the data parties describe their columns to the coordinator.

The view table lists what each level allows it to know (:mod:`mpc_spearman.levels.view`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels.shapes import Description, Descriptions, Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Ties, possible
from mpc_spearman.wire.kinds import Kind

#: Below √(3/(n + 1)), the least length of a column that is not constant, with the most rows a run can have.
#: The skewness of n numbers is at most √n.
_SHORTEST = 2.0**-16
#: The fields with one value for all columns.
_SINGLE = ("length", "sum_factor", "most_gaps", "unequal_together", "fitted")
#: The least and the largest value that a field can have.
_POSSIBLE = {
    **dict.fromkeys(("factors", "sum_factor", "gaps", "most_gaps", "lengths"), (0, 1)),
    "length": (0, 1 + 1e-9),
    "stated_ties": (min(Ties), max(Ties)),
    "stated_skewness": (-1 / _SHORTEST, 1 / _SHORTEST),
    **dict.fromkeys(("unequal", "unequal_together"), (1, 1 / _SHORTEST)),
    "fitted": (0, math.inf),
}


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks, stated: Statements, factors: Factors) -> None:
    """Send the coordinator the description of this party's columns that the level provides for."""
    coordinator = run.roster.coordinator
    fields = VIEW.fields(run.plan.terms, Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        description = _description(table, ranks, stated, factors)
        values = {field.name: description[field.name] for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


def _description(table: Table, ranks: Ranks, stated: Statements, factors: Factors) -> dict[str, Any]:
    """Return all descriptions of columns that a message can hold, by field; ranks are of the run's rows."""
    return {
        "names": table.features,
        "nominal": table.nominal_columns,
        "ties": ranks.tie_terms,
        "constant": np.array(stated.constant, dtype=np.uint8),
        "two_values": np.array(ranks.two_values, dtype=np.uint8),
        "skewness": ranks.skewness,
        "length": np.array([stated.length]),
        "gaps": stated.columns.gaps,
        "most_gaps": np.array([stated.columns.gaps.max()]),
        "stated_ties": stated.columns.ties,
        "stated_skewness": stated.columns.skewness,
        "unequal": stated.columns.unequal,
        "unequal_together": np.array([stated.unequal_together]),
        "fitted": stated.columns.fitted[:1],
        "lengths": stated.lengths,
        "factors": factors.columns,
        "sum_factor": np.array([factors.sum]),
    }


@step("describe")
def receive_descriptions(run: Run, shapes: Shapes) -> Shapes:
    """Receive all data parties' descriptions, if the level has any; return the shapes with them."""
    sources = tuple(receive_description(run, source, shapes) for source in run.roster.sources)
    target = receive_description(run, run.roster.target, shapes)
    return replace(shapes, descriptions=Descriptions(sources, target))


def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive one data party's description; `ProtocolViolation` if no columns can have it."""
    if VIEW.fields(run.plan.terms, Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description()
    n, sizes = shapes.n, {"m_source": shapes.features_of(owner)}
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes=sizes)
    fields: dict[str, Any] = {name: tuple(value) for name, value in values.items()}
    if impossible := next(_impossible(fields, n), ""):
        raise ProtocolViolation(f"{owner} sent a field {impossible!r} that no columns of {n:,} rows have")
    fields.setdefault("constant", tuple(term == total(n) for term in fields.get("ties", ())))
    return Description(**fields | {name: fields[name][0] for name in _SINGLE if name in fields})


def _impossible(fields: Mapping[str, Sequence[Any]], n: int) -> Iterator[str]:
    """Yield the names of the fields of a description whose values no columns of n rows can have."""
    for name, (least, most) in _POSSIBLE.items():
        if not all(least <= value <= most for value in fields.get(name, ())):
            yield name
    if any(0 < length < _SHORTEST for length in fields.get("lengths", ())):
        yield "lengths"
    ties, two_values, skewness = (fields.get(name, ()) for name in ("ties", "two_values", "skewness"))
    if any(not 0 <= term <= total(n) or term % 2 for term in ties):
        yield "ties"
    if not all(possible(*column, n) for column in zip(skewness, two_values, ties, strict=True)):
        yield "skewness"
    flags = zip(fields.get("names", ()), fields.get("nominal", ()), strict=False)
    if not all(column == "" or name.startswith(f"{column}=") for name, column in flags):
        yield "nominal"
