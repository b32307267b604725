"""The step in which all learn the sizes of everyone's tables, and check what depends on these alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpc_spearman.config import Plan, within
from mpc_spearman.data.ranks import check_width
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import AlignmentError, BoundError, PlanError, ProtocolViolation
from mpc_spearman.levels.encoding import encoding_of
from mpc_spearman.levels.products import check_rows
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.align import WAY_OUT
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import MAX_PAYLOAD

#: The most features of the target at ``ranking``: about 2 million pairs, 32 MB a message and 16 bytes a pair.
MAX_COMPARED = 2000


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
    DisclosureError
        Too few rows for so many features (``privacy.min_rows_per_feature``).
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
        if n < 3 or features < 1:
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
    check_shapes(plan, shapes)
    links.dimensions |= {"n": shapes.n, "m_sources": shapes.m_sources, "m_target": shapes.m_target}
    return shapes


def check_shapes(plan: Plan, shapes: Shapes) -> None:
    """Check every bound and rule that depends on the plan and on sizes alone; raise as `agree` does."""
    check_rows(plan, shapes.n)
    matrix = within("coefficients", plan.reveal)
    if not matrix:
        most = shapes.features
        encoding_of(plan, replace(shapes, defined=most, distinct=most, lasting=most))
    if matrix and 16 * shapes.m_sources * shapes.m_target > MAX_PAYLOAD // 2:
        raise BoundError(
            f"{shapes.m_sources} × {shapes.m_target} coefficients are more than one result can carry "
            f"({MAX_PAYLOAD // 32}); use fewer features a side, or reveal: strengths"
        )
    if plan.reveal == "ranking":
        _check_compared(plan, shapes.m_target)
    check_width(shapes.n, shapes.m_sources, shapes.m_target, plan.privacy.min_rows_per_feature)


def _check_compared(plan: Plan, m_target: int) -> None:
    if m_target > MAX_COMPARED:
        raise BoundError(
            f"reveal: ranking compares every pair of the target's features, {m_target} of them; it takes "
            f"{MAX_COMPARED} at most. Use fewer, or reveal: strengths"
        )
    if plan.top is not None and plan.top >= m_target:
        raise PlanError(
            f"top: {plan.top} leaves out none of the target's {m_target} features; use fewer, or leave it out"
        )
