"""The step that finds the rows that all data parties have: server-aided private set intersection.

Kamara, Mohassel, Raykova and Sadeghian, "Scaling private set intersection to billion-element sets" (FC 2014,
ePrint 2012/542), their protocol for a semi-honest server. docs/protocol.md ("Common rows") has the steps, and
why a bitmap over each party's own list is all that the coordinator can answer.

The coordinator learns sizes and overlaps of the sets, a data party which of its own rows all others have. If
the coordinator marks other rows than the common ones, ``align`` detects it before a share of a column leaves.
It does not detect that the coordinator leaves out the same rows at all parties (docs/security.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mpc_spearman.config import check_policy_rows
from mpc_spearman.data.aligned import write_aligned, write_unaligned
from mpc_spearman.data.ids import id_help
from mpc_spearman.data.pseudonyms import SIZE, ascending, common, pseudonyms, shuffled
from mpc_spearman.data.tables import MIN_ROWS, Table
from mpc_spearman.errors import AlignmentError, BoundError, DisclosureError, OutputError, ProtocolViolation
from mpc_spearman.parties import Party, Role
from mpc_spearman.protocols.load import tag
from mpc_spearman.results.result import Result
from mpc_spearman.run import Run, step
from mpc_spearman.wire.kinds import Kind

#: The most ids of one party: 1.6 GB at the coordinator.
MAX_IDS = 100_000_000
#: Ids of one message: 16 MB.
BLOCK_IDS = 1 << 20
# How many ids are searched for the reason why ids do not match: enough for a hint.
_SEARCHED = 1 << 20


@step("intersect")
def intersect(run: Run, table: Table) -> Table:
    """Return the rows that all data parties have, in an order of this run.

    Collective among all parties: the coordinator's part is `match`. `PolicyError` if there are fewer than
    this owner's policy asks for, `BoundError` if there are too many ids to match.
    """
    me, links = run.roster.me, run.links
    if table.n > MAX_IDS:
        raise BoundError(
            f"{me.name} has {table.n:,} ids to match, but the limit is {MAX_IDS:,}; use fewer rows"
        )
    if me.role is Role.TARGET:
        key = secrets.token_bytes(32)
        for source in run.roster.sources:
            links.send(source, Kind.MATCHING_KEY, {"key": key})
    else:
        key = links.receive(run.roster.target, Kind.MATCHING_KEY)["key"]
    unordered = pseudonyms(table.ids, key)
    rows = np.argsort(unordered)
    offered = unordered[rows]
    try:
        marked = _common(run, np.frombuffer(offered.tobytes(), np.uint8).reshape(-1, SIZE))
    except AlignmentError:  # too few are common: this party's ids may show why
        if hint := id_help(table.ids.slice(0, _SEARCHED)):
            run.say(hint)
        raise
    aligned = table.take(rows[marked][shuffled(offered[marked], key)])
    run.notes.common = aligned.n
    run.notes.offered[me.name] = table.n
    hint = id_help(*(table.ids.take(pa.array(rows[which][:_SEARCHED])) for which in (~marked, marked)))
    which = f"{aligned.n:,} of {table.n:,} rows are common to all data parties"
    if hint:
        which += f". Not common: {hint[0].lower()}{hint[1:]}"
        run.notes.cautions.append(which)
    run.say(which)
    check_policy_rows(run.plan, me.name, aligned.n)
    tag(run, aligned)
    return aligned


def write_rows(run: Run, aligned: Table, result: Result) -> Result:
    """Write the files about common rows that the owner asks for, once all parties have finished.

    A file that cannot be written is only a warning, so that the result is not lost.
    """
    owner, writes = run.plan.owner(run.roster.me.name), list[Callable[[], None]]()
    if owner.write_aligned is not None:
        writes.append(partial(write_aligned, owner.write_aligned, aligned.ids))
    if owner.write_unaligned is not None:
        writes.append(partial(write_unaligned, owner.write_unaligned, aligned))
    for write in writes:
        try:
            write()
        except OutputError as error:
            run.say(str(error))
            result = result.with_warning(str(error))
    return result


def _common(run: Run, offered: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Send ascending pseudonyms, (n, 16), to the coordinator; return which of them it marks as common."""
    coordinator, links, n = run.roster.coordinator, run.links, len(offered)
    policy = run.plan.owner(run.roster.me.name).policy
    offer = _PseudonymOffer(n, policy.min_rows or 0, policy.max_ids, policy.max_unmatched)
    links.send(coordinator, Kind.OFFER, {name: np.array([value]) for name, value in vars(offer).items()})
    for start in range(0, n, BLOCK_IDS):
        block = offered[start : start + BLOCK_IDS]
        links.send(coordinator, Kind.PSEUDONYMS, {"ids": block.tobytes()}, sizes={"ids": len(block)})
        run.tick(start + len(block), n)
    answer = links.receive(coordinator, Kind.COMMON, sizes={"packed": -(-n // 8)})["common"]
    bits = np.unpackbits(np.frombuffer(answer, np.uint8))
    if bits[n:].any():
        raise ProtocolViolation(f"{coordinator} marked more ids as common than there are")
    return bits[:n].astype(bool)


@dataclass(frozen=True)
class _PseudonymOffer:
    """The number of a data party's pseudonyms, and its limits; sent before the pseudonyms."""

    ids: int
    min_rows: int
    max_ids: int
    max_unmatched: float


@step("intersect")
def match(run: Run) -> None:
    """Match the data parties' pseudonyms; send each party which of its pseudonyms all parties have.

    Nobody is answered before the overlap satisfies the owners' policies and the plan. `AlignmentError` if
    fewer ids are in common than a run needs, `DisclosureError` if a party offers too many ids, or too few are
    in common, for another's policy or for the plan.
    """
    owners = (run.roster.target, *run.roster.sources)
    offers = {owner: _receive_offer(run, owner) for owner in owners}
    run.notes.offered |= {owner.name: offer.ids for owner, offer in offers.items()}
    _check_sizes(offers)
    marks = common([_receive_pseudonyms(run, owner, offer.ids) for owner, offer in offers.items()])
    _check_overlap(offers, int(marks[0].sum()))
    for owner, marked in zip(owners, marks, strict=True):
        bitmap = np.packbits(marked)
        run.links.send(owner, Kind.COMMON, {"common": bitmap.tobytes()}, sizes={"packed": len(bitmap)})


def _receive_offer(run: Run, owner: Party) -> _PseudonymOffer:
    values = {name: array[0].item() for name, array in run.links.receive(owner, Kind.OFFER).items()}
    offer = _PseudonymOffer(**values)
    if not (
        1 <= offer.ids <= MAX_IDS
        and min(offer.min_rows, offer.max_ids) >= 0
        and 0 <= offer.max_unmatched <= 1
    ):
        raise ProtocolViolation(f"{owner} sent an impossible number of ids, or impossible limits on them")
    return offer


def _receive_pseudonyms(run: Run, owner: Party, n: int) -> NDArray[np.bytes_]:
    pseudonyms = np.empty(n, f"S{SIZE}")
    for start in range(0, n, BLOCK_IDS):
        size = min(BLOCK_IDS, n - start)
        block = run.links.receive(owner, Kind.PSEUDONYMS, sizes={"ids": size})["ids"]
        pseudonyms[start : start + size] = np.frombuffer(block, pseudonyms.dtype)
        run.tick(start + size, n)
    if not ascending(pseudonyms):
        raise ProtocolViolation(f"{owner} sent pseudonyms that are not strictly ascending")
    return pseudonyms


def _check_sizes(offers: dict[Party, _PseudonymOffer]) -> None:
    """Apply each owner's ``policy.max_ids`` to all others, before any list is read."""
    for owner, peer in permutations(offers, 2):
        limits, ids = offers[owner], offers[peer].ids
        if ids > limits.max_ids:
            raise DisclosureError(
                f"{peer} offers {ids:,} ids to match, and the policy of {owner} has max_ids: {limits.max_ids}"
            )


def _check_overlap(offers: dict[Party, _PseudonymOffer], n: int) -> None:
    """Apply every rule on the number of common rows, before anyone learns which rows they are."""
    if n < MIN_ROWS:
        have = "1 id" if n == 1 else f"{n or 'no'} ids"
        raise AlignmentError(
            f"the data parties have {have} in common, and a run needs at least {MIN_ROWS}. Are ids written "
            "alike everywhere (spaces, case, leading zeros; the plan's normalise), and of the same kind?"
        )
    for owner, limits in offers.items():
        if n < limits.min_rows:
            raise DisclosureError(
                f"the data parties have {n:,} ids in common, and the policy of {owner} has min_rows: "
                f"{limits.min_rows}"
            )
    for owner, peer in permutations(offers, 2):
        limits, ids = offers[owner], offers[peer].ids
        if ids - n > round(limits.max_unmatched * ids, 6):
            raise DisclosureError(
                f"{n:,} of the {ids:,} ids of {peer} are common, and the policy of {owner} has "
                f"max_unmatched: {limits.max_unmatched:g}"
            )
