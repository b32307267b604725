"""The steps in which parties check that their tables fit: sizes, same rows, same order."""

from __future__ import annotations

import hmac

import numpy as np

from mpc_spearman.config import within
from mpc_spearman.data.ids import id_digest, id_help
from mpc_spearman.data.tables import MIN_ROWS, Table
from mpc_spearman.errors import AlignmentError, ProtocolViolation
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Role
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose
from mpc_spearman.wire.kinds import Kind

#: What to do about rows that differ, by the plan's ``alignment``.
WAY_OUT = {
    "same": "Align the tables first (same ids, written alike, same order), or set alignment: intersect",
    "ids": "Use the ids of one earlier run everywhere (aligned, below a party's name)",
    "intersect": "The coordinator did not mark exactly the common rows: check which program it runs",
}


@step("agree")
def agree(run: Run, table: Table | None = None) -> Shapes:
    """Exchange the numbers of rows and features; check every bound and rule that depends only on them.

    `AlignmentError` for different numbers of rows, `BoundError` if the arithmetic would not be exact or the
    result not fit one message, `PlanError` if ``top`` asks for as many features as there are.
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
            raise ProtocolViolation(f"{owner} announced a table of {n:,} rows and {features:,} features")
    if len({n for n, _ in sizes.values()}) != 1:
        rows = ", ".join(f"{owner.name} has {n:,}" for owner, (n, _) in sizes.items())
        raise AlignmentError(f"the parties have different numbers of rows: {rows}. {WAY_OUT[plan.alignment]}")
    n, m_target = sizes[roster.target]
    shapes = Shapes(n, {source: sizes[source][1] for source in roster.sources}, m_target)
    level_of(plan).check(shapes)
    me = roster.me
    grant = plan.reveal if me.role is Role.COORDINATOR else plan.terms.granted[me.role]
    m_sources = shapes.features[me] if me.role is Role.SOURCE else shapes.m_sources
    coefficients = m_sources * shapes.m_target if within("coefficients", grant) else 0
    run.reserve(shapes.m_sources + shapes.m_target, coefficients)
    links.dimensions |= {
        "n": shapes.n,
        "m_sources": shapes.m_sources,
        "m_target": shapes.m_target,
        "sources": len(shapes.features),
    }
    return shapes


@step("align")
def align(run: Run, table: Table, source: Party) -> None:
    """Compare a digest of source's and target's ids, under a key that the coordinator does not have.

    The digest covers its sender's name, so that it cannot be sent back. A party neither charges its ledger
    nor sends anything computed from its columns before it has received its peer's. `AlignmentError` if ids,
    or their order, differ.
    """
    peer = run.roster.target if run.roster.me == source else source
    ids = id_digest(table.ids, run.keys[peer].subkey(Purpose.DIGEST, source.name))
    own_digest, expected = (
        hmac.digest(ids, party.name.encode(), "sha256") for party in (run.roster.me, peer)
    )
    run.links.send(peer, Kind.ALIGNMENT, {"digest": own_digest})
    if not hmac.compare_digest(run.links.receive(peer, Kind.ALIGNMENT)["digest"], expected):
        if hint := id_help(table.ids):
            run.say(hint)
        raise AlignmentError(
            f"{run.roster.me.name} and {peer.name} hold {table.n:,} rows each, but not the same ids in the "
            f"same order. {WAY_OUT[run.plan.alignment]}"
        )
