"""The step in which the data parties describe their columns to the coordinator.

The view table lists what each level allows it to know (:mod:`mpc_spearman.levels.view`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels.descriptions import Description, Descriptions
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party
from mpc_spearman.privacy.statements import Factors, Statements
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import Ties, possible
from mpc_spearman.wire.kinds import Kind

#: Below √(3/(n + 1)), the least length of a column that is not constant, with the most rows a run can have.
#: The skewness of n numbers is at most √n.
_SHORTEST = 2.0**-16
#: The fields that say one thing of all columns.
_SINGLE = ("length", "sum_factor", "most_gaps", "unequal_together", "fitted")


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks, stated: Statements, factors: Factors) -> None:
    """Send the coordinator what the level allows it to know about the columns."""
    coordinator = run.roster.coordinator
    fields = VIEW.fields(run.plan.terms, Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        description = _description(table, ranks, stated, factors)
        values = {field.name: description[field.name] for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


def _description(table: Table, ranks: Ranks, stated: Statements, factors: Factors) -> dict[str, Any]:
    """Return all that a message can say about columns, by field; ranks are of the rows of the run."""
    return {
        "names": table.features,
        "nominal": table.nominal_columns,
        "ties": ranks.tie_terms,
        "constant": np.array(stated.constant, dtype=np.uint8),
        "two_values": np.array(ranks.two_values, dtype=np.uint8),
        "skewness": ranks.skewness,
        "length": np.array([stated.length]),
        "gaps": stated.gaps,
        "most_gaps": np.array([stated.gaps.max()]),
        "stated_ties": stated.columns.ties,
        "stated_skewness": stated.columns.skewness,
        "unequal": stated.unequal,
        "unequal_together": np.array([stated.unequal_together]),
        "fitted": np.array([stated.fitted]),
        "lengths": stated.lengths,
        "factors": factors.columns,
        "sum_factor": np.array([factors.sum]),
    }


@step("describe")
def receive_descriptions(run: Run, shapes: Shapes) -> Descriptions:
    """Receive the descriptions that all data parties send at this level."""
    sources = tuple(receive_description(run, source, shapes) for source in run.roster.sources)
    return Descriptions(sources, receive_description(run, run.roster.target, shapes))


def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive one data party's description; `ProtocolViolation` if no columns can have it."""
    if VIEW.fields(run.plan.terms, Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description()
    n, features = shapes.n, shapes.features.get(owner, shapes.m_target)
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes={"m_source": features})
    fields: dict[str, Any] = {name: tuple(value) for name, value in values.items()}
    named = zip(fields.get("names", ()), fields.get("nominal", ()), strict=False)
    if not all(column == "" or name.startswith(f"{column}=") for name, column in named):
        raise ProtocolViolation(f"{owner} states the column of a flag whose name does not begin with it")
    ties, two_values, skewness = (fields.get(name, ()) for name in ("ties", "two_values", "skewness"))
    if any(not 0 <= term <= total(n) or term % 2 for term in ties):
        raise ProtocolViolation(f"{owner} sent a tie term that is impossible with {n:,} rows")
    if not all(0 <= length <= 1 + 1e-9 for length in fields.get("length", ())) or not all(
        possible(*column, n) for column in zip(skewness, two_values, ties, strict=True)
    ):
        raise ProtocolViolation(f"{owner} sent a skewness or a length that is impossible with {n:,} rows")
    shares = [fields.get(name, ()) for name in ("factors", "sum_factor", "gaps", "most_gaps", "lengths")]
    if not all(0 <= value <= 1 for column_shares in shares for value in column_shares):
        raise ProtocolViolation(f"{owner} sent a factor, a length or a share of gaps that is not from 0 to 1")
    if any(0 < length < _SHORTEST for length in fields.get("lengths", ())):
        raise ProtocolViolation(f"{owner} states a length that no column has")
    classes, skews = fields.get("stated_ties", ()), fields.get("stated_skewness", ())
    if not all(one in list(Ties) for one in classes) or not all(abs(skew) <= 1 / _SHORTEST for skew in skews):
        raise ProtocolViolation(f"{owner} states ties or a skewness that no column has")
    fields |= {"constant": fields.get("constant", ()) or tuple(term == total(n) for term in ties)}
    single: dict[str, Any] = {name: fields.pop(name)[0] for name in _SINGLE if name in fields}
    unequal = (*fields.get("unequal", ()), single.get("unequal_together", 1.0))
    if not all(1 <= one <= 1 / _SHORTEST for one in unequal) or single.get("fitted", 0) < 0:
        raise ProtocolViolation(f"{owner} states variances of residuals that no adjustment gives")
    return Description(**fields, **single)
