"""The step in which the data parties describe their columns to the coordinator.

The view table lists what each level allows it to know (:mod:`mpc_spearman.levels.view`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.levels.level import Description, Descriptions
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.statistics.columns import possible
from mpc_spearman.statistics.reading import mean_length
from mpc_spearman.wire.kinds import Kind

#: What an owner can say of its columns, by the name of the field that carries it.
DESCRIBED: dict[str, Callable[[Plan, Table, Ranks], Any]] = {
    "names": lambda plan, table, ranks: table.features,
    "ties": lambda plan, table, ranks: ranks.tie_terms,
    "constant": lambda plan, table, ranks: np.array(ranks.constant, dtype=np.uint8),
    "two_values": lambda plan, table, ranks: np.array(ranks.two_values, dtype=np.uint8),
    "skewness": lambda plan, table, ranks: ranks.skewness,
    "length": lambda plan, table, ranks: np.array(
        [round(mean_length(ranks, plan.strength, plan.estimator), 9)]
    ),
}


@step("describe")
def describe(run: Run, table: Table, ranks: Ranks) -> None:
    """Send the coordinator what the level allows it to know about the columns."""
    coordinator = run.roster.coordinator
    fields = VIEW.fields(run.plan.shared(), Kind.DESCRIPTION, run.roster.me.role, coordinator.role)
    if fields is not None:
        values = {field.name: DESCRIBED[field.name](run.plan, table, ranks) for field in fields}
        run.links.send(coordinator, Kind.DESCRIPTION, values, sizes={"m_source": ranks.m})


@step("describe")
def receive_descriptions(run: Run, shapes: Shapes) -> Descriptions:
    """Receive what all data parties tell of their columns at this level."""
    sources = tuple(receive_description(run, source, shapes) for source in run.roster.sources)
    return Descriptions(sources, receive_description(run, run.roster.target, shapes))


def receive_description(run: Run, owner: Party, shapes: Shapes) -> Description:
    """Receive what one tells; `ProtocolViolation` for what its rows, or its own words, make impossible."""
    if VIEW.fields(run.plan.shared(), Kind.DESCRIPTION, owner.role, run.roster.me.role) is None:
        return Description()
    n, features = shapes.n, shapes.features.get(owner, shapes.m_target)
    values = run.links.receive(owner, Kind.DESCRIPTION, sizes={"m_source": features})
    names, ties, flags, two_values, skewness = (
        tuple(values.get(name, ())) for name in ("names", "ties", "constant", "two_values", "skewness")
    )
    if any(not 0 <= term <= total(n) or term % 2 for term in ties):
        raise ProtocolViolation(f"{owner} sent a tie term that is impossible with {n} rows")
    constant = flags or tuple(term == total(n) for term in ties)
    varying = len(constant) - sum(constant)
    if constant and varying != shapes.defined[owner]:
        raise ProtocolViolation(
            f"{owner} said that {shapes.defined[owner]} of its features are not constant, and now that "
            f"{varying} are not"
        )
    length = float(values["length"][0]) if "length" in values else 0.0
    if not 0 <= length <= 1 + 1e-9 or not all(
        possible(*of, n) for of in zip(skewness, two_values, ties, strict=True)
    ):
        raise ProtocolViolation(f"{owner} sent a skewness or a length that is impossible with {n} rows")
    return Description(names, ties, constant, two_values, skewness, length)
