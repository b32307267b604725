"""The step in which a source and the target check that they have the same rows in the same order."""

from __future__ import annotations

import hmac

from mpc_spearman.data.ids import id_digest, id_help
from mpc_spearman.data.tables import Table
from mpc_spearman.errors import AlignmentError
from mpc_spearman.parties import Party
from mpc_spearman.run import Run, step
from mpc_spearman.wire.keys import Purpose
from mpc_spearman.wire.kinds import Kind

#: What to do about rows that differ, by the plan's ``alignment``.
WAY_OUT = {
    "same": "Align the tables first (same ids, written alike, same order), or set alignment: intersect",
    "ids": "Use the ids of one earlier run everywhere (aligned, beside a party's name)",
    "intersect": "The coordinator did not mark exactly the common rows: check which program it runs",
}


@step("align")
def align(run: Run, table: Table, source: Party) -> None:
    """Compare a digest of source's and target's ids, under a key that the coordinator does not have.

    The digest covers its sender's name, so that it cannot be sent back. A party sends it after all its checks
    except the ledger's, and sends no data before it has received its peer's.

    Raises
    ------
    AlignmentError
        The ids, or their order, differ.
    """
    peer = run.roster.target if run.roster.me == source else source
    ids = id_digest(table.ids, run.keys[peer].subkey(Purpose.DIGEST, source.name))
    mine, theirs = (hmac.digest(ids, sender.name.encode(), "sha256") for sender in (run.roster.me, peer))
    run.links.send(peer, Kind.ALIGNMENT, {"digest": mine})
    if not hmac.compare_digest(run.links.receive(peer, Kind.ALIGNMENT)["digest"], theirs):
        if odd := id_help(table.ids):
            run.say(odd)
        raise AlignmentError(
            f"{run.roster.me.name} and {peer.name} hold {table.n} rows each, but not the same ids in the "
            f"same order. {WAY_OUT[run.plan.alignment]}"
        )
