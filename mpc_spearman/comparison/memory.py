"""How much memory a run takes, about: what each party holds at once, on top of the libraries."""

from __future__ import annotations

from collections.abc import Mapping

from mpc_spearman.config import Plan
from mpc_spearman.engines.he.engine import most_of_message
from mpc_spearman.engines.he.scheme import PublicKey
from mpc_spearman.levels import level_of
from mpc_spearman.levels.shapes import Shapes
from mpc_spearman.parties import Party, Roster
from mpc_spearman.run import BLOCK_BYTES
from mpc_spearman.wire.kinds import Kind

#: Bytes of a row's id: text, offsets, and what finds an id that is there twice.
_ID = 60
#: Bytes of a rank, or of a cell of an encoded column; and of a row while columns are ranked.
_RANK, _RANKING = 4, 44
#: What the libraries take that read tables, which the coordinator does without.
_READERS = 60 << 20
# A block that is sent is in so many forms at once, from values to frame; and so many are on the way.
_FORMS, _ON_THE_WAY = 5, 5


def peaks(
    plan: Plan, shapes: Shapes, keys: Mapping[Party, PublicKey], base: int, cell: int
) -> dict[Party, int]:
    """Return each party's largest resident memory in bytes.

    Parameters
    ----------
    plan : Plan
    shapes : Shapes
    keys : mapping of Party to PublicKey
        Of each source's session, under HE.
    base : int
        Resident bytes of a role with nothing in it.
    cell : int
        Bytes of a cell of a table while it is ranked.
    """
    coordinator, target, *sources = Roster.of(plan, plan.names[0]).parties
    n, level = shapes.n, level_of(plan)
    computation, scaled = level.computation(shapes), level.encoding(shapes) is not None
    differences = computation.operation == "differences"
    pairs = shapes.m_sources * shapes.m_target
    found = {coordinator: max(0, base - _READERS) + 64 * pairs}
    if plan.alignment == "intersect":
        found[coordinator] += 32 * n * len(shapes.features)
    mpc = plan.protocol == "mpc"
    for owner in (target, *sources):
        columns = shapes.features.get(owner, shapes.m_target)
        vectors = 0 if not scaled else 8 if owner in sources and computation.summed else _RANK * columns
        later = n * vectors + (blocks_bytes(plan, shapes) if mpc else 0)
        found[owner] = base + n * (_ID + columns * (cell + _RANK)) + max(n * _RANKING, later)
    if mpc:
        found[coordinator] += blocks_bytes(plan, shapes) if differences else _FORMS * BLOCK_BYTES
        return found
    for source, key in keys.items():
        batch = _FORMS * most_of_message(key, Kind.CIPHERTEXT) * key.ciphertext_bytes
        products = 0 if differences else key.product_ciphertexts
        found[source] += batch
        # One session after the other: sums that grow, at the target, and their results at both ends.
        at_target = batch + products * (key.ciphertext_bytes + 2 * key.result_ciphertext_bytes)
        found[target] += at_target if source == sources[0] else 0
        found[coordinator] += (
            batch + 2 * products * key.result_ciphertext_bytes if source == sources[0] else 0
        )
    return found


def blocks_bytes(plan: Plan, shapes: Shapes) -> int:
    """Return how many bytes blocks of ring elements take at one time where they are sent."""
    vectors = level_of(plan).computation(shapes).source_vectors.values()
    return _FORMS * min(8 * shapes.n * max(shapes.m_target, *vectors), _ON_THE_WAY * BLOCK_BYTES)
