"""The step in which the data parties describe their columns to the coordinator.

The view table lists what each level allows it to know (:mod:`mpc_spearman.levels.view`).
"""

from __future__ import annotations

from collections.abc import Callable
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

#: Below √(3/(n + 1)), the least length of a column that is not constant, of as many rows as there can be. The
#: skewness of n numbers is at most √n.
_SHORTEST = 2.0**-16

#: What an owner can say of its columns, by the name of the field that carries it: from the ranks of the rows
#: of the run, its statements about the whole table, and by what its vectors were multiplied.
DESCRIBED: dict[str, Callable[[Table, Ranks, Statements, Factors], Any]] = {
    "names": lambda table, ranks, stated, factors: table.features,
    "ties": lambda table, ranks, stated, factors: ranks.tie_terms,
    "constant": lambda table, ranks, stated, factors: np.array(stated.constant, dtype=np.uint8),
    "two_values": lambda table, ranks, stated, factors: np.array(ranks.two_values, dtype=np.uint8),
    "skewness": lambda table, ranks, stated, factors: ranks.skewness,
    "length": lambda table, ranks, stated, factors: np.array([stated.length]),
    "gaps": lambda table, ranks, stated, factors: stated.gaps,
    "most_gaps": lambda table, ranks, stated, factors: np.array([stated.gaps.max()]),
    "stated_ties": lambda table, ranks, stated, factors: stated.columns.ties,
    "stated_skewness": lambda table, ranks, stated, factors: stated.columns.skewness,
    "lengths": lambda table, ranks, stated, factors: stated.lengths,
    "factors": lambda table, ranks, stated, factors: factors.columns,
    "sum_factor": lambda table, ranks, stated, factors: np.array([factors.sum]),
}


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks, stated: Statements, factors: Factors) -> None:
    """Send the coordinator what the level allows it to know about the columns."""
    coordinator = run.roster.coordinator
    fields = VIEW.fields(run.plan.terms, Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        values = {field.name: DESCRIBED[field.name](table, ranks, stated, factors) for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


@step("describe")
def receive_descriptions(run: Run, shapes: Shapes) -> Descriptions:
    """Receive what all data parties tell of their columns at this level."""
    sources = tuple(receive_description(run, source, shapes) for source in run.roster.sources)
    return Descriptions(sources, receive_description(run, run.roster.target, shapes))


def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive what one tells; `ProtocolViolation` for what no columns have."""
    if VIEW.fields(run.plan.terms, Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description()
    n, features = shapes.n, shapes.features.get(owner, shapes.m_target)
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes={"m_source": features})
    heard = {name: tuple(value) for name, value in values.items()}
    ties, two_values, skewness = (heard.get(name, ()) for name in ("ties", "two_values", "skewness"))
    if any(not 0 <= term <= total(n) or term % 2 for term in ties):
        raise ProtocolViolation(f"{owner} sent a tie term that is impossible with {n} rows")
    lengths = heard.pop("length", (0.0,))
    if not 0 <= lengths[0] <= 1 + 1e-9 or not all(
        possible(*of, n) for of in zip(skewness, two_values, ties, strict=True)
    ):
        raise ProtocolViolation(f"{owner} sent a skewness or a length that is impossible with {n} rows")
    shares = [heard.get(name, ()) for name in ("factors", "sum_factor", "gaps", "most_gaps", "lengths")]
    if not all(0 <= value <= 1 for of_each in shares for value in of_each):
        raise ProtocolViolation(f"{owner} sent a factor, a length or a share of gaps that is not from 0 to 1")
    if any(0 < length < _SHORTEST for length in heard.get("lengths", ())):
        raise ProtocolViolation(f"{owner} states a length that no column has")
    classes, bends = heard.get("stated_ties", ()), heard.get("stated_skewness", ())
    if not all(one in list(Ties) for one in classes) or not all(abs(bend) <= 1 / _SHORTEST for bend in bends):
        raise ProtocolViolation(f"{owner} states ties or a skewness that no column has")
    heard |= {"constant": heard.get("constant", ()) or tuple(term == total(n) for term in ties)}
    sums, most = heard.pop("sum_factor", (1.0,)), heard.pop("most_gaps", (0.0,))
    return Description(**heard, length=float(lengths[0]), sum_factor=float(sums[0]), most_gaps=float(most[0]))
