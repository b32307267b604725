"""The step in which a source and the target make sure that their rows are the same ones, in one order."""

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
    "intersect": "The coordinator did not mark the rows in common and no others: see what it runs",
}


@step("align")
def align(run: Run, table: Table, source: Party) -> None:
    """Compare a digest of source's and target's ids, keyed with what the coordinator does not know.

    What each sends has its own name in it, so that it cannot be played back to its sender.

    It is also the signal to begin: a party sends nothing of its data before its peer has passed every check
    of its own, but for its ledger's, and has sent this.

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
