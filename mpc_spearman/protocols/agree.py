"""The step in which all parties learn the tables' sizes, and check what depends on sizes alone."""

from __future__ import annotations

import numpy as np

from mpc_spearman.data.tables import MIN_ROWS, Table
from mpc_spearman.errors import AlignmentError, ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.align import WAY_OUT
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind


@step("agree")
def agree(run: Run, table: Table | None = None) -> Shapes:
    """Exchange the number of rows and features; check every bound and rule that depends on them alone.

    Raises
    ------
    AlignmentError
        Different numbers of rows.
    BoundError
        The arithmetic would not be exact, or the result would not fit one message.
    PlanError
        ``top`` asks for as many features as there are.
    """
    links, roster, plan = run.links, run.roster, run.plan
    owners = [party for party in roster.parties if party.role is not Role.COORDINATOR]
    sizes: dict[Party, tuple[int, int]] = {}
    if table is not None:
        sizes[roster.me] = (table.n, table.m)
        for peer in roster.peers:
            links.send(peer, Kind.SHAPE, {"n": np.array([table.n]), "features": np.array([table.m])})
    for owner in owners:
        if owner != roster.me:
            values = links.receive(owner, Kind.SHAPE)
            sizes[owner] = (int(values["n"][0]), int(values["features"][0]))
    for owner, (n, features) in sizes.items():
        if n < MIN_ROWS or features < 1:
            raise ProtocolViolation(f"{owner} announced a table of {n} rows and {features} features")
    if len({n for n, _ in sizes.values()}) != 1:
        found = ", ".join(f"{owner.name} has {n}" for owner, (n, _) in sizes.items())
        raise AlignmentError(
            f"the parties have different numbers of rows: {found}. {WAY_OUT[plan.alignment]}"
        )
    shapes = Shapes(
        n=sizes[roster.target][0],
        features={source: sizes[source][1] for source in roster.sources},
        m_target=sizes[roster.target][1],
    )
    level_of(plan).check(shapes)
    links.dimensions |= {
        "n": shapes.n,
        "m_sources": shapes.m_sources,
        "m_target": shapes.m_target,
        "sources": len(shapes.features),
        "shards": plan.shards,
    }
    return shapes
