"""How much memory a run takes, about: what each party holds at once, on top of the libraries."""

from __future__ import annotations

from collections.abc import Mapping

from mpc_spearman.config import Plan, within
from mpc_spearman.parties import Party, Roster
from mpc_spearman.protocols.he.engine import most_of_message
from mpc_spearman.protocols.he.scheme import PublicKey
from mpc_spearman.protocols.shapes import Shapes
from mpc_spearman.protocols.steps import BLOCK_BYTES
from mpc_spearman.wire.kinds import Kind

#: Bytes of a row's id: text, offsets, and what finds an id that is there twice.
_ID = 100
#: Bytes of a cell: of the table's file, which is mapped while it is read, and of its rank.
_CELL, _RANK = 8, 4
# A block that is sent is in so many forms at once, from values to frame; and so many are on the way.
_FORMS, _ON_THE_WAY = 6, 5


def peaks(plan: Plan, shapes: Shapes, keys: Mapping[Party, PublicKey], base: int) -> dict[Party, int]:
    """Return each party's largest resident memory in bytes.

    Parameters
    ----------
    plan : Plan
    shapes : Shapes
    keys : mapping of Party to PublicKey
        Of each source's session, under HE.
    base : int
        Resident bytes of a role with nothing in it.
    """
    coordinator, target, *sources = Roster.of(plan, plan.names[0]).parties
    n, matrix = shapes.n, within("coefficients", plan.reveal)
    pairs = shapes.m_sources * shapes.m_target
    found = {coordinator: base + 64 * pairs}
    if plan.alignment == "intersect":
        found[coordinator] += 32 * n * len(shapes.features)
    for owner in (target, *sources):
        columns = shapes.features.get(owner, shapes.m_target)
        found[owner] = base + n * (_ID + columns * (_CELL + _RANK))
        if not matrix:  # encoded vectors
            found[owner] += 8 * n * (4 if owner in sources else columns + 3)
    widest = max(shapes.m_target, *(shapes.features.values() if matrix else (1,)))
    blocks = _FORMS * min(8 * n * widest, _ON_THE_WAY * BLOCK_BYTES)
    if plan.protocol == "mpc":
        for owner in (target, *sources):
            found[owner] += blocks
        found[coordinator] += blocks if plan.reveal == "differences" else _FORMS * BLOCK_BYTES
        return found
    for source, key in keys.items():
        batch = _FORMS * most_of_message(key, Kind.CIPHERTEXT) * key.ciphertext_bytes
        products = 0 if plan.reveal == "differences" else key.product_ciphertexts
        found[source] += batch
        # One session after the other: sums that grow, at the target, and their results at both ends.
        at_target = batch + products * (key.ciphertext_bytes + 2 * key.result_ciphertext_bytes)
        found[target] += at_target if source == sources[0] else 0
        found[coordinator] += (
            batch + 2 * products * key.result_ciphertext_bytes if source == sources[0] else 0
        )
    return found
